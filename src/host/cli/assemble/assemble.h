/* The parts of `kas-gpu assemble`: what its options say, what it works on, and the steps. */
#ifndef KAS_CLI_ASSEMBLE_ASSEMBLE_H
#define KAS_CLI_ASSEMBLE_ASSEMBLE_H

#include <limits.h>

#include "host/assemble/choices.h"
#include "host/assemble/measured.h"
#include "host/cli/net_options.h"
#include "host/cli/recipe_options.h"
#include "host/device/device.h"
#include "host/predict/turns.h"
#include "host/score/untrained/score.h"

typedef enum kas_assemble_strategy {
    KAS_ASSEMBLE_KNAPSACK,
    KAS_ASSEMBLE_BLOCKSWAP,
    KAS_ASSEMBLE_FBNET
} kas_assemble_strategy;
typedef enum kas_assemble_loss { KAS_ASSEMBLE_IMITATION, KAS_ASSEMBLE_FISHER } kas_assemble_loss;
extern const char *const kas_assemble_strategy_names[], *const kas_assemble_loss_names[];

typedef struct kas_assemble {
    /* options */
    kas_cli_common common;
    kas_cli_net net; /* the data set has the shape of images */
    kas_cli_recipe recipe_options;
    kas_recipe recipe;
    const char *dataset_path, *dir, *init, *machine_name, *device_name;
    char **from; /* [froms] studies, folders and kernel files */
    int froms, strategy, loss, images, samples, best;
    double latency, validation;
    uint64_t seed;
    bool measure, dry_run;
    /* what it works on */
    kas_cli_training data;
    kas_choices choices;
    kas_device *device;
    kas_measured *measured;
    kas_machine machine;
    char setting[1200];     /* what every measurement depends on, as a text */
    char trained[PATH_MAX]; /* weights of the trained network; "" = none */
    double unmodified;      /* seconds of a forward pass */
    kas_option *option;     /* [targets][options] */
    int *chosen;            /* [targets] */
    double reported;        /* when progress was last shown, seconds */
    kas_minibatch minibatch[KAS_SCORE_MINIBATCHES];
    /* Made when they are first needed: one of each, so that all is compared with the same
     * unmodified network, at its fastest. */
    kas_turns *turns;
    kas_predictor *predictor;
} kas_assemble;

/* tables.c: fills the costs of `option`, and its losses. What a table takes long to measure is kept
 * in DIR/measured.jsonl. */
kas_status kas_assemble_costs(kas_assemble *a);
kas_status kas_assemble_losses(kas_assemble *a);
/* Gets the Fisher potentials of `count` replacements, or with NULL and 1 of the unmodified network;
 * NaN where there is none. `context` is the kas_assemble. */
kas_status kas_assemble_potentials(void *context, int count, const kas_replacement *replacement,
                                   double *value);
/* Writes which kernel each layer of a replacement has, with its free sizes: the key of what was
 * measured of it. NULL is the unmodified network. */
kas_status kas_assemble_describe(const kas_replacement *replacement, kas_buf *out);
/* Gets the seconds of a forward pass with a replacement, predicted or measured. */
kas_status kas_assemble_seconds(kas_assemble *a, const kas_replacement *replacement,
                                double *seconds);

/* train.c */
/* Trains the unmodified network unless --init gives its weights, and names them in `trained`. */
kas_status kas_assemble_baseline(kas_assemble *a);
/* Returns whether kernels will imitate. */
bool kas_assemble_imitates(const kas_assemble *a);
/* Checks, before anything is trained, that there are images enough for the imitations to come. */
kas_status kas_assemble_check_images(const kas_assemble *a);
/* Lets the kernels imitate; missed [targets] (NULL is allowed) is NaN where the convolution stays,
 * `weights` (NULL is allowed) gets the network. */
kas_status kas_assemble_imitate(kas_assemble *a, kas_replacement *replacement, const char *what,
                                const char *weights, double *missed);
/* Trains a supernet, and fills the losses of `option` with what it says of each option. */
kas_status kas_assemble_fbnet(kas_assemble *a);
/* Writes the file of layers into a folder of DIR that has its name. */
kas_status kas_assemble_write(kas_assemble *a, const kas_replacement *replacement,
                              char folder[PATH_MAX]);
/* Trains it there. */
kas_status kas_assemble_finish(kas_assemble *a, kas_replacement *replacement, const char *folder);

/* print.c */
kas_status kas_assemble_print_frontier(const kas_assemble *a, const kas_frontier *frontier);
kas_status kas_assemble_print_choice(const kas_assemble *a, const kas_replacement *replacement,
                                     const char *folder, double seconds);

#endif
