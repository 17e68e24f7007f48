#include "host/net/catalog.h"

#include <string.h>

#include "host/net/net.h"

const char *kas_catalog_find(const char *name)
{
    for (const kas_catalog_entry *e = kas_catalog; e->name; e++)
        if (strcmp(e->name, name) == 0)
            return e->text;
    return NULL;
}

const char *const *kas_net_names(void)
{
    static const char *names[KAS_NET_CATALOG + 1];
    int count = 0;
    for (const kas_catalog_entry *e = kas_catalog; e->name && count < KAS_NET_CATALOG; e++)
        names[count++] = e->name;
    return names;
}
