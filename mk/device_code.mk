# Device code for the CPU: every src/cuda/kernels/*.cu is built by $(KCC), once
# for each dtype of activations (0 fp32, 1 bf16, 2 fp16) and once for each order of lanes (0 ascending:
# what runs; 1 descending and 2 shuffled: for the tests, and built quickly), and the texts and the table of
# kernels are turned into C. Numbers of 16 bits have only the orders 0 and 2, whose lanes come in the groups
# of 8 that a thread of a GPU has.

DEVICE_CODE       := src/cuda/kernels
DEVICE_CODE_FLAGS := -std=c17 -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fvisibility=hidden -Wno-pass-failed
# What only wide accesses ask is a parameter without a use where a thread has one lane; and gcc cannot
# see that a block reduction has at least one element, nor (gcc 13) that a guarded index stays within its array. Vectors are never
# passed between files, so that how they are passed is nothing to warn of.
KERNEL_WARN       := $(WARN) -Wno-unused-parameter -Wno-psabi $(if $(findstring clang,$(KCC)),,-Wno-maybe-uninitialized -Wno-array-bounds)
KERNELS           := $(sort $(wildcard $(DEVICE_CODE)/*.cu))
PRELUDE           := $(DEVICE_CODE)/prelude.h $(DEVICE_CODE)/wide.h $(DEVICE_CODE)/row.h
PRELUDE_TEXT      := $(PRELUDE) $(DEVICE_CODE)/tile.h # of generated kernels
SHARED_TEXT       := $(DEVICE_CODE)/args.h $(DEVICE_CODE)/activation.h $(DEVICE_CODE)/teams.h $(DEVICE_CODE)/mma.h
KERNEL_HEADERS    := $(DEVICE_CODE)/kernel.h $(PRELUDE) $(SHARED_TEXT)
GEN               := $(BUILD)/gen
DTYPES            := 0 1 2
BUILDS            := 00 01 02 10 12 20 22 # dtype and order
# Kernels of the CPU device alone, which no order of lanes concerns.
CPU_KERNELS       := $(sort $(wildcard src/host/device/cpu/*.cu))
EXTRA_OBJECTS     += $(foreach build,$(BUILDS),$(KERNELS:%.cu=$(DEVICE_BUILD)/%.o$(build))) $(GEN)/device_code_tables.o
EXTRA_OBJECTS     += $(foreach build,00 10 20,$(CPU_KERNELS:%.cu=$(DEVICE_BUILD)/%.o$(build)))
c_string          := sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/    "&\\n"/'

# $(1): dtype, $(2): order of lanes.
define kernel_rule
$(DEVICE_BUILD)/%.o$(1)$(2): %.cu $(KERNEL_HEADERS) mk/device_code.mk
	@mkdir -p $$(@D)
	$(KCC) $(DEVICE_CODE_FLAGS) $(if $(filter 0,$(2)),,-O1) -march=$(MARCH) -fPIC $(KERNEL_WARN) -DKAS_DTYPE=$(1) -DKAS_ORDER=$(2) -DKAS_SUFFIX=_$(1)$(2) \
	    -Isrc -x c -c -o $$@ $$<
endef
$(foreach order,0 1 2,$(eval $(call kernel_rule,0,$(order))))
$(foreach dtype,1 2,$(foreach order,0 2,$(eval $(call kernel_rule,$(dtype),$(order)))))
$(foreach build,00 10 20,$(CPU_KERNELS:%.cu=$(DEVICE_BUILD)/%.o$(build))): src/host/device/cpu/conv_lines.h src/host/device/cpu/conv_lines_fill.h $(DEVICE_CODE)/tile.h

$(GEN)/device_code_tables.c: $(KERNELS) $(PRELUDE_TEXT) $(SHARED_TEXT) mk/device_code.mk
	@mkdir -p $(@D)
	@{ echo '#include "cuda/kernels/device_code.h"'; \
	   echo 'const char kas_prelude_text[] ='; cat $(PRELUDE_TEXT) | $(c_string); echo ';'; \
	   echo 'const char *const kas_builtin_text[] = {'; \
	   for n in $(DTYPES); do \
	     { echo '#undef KAS_DTYPE'; echo "#define KAS_DTYPE $$n"; \
	       printf '#ifndef KAS_PARTS\n#define KAS_PARTS 1\n#define KAS_PART 0\n#endif\n'; cat $(SHARED_TEXT); i=0; \
	       for f in $(KERNELS); do echo "#if $$i % KAS_PARTS == KAS_PART"; cat $$f; echo '#endif'; i=$$((i + 1)); done; } | \
	       sed '/^#include "/d' | $(c_string); echo ','; \
	   done; echo '};'; \
	   printf 'const char *const kas_device_code_flags[] = {'; printf '"%s", ' $(DEVICE_CODE_FLAGS); echo '0};'; \
	   echo 'const char kas_device_code_march[] = "$(MARCH)";'; \
	   echo 'const char kas_device_code_compiler[] = "$(KCC)";'; \
	   names=$$(sed -n 's/^KAS_KERNEL(\([a-z0-9_]*\),.*/\1/p' $(KERNELS)); \
	   for k in $$names; do for b in $(BUILDS); do echo "kas_cpu_kernel $${k}_$$b;"; done; done; \
	   echo 'const kas_builtin_kernel kas_builtin_kernels[] = {'; \
	   for k in $$names; do echo "    {\"$$k\", {{$${k}_00, $${k}_01, $${k}_02},"; \
	     for n in 1 2; do echo "        {$${k}_$${n}0, $${k}_$${n}2, $${k}_$${n}2},"; done; echo '    }},'; \
	   done; \
	   echo '    {0, {{0}}}};'; } >$@.new
	@mv $@.new $@

$(GEN)/device_code_tables.o: $(GEN)/device_code_tables.c
	$(CC) $(CFLAGS) -c -o $@ $<

# Kernels of tests, as modules: build/tests/unit/device/device_kernels.so0, .so1, .so2 by order of lanes.
define test_kernel_rule
$(BUILD)/tests/%.so$(1): tests/%.cu $(PRELUDE) mk/device_code.mk
	@mkdir -p $$(@D)
	$(KCC) $(DEVICE_CODE_FLAGS) -march=$(MARCH) -fPIC -shared $(KERNEL_WARN) -DKAS_ORDER=$(1) \
	    -Isrc -x c -o $$@ $$< -lm
endef
$(foreach order,0 1 2,$(eval $(call test_kernel_rule,$(order))))
$(BUILD)/tests/unit/device/test_device $(BUILD)/tests/unit/device/test_dtype: $(foreach order,0 1 2,$(BUILD)/tests/unit/device/device_kernels.so$(order))
