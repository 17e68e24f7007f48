/* The form in which a kernel is executed: what the reader makes of PTX's text, and the rest reads.
 *
 * A virtual register is an array of 32 values, one for each lane of a warp. An operand says in
 * which of three places its array lies: among the warp's registers, among the function's constants
 * (immediates and addresses), or among what PTX calls special registers (%tid.x, ...). */
#ifndef KAS_TESTS_PTX_FORM_H
#define KAS_TESTS_PTX_FORM_H

#include "ptx/lanes.h"
#include "ptx/ptx.h"

enum { PTX_LANES = 32, PTX_NAME = 160, PTX_VECTOR = 4, PTX_THREADS = 1024 };
enum { PTX_MMA_PARTS = 14 }; /* registers of mma.sync: 4 of d, 4 of a, 2 of b, 4 of c */

/* A place (the upper two bits) and a byte offset. */
typedef uint32_t ptx_ref;
typedef enum ptx_place { PTX_REGISTER, PTX_CONSTANT, PTX_SPECIAL_REGISTER } ptx_place;
enum { PTX_PLACE_SHIFT = 30, PTX_OFFSET = (1 << PTX_PLACE_SHIFT) - 1 };

/* The special registers, 32 numbers each. */
typedef enum ptx_sreg {
    PTX_TID_X,
    PTX_TID_Y,
    PTX_TID_Z,
    PTX_NTID_X,
    PTX_NTID_Y,
    PTX_NTID_Z,
    PTX_CTAID_X,
    PTX_CTAID_Y,
    PTX_CTAID_Z,
    PTX_NCTAID_X,
    PTX_NCTAID_Y,
    PTX_NCTAID_Z,
    PTX_LANEID,
    PTX_SREGS
} ptx_sreg;

/* The address spaces, and where each but the global one lies: no allocation of this machine has an
 * address below 2^32. So an address says of which space it is, and generic ones need no more. */
typedef enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_SHARED_SPACE,
    PTX_LOCAL_SPACE,
    PTX_PARAM
} ptx_space;
#define PTX_SHARED_BASE 0x10000000u
#define PTX_PARAM_BASE 0x20000000u
#define PTX_LOCAL_BASE 0x40000000u
#define PTX_GLOBAL_BASE 0x100000000u

typedef enum ptx_kind {
    PTX_ALU,       /* d = fn(a, b, c), all of them registers */
    PTX_SET,       /* a predicate from registers */
    PTX_PREDICATE, /* a predicate from predicates */
    PTX_INSERT,    /* bfi: b with bits of a at c, as many as part[0] says */
    PTX_SELECT,    /* one of two registers by a predicate */
    PTX_PACK,      /* one register from parts of it */
    PTX_UNPACK,
    PTX_LOAD_KIND,
    PTX_STORE_KIND,
    PTX_COPY_KIND, /* cp.async: from global memory at b to shared memory at a */
    PTX_COPIED,    /* cp.async.wait_all */
    PTX_SHUFFLE_KIND,
    PTX_MMA_KIND, /* all its registers are parts */
    PTX_BARRIER_KIND,
    PTX_BRANCH_KIND,
    PTX_RETURN
} ptx_kind;
typedef enum ptx_logic { PTX_AND, PTX_OR, PTX_XOR, PTX_NOT, PTX_MOVE } ptx_logic;
typedef enum ptx_shuffle { PTX_BFLY, PTX_DOWN, PTX_UP, PTX_IDX } ptx_shuffle;
typedef enum ptx_mma { PTX_MMA_TF32, PTX_MMA_BF16, PTX_MMA_F16 } ptx_mma; /* the dtype of a and b */

typedef struct ptx_instruction {
    uint8_t kind, class, space;
    uint8_t size;   /* bytes of a value of d; of an element in memory; of a part */
    uint8_t count;  /* elements of a vector, parts of a pack */
    uint8_t mode;   /* ptx_logic, ptx_shuffle, ptx_mma; whether a load extends signs */
    uint8_t wide;   /* bytes of a register that is loaded or stored */
    bool read_only; /* ld.global.nc */
    bool moves;     /* only a copy: ptxas gives both registers one place */
    bool negated;   /* the guard counts where it is false */
    int16_t guard;  /* predicate, or -1 */
    int16_t p[3];   /* predicates: destination and operands, or -1 */
    int line;       /* of the text */
    const char *text;
    int target, rejoin; /* of a branch: where it leads, where both ways meet (-1: at the end) */
    int64_t offset;     /* of an address; of a constant in p: see PTX_PREDICATE */
    ptx_ref d, a, b, c; /* an address is a */
    ptx_ref part[PTX_MMA_PARTS];
    ptx_lanes_fn *fn;
} ptx_instruction;

struct ptx_function {
    char name[PTX_NAME];
    ptx_instruction *code;
    int length, room;
    unsigned registers, constants; /* bytes */
    unsigned char *constant,
        *constant_units; /* units: how long a constant is, in 64 bytes less 1 */
    int predicates;
    size_t args_bytes, shared_bytes, local_bytes;
    ptx_counts counts;
    uint64_t *hits, *lanes; /* of each instruction, until ptx_count adds them up */
    char *strings;          /* what the instructions' texts point into */
};

/* flow.c: finds where the ways of each branch meet. */
void ptx_find_joins(ptx_function *function);

/* Fails the reading or the launch with a message; see fault.c. */
bool ptx_fault(char fault[PTX_FAULT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void *ptx_new(size_t bytes); /* zeroed; ends the process when there is none */

#endif
