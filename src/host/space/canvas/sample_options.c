#include "host/space/canvas/sample_options.h"

#include "host/core/integer.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/weights.h"

enum { MOST = KAS_MAX_NODES - 1 };

kas_sample_options kas_sample_defaults(void)
{
    return (kas_sample_options){.per_layer = KAS_PER_LAYER_AUTO,
                                .min_primitives = 3,
                                .max_primitives = 12,
                                .max_width = 3,
                                .min_weighted = 1,
                                .max_weighted = MOST};
}

const char *const kas_space_names[] = {
    [KAS_SPACE_CANVAS] = "canvas", [KAS_SPACE_NAS_PTE] = "nas-pte", [KAS_SPACE_COUNT] = NULL};
static const char *const per_layer[] = {"no", "yes", "auto", NULL};
static const char *operations[KAS_OP_COUNT + 1]; /* names by kas_op, NULL at the end */

#define AT(member) .offset = offsetof(kas_sample_options, member), .optional = true
#define INTEGER .type = KAS_FIELD_INTEGER
#define LIST .type = KAS_FIELD_LIST
#define WORDS .type = KAS_FIELD_WORDS, .choices = operations, .argument = "LIST"

static const kas_field fields[] = {
    {"per_layer", "--per-layer", KAS_FIELD_CHOICE, AT(per_layer), .choices = per_layer,
     .absent = KAS_PER_LAYER_NO, .argument = "yes|no|auto",
     .help =
         "A sequence of its own for each layer, or one for all; auto: yes with --space nas-pte"},
    {"min_primitives", "--min-primitives", INTEGER, AT(min_primitives), .low = 1, .high = MOST,
     .absent = 3, .argument = "N", .help = "Fewest primitives in a kernel"},
    {"max_primitives", "--max-primitives", INTEGER, AT(max_primitives), .low = 1, .high = MOST,
     .absent = 12, .argument = "N", .help = "Most primitives in a kernel"},
    {"max_width", "--max-width", INTEGER, AT(max_width), .low = 1, .high = MOST, .absent = 3,
     .argument = "N", .help = "Most branches at once"},
    {"min_weighted", "--min-weighted", INTEGER, AT(min_weighted), .low = 0, .high = MOST,
     .absent = 1, .argument = "N", .help = "Fewest primitives with weights"},
    {"max_weighted", "--max-weighted", INTEGER, AT(max_weighted), .low = 0, .high = MOST,
     .absent = MOST, .argument = "N", .help = "Most primitives with weights"},
    {"min_receptive", "--min-receptive", INTEGER, AT(min_receptive), .low = 0, .high = 8192,
     .argument = "K",
     .help =
         "Smallest receptive field along H or W, in pixels; 0: 2, or 1 where all targets are 1x1"},
    {"allow", "--allow", WORDS, AT(allowed),
     .help = "Primitives to use, such as fc,unfold,add (default all)"},
    {"forbid", "--forbid", WORDS, AT(forbidden), .help = "Primitives not to use (default none)"},
    {"require", "--require", WORDS, AT(required),
     .help = "Primitives that every kernel has (default none)"},
    {"kernels", "--kernels", LIST, AT(kernels), .low = 0, .high = KAS_MAX_WINDOW,
     .argument = "LIST",
     .help = "Windows: 3, 5, 7; 0: that of the replaced convolution (default all)"},
    {"dilations", "--dilations", LIST, AT(dilations), .low = 1, .high = KAS_MAX_DILATION,
     .argument = "LIST", .help = "Dilations of windows (default all)"},
    {"shifts", "--shifts", LIST, AT(shifts), .low = -KAS_MAX_SHIFT, .high = KAS_MAX_SHIFT,
     .argument = "LIST", .help = "Distances of shifts in pixels (default all)"},
    {"spatial_weights", "--spatial-weights", KAS_FIELD_FLAG, AT(spatial_weights),
     .argument = "on|off", .help = "Sizes may hold H and W: such kernels fit one image size only"},
};

const kas_field *kas_sample_fields(int *count)
{
    for (int op = 0; op < KAS_OP_COUNT; op++)
        operations[op] = kas_op_get((kas_op)op)->name;
    *count = sizeof fields / sizeof *fields;
    return fields;
}

uint64_t kas_sample_operations(const kas_sample_options *o)
{
    uint64_t all = KAS_OP_BIT(KAS_OP_COUNT) - 1;
    return (o->allowed ? o->allowed : all) & ~o->forbidden & ~KAS_OP_BIT(KAS_OP_INPUT);
}

static kas_status check_ranges(const kas_sample_options *o)
{
    if (o->min_primitives < 1 || o->max_primitives > MOST || o->min_primitives > o->max_primitives)
        return kas_fail(KAS_USAGE,
                        "--min-primitives %d, --max-primitives %d: from 1 to %d are possible, in "
                        "this order",
                        o->min_primitives, o->max_primitives, MOST);
    if (o->max_width < 1)
        return kas_fail(KAS_USAGE, "--max-width %d: at least 1 is needed", o->max_width);
    if (o->min_weighted > o->max_weighted || o->min_weighted > o->max_primitives)
        return kas_fail(KAS_USAGE,
                        "--min-weighted %d is more than --max-weighted %d or --max-primitives %d",
                        o->min_weighted, o->max_weighted, o->max_primitives);
    return KAS_OK;
}

static kas_status check_required(const kas_sample_options *o)
{
    uint64_t missing = o->required & ~kas_sample_operations(o);
    for (int op = 0; op < KAS_OP_COUNT; op++)
        if (missing & KAS_OP_BIT(op))
            return kas_fail(KAS_USAGE, "--require %s: --allow or --forbid leaves it out",
                            kas_op_get((kas_op)op)->name);
    if (kas_count_bits(o->required) > o->max_primitives)
        return kas_fail(KAS_USAGE, "--require names %d primitives, but --max-primitives is %d",
                        kas_count_bits(o->required), o->max_primitives);
    return KAS_OK;
}

static kas_status check_lists(const kas_sample_options *o)
{
    for (int i = 0; i < o->kernels.count; i++)
        if (o->kernels.value[i] != 0 && (o->kernels.value[i] < 3 || o->kernels.value[i] % 2 == 0))
            return kas_fail(KAS_USAGE, "--kernels %d: expected 0, 3, 5 or 7", o->kernels.value[i]);
    for (int i = 0; i < o->shifts.count; i++)
        if (o->shifts.value[i] == 0)
            return kas_fail(KAS_USAGE, "--shifts 0: expected a distance other than 0");
    return KAS_OK;
}

/* Checks that what a kernel must do is possible with the primitives that are allowed. */
static kas_status check_abilities(const kas_sample_options *o)
{
    uint64_t ops = kas_sample_operations(o);
    bool weighted = false, spatial = false;
    for (int op = 0; op < KAS_OP_COUNT; op++) {
        weighted = weighted || (ops & KAS_OP_BIT(op) && kas_op_has_weight((kas_op)op));
        spatial = spatial || (ops & KAS_OP_BIT(op) && kas_op_has_trait(op, KAS_TRAIT_SPATIAL));
    }
    if (o->min_weighted > 0 && !weighted)
        return kas_fail(KAS_USAGE,
                        "--min-weighted %d: --allow or --forbid leaves no primitive with weights",
                        o->min_weighted);
    if (o->min_receptive > 1 && !spatial)
        return kas_fail(KAS_USAGE,
                        "--min-receptive %d: --allow or --forbid leaves no primitive that looks at "
                        "a neighbour",
                        o->min_receptive);
    return KAS_OK;
}

/* Checks options for NAS-PTE's space. Its kernels are not grown from primitives, so there is
 * nothing to choose among primitives. */
static kas_status check_nas_pte(const kas_sample_options *o)
{
    const kas_sample_options usual = kas_sample_defaults();
    if (!o->allowed && !o->forbidden && !o->required && !o->min_receptive &&
        o->min_weighted == usual.min_weighted && o->max_weighted == usual.max_weighted &&
        !o->kernels.count && !o->dilations.count && !o->shifts.count &&
        o->min_primitives == usual.min_primitives && o->max_primitives == usual.max_primitives &&
        o->max_width == usual.max_width && !o->spatial_weights)
        return KAS_OK;
    return kas_fail(KAS_USAGE,
                    "--space nas-pte: its kernels are transformed convolutions; numbers and lists "
                    "of primitives, --max-width, windows, dilations, shifts, --min-receptive and "
                    "--spatial-weights belong to --space canvas");
}

bool kas_sample_is_per_layer(const kas_sample_options *o)
{
    return o->space == KAS_SPACE_NAS_PTE && o->per_layer != KAS_PER_LAYER_NO;
}

kas_status kas_sample_options_check(const kas_sample_options *o)
{
    KAS_TRY(check_ranges(o));
    if (o->space != KAS_SPACE_NAS_PTE && o->per_layer == KAS_PER_LAYER_YES)
        return kas_fail(KAS_USAGE, "--per-layer yes: only --space nas-pte chooses for each layer");
    if (o->space == KAS_SPACE_NAS_PTE)
        return check_nas_pte(o);
    KAS_TRY(check_lists(o));
    KAS_TRY(check_required(o));
    return check_abilities(o);
}
