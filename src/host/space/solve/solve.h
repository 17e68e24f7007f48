/* The two solvers of dynamic variables (paper 6.2 and 6.3).
 *
 * By shape matching: when a broadcast of LHS to RHS is sampled, M = #RHS / #LHS must be an integer;
 * a variable of LHS may become any factor of (x_RHS) * R_RHS. kas_match_substitutions lists them.
 *
 * By constraints: a variable that is still free when the structure is complete gets a number at
 * every target:
 *     x_ij = k_ij * lcm_ij,   k_1j = 1,   k_ij = ceil(C_i * lcm_1j / (C_1 * lcm_ij)),
 * where lcm_ij is the least common multiple of the denominators q of every size p*x_ij/q at layer
 * i. (The paper's example prints layer 1's; its definition needs layer i's own: 12, 60, then 48,
 * 240.) Then the budget is used: in each round the x_ij are taken in ascending order of what
 * doubling them costs, and each is doubled if that still fits, until none fits. (Rounds keep the
 * channel scaling; doubling only the cheapest again and again would not give Figure 3's 48, 240.)
 * FLOPs and parameters are weighed together, each relative to the convolutions'.
 *
 * The (p, q) come from every dim, from the outputs per group of a grouped FC, and from broadcasts:
 * a broadcast of [G*K_H, H, W] to [x1, H, W] requires that x1/(G*K_H) is an integer (Figure 3).
 *
 * Targets that agree in every size get the same values: layers of one stage stay alike, and one
 * compiled program serves them all. Other folders include this header. */
#ifndef KAS_SPACE_SOLVE_SOLVE_H
#define KAS_SPACE_SOLVE_SOLVE_H

#include "host/space/cost.h"
#include "host/space/kernel.h"
#include "host/space/target.h"

enum { KAS_MAX_SUBSTITUTIONS = 256 };

/* Lists the values that the variable of LHS may take so that LHS tiles RHS;
 * tests/unit/space/test_solve.c has the paper's worked examples. The values are the factors of M
 * times that variable, where both the value and what is left must be integers by default. C/G
 * counts as an integer (and so C = G * C/G), K_H and K_W are atoms, and x_RHS may be taken or left.
 * 1 is always a factor; the paper prints it in one of its two examples and not in the other (a map
 * with one output, tiled over everything, is a useful gate). Where only x_RHS can cancel a
 * denominator of M, the values are 1 and M times the variable. When no variable of LHS needs a
 * value, *count is 0 and *var -1. Returns KAS_ILLEGAL when no substitution exists. */
kas_status kas_match_substitutions(const kas_shape *lhs, const kas_shape *rhs,
                                   kas_dim out[KAS_MAX_SUBSTITUTIONS], int *count, int *var);
/* Finds only the variable that would have values, and M times it, for two shapes that are aligned.
 * Statuses as of kas_match_substitutions. */
kas_status kas_match_variable(const kas_broadcast *parts, int *var, kas_dim *whole);

/* Lists the admissible group numbers, ascending: factors >= 2 of gcd(C_i), the gcd included as
 * in the paper: {2, 4, 8, 16} for C = 32 and 48. Returns their number, at most 64, the smallest
 * ones. */
int kas_group_numbers(const kas_target *targets, int count, uint32_t out[64]);

typedef struct kas_budget {
    /* Limit on FLOPs, relative to the replaced convolutions, summed over targets; 0 = no limit */
    double max_flops_ratio;
    double max_params_ratio; /* the same for parameters */
    /* Limit on elements per image of any tensor of a target, all instances together; 0 =
     * KAS_MAX_TENSOR, or the convolution's input unfolded by its window where that is larger */
    double max_tensor;
    /* Limit on elements of any one weight, all instances together; 0 = KAS_MAX_WEIGHT */
    double max_weight;
} kas_budget;

/* 2^22 elements are 16 MiB of float32 an image, 2 GiB for a batch of 128; 2^24 are 64 MiB of
 * weights, seven times the largest of ResNet-18. */
enum { KAS_MAX_TENSOR = 1 << 22, KAS_MAX_WEIGHT = 1 << 24 };

typedef struct kas_solution {
    int targets;
    kas_binding *binding;           /* [targets]; owned, freed by kas_solution_free */
    double flops, params;           /* cost of the kernel at all targets, all instances */
    double conv_flops, conv_params; /* cost of the convolutions that it replaces */
} kas_solution;
void kas_solution_free(kas_solution *solution);

/* Returns the values of C, H, W, K_H, K_W, the groups and the rests of splits at a target;
 * variables are 0. */
kas_binding kas_target_binding(const kas_kernel *kernel, const kas_target *target);

/* The solver of 6.3 with its memory kept from one kernel to the next, for callers that solve many
 * kernels: solving allocates nothing. It copies the targets. */
typedef struct kas_solver kas_solver;
kas_status kas_solver_create(const kas_target *targets, int count, kas_solver **out);
void kas_solver_free(kas_solver *solver);
/* Solves a kernel as kas_solve does. The sizes stay in the solver until the next call. */
kas_status kas_solver_run(kas_solver *solver, const kas_kernel *kernel, const kas_budget *budget);
/* Copies the sizes that kas_solver_run found; the caller frees `out`. */
kas_status kas_solver_solution(const kas_solver *solver, kas_solution *out);

/* Solves a kernel's free variables within a budget (6.3). With a ratio of 0 any base values are
 * accepted, but doubling stops at the convolutions' own cost. Returns KAS_UNSUPPORTED when a
 * tensor or weight exceeds its limit, KAS_ILLEGAL when a size cannot be made an integer at some
 * target, KAS_OVER_BUDGET when even the base values exceed the budget. On success the caller
 * frees `out`. Deterministic. */
kas_status kas_solve(const kas_kernel *kernel, const kas_target *targets, int count,
                     const kas_budget *budget, kas_solution *out);

#endif
