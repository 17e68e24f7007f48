# Programs that answer one question each and print JSON lines: bench/bench_*.c.
BENCHES    := $(wildcard bench/bench_*.c)
BENCH_BINS := $(BENCHES:%.c=$(BUILD)/%)

$(BUILD)/bench/bench_%: $(BUILD)/bench/bench_%.o $(LIBRARY)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $< -Wl,--whole-archive $(LIBRARY) -Wl,--no-whole-archive $(LDLIBS)

bench: all $(BENCH_BINS)
	@for program in $(BENCH_BINS); do $$program || exit 1; done
