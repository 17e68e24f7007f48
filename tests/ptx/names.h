/* A table of names: registers, variables and labels of a kernel. */
#ifndef KAS_TESTS_PTX_NAMES_H
#define KAS_TESTS_PTX_NAMES_H

#include <stddef.h>
#include <stdint.h>

typedef struct ptx_named {
    char *name; /* NULL: the slot is free */
    int64_t value;
    unsigned bytes; /* of a register; 0: a predicate */
} ptx_named;
typedef struct ptx_names {
    ptx_named *slot;
    size_t room, count;
} ptx_names;

ptx_named *ptx_names_find(const ptx_names *names, const char *name); /* NULL: not there */
ptx_named *ptx_names_add(ptx_names *names, const char *name);
void ptx_names_free(ptx_names *names);

#endif
