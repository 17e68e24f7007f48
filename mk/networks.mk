# The networks that come with kas-gpu, as text in the program.

NETWORKS      := $(sort $(wildcard networks/*.json))
EXTRA_OBJECTS += $(GEN)/networks.o

$(GEN)/networks.c: $(NETWORKS) networks mk/networks.mk
	@mkdir -p $(@D)
	@{ echo '#include "host/net/catalog.h"'; \
	   echo 'const kas_catalog_entry kas_catalog[] = {'; \
	   for f in $(NETWORKS); do echo "    {\"$$(basename $$f .json)\","; $(c_string) $$f; echo '    },'; done; \
	   echo '    {0, 0}};'; } >$@.new
	@mv $@.new $@

$(GEN)/networks.o: $(GEN)/networks.c
	$(CC) $(CFLAGS) -c -o $@ $<
