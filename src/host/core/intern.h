/* Keeps texts for as long as the program runs, each of them once.
 *
 * It is for the few long texts of a run to which many copies of a struct point, such as the
 * description of a user's network in the options of a study: nobody owns or frees them, and equal
 * texts have equal pointers. Do not use it where the number of texts has no bound. Thread-safe. */
#ifndef KAS_CORE_INTERN_H
#define KAS_CORE_INTERN_H

/* Returns the kept copy of `text`; NULL when memory is exhausted. */
const char *kas_intern(const char *text);

#endif
