#include "support/accept.h"

#include "host/space/canvas/guide.h"
#include "host/space/commute.h"
#include "host/space/primitive.h"

enum { MOST_TRIES = 200000 }; /* steps tried in all; a known kernel needs one or two per node */

typedef struct replay {
    kas_growth *g;
    kas_guide guide;
    const kas_kernel *wanted;
    int place[KAS_MAX_NODES]; /* place of a wanted node in the growth; -1 = not there yet */
    int owner[KAS_MAX_VARS];  /* the wanted node whose size a variable of the growth is */
    int skip;                 /* fitting values to pass over: they were tried before */
    bool picked;              /* did the step choose a value? then there may be another */
    int tries;
    int deepest, stuck; /* nodes of the longest derivation, and the wanted node that it lacks */
    const char *refused;
} replay;

/* Translates a size of the growth to the wanted kernel's sizes. */
static bool translate(const replay *r, const kas_dim *size, kas_dim *out)
{
    int x = kas_dim_var(size);
    *out = *size;
    return x < 0 || kas_dim_substitute(size, x, &r->wanted->node[r->owner[x]].out, out);
}

/* Picks the value that the variable has in the wanted kernel. Several can be equal there: C, and a
 * variable that becomes C later. */
static int pick_wanted(void *context, const kas_candidate_op *use, int var,
                       const kas_value *const *value, int count)
{
    (void)use;
    replay *r = context;
    const kas_dim *wanted = &r->wanted->node[r->owner[var]].out;
    int skip = r->skip;
    kas_dim found;
    for (int i = 0; i < count; i++)
        if (translate(r, &value[i]->size, &found) && kas_dim_equal(&found, wanted) && skip-- == 0) {
            r->picked = true;
            return i;
        }
    return -1;
}

static kas_candidate_op use_of(const replay *r, int n)
{
    const kas_node *node = &r->wanted->node[n];
    kas_candidate_op use = kas_node_candidate_op(node);
    for (int k = 0; k < node->inputs; k++)
        use.in[k] = (uint8_t)r->place[node->in[k]];
    if (kas_operands_commute(r->wanted, node) && use.in[0] > use.in[1]) { /* as the steps make it */
        const uint8_t first = use.in[1];
        use.in[1] = use.in[0];
        use.in[0] = first;
    }
    if (use.kernel && use.kernel == r->guide.equal_window)
        use.kernel = 0;
    return use;
}

static bool is_next(const replay *r, int n)
{
    const kas_node *node = &r->wanted->node[n];
    bool ready = r->place[n] < 0;
    for (int k = 0; k < node->inputs; k++)
        ready = ready && r->place[node->in[k]] >= 0;
    return ready;
}

static void note_failure(replay *r, int n, const char *why)
{
    if (r->g->kernel.nodes <= r->deepest)
        return;
    r->deepest = r->g->kernel.nodes;
    r->stuck = n;
    r->refused = why;
}

static const char *const refusals[] = {
    [KAS_REFUSED_WIDTH] = "too many leaves, or more than the primitives left can merge",
    [KAS_REFUSED_VALUE] = "no value of a free size makes LHS tile RHS as wanted",
    [KAS_REFUSED_SHAPE] = "its shape rule forbids it",
    [KAS_REFUSED_IMAGE] = "its weight would span the image",
    [KAS_REFUSED_PRUNED] = "a pruning rule forbids it",
    [KAS_REFUSED_SIZE] = "a size would be no integer at some target",
    [KAS_REFUSED_OUTPUT] = "the output would not be [C, H, W]"};

/* Tries one step with the rules of the sampler. */
static bool try_step(replay *r, const kas_candidate_op *use, const char **why)
{
    kas_growth *g = r->g;
    *why = "the options do not allow it";
    if (!kas_candidate_op_passes(&r->guide.filter, use))
        return false;
    if (!kas_growth_try(g, use, pick_wanted, r)) {
        *why = refusals[g->refused];
        return false;
    }
    const kas_reject refused = kas_guide_admits(&r->guide);
    *why = kas_reject_name(refused);
    if (refused != KAS_REJECT_NONE)
        kas_growth_undo(g);
    return refused == KAS_REJECT_NONE;
}

/* Returns whether the sizes that the steps fixed agree with the wanted ones, once every
 * node is there. */
static bool ends_well(replay *r)
{
    const kas_kernel *wanted = r->wanted;
    const kas_reject why = kas_guide_finish(&r->guide);
    if (why != KAS_REJECT_NONE) {
        note_failure(r, wanted->nodes - 1, kas_reject_name(why));
        return false;
    }
    for (int n = 0; n < wanted->nodes; n++) {
        kas_dim size;
        if (kas_node_has_out(&wanted->node[n]) &&
            !(translate(r, &r->g->kernel.node[r->place[n]].out, &size) &&
              kas_dim_equal(&size, &wanted->node[n].out))) {
            note_failure(r, n, "the sampler's steps give its output another size");
            return false;
        }
    }
    return true;
}

static bool derive(replay *r);

/* Appends wanted node n in every way that fits its sizes, and goes on from there. */
static bool derive_with(replay *r, int n)
{
    kas_growth *g = r->g;
    kas_candidate_op use = use_of(r, n);
    const char *why;
    r->picked = true;
    for (int skip = 0; r->picked && r->tries++ < MOST_TRIES; skip++) {
        if (kas_node_has_out(&r->wanted->node[n]) && g->vars < KAS_MAX_VARS)
            r->owner[g->vars] = n;
        r->skip = skip;
        r->picked = false;
        if (!try_step(r, &use, &why)) {
            if (skip == 0)
                note_failure(r, n, why);
            continue;
        }
        bool picked = r->picked;
        r->place[n] = g->kernel.nodes - 1;
        if (derive(r))
            return true;
        r->place[n] = -1;
        kas_growth_undo(g);
        r->picked = picked;
    }
    return false;
}

static bool derive(replay *r)
{
    if (r->g->kernel.nodes == r->wanted->nodes)
        return ends_well(r);
    for (int n = 1; n < r->wanted->nodes; n++)
        if (is_next(r, n) && derive_with(r, n))
            return true;
    return false;
}

static kas_status refuse(kas_buf *reason, const char *why)
{
    kas_buf_puts(reason, why);
    return reason->failed ? kas_buf_status(reason) : kas_fail(KAS_ILLEGAL, "%s", why);
}

/* Checks what the replay does not look at: the sampler has one group number, from a fixed set. */
static kas_status check_groups(const kas_kernel *kernel, const kas_target *targets, int count,
                               kas_buf *reason)
{
    uint32_t numbers[64];
    int found = kas_group_numbers(targets, count, numbers);
    for (int g = 1; g < KAS_MAX_GROUPS; g++)
        if (kernel->group_value[g])
            return refuse(reason, "the sampler uses one group number, G0");
    if (kernel->group_value[0] == 0)
        return KAS_OK;
    for (int i = 0; i < found; i++)
        if (numbers[i] == kernel->group_value[0])
            return KAS_OK;
    return refuse(reason, "the value of G0 does not divide the channels of every target");
}

static kas_status check_length(const kas_kernel *kernel, const kas_sample_options *options,
                               kas_buf *reason)
{
    int primitives = kernel->nodes - 1;
    if (primitives >= options->min_primitives && primitives <= options->max_primitives)
        return KAS_OK;
    return refuse(reason, "its number of primitives is outside the range of the options");
}

static kas_status tell(const replay *r, kas_buf *reason)
{
    kas_buf text = {0};
    const kas_op_info *info = kas_op_get(r->wanted->node[r->stuck].op);
    kas_buf_printf(&text, "node %d (%s): %s", r->stuck, info->name, r->refused);
    kas_status status = text.failed ? kas_buf_status(&text) : refuse(reason, kas_buf_text(&text));
    kas_buf_free(&text);
    return status;
}

static kas_status replay_kernel(replay *r, const kas_target *targets, int count,
                                const kas_sample_options *options, kas_buf *reason)
{
    KAS_TRY(kas_growth_create(options, targets, count, &r->g));
    KAS_TRY(kas_guide_create(options, targets, count, r->g, &r->guide));
    kas_growth_begin(r->g, r->wanted->nodes - 1, r->wanted->group_value[0], r->wanted->split);
    kas_guide_begin(&r->guide);
    for (int n = 1; n < KAS_MAX_NODES; n++)
        r->place[n] = -1;
    return derive(r) ? KAS_OK : tell(r, reason);
}

kas_status kas_sampler_accepts(const kas_kernel *kernel, const kas_target *targets, int count,
                               const kas_sample_options *options, kas_buf *reason)
{
    kas_kernel checked = *kernel;
    kas_sample_options any_cost = *options;
    any_cost.budget.max_flops_ratio = any_cost.budget.max_params_ratio = 0;
    if (kas_kernel_infer(&checked) != KAS_OK)
        return refuse(reason, kas_error());
    KAS_TRY(check_length(kernel, options, reason));
    KAS_TRY(check_groups(kernel, targets, count, reason));
    replay r = {.wanted = kernel, .refused = "no order of its nodes was found"};
    kas_status status = replay_kernel(&r, targets, count, &any_cost, reason);
    kas_guide_free(&r.guide);
    kas_growth_free(r.g);
    return status;
}
