/* One step of the plain checker, for one node, and what its rules share. Internal to plain_*.c. */
#ifndef KAS_CHECK_PLAIN_STEP_H
#define KAS_CHECK_PLAIN_STEP_H

#include "host/check/plain.h"

typedef struct kas_plain_step {
    const kas_kernel *kernel;
    const kas_plain_layer *layer;
    int i;
    const kas_node *node;
    const kas_plain_tensor *in[KAS_MAX_INPUTS], *a, *b; /* operands; the first two by name */
    kas_plain_tensor *y;                                /* the rule fills it */
    double flops, params;                               /* the rule fills these too; 0 beforehand */
} kas_plain_step;

/* Returns KAS_ILLEGAL with the message "node 3: ...". */
kas_status kas_plain_illegal(const kas_plain_step *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return the number of dims of a tensor, and the number of its elements. */
int kas_plain_rank(const kas_plain_tensor *t);
double kas_plain_elements(const kas_plain_tensor *t);
/* Returns dim d of the list [channels..., H, W]; NULL when there is none. */
uint64_t *kas_plain_dim(kas_plain_tensor *t, int d);
/* Evaluates a size of the node's attributes. */
kas_status kas_plain_size_of(const kas_plain_step *s, const kas_dim *size, uint64_t *out);
/* Computes the taps along H and W, 1 along an axis that the window does not have, and checks the
 * window's attributes. */
kas_status kas_plain_window(const kas_plain_step *s, uint64_t taps[2]);

/* The rules, each for one or more primitives. Each fills s->y, s->flops and s->params. */
kas_status kas_plain_input(kas_plain_step *s);
kas_status kas_plain_group(kas_plain_step *s);
kas_status kas_plain_group_all(kas_plain_step *s);
kas_status kas_plain_shuffle(kas_plain_step *s);
kas_status kas_plain_shift(kas_plain_step *s);
kas_status kas_plain_unfold(kas_plain_step *s);
kas_status kas_plain_slice(kas_plain_step *s);
kas_status kas_plain_concat(kas_plain_step *s);
kas_status kas_plain_fc(kas_plain_step *s);
kas_status kas_plain_conv(kas_plain_step *s);
kas_status kas_plain_conv_depthwise(kas_plain_step *s);
kas_status kas_plain_mix(kas_plain_step *s);
kas_status kas_plain_scale(kas_plain_step *s);
kas_status kas_plain_elementwise(kas_plain_step *s);
kas_status kas_plain_fold(kas_plain_step *s);
kas_status kas_plain_softmax(kas_plain_step *s);
kas_status kas_plain_norm(kas_plain_step *s);
kas_status kas_plain_pool(kas_plain_step *s);
kas_status kas_plain_broadcast(kas_plain_step *s);
kas_status kas_plain_bmm(kas_plain_step *s); /* plain_bmm.c */

#endif
