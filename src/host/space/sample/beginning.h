/* Beginnings of kernels, for strategies that choose how a kernel begins and leave the rest of it to
 * the guided sampler.
 *
 * Beginnings form a tree.  Beginning 0 is the input alone.  A beginning has choices: first a type
 * of primitive, as the sampler draws it, and behind the type its candidate operations.  One choice
 * is a candidate operation together with all that it settles: the value that matching gives a size
 * (6.2), and, where no primitive before it needed them, the group number and the way of cutting.
 * The number of primitives is no choice, and neither are the sizes that the budget decides.
 *
 * The choices are those after which a kernel with the most primitives allowed could still be
 * completed (canvas/guide.h), so what they begin obeys the rules for samples.  A beginning and its
 * choices follow from the options, the targets and the way to it.  Different ways may lead to the
 * same kernel.  Other folders include this header. */
#ifndef KAS_SPACE_SAMPLE_BEGINNING_H
#define KAS_SPACE_SAMPLE_BEGINNING_H

#include "host/space/attempt.h"
#include "host/space/canvas/sample_options.h"
#include "host/space/solve/replacement.h"

/* Raised when a change of the code alters what an attempt gives; part of the random key. */
enum { KAS_BEGINNINGS_VERSION = 1 };

/* For one thread at a time. */
typedef struct kas_beginnings kas_beginnings;

/* Copies options and targets, and makes beginning 0. KAS_USAGE for options that nothing can meet,
 * and for `--space nas-pte`. */
kas_status kas_beginnings_create(const kas_sample_options *options, const kas_target *targets,
                                 int count, kas_beginnings **out);
void kas_beginnings_free(kas_beginnings *beginnings);

/* Makes the beginning that a choice leads to, and returns its number: the next one. No choice is
 * taken twice. */
kas_status kas_beginnings_extend(kas_beginnings *beginnings, int beginning, int choice, int *out);

/* Returns the number of choices of a beginning. */
int kas_beginnings_choices(const kas_beginnings *beginnings, int beginning);
/* Returns what choices at different beginnings have in common: the type, or the primitive with its
 * attributes, group number and way of cutting, whichever tensors it reads. */
uint64_t kas_beginnings_key(const kas_beginnings *beginnings, int beginning, int choice);
/* Returns whether a kernel may begin so: a type without a candidate operation leads nowhere. */
bool kas_beginnings_is_open(const kas_beginnings *beginnings, int beginning);

/* Returns the choice by which a kernel goes on that has begun so, in the order of its nodes, or -1:
 * the kernel is complete, or no sample goes on so. */
int kas_beginnings_choice_of(const kas_beginnings *beginnings, int beginning,
                             const kas_kernel *kernel);

/* Lists the keys of all primitives of a kernel, two for each: of its type, then of the primitive.
 * Returns their number. */
int kas_beginnings_keys(const kas_kernel *kernel, uint64_t key[2 * KAS_MAX_NODES]);

/* Makes one attempt at a kernel with this beginning: draws the number of primitives, what the
 * beginning leaves open, and the rest. A pure function of `key`, the beginning, the options (with
 * their seed) and the targets. Results are those of kas_sample_attempt (sampler.h); the targets of
 * *out are the context's, which must outlive it. */
kas_status kas_beginnings_attempt(kas_beginnings *beginnings, int beginning, uint64_t key,
                                  kas_replacement *out, kas_attempt *how);

#endif
