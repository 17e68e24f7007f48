/* Fuzz test of the reader of weights (safetensors).
 *
 * Header and data are mutated apart, so that most headers stay JSON of the right length.  A file is
 * refused with a message that names it, or accepted; then its tensors fill the data, it reads back
 * from what is written as the same tensors, and it serves a network, whose tensors then all have
 * the network's shapes, or is refused by a message that names it.  Those that serve it count as
 * having gone all the way. */
#include "fuzz_run.h"
#include "host/core/file/files.h"
#include "host/model/params.h"
#include "host/model/pretrained.h"
#include "mutate.h"
#include "small_net.h"

enum { LIMIT = 1 << 20, PREFIX = 8 };

static kas_net *net;
static kas_params params;
static kas_buf headers[4]; /* of the first files, for values */
static int header_count;

/* ---- the first corpus ------------------------------------------------------------------------ */

static uint64_t header_size(const kas_buf *file)
{
    uint64_t size = 0;
    if (file->size >= PREFIX)
        memcpy(&size, file->data, PREFIX);
    return file->size >= PREFIX && size <= file->size - PREFIX ? size : 0;
}

/* All tensors of the network as `dtype`, and one of the kind that PyTorch adds. */
static void add_weights(kas_safetensors_dtype dtype, bool further)
{
    static const double zeros[4096];
    static const char *const metadata[] = {"format", "pt", NULL};
    kas_named_tensor tensor[32] = {0};
    kas_buf file = {0};
    int count = params.count;
    MUST(count < 32);
    for (int i = 0; i < count; i++) {
        const kas_param *p = &params.param[i];
        MUST(p->size <= 4096);
        memcpy(tensor[i].name, p->name, sizeof p->name);
        memcpy(tensor[i].shape, p->shape, sizeof p->shape);
        tensor[i].dtype = dtype;
        tensor[i].rank = p->rank;
        tensor[i].data = zeros;
    }
    if (further)
        tensor[count++] = (kas_named_tensor){
            .name = "bn.num_batches_tracked", .dtype = KAS_SAFETENSORS_I64, .data = zeros};
    const char *path = fuzz_path("first.safetensors");
    MUST(kas_safetensors_write(path, tensor, count, further ? metadata : NULL) == KAS_OK);
    MUST(kas_file_read(path, LIMIT, &file) == KAS_OK);
    fuzz_add(file.data, file.size);
    kas_buf_add(&headers[header_count++], file.data + PREFIX, header_size(&file));
    kas_buf_free(&file);
}

/* ---- a mutant -------------------------------------------------------------------------------- */

static void make_mutant(kas_rng *rng, kas_buf *file)
{
    const kas_buf *source = fuzz_pick(rng);
    const uint64_t size = header_size(source);
    if (kas_rng_below(rng, 3) == 0) {
        kas_buf_add(file, source->data, source->size);
        fuzz_mutate_bytes(rng, file);
        return;
    }
    kas_buf header = {0};
    fuzz_change_tree(rng, fuzz_mutate_json, source->data + PREFIX, size,
                     &headers[kas_rng_below(rng, (uint32_t)header_count)], &header);
    const uint64_t length = header.size;
    kas_buf_add(file, &length, PREFIX);
    kas_buf_add(file, header.data, header.size);
    kas_buf_add(file, source->data + PREFIX + size, source->size - PREFIX - size);
    kas_buf_free(&header);
    if (kas_rng_below(rng, 10) == 0)
        fuzz_mutate_bytes(rng, file);
}

/* ---- what must hold of a file that was accepted ---------------------------------------------- */

static void check_round_trip(const kas_safetensors *file)
{
    const char *path = fuzz_path("again.safetensors");
    kas_safetensors again;
    MUST(kas_safetensors_write(path, file->tensor, file->count, NULL) == KAS_OK);
    MUST(kas_safetensors_read(path, LIMIT, &again) == KAS_OK && again.count == file->count);
    for (int i = 0; i < file->count; i++) {
        const kas_named_tensor *a = &file->tensor[i], *b = &again.tensor[i];
        MUST(strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->rank == b->rank);
        MUST(memcmp(a->shape, b->shape, sizeof a->shape) == 0);
        MUST(memcmp(a->data, b->data,
                    kas_named_tensor_elements(a) * kas_safetensors_dtype_size(a->dtype)) == 0);
    }
    kas_safetensors_free(&again);
}

static void check_fill(const kas_safetensors *file)
{
    uint64_t bytes = 0;
    for (int i = 0; i < file->count; i++)
        bytes += kas_named_tensor_elements(&file->tensor[i]) *
                 kas_safetensors_dtype_size(file->tensor[i].dtype);
    MUST(bytes + PREFIX + header_size(&file->file) == file->file.size);
}

static void check_service(kas_rng *rng, const char *path, const kas_safetensors *file)
{
    const bool partial = kas_rng_below(rng, 2);
    if (!fuzz_accepts(kas_pretrained_check(path, net, NULL, partial), path))
        return;
    fuzz.solved++;
    for (int i = 0; i < params.count && !partial; i++) {
        const kas_param *p = &params.param[i];
        const kas_named_tensor *t = kas_safetensors_find(file, p->name);
        MUST(t || p->kind == KAS_PARAM_STATISTIC);
        MUST(!t || (t->rank == p->rank && kas_named_tensor_elements(t) == p->size));
    }
}

static bool read_weights(kas_rng *rng, const char *data, size_t size, const kas_buf *kept)
{
    const char *path = fuzz_path("mutant.safetensors");
    kas_safetensors file;
    fuzz_write(path, data, size);
    if (!fuzz_accepts(kas_safetensors_read(path, LIMIT, &file), path))
        return false;
    check_fill(&file);
    check_round_trip(&file);
    check_service(rng, path, &file);
    kas_safetensors_free(&file);
    fuzz_keep(rng, kept);
    return true;
}

int main(int argc, char **argv)
{
    fuzz_begin(argc, argv, 30000);
    net = small_net();
    MUST(kas_params_build(net, NULL, &params) == KAS_OK);
    add_weights(KAS_SAFETENSORS_F32, true);
    add_weights(KAS_SAFETENSORS_F16, false);
    add_weights(KAS_SAFETENSORS_F64, true);
    add_weights(KAS_SAFETENSORS_BF16, false);
    fuzz_cases(make_mutant, read_weights);
    fuzz_end(5, 1, 25);
    for (int i = 0; i < header_count; i++)
        kas_buf_free(&headers[i]);
    kas_params_free(&params);
    kas_net_free(net);
    return 0;
}
