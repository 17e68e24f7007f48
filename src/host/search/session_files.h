/* The files that a study keeps, so that it does not depend on those from which it began: weights to
 * begin with, kernels to begin with, ancestors, the machine model, plans of the GPU's libraries,
 * tuned schedules. Internal to the session. What a study has must have the digest that its options
 * say; otherwise KAS_STORE says what to do. */
#ifndef KAS_SEARCH_SESSION_FILES_H
#define KAS_SEARCH_SESSION_FILES_H

#include "host/search/session.h"

/* Identifies the weights of --init by their digest, and checks early that they fit the network. */
kas_status kas_session_check_init(kas_session *s);
/* Copies them into the study. */
kas_status kas_session_keep_init(const kas_session *s);

/* Collects the kernels of --from, and identifies them by their digest. */
kas_status kas_session_collect_from(const kas_session_request *request, kas_session *s);
/* Copies them into the study, and reads them from there. */
kas_status kas_session_keep_from(kas_session *s);

/* Lets the ancestors of a study that begins now evolve, where its options ask for some.
 * KAS_INTERRUPTED when the request says so. */
kas_status kas_session_evolve_ancestors(const kas_session_request *request, kas_session *s);
/* Keeps them in the study's folder. */
kas_status kas_session_pin_ancestors(const kas_session *s);
/* Reads them again. */
kas_status kas_session_keep_ancestors(kas_session *s);

/* Keeps the machine model in a study that begins now. */
kas_status kas_session_pin_machine(kas_session *s, const kas_machine *machine);
/* Reads the machine model that the study keeps, and opens the forecast by it; a study of before
 * there were forecasts has none. */
kas_status kas_session_keep_machine(kas_session *s);
kas_status kas_session_open_forecast(kas_session *s, const kas_machine *machine);

/* Sets the folders of library plans and of tuned schedules, which workers inherit: all of them,
 * also in later runs, use the plans and the schedules that the study has (cuda/tuning.h,
 * tune/tune.h). */
kas_status kas_session_pin_plans(const kas_session *s);

#endif
