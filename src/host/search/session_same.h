/* What a study that has begun demands of the command that goes on with it: the same options, data,
 * sampler and code. Internal to the session. */
#ifndef KAS_SEARCH_SESSION_SAME_H
#define KAS_SEARCH_SESSION_SAME_H

#include "host/search/session.h"

/* Returns the version of the list of candidates. */
int kas_session_sampler_version(const kas_session *s);
/* Writes the options as a study keeps them. The caller frees *out. */
kas_status kas_session_write_options(const kas_search_options *options, char **out);
/* Updates how images are read, if the command says so. Returns whether that is a change. */
bool kas_session_set_reading(const kas_session *s, kas_search_options *o);

/* Fail where a program cannot propose candidates of a study with these options (NULL = there is no
 * program), and where the program or the data set is not that of the study. */
kas_status kas_session_check_proposals(const char *command, const kas_search_options *o);
kas_status kas_session_check_code(const kas_session *s, const kas_study *stored);
kas_status kas_session_check_data(const kas_session *s, const kas_study *stored);

/* Goes on with the study in the store: takes its options, which `asked` must equal but for more
 * candidates; NULL = nothing is asked. */
kas_status kas_session_adopt(kas_session *s, const kas_search_options *asked);
/* Fails where a search could not begin or adopt the study, as far as can be known without making
 * anything. */
kas_status kas_session_rehearse(const kas_session *s, const kas_search_options *asked);

#endif
