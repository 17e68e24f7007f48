/* Decides whether the sampler can make a given kernel.
 *
 * The decision is a replay: the kernel's nodes are appended one by one with the steps that the
 * sampler itself takes (growth.h), in every order that respects the edges, until one order passes
 * all rules. So there is no second copy of a rule that could differ from the first. */
#ifndef KAS_SUPPORT_ACCEPT_H
#define KAS_SUPPORT_ACCEPT_H

#include "host/space/canvas/sample_options.h"

/* Returns KAS_OK when some derivation gives the kernel: the same structure, up to the order of
 * operands that commute. A size that the sampler leaves to the solver of budgets (6.3) may be fixed
 * in the kernel. Otherwise returns KAS_ILLEGAL and appends a sentence to `reason` that names, in
 * the kernel's own numbering, the node at which the longest derivation ended. FLOPs and parameters
 * are not checked; kas_solve does that. Returns KAS_USAGE for options that cannot be met. */
kas_status kas_sampler_accepts(const kas_kernel *kernel, const kas_target *targets, int count,
                               const kas_sample_options *options, kas_buf *reason);

#endif
