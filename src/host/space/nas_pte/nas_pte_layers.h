/* The space of NAS-PTE as in its paper: a sequence of transformations for each layer.
 *
 * Every layer draws a sequence of its own (nas_pte.h). The empty sequence is included; it leaves
 * the convolution as it is. A step without integer sizes at its layer, or over a limit there, is
 * drawn again. The budget is checked once, for all layers together. So the result has the
 * distribution of independently drawn layers, on the condition that their sum fits the budget. */
#ifndef KAS_SPACE_NAS_PTE_NAS_PTE_LAYERS_H
#define KAS_SPACE_NAS_PTE_NAS_PTE_LAYERS_H

#include "host/space/attempt.h"
#include "host/space/file/assignment.h"

/* Memory that one attempt leaves to the next. */
typedef struct kas_pte_layers kas_pte_layers;

/* Allocates the memory; `targets` must outlive it. */
kas_status kas_pte_layers_create(const kas_target *targets, int count, const kas_budget *budget,
                                 kas_pte_layers **out);
void kas_pte_layers_free(kas_pte_layers *layers);

/* Makes one attempt, a pure function of seed, attempt number, targets and budget. When *why is
 * KAS_REJECT_NONE, `out` has the kernels of the layers in the order of their assignment, whose name
 * is `name`, and the caller frees it; otherwise *why says why there is none. */
kas_status kas_pte_layers_attempt(kas_pte_layers *layers, uint64_t seed, uint64_t attempt,
                                  char name[KAS_NAME_SIZE], kas_replacement *out, kas_reject *why);

#endif
