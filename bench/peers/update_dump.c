/* update_dump IN OUT: the float64 optimisers of tests/support/reference_update.h on given numbers,
 * for bench/peers/update.py.
 *
 * IN holds, as float64 tensors, "param" [n], "grad" [steps][n] and "options" [9]: optimiser
 * (0 Nesterov, 1 SGD, 2 AdamW), lr, momentum, beta1, beta2, epsilon, decay, clip (0 = none), steps.
 * OUT gets "param" [steps][n], the parameters after each step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/model/safetensors.h"
#include "support/reference_update.h"

enum { OPTIONS = 9, MOST_BYTES = 1 << 28, MOST_STEPS = 1000 };

static kas_status get(const kas_safetensors *file, const char *name, size_t count, double *out)
{
    const kas_named_tensor *t = kas_safetensors_find(file, name);
    if (!t || kas_named_tensor_elements(t) != count)
        return kas_fail(KAS_BAD_INPUT, "tensor \"%s\" of %zu numbers is missing", name, count);
    for (size_t i = 0; i < count; i++)
        out[i] = kas_named_tensor_get(t, i);
    return KAS_OK;
}

static void run(const double options[OPTIONS], size_t n, int steps, const double *grad,
                double *param, double *history)
{
    double *first = calloc(n, sizeof *first), *second = calloc(n, sizeof *second);
    double *scaled = calloc(n, sizeof *scaled);
    for (int s = 0; first && second && scaled && s < steps; s++) {
        const double *g = grad + (size_t)s * n;
        double scale = options[7] > 0 ? kas_ref_clip(n, g, options[7]) : 1;
        for (size_t i = 0; i < n; i++)
            scaled[i] = scale * g[i];
        const kas_ref_adamw adamw = {options[1], options[3], options[4],
                                     options[5], options[6], s + 1};
        if (options[0] == 2)
            kas_ref_adamw_step(&adamw, n, scaled, first, second, param);
        else
            kas_ref_sgd(n, options[1], options[2], options[0] == 0, options[6], scaled, first,
                        param);
        memcpy(history + (size_t)s * n, param, n * sizeof *param);
    }
    free(first), free(second), free(scaled);
}

static kas_status dump(const char *in, const char *out)
{
    kas_safetensors file;
    double options[OPTIONS], *param = NULL, *grad = NULL, *history = NULL;
    kas_status status = KAS_OK;
    KAS_TRY(kas_safetensors_read(in, MOST_BYTES, &file));
    KAS_TRY_GOTO(get(&file, "options", OPTIONS, options), done);
    const kas_named_tensor *t = kas_safetensors_find(&file, "param");
    size_t n = t ? kas_named_tensor_elements(t) : 0;
    int steps = options[8] >= 1 && options[8] <= MOST_STEPS ? (int)options[8] : 1;
    param = calloc(n + 1, sizeof *param);
    grad = calloc(n * (size_t)steps + 1, sizeof *grad);
    history = calloc(n * (size_t)steps + 1, sizeof *history);
    if (!param || !grad || !history) {
        status = kas_fail(KAS_NO_MEMORY, "%s: no memory for %d steps of %zu numbers", in, steps, n);
        goto done;
    }
    KAS_TRY_GOTO(get(&file, "param", n, param), done);
    KAS_TRY_GOTO(get(&file, "grad", n * (size_t)steps, grad), done);
    run(options, n, steps, grad, param, history);
    const kas_named_tensor result = {.name = "param",
                                     .dtype = KAS_SAFETENSORS_F64,
                                     .rank = 2,
                                     .shape = {(uint64_t)steps, n},
                                     .data = history};
    status = kas_safetensors_write(out, &result, 1, NULL);
done:
    free(param), free(grad), free(history);
    kas_safetensors_free(&file);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: update_dump IN OUT\n", stderr);
        return KAS_USAGE;
    }
    kas_status status = dump(argv[1], argv[2]);
    if (status != KAS_OK)
        fprintf(stderr, "update_dump: %s\n", kas_error());
    return kas_exit_code(status);
}
