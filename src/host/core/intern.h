/* Texts that live as long as the program, each kept once.
 *
 * For the few long texts of a run that many copies of a struct point to (the description of a
 * user's network in the options of a study): nobody owns them, nobody frees them, and equal texts
 * are equal pointers.  Not for texts without bound on their number.  Thread-safe. */
#ifndef KAS_CORE_INTERN_H
#define KAS_CORE_INTERN_H

/* The kept copy of `text`; NULL when memory is exhausted. */
const char *kas_intern(const char *text);

#endif
