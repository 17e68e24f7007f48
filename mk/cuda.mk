# The CUDA device needs nothing of NVIDIA to build; one test compares its declarations with the real
# headers where there are some. KAS_CUDA_INCLUDE: more folders with headers (env.sh knows Python's).

CUDA_INCLUDE := $(wildcard /usr/local/cuda/include) $(subst :, ,$(KAS_CUDA_INCLUDE))
$(BUILD)/tests/unit/test_cuda_api.o: CFLAGS += $(addprefix -isystem ,$(CUDA_INCLUDE))
