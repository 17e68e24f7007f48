/* What a network can be assembled from: at each target its own convolution, which is option 0, or a
 * kernel, option k + 1 for kernel k. */
#ifndef KAS_ASSEMBLE_CHOICES_H
#define KAS_ASSEMBLE_CHOICES_H

#include "host/assemble/knapsack.h"
#include "host/predict/predict.h"
#include "host/space/file/assignment.h"

enum { KAS_CHOICES_KERNELS = 100 };

typedef struct kas_choices {
    const kas_net *net;
    const kas_target *target; /* [targets] */
    int targets;
    kas_budget sizes; /* under which free sizes grow, as if the kernel were at all targets */
    kas_budget limit; /* of what is assembled */
    int kernels;
    kas_kernel kernel[KAS_CHOICES_KERNELS];
    char name[KAS_CHOICES_KERNELS][KAS_NAME_SIZE];
    /* Each kernel at all targets that it fits. Its free sizes are those at which it is measured. */
    kas_replacement everywhere[KAS_CHOICES_KERNELS];
} kas_choices;

/* Adds the kernels of an assignment that are not there yet; one that fits no target, or that costs
 * too much and has free sizes, is left out with a warning. `path` is for messages. KAS_BAD_INPUT
 * when there are too many. */
kas_status kas_choices_add(kas_choices *choices, const char *path, const kas_assignment *kernels);
/* Takes a kernel away; those behind it move up. */
void kas_choices_drop(kas_choices *choices, int kernel);
void kas_choices_free(kas_choices *choices); /* not the network and its targets */

static inline int kas_choices_options(const kas_choices *choices)
{
    return choices->kernels + 1;
}
/* Whether a target can have an option. */
bool kas_choices_has(const kas_choices *choices, int target, int option);

/* Makes the replacement in which one target alone has a kernel, with the sizes at which it is
 * measured. It lives in the memory of `choices` and of kernel_of [targets], and is not freed. */
kas_replacement kas_choices_alone(const kas_choices *choices, int kernel, int target,
                                  int *kernel_of);

/* Builds the replacement in which each target has the option chosen [targets]. Numbers take the
 * place of a kernel's free sizes, those at which it is measured, so that they do not depend on what
 * other targets have; targets of different sizes then have different kernels. KAS_OVER_BUDGET when
 * it exceeds the limit. */
kas_status kas_choices_replacement(const kas_choices *choices, const int *chosen,
                                   kas_replacement *out);
/* Whether the replacement gives each kernel the sizes at which it was measured. A few kernels
 * cannot have numbers in the place of free sizes, because a rule must hold for every number of
 * channels. */
bool kas_choices_same_sizes(const kas_choices *choices, const int *chosen,
                            const kas_replacement *replacement);

/* Writes to cost[target][option] what an option adds to the seconds of a forward pass: seconds of
 * `with` [kernels][targets] against `plain` [targets]; what does not exist is NaN. */
void kas_choices_costs(const kas_choices *choices, const double *plain, const double *with,
                       kas_option *option);

/* Writes the FLOPs and the parameters of each option to `further`, and how much of them the budget
 * allows; 0 and INFINITY where it does not limit them. */
kas_status kas_choices_limits(const kas_choices *choices, kas_option *option,
                              double limit[KAS_FRONTIER_FURTHER]);

/* Predicts the seconds of the unmodified network by target, `plain` [targets + 1]
 * (layer_seconds.h), or with kernel `kernel` wherever it fits. */
kas_status kas_choices_predict(const kas_choices *choices, const kas_machine *machine, int batch,
                               int kernel, double *seconds);
enum { KAS_CHOICES_PLAIN = -1 }; /* as `kernel` */

#endif
