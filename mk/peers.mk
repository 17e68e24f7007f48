# Our side of comparisons with other programs (bench/peers).
STEP_DUMP_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/peers/step_*.c))
PEER_LINK          = $(CC) $(LDFLAGS) -rdynamic -o $@ $(filter %.o,$^) -Wl,--whole-archive $(LIBRARY) -Wl,--no-whole-archive $(LDLIBS)

$(BUILD)/bench/step_dump: $(STEP_DUMP_OBJECTS) $(SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	$(PEER_LINK)

$(BUILD)/bench/kernel_serve: $(BUILD)/bench/peers/kernel_serve.o $(LIBRARY)
	@mkdir -p $(@D)
	$(PEER_LINK)

$(BUILD)/bench/serve_step: $(BUILD)/bench/peers/serve_step.o $(LIBRARY)
	@mkdir -p $(@D)
	$(PEER_LINK)

$(BUILD)/bench/update_dump: $(BUILD)/bench/peers/update_dump.o $(SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	$(PEER_LINK)

all: $(BUILD)/bench/update_dump $(BUILD)/bench/step_dump $(BUILD)/bench/kernel_serve $(BUILD)/bench/serve_step
