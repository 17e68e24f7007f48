/* A folder below /tmp for a test program: made before its tests, and removed after them with all
 * that lies in it. */
#ifndef KAS_SUPPORT_FOLDER_H
#define KAS_SUPPORT_FOLDER_H

extern char folder[64];

/* As cmocka calls them; a program that needs more calls them from functions of its own. */
int make_folder(void **state);
int remove_folder(void **state);

/* Returns the path of a file in it; the next seven calls leave it. */
const char *in_folder(const char *name);

#endif
