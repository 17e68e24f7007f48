# The CUDA device needs nothing of NVIDIA to build; one test compares its declarations with the real
# headers where there are some. KAS_CUDA_INCLUDE: more folders with headers (env.sh knows Python's).

CUDA_INCLUDE := $(wildcard /usr/local/cuda/include) $(subst :, ,$(KAS_CUDA_INCLUDE))
$(BUILD)/tests/unit/cuda/test_cuda_api.o: CFLAGS += $(addprefix -isystem ,$(CUDA_INCLUDE))

# The stand-in for NVIDIA's libraries, loaded by tests in their place (tests/cuda_sim/control.h).
CUDA_SIM         := $(BUILD)/tests/libkas_cuda_sim.so
# The executor of PTX is part of it (tests/ptx/ptx.h); its loops over lanes vectorise.
PTX_OBJECTS      := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/ptx/test_%,$(wildcard tests/ptx/*.c)))
CUDA_SIM_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/cuda_sim/*.c)) $(PTX_OBJECTS)
$(CUDA_SIM_OBJECTS): CFLAGS += $(if $(SANITIZE),,-O3)
$(PTX_OBJECTS): CFLAGS += -march=$(MARCH) -ffp-contract=off -fno-math-errno -fno-trapping-math
$(BUILD)/tests/ptx/test_ptx: $(PTX_OBJECTS)
ifeq ($(BUILD),$(DEVICE_BUILD))
$(CUDA_SIM): $(CUDA_SIM_OBJECTS)
	$(CC) $(LDFLAGS) -shared -o $@ $^ -ldl
else # one file for both: where it lies is part of the key of what it has compiled
$(CUDA_SIM): $(DEVICE_BUILD)/tests/libkas_cuda_sim.so
	@mkdir -p $(@D)
	ln -sf $(abspath $<) $@
endif
$(TEST_BINS): | $(CUDA_SIM)
