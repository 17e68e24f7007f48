/* Fuzz test of the kernel file reader and of what stands behind it.
 *
 * A case mutates a kernel file and reads it (fuzz_run.h).  The reader accepts or refuses with a
 * message that names the file; what it accepts must go all the way: shapes, canonical form, both
 * solvers, description, picture, the plain checker, and a written file that reads back as the same
 * kernel, byte for byte. Those that both solvers give sizes count as having gone all the way. */
#include "fuzz_run.h"
#include "host/check/plain.h"
#include "host/space/canonical.h"
#include "host/space/describe.h"
#include "host/space/file/kernel_json.h"
#include "host/space/sample/sampler.h"
#include "kernel_mutate.h"
#include "targets.h"

enum { SAMPLED = 48 }; /* kernels of the sampler in the first corpus */

/* ---- the first corpus ------------------------------------------------------------------------ */

static void add_sampled_kernels(void)
{
    kas_sample_options options = kas_sample_defaults();
    kas_sampler *sampler;
    MUST(kas_sampler_create(&options, even, TARGETS, &sampler) == KAS_OK);
    for (int i = 0; i < SAMPLED; i++) {
        kas_sample sample;
        kas_buf text = {0};
        MUST(kas_sampler_next(sampler, 0, &sample) == KAS_OK);
        MUST(kas_kernel_write_json(sample.replacement.kernel, &sample.replacement.solution,
                                   &text) == KAS_OK);
        fuzz_add(text.data, text.size);
        kas_sample_free(&sample);
        kas_buf_free(&text);
    }
    kas_sampler_free(sampler);
}

/* ---- what must hold of a kernel that was accepted -------------------------------------------- */

static void check_solution(const kas_kernel *kernel, const kas_target *targets,
                           const kas_budget *budget)
{
    kas_solution solution;
    double flops = 0, params = 0;
    const kas_status status = kas_solve(kernel, targets, TARGETS, budget, &solution);
    if (status != KAS_OK) {
        MUST(status == KAS_ILLEGAL || status == KAS_UNSUPPORTED || status == KAS_OVER_BUDGET);
        return;
    }
    for (int t = 0; t < TARGETS; t++) {
        kas_cost cost;
        MUST(kas_kernel_check_binding(kernel, &solution.binding[t]) == KAS_OK);
        MUST(kas_layer_cost(kernel, &targets[t], &solution.binding[t], &cost) == KAS_OK);
        flops += cost.flops;
        params += cost.params;
    }
    MUST(flops == solution.flops && params == solution.params);
    MUST(kas_plain_check(kernel, targets, TARGETS, budget, &solution) == KAS_OK);
    kas_buf text = {0};
    kas_kernel again;
    MUST(kas_kernel_write_json(kernel, &solution, &text) == KAS_OK);
    MUST(kas_kernel_read_json("solved", text.data, text.size, &again) == KAS_OK);
    kas_buf_free(&text);
    kas_solution_free(&solution);
    fuzz.solved++;
}

static void check_round_trip(const kas_kernel *kernel)
{
    kas_buf first = {0}, second = {0};
    kas_kernel again, canonical;
    char name[KAS_NAME_SIZE], other[KAS_NAME_SIZE];
    MUST(kas_kernel_name(kernel, name) == KAS_OK);
    MUST(kas_kernel_write_json(kernel, NULL, &first) == KAS_OK);
    MUST(kas_kernel_read_json("written", first.data, first.size, &again) == KAS_OK);
    MUST(kas_kernel_name(&again, other) == KAS_OK && strcmp(name, other) == 0);
    MUST(kas_plain_same(kernel, &again) && kas_plain_hash(kernel) == kas_plain_hash(&again));
    MUST(kas_kernel_write_json(&again, NULL, &second) == KAS_OK);
    MUST(strcmp(kas_buf_text(&first), kas_buf_text(&second)) == 0);
    MUST(kas_kernel_canonicalize(kernel, &canonical) == KAS_OK);
    MUST(kas_kernel_name(&canonical, other) == KAS_OK && strcmp(name, other) == 0);
    kas_buf_free(&first);
    kas_buf_free(&second);
}

static void check_description(const kas_kernel *kernel)
{
    kas_buf text = {0};
    for (int i = 0; i < kernel->nodes; i++) {
        const size_t before = text.size;
        kas_node_describe(kernel, i, &text);
        MUST(text.size > before);
    }
    MUST(kas_kernel_write_dot(kernel, "mutant", NULL, &text) == KAS_OK);
    kas_buf_free(&text);
}

/* Any size for a variable: the kernel becomes another, or is refused, and nothing breaks. */
static void check_substitution(kas_rng *rng, const kas_kernel *kernel)
{
    const uint32_t vars = kas_kernel_vars(kernel);
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v)) {
            kas_kernel copy = *kernel;
            kas_dim value = kas_dim_symbol((kas_symbol)kas_rng_below(rng, KAS_SYM_COUNT));
            const kas_status status = kas_kernel_substitute(&copy, v, &value);
            MUST(status == KAS_OK || status == KAS_ILLEGAL);
        }
}

static void check_accepted(kas_rng *rng, kas_kernel *kernel)
{
    static const double ratios[] = {0, 0.1, 0.5, 1, 4};
    const kas_budget budget = {.max_flops_ratio = ratios[kas_rng_below(rng, 5)],
                               .max_params_ratio = ratios[kas_rng_below(rng, 5)]};
    MUST(kas_kernel_infer(kernel) == KAS_OK);
    check_round_trip(kernel);
    check_description(kernel);
    check_substitution(rng, kernel);
    check_solution(kernel, kas_rng_below(rng, 2) ? even : odd, &budget);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void make_mutant(kas_rng *rng, kas_buf *text)
{
    fuzz_json_mutant(rng, fuzz_mutate_nodes, text);
}

static bool read_kernel(kas_rng *rng, const char *text, size_t size, const kas_buf *kept)
{
    kas_kernel kernel;
    if (!fuzz_accepts(kas_kernel_read_json("mutant.json", text, size, &kernel), "mutant.json"))
        return false;
    check_accepted(rng, &kernel);
    fuzz_keep(rng, kept);
    return true;
}

int main(int argc, char **argv)
{
    fuzz_begin(argc, argv, 50000);
    fuzz_add_folder("kernels");
    fuzz_add_folder("tests/kernels");
    fuzz_add_folder("tests/fuzz/corpus"); /* what neither those nor the sampler have */
    add_sampled_kernels();
    fuzz_cases(make_mutant, read_kernel);
    fuzz_end(5, 1, 25);
    return 0;
}
