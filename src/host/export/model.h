/* Loads the network that is exported, with one kernel or with one for each layer, from a kernel
 * file or from a study. */
#ifndef KAS_EXPORT_MODEL_H
#define KAS_EXPORT_MODEL_H

#include "host/export/export.h"
#include "host/predict/keep.h"
#include "host/space/file/assignment.h"

/* The network around a kernel file. A study records its own. */
typedef struct kas_export_setting {
    const char *net;
    int c, h, w, classes;
    const char *targets; /* the layers to replace, as in targets.h; NULL = square */
    kas_budget budget;   /* it determines the kernel's sizes */
    kas_keep keep;
} kas_export_setting;

typedef struct kas_export_model {
    kas_buf kernel_text;
    kas_net *net;
    kas_target *target;
    int targets;
    kas_replacement replacement;
    char title[4608];
    char weights[4096]; /* "" = none */
    const char *weights_note;
    kas_buf facts;  /* Markdown */
    char note[512]; /* why the kernel is not a study's answer; "" where it is, or was chosen */
} kas_export_model;

/* Loads a kernel file with the network of `setting`. The caller calls kas_export_model_free, also
 * after a failure. */
kas_status kas_export_model_from_file(const char *path, const kas_export_setting *setting,
                                      kas_export_model *out);
/* Loads a candidate of a study. With `candidate` NULL that is the winner with its weights of
 * the final training or, where there is none, the candidate that leads; `note` then says why it is
 * no answer. Candidates on the
 * frontier have the weights of their training in the search, as far as the study keeps them;
 * others have none. */
kas_status kas_export_model_from_study(const char *study, const char *candidate,
                                       kas_export_model *out);
/* Takes the gains that belong to the weights of a file in place of the model's, and what the file says of
 * the images. */
kas_status kas_export_model_weights(const char *path, kas_export_model *model);
void kas_export_model_free(kas_export_model *model);

#endif
