#include "cuda/nvrtc/resources.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An attribute of .nv.info: u8 format, u8 attribute, u16 size or value. In the format SIZED `size`
 * bytes follow, here two u32: index of the kernel's symbol, value. */
enum { SIZED = 4, REGISTERS = 0x2f, FRAME_SIZE = 0x11, HEADER = 4, PAIR = 8 };
/* An instruction: its low 9 bits say what it does, three bits of the upper half how many
 * bytes it moves. */
enum { INSTRUCTION = 16, OPCODE = 0x1ff, SIZE_SHIFT = 9, SIZE_MASK = 7, SIZE_16_BYTES = 6 };
enum { LOAD = 0x180, LOAD_GLOBAL = 0x181, STORE = 0x185, STORE_GLOBAL = 0x186 };
enum { KERNEL_ENTRY = 0x10 }; /* a symbol's st_other: not so for what a kernel calls (a division) */

typedef struct cubin {
    const unsigned char *data;
    size_t size;
    Elf64_Ehdr header;
    Elf64_Shdr names, symbols, symbol_names, info;
} cubin;

static kas_status damaged(const char *what)
{
    return kas_fail(KAS_BAD_INPUT, "cubin: %s", what);
}

/* Copies a part of the image out, after checking that it is there: the image is not aligned and may
 * be cut off. */
static bool copy(const cubin *c, uint64_t at, size_t size, void *to)
{
    if (at > c->size || size > c->size - at)
        return false;
    memcpy(to, c->data + at, size);
    return true;
}

/* Returns a name of a table of strings; NULL where it would leave the table or has no end. */
static const char *string_at(const cubin *c, const Elf64_Shdr *table, uint32_t offset)
{
    if (table->sh_offset > c->size || table->sh_size > c->size - table->sh_offset ||
        offset >= table->sh_size)
        return NULL;
    const char *text = (const char *)c->data + table->sh_offset + offset;
    return memchr(text, 0, table->sh_size - offset) ? text : NULL;
}

static bool section(const cubin *c, unsigned number, Elf64_Shdr *out)
{
    return number < c->header.e_shnum &&
           copy(c, c->header.e_shoff + (uint64_t)number * sizeof *out, sizeof *out, out);
}

static kas_status find_sections(cubin *c)
{
    bool symbols = false, info = false;
    for (unsigned i = 0; i < c->header.e_shnum; i++) {
        Elf64_Shdr s;
        if (!section(c, i, &s))
            return damaged("its list of sections is cut off");
        const char *name = string_at(c, &c->names, s.sh_name);
        if (s.sh_type == SHT_SYMTAB) {
            c->symbols = s;
            symbols = section(c, s.sh_link, &c->symbol_names);
        } else if (name && strcmp(name, ".nv.info") == 0) {
            c->info = s;
            info = true;
        }
    }
    if (!symbols || !info)
        return damaged("it has no kernels");
    if (c->info.sh_offset > c->size || c->info.sh_size > c->size - c->info.sh_offset)
        return damaged("its attributes are cut off");
    return KAS_OK;
}

static kas_status open_cubin(const void *image, size_t size, cubin *c)
{
    *c = (cubin){.data = image, .size = size};
    if (!copy(c, 0, sizeof c->header, &c->header) ||
        memcmp(c->header.e_ident, ELFMAG, SELFMAG) != 0 ||
        c->header.e_ident[EI_CLASS] != ELFCLASS64 || c->header.e_shentsize != sizeof(Elf64_Shdr))
        return damaged("the image is not one");
    if (!section(c, c->header.e_shstrndx, &c->names))
        return damaged("its list of sections is cut off");
    return find_sections(c);
}

static const char *symbol_name(const cubin *c, uint32_t index, bool *is_kernel)
{
    Elf64_Sym symbol;
    if (index >= c->symbols.sh_size / sizeof symbol ||
        !copy(c, c->symbols.sh_offset + (uint64_t)index * sizeof symbol, sizeof symbol, &symbol))
        return NULL;
    *is_kernel = symbol.st_other & KERNEL_ENTRY;
    return string_at(c, &c->symbol_names, symbol.st_name);
}

/* Returns the entry of a kernel, which is made when it is new; there is room for one more than
 * there are. */
static kas_resources *entry(kas_resources *list, int *count, const char *name)
{
    for (int i = 0; i < *count; i++)
        if (strncmp(list[i].name, name, sizeof list[i].name - 1) == 0)
            return &list[i];
    kas_resources *new = &list[(*count)++];
    *new = (kas_resources){.registers = 0};
    snprintf(new->name, sizeof new->name, "%s", name);
    return new;
}

static kas_status read_attribute(const cubin *c, uint64_t at, int attribute, kas_resources *list,
                                 int *count)
{
    uint32_t pair[2];
    bool is_kernel;
    if (!copy(c, at, sizeof pair, pair))
        return damaged("an attribute is cut off");
    const char *name = symbol_name(c, pair[0], &is_kernel);
    if (!name || pair[1] > INT32_MAX)
        return damaged("an attribute belongs to no symbol");
    if (!is_kernel)
        return KAS_OK;
    kas_resources *kernel = entry(list, count, name);
    if (attribute == REGISTERS)
        kernel->registers = (int)pair[1];
    else
        kernel->local_bytes = (int)pair[1];
    return KAS_OK;
}

static kas_status read_info(const cubin *c, kas_resources *list, int *count)
{
    uint64_t at = c->info.sh_offset, end = at + c->info.sh_size;
    while (at + HEADER <= end) {
        unsigned char format = c->data[at], attribute = c->data[at + 1];
        const size_t size = format == SIZED ? c->data[at + 2] | (size_t)c->data[at + 3] << 8 : 0;
        at += HEADER;
        if (format == SIZED && size == PAIR && (attribute == REGISTERS || attribute == FRAME_SIZE))
            KAS_TRY(read_attribute(c, at, attribute, list, count));
        at += size;
    }
    return KAS_OK;
}

static kas_status read_instructions(const cubin *c, const Elf64_Shdr *text, kas_resources *kernel)
{
    if (text->sh_offset > c->size || text->sh_size > c->size - text->sh_offset)
        return damaged("its instructions are cut off");
    static const int bytes[SIZE_MASK + 1] = {1, 1, 2, 2, 4, 8, 16, 16};
    for (uint64_t at = 0; at + INSTRUCTION <= text->sh_size; at += INSTRUCTION) {
        uint64_t half[2];
        memcpy(half, c->data + text->sh_offset + at, sizeof half);
        const int opcode = (int)(half[0] & OPCODE);
        if (opcode != LOAD && opcode != LOAD_GLOBAL && opcode != STORE && opcode != STORE_GLOBAL)
            continue;
        const int size = (int)(half[1] >> SIZE_SHIFT & SIZE_MASK);
        const bool wide = size == SIZE_16_BYTES, store = opcode == STORE || opcode == STORE_GLOBAL;
        kernel->accesses++;
        kernel->bytes += bytes[size];
        kernel->wide += wide;
        kernel->wide_stores += wide && store;
    }
    return KAS_OK;
}

/* Counts the accesses of the kernels that are known; what they call has instructions too. */
static kas_status read_texts(const cubin *c, kas_resources *list, int count)
{
    static const char prefix[] = ".text.";
    for (unsigned i = 0; i < c->header.e_shnum; i++) {
        Elf64_Shdr s;
        if (!section(c, i, &s))
            return damaged("its list of sections is cut off");
        const char *name = string_at(c, &c->names, s.sh_name);
        if (!name || strncmp(name, prefix, sizeof prefix - 1) != 0)
            continue;
        for (int k = 0; k < count; k++)
            if (strncmp(list[k].name, name + sizeof prefix - 1, sizeof list[k].name - 1) == 0)
                KAS_TRY(read_instructions(c, &s, &list[k]));
    }
    return KAS_OK;
}

kas_status kas_cubin_resources(const void *image, size_t size, kas_resources **out, int *count)
{
    cubin c;
    *out = NULL;
    *count = 0;
    KAS_TRY(open_cubin(image, size, &c));
    /* An attribute takes 12 bytes and adds at most one kernel */
    kas_resources *list = calloc(c.info.sh_size / (HEADER + PAIR) + 1, sizeof *list);
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "no memory for the kernels of a cubin");
    kas_status status = read_info(&c, list, count);
    if (status == KAS_OK)
        status = read_texts(&c, list, *count);
    if (status != KAS_OK) {
        free(list);
        return status;
    }
    *out = list;
    return KAS_OK;
}
