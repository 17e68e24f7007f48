/* The two solvers of dynamic variables (paper 6.2 and 6.3).
 *
 * By shape matching: when a broadcast of LHS to RHS is sampled, M = #RHS / #LHS must be an integer;
 * a variable of LHS may become any factor of (x_RHS) * R_RHS. kas_match_substitutions lists them.
 *
 * By constraints: what is still free when the structure is complete gets a number at every target:
 *     x_ij = k_ij * lcm_ij,   k_1j = 1,   k_ij = ceil(C_i * lcm_1j / (C_1 * lcm_ij)),
 * lcm_ij being the least common multiple of the denominators q of every size p*x_ij/q (layer i's
 * own; the paper's example prints layer 1's, its definition needs layer i's: 12, 60, then 48, 240).
 * Then the budget is used: the x_ij whose doubling costs least is doubled, until none fits.
 */
#ifndef KAS_SPACE_SOLVE_H
#define KAS_SPACE_SOLVE_H

#include "host/space/kernel.h"
#include "host/space/target.h"

enum { KAS_MAX_SUBSTITUTIONS = 256 };

/* Values that the variable of LHS may take so that LHS tiles RHS; see the paper's worked examples
 * in tests/unit. *count is 0 when LHS has no variable. KAS_ILLEGAL when no substitution exists. */
kas_status kas_match_substitutions(const kas_shape *lhs, const kas_shape *rhs,
                                   kas_dim out[KAS_MAX_SUBSTITUTIONS], int *count, int *var);

/* Admissible group numbers: factors >= 2 of gcd(C_i) that are smaller than it; {2,4,8,16} -> for C
 * = 32 and 48 the gcd 16 itself counts too, as in the paper. Returns how many (at most 64). */
int kas_group_numbers(const kas_target *targets, int count, uint32_t out[64]);

typedef struct kas_budget {
    double max_flops_ratio;  /* of the replaced convolutions, summed over targets; 0 = no limit */
    double max_params_ratio; /* likewise */
    double max_tensor; /* elements per image of any tensor of a target, instances together; 0 =
                          default */
    double max_weight; /* elements of any one weight, instances together; 0 = default */
} kas_budget;

typedef struct kas_solution {
    int targets;
    kas_binding *binding;           /* [targets]; owned, see kas_solution_free */
    double flops, params;           /* of the kernel at all targets, all instances */
    double conv_flops, conv_params; /* of the convolutions that it replaces */
} kas_solution;
void kas_solution_free(kas_solution *solution);

/* Values of C, H, W, K_H, K_W and the groups at a target; variables left 0. */
kas_binding kas_target_binding(const kas_kernel *kernel, const kas_target *target);

/* 6.3. KAS_ILLEGAL when a size cannot be made an integer at some target, KAS_OVER_BUDGET when even
 * the base values exceed the budget. On success the caller frees `out`. Deterministic. */
kas_status kas_solve(const kas_kernel *kernel, const kas_target *targets, int count,
                     const kas_budget *budget, kas_solution *out);

#endif
