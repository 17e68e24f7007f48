/* What the functions of scores share. Internal to score. */
#ifndef KAS_SCORE_UNTRAINED_SCORING_H
#define KAS_SCORE_UNTRAINED_SCORING_H

#include "host/score/untrained/score.h"

typedef enum kas_score_gradient {
    KAS_GRADIENT_NONE,
    KAS_GRADIENT_LOSS, /* of the cross entropy */
    KAS_GRADIENT_SUM   /* of the sum of all logits, down to the images */
} kas_score_gradient;

/* One computation. Use the functions below; they run what is not there yet. */
struct kas_scoring {
    const kas_score_setup *setup;
    const kas_replacement *replacement;
    uint64_t seed;
    int minibatch; /* the first */
    unsigned needs;
    kas_score_memory *memory;
    kas_interpreter *data; /* on the images of the data set; NULL: not yet */
    int images;            /* the minibatch whose activations are there; -1 = none */
    kas_score_gradient gradient;
    bool az_known;
    double expressivity, progressivity, trainability;
    char layer[KAS_LAYER_NAME];
};

/* The minibatch, or the other one. */
const kas_minibatch *kas_scoring_minibatch(const kas_scoring *s, bool other);
/* The network after a forward pass over the minibatch, or the other one. *finite: its logits
 * are. */
kas_status kas_scoring_forward(kas_scoring *s, bool other, bool *finite);
/* The same with gradients. */
kas_status kas_scoring_gradient(kas_scoring *s, bool other, kas_score_gradient gradient,
                                bool *finite);

/* The last layer in front of the global pool, or of the first linear layer; the last layer of a
 * network that has neither. */
int kas_score_last_image_layer(const kas_net *net);

/* The functions of the table. */
kas_status kas_score_fisher(kas_scoring *s, double *value);
kas_status kas_score_fisher_all(kas_scoring *s, double *value);
kas_status kas_score_snip(kas_scoring *s, double *value);
kas_status kas_score_grad_norm(kas_scoring *s, double *value);
kas_status kas_score_naswot(kas_scoring *s, double *value);
kas_status kas_score_swap(kas_scoring *s, double *value);
kas_status kas_score_jacob_cov(kas_scoring *s, double *value);
kas_status kas_score_zico(kas_scoring *s, double *value);
kas_status kas_score_synflow(kas_scoring *s, double *value);
kas_status kas_score_zen(kas_scoring *s, double *value);
kas_status kas_score_meco(kas_scoring *s, double *value);
kas_status kas_score_imitation(kas_scoring *s, double *value);
kas_status kas_score_expressivity(kas_scoring *s, double *value);
kas_status kas_score_progressivity(kas_scoring *s, double *value);
kas_status kas_score_trainability(kas_scoring *s, double *value);
kas_status kas_score_params(kas_scoring *s, double *value);
kas_status kas_score_flops(kas_scoring *s, double *value);
kas_status kas_score_layers(kas_scoring *s, double *value);
kas_status kas_score_latency(kas_scoring *s, double *value);

#endif
