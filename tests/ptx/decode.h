/* From a kernel's text to the form in which it runs: what the reader and the decoder share. */
#ifndef KAS_TESTS_PTX_DECODE_H
#define KAS_TESTS_PTX_DECODE_H

#include "ptx/form.h"
#include "ptx/names.h"

enum { PTX_OPERANDS = 8, PTX_STATEMENT = 2048 };

/* An instruction as text: "@!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8]". */
typedef struct ptx_statement {
    char *guard; /* "%p1" or NULL */
    bool negated;
    char *name; /* "ld.global.v2.f32" */
    char *operand[PTX_OPERANDS];
    int operands;
} ptx_statement;

typedef struct ptx_decoder {
    ptx_function *f;
    ptx_names registers, groups, variables, labels; /* groups: registers by the name's begin */
    struct {
        char label[PTX_NAME];
        int instruction;
    } * branch;
    int branches, branch_room;
    char *fault;
} ptx_decoder;

/* Finds an operand of that many bytes: a register, an immediate or a variable's address. */
bool ptx_operand(ptx_decoder *d, const char *text, unsigned bytes, ptx_ref *ref);
bool ptx_predicate(ptx_decoder *d, const char *text, int16_t *number);
/* Sets how many bytes a register has; 0 for what is no register. */
unsigned ptx_register_bytes(ptx_decoder *d, const char *text);

/* Decodes a statement into *i, which is zeroed but for its line and text. */
bool ptx_decode(ptx_decoder *d, ptx_statement *s, ptx_instruction *i);

#endif
