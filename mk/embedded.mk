# Files that travel inside the program, so that it needs none beside it: folder X becomes
# kas_embedded_X[] (host/core/embedded.h), a file's name without .json its name there.
EMBEDDED_FOLDERS  := networks recipes kernels
EXTRA_OBJECTS     += $(EMBEDDED_FOLDERS:%=$(BUILD)/gen/embedded_%.o)

$(BUILD)/gen/embedded_%.c: mk/embedded.mk FORCE
	@mkdir -p $(@D)
	@{ echo '#include "host/core/embedded.h"'; \
	   echo 'const kas_embedded kas_embedded_$*[] = {'; \
	   for f in $$(ls $*/*.json | LC_ALL=C sort); do echo "{\"$$(basename $$f .json)\","; $(c_string) $$f; echo '},'; done; \
	   echo '{0, 0}};'; } >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(BUILD)/gen/embedded_%.o: $(BUILD)/gen/embedded_%.c src/host/core/embedded.h
	$(CC) $(CFLAGS) -c -o $@ $<
