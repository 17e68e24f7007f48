/* The two solvers of dynamic variables (paper 6.2 and 6.3).
 *
 * By shape matching: when a broadcast of LHS to RHS is sampled, M = #RHS / #LHS must be an integer;
 * a variable of LHS may become any factor of (x_RHS) * R_RHS. kas_match_substitutions lists them.
 *
 * By constraints: what is still free when the structure is complete gets a number at every target:
 *     x_ij = k_ij * lcm_ij,   k_1j = 1,   k_ij = ceil(C_i * lcm_1j / (C_1 * lcm_ij)),
 * lcm_ij being the least common multiple of the denominators q of every size p*x_ij/q (layer i's
 * own; the paper's example prints layer 1's, its definition needs layer i's: 12, 60, then 48, 240).
 * Then the budget is used.  At each iteration the x_ij are taken in ascending order of what
 * doubling them costs, and each is doubled if that still fits; until none fits.  (Going round keeps
 * the channel scaling; doubling only the cheapest again and again would not give Figure 3's 48,
 * 240.) FLOPs and parameters are weighed together, each relative to the convolutions'.
 *
 * The (p, q) come from every dim, from the outputs per group of a grouped FC, and from broadcasts:
 * of [G*K_H, H, W] to [x1, H, W] follows that x1/(G*K_H) is an integer (Figure 3).
 *
 * Targets that agree in every size get the same values: layers of one stage stay alike, and one
 * compiled program serves them all.  Other folders include this header. */
#ifndef KAS_SPACE_SOLVE_SOLVE_H
#define KAS_SPACE_SOLVE_SOLVE_H

#include "host/space/cost.h"
#include "host/space/kernel.h"
#include "host/space/target.h"

enum { KAS_MAX_SUBSTITUTIONS = 256 };

/* Values that the variable of LHS may take so that LHS tiles RHS; see the paper's worked examples
 * in tests/unit/space/test_solve.c.  They are the factors of M times that variable: both the value
 * and what is left must be integers by default, where C/G is one (and so C = G * C/G), K_H and K_W
 * are atoms, and x_RHS may be taken or left.  1 is always a factor; the paper prints it in one of
 * its two examples and leaves it out of the other (a map with one output, tiled over everything, is
 * a useful gate).  Where M has a denominator that only x_RHS can make good, the values are 1 and M.
 * *count is 0 and *var -1 when LHS has no variable that needs a value. KAS_ILLEGAL when no
 * substitution exists. */
kas_status kas_match_substitutions(const kas_shape *lhs, const kas_shape *rhs,
                                   kas_dim out[KAS_MAX_SUBSTITUTIONS], int *count, int *var);
/* Only which variable it is that would have values, and M; likewise of two shapes that are aligned.
 */
kas_status kas_match_variable(const kas_broadcast *parts, int *var, kas_dim *whole);

/* Admissible group numbers, ascending: factors >= 2 of gcd(C_i), the gcd included as in the paper:
 * {2, 4, 8, 16} for C = 32 and 48. Returns how many (at most 64, the smallest). */
int kas_group_numbers(const kas_target *targets, int count, uint32_t out[64]);

typedef struct kas_budget {
    double max_flops_ratio;  /* of the replaced convolutions, summed over targets; 0 = no limit */
    double max_params_ratio; /* likewise */
    double max_tensor; /* elements per image of any tensor of a target, instances together; 0 =
                          KAS_MAX_TENSOR, or kas_target_unfolded where that is larger */
    double max_weight; /* elements of any one weight, instances together; 0 = KAS_MAX_WEIGHT */
} kas_budget;

/* 2^22 elements are 16 MiB of float32 an image, 2 GiB for a batch of 128; 2^24 are 64 MiB of
 * weights, seven times the largest of ResNet-18. */
enum { KAS_MAX_TENSOR = 1 << 22, KAS_MAX_WEIGHT = 1 << 24 };

typedef struct kas_solution {
    int targets;
    kas_binding *binding;           /* [targets]; owned, see kas_solution_free */
    double flops, params;           /* of the kernel at all targets, all instances */
    double conv_flops, conv_params; /* of the convolutions that it replaces */
} kas_solution;
void kas_solution_free(kas_solution *solution);

/* Values of C, H, W, K_H, K_W, the groups and the rests of splits at a target; variables left 0. */
kas_binding kas_target_binding(const kas_kernel *kernel, const kas_target *target);

/* The solver of 6.3 with its targets taken apart and its memory kept, for whoever solves many
 * kernels: solving allocates nothing. */
typedef struct kas_solver kas_solver;
kas_status kas_solver_create(const kas_target *targets, int count, kas_solver **out);
void kas_solver_free(kas_solver *solver);
/* As kas_solve; the sizes stay in the solver until the next call. */
kas_status kas_solver_run(kas_solver *solver, const kas_kernel *kernel, const kas_budget *budget);
/* The sizes that kas_solver_run found; the caller frees `out`. */
kas_status kas_solver_solution(const kas_solver *solver, kas_solution *out);

/* 6.3. A ratio of 0 admits any base values, but then doubling stops at the convolutions' own cost.
 * KAS_UNSUPPORTED when a tensor or weight exceeds its limit, KAS_ILLEGAL when a size cannot be made
 * an integer at some target, KAS_OVER_BUDGET when even the base values exceed the budget. On
 * success the caller frees `out`. Deterministic. */
kas_status kas_solve(const kas_kernel *kernel, const kas_target *targets, int count,
                     const kas_budget *budget, kas_solution *out);

#endif
