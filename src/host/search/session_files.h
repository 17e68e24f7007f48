/* The files that a study keeps, so that it does not depend on those from which it began: weights to
 * begin with, kernels to begin with, ancestors, the machine model, plans of the GPU's libraries,
 * tuned schedules. Internal to the session. What a study has must have the digest that its options
 * say; otherwise KAS_STORE says what to do. */
#ifndef KAS_SEARCH_SESSION_FILES_H
#define KAS_SEARCH_SESSION_FILES_H

#include "host/search/session.h"

/* Identifies the weights of --init by their digest, and checks early that they fit the network. */
kas_status kas_session_check_init(kas_session *s);
/* Reads them for scores, once: the study's copy, or else the file that was given. */
kas_status kas_session_read_init(kas_session *s);
/* Copies them into the study. */
kas_status kas_session_keep_init(const kas_session *s);

/* Writes the network of a file into the study, for the command of its report; the study itself has
 * the text among its options. */
kas_status kas_session_keep_network(const kas_session *s);

/* Collects the kernels of --from, and identifies them by their digest. */
kas_status kas_session_collect_from(const kas_session_request *request, kas_session *s);
/* Copies them into the study, and reads them from there. */
kas_status kas_session_keep_from(kas_session *s);

/* Reads the ancestors that the study keeps. */
kas_status kas_session_keep_ancestors(kas_session *s);

/* Opens the store. If the study begins now, lets its ancestors evolve, where its options ask for
 * some, and keeps them and the machine model. KAS_INTERRUPTED when the request says so. */
kas_status kas_session_pin_files(const kas_session_request *request, const kas_machine *machine,
                                 kas_session *s);
/* Reads the machine model that the study keeps, and opens the forecast by it; a study of before
 * there were forecasts has none. */
kas_status kas_session_keep_machine(kas_session *s);
kas_status kas_session_open_forecast(kas_session *s, const kas_machine *machine);

/* Sets the folders of library plans and of tuned schedules, which workers inherit: all of them,
 * also in later runs, use the plans and the schedules that the study has (cuda/tuning.h,
 * tune/tune.h). */
kas_status kas_session_pin_plans(const kas_session *s);

#endif
