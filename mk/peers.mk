# Programs that dump our side of a comparison with other programs (bench/peers).
STEP_DUMP_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/peers/step_*.c))

$(BUILD)/bench/step_dump: $(STEP_DUMP_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $(STEP_DUMP_OBJECTS) -Wl,--whole-archive $(LIBRARY) -Wl,--no-whole-archive $(LDLIBS)

all: $(BUILD)/bench/step_dump
