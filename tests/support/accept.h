/* Can the sampler make this kernel?
 *
 * The answer is a replay: the kernel's nodes are appended one by one with the steps that the
 * sampler itself takes (growth.h), in every order that respects the edges until one order passes
 * all rules.  So there is no second copy of a rule that could differ from the first. */
#ifndef KAS_SUPPORT_ACCEPT_H
#define KAS_SUPPORT_ACCEPT_H

#include "host/space/canvas/sample_options.h"

/* KAS_OK when some derivation gives the kernel: the same structure, up to the order of operands
 * that commute; a size that the sampler leaves to the solver of budgets (6.3) may stand in the
 * kernel as a fixed one. Otherwise KAS_ILLEGAL and a sentence in `reason`, naming the node at which
 * the longest derivation ended, in the kernel's own numbering. Budgets are not asked: that is
 * kas_solve's business. KAS_USAGE for impossible options. */
kas_status kas_sampler_accepts(const kas_kernel *kernel, const kas_target *targets, int count,
                               const kas_sample_options *options, kas_buf *reason);

#endif
