/* How often a test repeats what is drawn at random: sanitizers make each of them five times as slow, and look at the code that
 * runs, of which a quarter of the draws reaches nearly all. The plain build counts them all. */
#ifndef KAS_SUPPORT_SANITIZED_H
#define KAS_SUPPORT_SANITIZED_H

#ifdef __SANITIZE_ADDRESS__
#define FEWER_IF_SANITIZED(times) ((times) / 4)
#else
#define FEWER_IF_SANITIZED(times) (times)
#endif

#endif
