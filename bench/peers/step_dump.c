/* step_dump reference|device NET CLASSES [OPTION...] IN OUT [IN OUT ...]; see step_dump.h.
 * step_dump python NET CLASSES C H W OUT: the network as a PyTorch module. */
#include "step_dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/export/python.h"

enum { MOST_BYTES = 1 << 30 };

kas_status step_copy(const kas_safetensors *file, const char *name, size_t size, double *to)
{
    const kas_named_tensor *t = kas_safetensors_find(file, name);
    if (!t)
        return kas_fail(KAS_BAD_INPUT, "tensor \"%s\" is missing", name);
    if (kas_named_tensor_elements(t) != size)
        return kas_fail(KAS_BAD_INPUT, "tensor \"%s\" has %llu elements, expected %zu", name,
                        (unsigned long long)kas_named_tensor_elements(t), size);
    for (size_t i = 0; i < size; i++)
        to[i] = kas_named_tensor_get(t, i);
    return KAS_OK;
}

static kas_status read_batch(const kas_net *net, const kas_safetensors *file, step_input *out)
{
    const kas_named_tensor *images = kas_safetensors_find(file, "images");
    const kas_layer *input = &net->layer[0];
    if (!images || images->rank != 4)
        return kas_fail(KAS_BAD_INPUT, "tensor \"images\" [n,c,h,w] is missing");
    out->net = net;
    out->file = file;
    out->n = (int)images->shape[0];
    size_t size = (size_t)out->n * input->c * input->h * input->w;
    double *labels = malloc(sizeof *labels * out->n);
    out->images = malloc(sizeof *out->images * size);
    out->labels = malloc(sizeof *out->labels * out->n);
    kas_status status = KAS_OK;
    if (!labels || !out->images || !out->labels)
        status = kas_fail(KAS_NO_MEMORY, "no memory for %d images", out->n);
    if (status == KAS_OK)
        status = step_copy(file, "images", size, out->images);
    if (status == KAS_OK)
        status = step_copy(file, "labels", out->n, labels);
    for (int i = 0; status == KAS_OK && i < out->n; i++) {
        if (!(labels[i] >= 0 && labels[i] < net->classes))
            status = kas_fail(KAS_BAD_INPUT, "label %d is %g; expected 0 to %d", i, labels[i],
                              net->classes - 1);
        else
            out->labels[i] = (uint16_t)labels[i];
    }
    free(labels);
    return status;
}

static kas_status build_net(const char *name, int classes, const kas_safetensors *file,
                            kas_net **net)
{
    const kas_named_tensor *images = kas_safetensors_find(file, "images");
    if (!images || images->rank != 4)
        return kas_fail(KAS_BAD_INPUT, "tensor \"images\" [n,c,h,w] is missing");
    return kas_net_build(name, (int)images->shape[2], (int)images->shape[3], (int)images->shape[1],
                         classes, net);
}

static kas_status one_step(const char *who, const char *name, int classes,
                           const step_options *options, const char *in, const char *out)
{
    kas_safetensors file = {0};
    kas_net *net = NULL;
    step_input input = {0};
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_safetensors_read(in, MOST_BYTES, &file), done);
    KAS_TRY_GOTO(build_net(name, classes, &file, &net), done);
    for (int i = 0; options->no_dropout && i < net->layers; i++)
        net->layer[i].probability = 0;
    KAS_TRY_GOTO(read_batch(net, &file, &input), done);
    KAS_TRY_GOTO((strcmp(who, "device") == 0 ? step_device : step_reference)(&input, options, out),
                 done);
done:
    if (status != KAS_OK)
        kas_fail_context(status, "%s", in);
    free(input.images);
    free(input.labels);
    kas_net_free(net);
    kas_safetensors_free(&file);
    return status;
}

static int usage(void)
{
    fputs(
        "usage: step_dump reference|device NET CLASSES [--lr X] [--momentum X] [--decay X]\n"
        "       [--smoothing X] [--weights-only] [--no-dropout] [--device D] IN OUT [IN OUT ...]\n"
        "       step_dump python NET CLASSES C H W OUT\n",
        stderr);
    return KAS_USAGE;
}

/* Reads options; returns the index of the first file, -1 for a wrong one. */
static int read_options(int argc, char **argv, step_options *options)
{
    int i = 4;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--weights-only") == 0) {
            options->weights_only = true;
            continue;
        }
        if (strcmp(argv[i], "--no-dropout") == 0) {
            options->no_dropout = true;
            continue;
        }
        if (i + 1 == argc)
            return -1;
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--lr") == 0)
            options->lr = atof(value);
        else if (strcmp(argv[i], "--momentum") == 0)
            options->momentum = atof(value);
        else if (strcmp(argv[i], "--decay") == 0)
            options->decay = atof(value);
        else if (strcmp(argv[i], "--smoothing") == 0)
            options->smoothing = atof(value);
        else if (strcmp(argv[i], "--device") == 0)
            options->device = value;
        else
            return -1;
        i++;
    }
    return i;
}

static kas_status write_module(char **argv)
{
    kas_net *net = NULL;
    kas_buf text = {0};
    kas_status status = KAS_OK;
    KAS_TRY(
        kas_net_build(argv[2], atoi(argv[5]), atoi(argv[6]), atoi(argv[4]), atoi(argv[3]), &net));
    KAS_TRY_GOTO(kas_export_network_py(&(kas_export_net){.net = net}, &text), done);
    KAS_TRY_GOTO(kas_file_write_atomic(argv[7], kas_buf_text(&text), text.size), done);
done:
    kas_buf_free(&text);
    kas_net_free(net);
    return status;
}

static int fail(kas_status status)
{
    fprintf(stderr, "step_dump: error: %s\n", kas_error());
    return kas_exit_code(status);
}

int main(int argc, char **argv)
{
    step_options options = {.device = "cpu"};
    if (argc == 8 && strcmp(argv[1], "python") == 0) {
        kas_status status = write_module(argv);
        return status == KAS_OK ? 0 : fail(status);
    }
    if (argc < 4 || (strcmp(argv[1], "reference") != 0 && strcmp(argv[1], "device") != 0))
        return usage();
    int first = read_options(argc, argv, &options);
    if (first < 0 || first == argc || (argc - first) % 2 != 0)
        return usage();
    for (int i = first; i < argc; i += 2) {
        kas_status status =
            one_step(argv[1], argv[2], atoi(argv[3]), &options, argv[i], argv[i + 1]);
        if (status != KAS_OK)
            return fail(status);
    }
    return 0;
}
