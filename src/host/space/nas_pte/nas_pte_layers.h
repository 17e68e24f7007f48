/* The space of NAS-PTE as its paper has it: a sequence of transformations for each layer.
 *
 * Every layer draws its own (nas_pte.h), the empty one included, which leaves the convolution as it
 * is; a step that has no whole sizes at that layer, or is over a limit there, is drawn again.  The
 * budget is asked of all layers together when all are drawn, so what comes out is distributed as
 * the layers are, on the condition that their sum fits. */
#ifndef KAS_SPACE_NAS_PTE_NAS_PTE_LAYERS_H
#define KAS_SPACE_NAS_PTE_NAS_PTE_LAYERS_H

#include "host/space/attempt.h"
#include "host/space/file/assignment.h"

/* The memory of attempts, kept from one to the next. */
typedef struct kas_pte_layers kas_pte_layers;

/* `targets` must stay. */
kas_status kas_pte_layers_create(const kas_target *targets, int count, const kas_budget *budget,
                                 kas_pte_layers **out);
void kas_pte_layers_free(kas_pte_layers *layers);

/* One attempt, a pure function of seed, number, targets and budget. When *why is NONE, `out` has
 * the kernels of the layers in the order of their assignment, whose name is `name`, and the caller
 * frees it; otherwise *why says why there is none. */
kas_status kas_pte_layers_attempt(kas_pte_layers *layers, uint64_t seed, uint64_t attempt,
                                  char name[KAS_NAME_SIZE], kas_replacement *out, kas_reject *why);

#endif
