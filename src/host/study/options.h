/* What a study is asked to do: everything that decides its results, and nothing else.
 *
 * Written as canonical JSON into the study when it begins (fixed order of fields, numbers in the
 * shortest form that reads back to the same bits); a later command with other options is refused,
 * and the message names them.  How the work is spread (number of workers, which GPUs, time limits
 * for hung workers) is not part of it: the results do not depend on that. */
#ifndef KAS_STUDY_OPTIONS_H
#define KAS_STUDY_OPTIONS_H

#include <stdint.h>

#include "host/core/buf.h"
#include "host/core/status.h"
#include "host/net/net.h"
#include "host/space/canvas/sample_options.h"
#include "host/train/train.h"

/* Images in a forward pass whose latency is measured. */
enum { KAS_LATENCY_BATCH = 32 };

typedef struct kas_search_options {
    char net[KAS_NET_KEPT_NAME]; /* its name; of a network from a file with part of its digest */
    const char *network;         /* text of that file (kas_net_keep); "" = the name is enough */
    char targets[128];           /* filter of kernel sizes, "3x3,1x1"; "" = all */
    uint64_t seed;
    int candidates;            /* first N of the list; 0 = until time_limit */
    double time_limit;         /* seconds of wall time, all runs together; 0 = by count */
    kas_recipe recipe;         /* of every candidate, and of the final trainings */
    double flops;              /* most, relative to the replaced convolutions; 0 = no limit */
    double params;             /* likewise */
    kas_sample_options sample; /* its seed and budget aside: those are the fields here; its space
                                  is written as a field of the study */
    double latency;            /* most, relative to the baseline's measured latency; 0 = no limit */
    double validation;         /* share of the training set that the search validates on */
    char prune[16];            /* "curve", "none" or "deterministic" */
    int prune_window;          /* deterministic: candidate k looks at those before k - window */
    char init[65];     /* SHA-256 of the weights that every training starts from; "" = random */
    bool init_partial; /* what of them does not fit is left out (model/pretrained.h) */
    char device[16];   /* "cpu" or "cuda": what latencies and bits belong to */
    int threads;       /* of each worker */
    /* How images are read decides no result (train/feed.h), so a later command may stream
     * too, or with other threads; they are here for those that say nothing. */
    bool stream;      /* leave images in the file even if they fit in memory */
    int read_threads; /* of each training that streams; 0 = as many as it can use */
} kas_search_options;

/* Everything but the recipe and what the machine decides (device, threads). */
kas_search_options kas_search_options_default(void);

/* One line of canonical JSON. */
void kas_search_options_write(const kas_search_options *options, kas_buf *out);
/* `where` is for messages. Strict: every field must be there, no other may be. */
kas_status kas_search_options_read(const char *where, const char *text, kas_search_options *out);

/* KAS_OK when `given` asks for the same as `stored`; KAS_USAGE naming every option that differs and
 * both values otherwise. threads 0, device "" and the sampler KAS_SAMPLER_AS_STUDY and
 * KAS_PER_LAYER_AUTO in `given` mean "as stored". */
kas_status kas_search_options_same(const char *study, const kas_search_options *stored,
                                   const kas_search_options *given);

#endif
