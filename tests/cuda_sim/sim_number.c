/* Elements of the three types that the libraries store. */
#include <string.h>

#include "sim.h"
#include "sim_ptx.h"

size_t sim_number_size(sim_number number)
{
    return number == SIM_F32 ? 4 : 2;
}

float sim_load(sim_number number, const void *memory, int64_t i)
{
    if (number == SIM_F16)
        return (float)((const _Float16 *)memory)[i];
    if (number == SIM_F32)
        return ((const float *)memory)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)memory)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void sim_store(sim_number number, void *memory, int64_t i, double value)
{
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (number == SIM_F32)
        ((float *)memory)[i] = f;
    else if (number == SIM_F16)
        ((_Float16 *)memory)[i] = (_Float16)f;
    else /* to nearest, ties to even */
        ((uint16_t *)memory)[i] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    const size_t size = sim_number_size(number);
    sim_wrote((const char *)memory + i * (int64_t)size, size);
}
