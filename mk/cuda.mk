# The CUDA device needs nothing of NVIDIA to build; one test compares its declarations with the real
# headers where there are some. KAS_CUDA_INCLUDE: more folders with headers (env.sh knows Python's).

CUDA_INCLUDE := $(wildcard /usr/local/cuda/include) $(subst :, ,$(KAS_CUDA_INCLUDE))
$(BUILD)/tests/unit/cuda/test_cuda_api.o: CFLAGS += $(addprefix -isystem ,$(CUDA_INCLUDE))

# The stand-in for NVIDIA's libraries, loaded by tests in their place (tests/cuda_sim/control.h).
CUDA_SIM         := $(BUILD)/tests/libkas_cuda_sim.so
CUDA_SIM_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/cuda_sim/*.c))
$(CUDA_SIM_OBJECTS): CFLAGS += -fPIC -O3
$(CUDA_SIM): $(CUDA_SIM_OBJECTS)
	$(CC) $(LDFLAGS) -shared -o $@ $^ -ldl
$(TEST_BINS): | $(CUDA_SIM)
