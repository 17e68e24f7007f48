/* Weights as files: the safetensors format (https://github.com/huggingface/safetensors).
 *
 *     u64 little-endian N | N bytes of JSON | data
 *     {"__metadata__": {...}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
 *
 * Users' tools read this format, it is plain data (unlike a pickle), and its limits can be
 * checked before anything is allocated. Files come from strangers: header size, nesting, names,
 * shapes and offsets are all checked against each other and against the file's size; overlaps and
 * gaps are refused. */
#ifndef KAS_MODEL_SAFETENSORS_H
#define KAS_MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/core/buf.h"
#include "host/core/status.h"

enum { KAS_TENSOR_RANK = 8, KAS_TENSOR_NAME = 128 };
/* The most bytes that a file of a network's weights may have. */
#define KAS_WEIGHTS_LIMIT ((size_t)1 << 33)

typedef enum kas_safetensors_dtype {
    KAS_SAFETENSORS_F32,
    KAS_SAFETENSORS_F64,
    KAS_SAFETENSORS_F16,
    KAS_SAFETENSORS_BF16,
    KAS_SAFETENSORS_I32,
    KAS_SAFETENSORS_I64,
    KAS_SAFETENSORS_U8,
    KAS_SAFETENSORS_DTYPES
} kas_safetensors_dtype;
size_t kas_safetensors_dtype_size(kas_safetensors_dtype dtype);
const char *kas_safetensors_dtype_name(kas_safetensors_dtype dtype);
/* Returns whether the dtype is floating-point. Weights are; integers are counts or indices. */
bool kas_dtype_is_real(kas_safetensors_dtype dtype);

/* One tensor, row-major. `data` is not owned and may be unaligned. */
typedef struct kas_named_tensor {
    char name[KAS_TENSOR_NAME];
    kas_safetensors_dtype dtype;
    int rank;
    uint64_t shape[KAS_TENSOR_RANK];
    const void *data;
} kas_named_tensor;
uint64_t kas_named_tensor_elements(const kas_named_tensor *tensor);

/* Writes the file atomically. `metadata` is a NULL-terminated list of pairs of key and value,
 * or NULL. */
kas_status kas_safetensors_write(const char *path, const kas_named_tensor *tensors, int count,
                                 const char *const *metadata);

typedef struct kas_safetensors {
    kas_buf file;
    int count;
    kas_named_tensor *tensor; /* in the order of the header; their data points into `file` */
    struct cJSON *metadata;   /* NULL: the file has none */
} kas_safetensors;

/* Returns a text of the file's metadata; NULL when there is none of this name. */
const char *kas_safetensors_metadata(const kas_safetensors *file, const char *key);

/* Reads a file of at most `limit` bytes. Fails with KAS_BAD_INPUT and names the file and the
 * tensor. The caller frees *out with kas_safetensors_free. */
kas_status kas_safetensors_read(const char *path, size_t limit, kas_safetensors *out);
void kas_safetensors_free(kas_safetensors *file);
/* Returns whether a tensor of this name is PyTorch's count of a batch norm's batches, which is not used. */
bool kas_safetensors_is_batch_count(const char *name);
/* Returns the tensor with that name; NULL when there is none. */
const kas_named_tensor *kas_safetensors_find(const kas_safetensors *file, const char *name);
/* Returns element i as a double, whatever the dtype is. */
double kas_named_tensor_get(const kas_named_tensor *tensor, uint64_t i);
/* Checks that every element is finite as float32. If not, it fails with `otherwise` and names
 * `path` (the file that was read, or is to be written), the tensor and the element. */
kas_status kas_named_tensor_finite(const char *path, const kas_named_tensor *tensor,
                                   kas_status otherwise);

#endif
