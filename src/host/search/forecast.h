/* The forecast of a search: the latency of each candidate as predicted before anything is compiled
 * (docs/search.md, "Prediction").
 *
 * The study keeps the machine model as STUDY/machine.json, and its SHA-256 among its options, so
 * that a calibration that comes later changes no list of candidates. */
#ifndef KAS_SEARCH_FORECAST_H
#define KAS_SEARCH_FORECAST_H

#include "host/predict/keep.h"
#include "host/search/devices.h"
#include "host/search/legality.h"
#include "host/search/prefilter.h"
#include "host/strategy/strategy.h"

#define KAS_STUDY_MACHINE "machine.json"
enum { KAS_MACHINE_BYTES = 1 << 20 };

typedef struct kas_search_forecast {
    kas_predictor *predictor; /* NULL: there is none */
    kas_legality *legality;   /* NULL: it is not checked */
    kas_prefilter *prefilter; /* NULL: all candidates are trained */
    double limit;             /* predicted ratio to the unmodified network that is allowed, margin
                                 included; 0 = no limit */
    double latency;           /* the limit of the study, without it */
    kas_budget budget;        /* of the study */
    char machine[128];
} kas_search_forecast;

/* Finds the machine model for which latencies are predicted: that of --latency-on, or else of the
 * device on which the workers run. */
kas_status kas_search_machine(const kas_search_options *options, const kas_devices *devices,
                              kas_machine *out);

/* Makes the forecast. `net` must outlive it; the caller frees *out with
 * kas_search_forecast_close. */
kas_status kas_search_forecast_open(const kas_search_options *options, const kas_machine *machine,
                                    const kas_net *net, kas_search_forecast *out);
/* Opens what scores candidates, --legality and --prefilter, unless that is open. */
kas_status kas_search_forecast_open_scores(const kas_search_options *options,
                                           const kas_problem *problem, kas_search_forecast *out);
void kas_search_forecast_close(kas_search_forecast *forecast); /* one that is zero is allowed */

/* Returns the seconds of the unmodified network; 0 without a forecast. */
double kas_search_forecast_unmodified(const kas_search_forecast *forecast);

/* Fills what a strategy asks of the forecast, which must outlive it. `judge` discards a candidate
 * that is predicted to be too slow, or fails --legality; one that cannot be lowered has no
 * prediction, and a worker will say why. `score` is that of --prefilter. `keep`, with
 * --keep-slower, takes a candidate's kernels away from the layers at which they are predicted to be
 * slower. */
kas_status kas_search_forecast_ask(kas_search_forecast *forecast, const kas_search_options *options,
                                   kas_forecast *out);

#endif
