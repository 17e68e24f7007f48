/* What a test does under sanitizers, which make it five times as slow. They look at the host's code that runs, and only whether it
 * keeps to its memory: a quarter of what is drawn at random reaches nearly all of it, and device code and numbers are judged in the
 * plain build. */
#ifndef KAS_SUPPORT_SANITIZED_H
#define KAS_SUPPORT_SANITIZED_H

#include <stdbool.h>

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = true };
#define FEWER_IF_SANITIZED(times) ((times) / 4)
#else
enum { SANITIZED = false };
#define FEWER_IF_SANITIZED(times) (times)
#endif

#endif
