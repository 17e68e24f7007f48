# kas-gpu: see README.md. Plain `make` builds ./kas-gpu; `make help` lists the rest.
#
# Host code is built by $(CC); device code for the CPU (src/cuda/kernels, and everything generated while
# kas-gpu runs) by $(KCC), clang where there is one, because it vectorises the dialect far better
# than gcc 12. CUDA libraries are opened at run time: nothing of NVIDIA is linked or needed to build.

CC      ?= cc
ifeq ($(origin CC),default)
CC      := gcc
endif
KCC     ?= $(shell command -v clang || echo $(CC))
BUILD   ?= build
# What no sanitizer looks at (device code, the stand-in for NVIDIA's libraries): `make asan` takes what the plain build has made.
DEVICE_BUILD ?= $(BUILD)
MARCH   ?= native
OPT     ?= -O2 -g
PREFIX  ?= /usr/local
PYTHON  ?= python3

# Some systems have HDF5's serial library under its own name only.
HDF5     := $(shell pkg-config --exists hdf5 && echo hdf5 || echo hdf5-serial)
PKGS     := libcjson sqlite3 $(HDF5) zlib
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS))
PKG_LIBS   := $(shell pkg-config --libs $(PKGS))

WARN     ?= -Wall -Wextra -Werror
CFLAGS   += -std=c17 -D_GNU_SOURCE $(OPT) $(WARN) -fopenmp -fPIC -fno-semantic-interposition -Isrc -Itests $(PKG_CFLAGS) $(SANITIZE)
LDFLAGS  += -fopenmp $(SANITIZE)
LDLIBS   += $(PKG_LIBS) -ldnnl -ldl -lm -lpthread

# oneDNN 2 or 3 is optional: without it the CPU device uses its own loops. DNNL is the folder of one that is not the system's.
ifneq ($(DNNL),)
CFLAGS += -I$(DNNL)/include
LDFLAGS += $(foreach d,$(wildcard $(DNNL)/lib $(DNNL)/lib64),-L$(d) -Wl,-rpath,$(abspath $(d)))
endif
HAVE_DNNL := $(shell $(CC) $(if $(DNNL),-I$(DNNL)/include) -E -dM -include oneapi/dnnl/dnnl_version.h -x c /dev/null 2>/dev/null | sed -n 's/.define DNNL_VERSION_MAJOR //p')
ifneq ($(filter 2 3,$(HAVE_DNNL)),)
CFLAGS += -DKAS_HAVE_DNNL=1
else
LDLIBS := $(filter-out -ldnnl,$(LDLIBS))
$(info kas-gpu: oneDNN 2 or 3 not found (libdnnl-dev$(if $(HAVE_DNNL),; version $(HAVE_DNNL) is here)): the CPU device will use its own loops)
endif
# Image libraries are optional too: without them no JPEG or PNG is read. Only libjpeg-turbo decodes parts.
HAVE_JPEG := $(shell pkg-config --exists libjpeg && $(CC) -E -dM -include stdio.h -include jpeglib.h $$(pkg-config --cflags libjpeg) \
    -x c /dev/null 2>/dev/null | sed -n 's/.define LIBJPEG_TURBO_VERSION_NUMBER //p')
HAVE_PNG  := $(shell pkg-config --exists libpng && echo 1)
ifneq ($(HAVE_JPEG),)
CFLAGS += -DKAS_HAVE_JPEG=1 $(shell pkg-config --cflags libjpeg)
LDLIBS += $(shell pkg-config --libs libjpeg)
else
$(info kas-gpu: libjpeg-turbo not found (libjpeg62-turbo-dev): data sets of JPEG images will be refused)
endif
ifneq ($(HAVE_PNG),)
CFLAGS += -DKAS_HAVE_PNG=1 $(shell pkg-config --cflags libpng)
LDLIBS += $(shell pkg-config --libs libpng)
else
$(info kas-gpu: libpng not found (libpng-dev): data sets of PNG images will be refused)
endif
ifeq ($(shell command -v clang),)
$(info kas-gpu: clang not found: $(CC) builds the kernels of the CPU device, which are slower)
endif
ifeq ($(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null),)
$(info kas-gpu: nvcc not found: nothing is left out of kas-gpu; one test does not compile an exported kernel.cu)
endif

SOURCES  := $(shell find src -name '*.c' ! -name main.c | sort)
OBJECTS  := $(SOURCES:%.c=$(BUILD)/%.o)
LIBRARY  := $(BUILD)/libkas.a
# The same objects for the test programs, which are many: linking one with the archive takes ten times as long.
SHARED   := $(BUILD)/libkas.so
QUICK_LD := $(if $(shell command -v ld.gold),-fuse-ld=gold)

TESTS    := $(shell find tests/unit tests/ops tests/jit tests/fuzz tests/ptx -name 'test_*.c' 2>/dev/null | sort)
TEST_BINS := $(TESTS:%.c=$(BUILD)/%)
# What tests and benchmarks share and the program does not need.
SUPPORT   := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))

.PHONY: all demo programs test test-ptx unit e2e fuzz bench asan format format-check size-check layout-check install clean help
all: kas-gpu

include $(wildcard mk/*.mk)

kas-gpu: $(BUILD)/kas-gpu
	@ln -sf $< $@

$(BUILD)/kas-gpu: $(BUILD)/src/host/main.o $(LIBRARY)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $< -Wl,--whole-archive $(LIBRARY) -Wl,--no-whole-archive $(LDLIBS)

$(LIBRARY): $(OBJECTS) $(EXTRA_OBJECTS)
	@rm -f $@
	@ar rcs $@ $^

$(SHARED): $(OBJECTS) $(EXTRA_OBJECTS)
	$(CC) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ $(LDLIBS)

# Other flags or another compiler build everything again; another version only what tells it.
FLAGS     := $(CC) $(CFLAGS)
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.1)
VERSIONED := $(patsubst %.c,$(BUILD)/%.o,$(shell grep -ls KAS_VERSION $(SOURCES)))
$(BUILD)/flags: KEPT = $(FLAGS)
$(BUILD)/version: KEPT = $(VERSION)
$(BUILD)/flags $(BUILD)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(KEPT)' | cmp -s - $@ || echo '$(KEPT)' >$@
.PHONY: FORCE # not just "FORCE:": under .SECONDARY a target that is missing rebuilds nothing
$(VERSIONED): CFLAGS += -DKAS_VERSION='"$(VERSION)"'
$(VERSIONED): $(BUILD)/version

# Sums over lines of pixels: the one place in host code where the compiler's own vectors pay.
$(BUILD)/src/host/data/image/resize.o: CFLAGS += -O3

# Networks interpreted for scores: matrix products and loops over pixels, for this processor as device code is. Sanitizers
# would make the compiler take a quarter of a minute for each type of numbers.
$(BUILD)/src/host/interpret/%.o: CFLAGS += $(if $(SANITIZE),,-O3) -march=$(MARCH) -ffp-contract=fast -fno-math-errno -fno-trapping-math

# The sampler is short loops over sizes, and copies of shapes of a few hundred bytes: for those gcc writes
# string instructions on x86, which take longer to begin than the C library takes for all of it.
COPIES    := -mmemcpy-strategy=libcall:-1:noalign -mmemset-strategy=libcall:-1:noalign
SPACE_OPT := $(if $(SANITIZE),,-O3 $(shell $(CC) $(COPIES) -E -x c /dev/null >/dev/null 2>&1 && echo '$(COPIES)'))
$(BUILD)/src/host/space/%.o: CFLAGS += $(SPACE_OPT)
# Its random numbers and the names of its kernels: rounds to be unrolled.
$(BUILD)/src/host/core/random.o $(BUILD)/src/host/core/sha256.o: CFLAGS += -O3

# Compiling a test takes longer than running its own lines, but for those that compute what they compare with. Sanitizers make
# the optimiser slow; its warnings are those of the plain build. What tests share computes too, and keeps $(OPT).
COMPUTING := tests/ops/% tests/unit/space/test_nas_pte_nest.c
QUICK     := $(filter-out $(COMPUTING),$(TESTS))
$(TESTS:%.c=$(BUILD)/%.o): CFLAGS += -O1 -g1
ifneq ($(SANITIZE),)
$(QUICK:%.c=$(BUILD)/%.o): CFLAGS += -O0
endif

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT) $(SHARED)
	$(CC) $(LDFLAGS) $(QUICK_LD) -rdynamic -o $@ $(filter %.o %.so,$^) -Wl,-rpath,'$$ORIGIN'/$$(realpath --relative-to=$(@D) $(BUILD)) $(LDLIBS) -lcmocka

FUZZ_TESTS := $(filter $(BUILD)/tests/fuzz/%,$(TEST_BINS))
$(FUZZ_TESTS): $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/fuzz/test_%,$(wildcard tests/fuzz/*.c)))

.SECONDARY:

# Everything that is built, and nothing run.
programs: all $(TEST_BINS) $(BENCH_BINS)

# Several programs at a time, one line for each, its output kept in $(BUILD)/log; the summary counts what was skipped.
test: all $(TEST_BINS)
	@tests/run.sh $(BUILD) $(TEST_BINS)

unit: $(TEST_BINS)
	@tests/run.sh --no-e2e $(BUILD) $(TEST_BINS)

e2e: all
	@tests/run.sh $(BUILD)

# The campaign of hostile use (tests/fuzz, tests/e2e/search_kills.sh) at length: TIMES as many cases and kills as `make test`
# has, of SEED.
TIMES ?= 10
SEED  ?= 1
fuzz: export KAS_FUZZ_TIMES = $(TIMES)
fuzz: export KAS_FUZZ_SEED = $(SEED)
fuzz: all $(FUZZ_TESTS)
	@tests/run.sh --no-e2e $(BUILD) $(FUZZ_TESTS)
	bash tests/e2e/search_kills.sh

# The GPU's own code at length (docs/ptx.md): KERNELS sampled kernels in fp32 and as many in bf16.
KERNELS ?= 300
test-ptx: export KAS_PTX_KERNELS = $(KERNELS)
test-ptx: all $(TEST_BINS)
	@tests/run.sh --ptx $(BUILD) $(TEST_BINS)

demo: all
	@scripts/demo.sh

# Allocations that cannot be had return NULL here too, as they do without the sanitizer. One program is left out: what it
# does is done by compilers, which have no sanitizer.
asan: $(CUDA_SIM)
	ASAN_OPTIONS=allocator_may_return_null=1 $(MAKE) BUILD=build/asan DEVICE_BUILD=$(BUILD) SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" OPT="-O1 -g1" TEST_BINS='$(filter-out %/test_builtin,$(TEST_BINS:$(BUILD)/%=build/asan/%))' unit

format:
	@clang-format -i $$(git ls-files '*.c' '*.h' '*.cu')

format-check:
	@clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h' '*.cu')

size-check:
	@scripts/size-check.sh

layout-check:
	@scripts/layout-check.sh

install: all
	install -Dm755 $(BUILD)/kas-gpu $(DESTDIR)$(PREFIX)/bin/kas-gpu

clean:
	rm -rf build kas-gpu

help:
	@echo 'make            build ./kas-gpu'
	@echo 'make programs   that, every test and every benchmark, and run none of them'
	@echo 'make demo       a small real search on whatever device there is (under 5 minutes)'
	@echo 'make test       every test, as many programs at a time as cores (JOBS=N: N); DEVICE=cuda runs the device tests on a GPU'
	@echo 'make bench      every benchmark; results as JSON on stdout'
	@echo 'make unit       the tests in C only; make e2e: the scripts only'
	@echo 'make fuzz       damaged files and kills at length: TIMES=10 SEED=1'
	@echo 'make test-ptx   the PTX of our kernels, executed at length: KERNELS=300 sampled ones in fp32 and in bf16'
	@echo 'make asan       the unit tests under AddressSanitizer and UBSan'
	@echo 'make format     clang-format on every C and CUDA C file'
	@echo 'make format-check, make size-check, make layout-check   what CI checks besides'
	@echo 'make install    PREFIX=/usr/local'

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
