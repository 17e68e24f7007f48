# Programs that answer one question each and print JSON lines: bench/bench_*.c, and the suites of kas-gpu itself.
# All lines go to stdout: make -s bench | grep '^{' > results.json.
BENCHES    := $(wildcard bench/bench_*.c)
BENCH_BINS := $(BENCHES:%.c=$(BUILD)/%)

$(BUILD)/bench/bench_%: $(BUILD)/bench/bench_%.o $(SUPPORT) $(LIBRARY)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $(filter %.o,$^) -Wl,--whole-archive $(LIBRARY) -Wl,--no-whole-archive $(LDLIBS)

# It decides itself which convolutions run over lines.
$(BUILD)/bench/bench_lines: LDFLAGS += -Wl,--wrap=kas_lines_pay

# What bench/studies needs of ours.
STUDY_BINS := $(patsubst bench/studies/%.c,$(BUILD)/bench/%,$(wildcard bench/studies/*.c))
$(STUDY_BINS): $(BUILD)/bench/%: $(BUILD)/bench/studies/%.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $< -Wl,--whole-archive $(LIBRARY) -Wl,--no-whole-archive $(LDLIBS)

all: $(STUDY_BINS)

bench: all $(BENCH_BINS)
	@for program in $(BENCH_BINS); do $$program || exit 1; done
	@./kas-gpu bench --json
