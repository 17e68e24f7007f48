/* Operands: registers, immediates and the addresses of variables. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/decode.h"

enum { ALIGNMENT = 64 };

static unsigned array_bytes(unsigned bytes)
{
    return (bytes * PTX_LANES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static ptx_ref ref_of(ptx_place place, unsigned offset)
{
    return (ptx_ref)place << PTX_PLACE_SHIFT | offset;
}

/* ---- registers ------------------------------------------------------------------------------- */

/* Finds a register, which gets its place when it is first mentioned: ".reg .f32 %f<9>;" declares
 * the group "%f", and "%f7" is one of it. */
static ptx_named *find_register(ptx_decoder *d, const char *name)
{
    ptx_named *known = ptx_names_find(&d->registers, name);
    if (known)
        return known;
    char group_name[PTX_NAME];
    snprintf(group_name, sizeof group_name, "%s", name);
    for (size_t n = strlen(group_name); n > 0 && isdigit((unsigned char)group_name[n - 1]);)
        group_name[--n] = '\0';
    const ptx_named *group = ptx_names_find(&d->groups, name);
    if (!group)
        group = ptx_names_find(&d->groups, group_name);
    if (!group)
        return NULL;
    const unsigned bytes = group->bytes;
    known = ptx_names_add(&d->registers, name);
    known->bytes = bytes;
    if (bytes) {
        known->value = ref_of(PTX_REGISTER, d->f->registers);
        d->f->registers += array_bytes(bytes);
    } else
        known->value = d->f->predicates++;
    return known;
}

unsigned ptx_register_bytes(ptx_decoder *d, const char *text)
{
    const ptx_named *found = find_register(d, text);
    return found ? found->bytes : 0;
}

bool ptx_predicate(ptx_decoder *d, const char *text, int16_t *number)
{
    const ptx_named *found = find_register(d, text);
    if (!found || found->bytes)
        return ptx_fault(d->fault, "%s: %s is not a predicate", d->f->name, text);
    *number = (int16_t)found->value;
    return true;
}

static int special_of(const char *text)
{
    static const char *const names[PTX_SREGS] = {
        "%tid.x",   "%tid.y",   "%tid.z",    "%ntid.x",   "%ntid.y",   "%ntid.z", "%ctaid.x",
        "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid"};
    for (int k = 0; k < PTX_SREGS; k++)
        if (strcmp(text, names[k]) == 0)
            return k;
    return -1;
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool same_value(const unsigned char *list, uint64_t value, unsigned bytes)
{
    return memcmp(list, &value, bytes) == 0;
}

/* Returns where 32 copies of the value lie. The first 8 bytes behind the lanes of a shorter array
 * are its padding, so constants of different lengths never share a place. */
static ptx_ref constant(ptx_function *f, uint64_t value, unsigned bytes)
{
    const unsigned length = array_bytes(bytes);
    for (unsigned at = 0; at < f->constants;
         at += ALIGNMENT + ALIGNMENT * f->constant_units[at / ALIGNMENT])
        if (f->constant_units[at / ALIGNMENT] + 1u == length / ALIGNMENT &&
            same_value(f->constant + at, value, bytes))
            return ref_of(PTX_CONSTANT, at);
    const unsigned at = f->constants;
    unsigned char *grown = aligned_alloc(ALIGNMENT, at + length),
                  *units = ptx_new((at + length) / ALIGNMENT);
    if (!grown)
        ptx_new(SIZE_MAX); /* ends the process */
    if (at) {
        memcpy(grown, f->constant, at);
        memcpy(units, f->constant_units, at / ALIGNMENT);
    }
    for (unsigned lane = 0; lane < PTX_LANES; lane++)
        memcpy(grown + at + lane * bytes, &value, bytes);
    units[at / ALIGNMENT] = (unsigned char)(length / ALIGNMENT - 1);
    free(f->constant);
    free(f->constant_units);
    f->constant = grown;
    f->constant_units = units;
    f->constants += length;
    return ref_of(PTX_CONSTANT, at);
}

/* Reads 12, -3, 0x1F, 0f3F800000 (the bits of a float), 0d3FF0000000000000. */
static bool read_immediate(const char *text, uint64_t *value)
{
    char *end;
    const bool bits =
        text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D');
    errno = 0;
    *value = bits             ? strtoull(text + 2, &end, 16)
             : text[0] == '-' ? (uint64_t)strtoll(text, &end, 0)
                              : strtoull(text, &end, 0);
    if (*end == 'U')
        end++;
    return *text && !*end && !errno;
}

bool ptx_operand(ptx_decoder *d, const char *text, unsigned bytes, ptx_ref *ref)
{
    uint64_t value;
    const int special = special_of(text);
    if (special >= 0 && bytes == 4) {
        *ref = ref_of(PTX_SPECIAL_REGISTER, (unsigned)special * PTX_LANES * 4);
        return true;
    }
    const ptx_named *found = find_register(d, text);
    if (found) {
        if (found->bytes != bytes)
            return ptx_fault(d->fault, "%s: register %s has %u bytes, and its operand %u",
                             d->f->name, text, found->bytes, bytes);
        *ref = (ptx_ref)found->value;
        return true;
    }
    const ptx_named *variable = ptx_names_find(&d->variables, text);
    if (variable)
        value = (uint64_t)variable->value;
    else if (!read_immediate(text, &value))
        return ptx_fault(d->fault, "%s: unknown operand %s", d->f->name, text);
    *ref = constant(d->f, value, bytes);
    return true;
}
