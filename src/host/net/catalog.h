/* The networks that come with kas-gpu: the files of networks/, in the program as text. */
#ifndef KAS_NET_CATALOG_H
#define KAS_NET_CATALOG_H

typedef struct kas_catalog_entry {
    const char *name, *text; /* NULL, NULL ends the table */
} kas_catalog_entry;

/* Made by mk/networks.mk. */
extern const kas_catalog_entry kas_catalog[];

/* The text of a network file, or NULL. */
const char *kas_catalog_find(const char *name);

#endif
