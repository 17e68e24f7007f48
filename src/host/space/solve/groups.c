#include "host/core/gcd.h"
#include "host/space/solve/solve.h"
#include "host/space/split.h"

int kas_group_numbers(const kas_target *targets, int count, uint32_t out[64])
{
    uint32_t common = 0;
    int found = 0;
    for (int i = 0; i < count; i++)
        common = kas_gcd(common, targets[i].c);
    for (uint32_t g = 2; g <= common && found < 64; g++)
        if (common % g == 0)
            out[found++] = g;
    return found;
}

kas_binding kas_target_binding(const kas_kernel *kernel, const kas_target *target)
{
    kas_binding binding = {0};
    binding.value[KAS_SYM_C] = target->c;
    binding.value[KAS_SYM_H] = target->h;
    binding.value[KAS_SYM_W] = target->w;
    binding.value[KAS_SYM_KH] = target->kernel_h;
    binding.value[KAS_SYM_KW] = target->kernel_w;
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        binding.value[KAS_SYM_G0 + g] = kernel->group_value[g];
    kas_splits_bind(kernel, &binding);
    return binding;
}
