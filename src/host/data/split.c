#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/data/dataset.h"

/* Groups image numbers by class: class k owns members[first[k] .. first[k + 1]). */
static void group_by_class(const kas_dataset *d, uint32_t *first, uint32_t *members)
{
    for (uint32_t i = 0; i < d->train.count; i++)
        first[d->train.labels[i] + 1]++;
    for (uint32_t k = 0; k < d->classes; k++)
        first[k + 1] += first[k];
    for (uint32_t i = d->train.count; i-- > 0;)
        members[--first[d->train.labels[i] + 1]] = i;
    /* Each first[k + 1] now is the beginning of class k: this moves them into place. */
    memmove(first, first + 1, d->classes * sizeof *first);
    first[d->classes] = d->train.count;
}

/* Marks the validation images.  Shares are rounded along the running total over classes in random
 * order, so that no class is favoured and the total is right even where a class has few images. */
static uint32_t choose(const kas_dataset *d, uint64_t seed, double fraction, const uint32_t *first,
                       uint32_t *members, uint32_t *order, uint8_t *chosen)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_SPLIT, 0);
    uint32_t total = 0;
    uint64_t seen = 0, due = 0;
    for (uint32_t k = 0; k < d->classes; k++)
        order[k] = k;
    kas_rng_shuffle(&rng, order, d->classes);
    for (uint32_t n = 0; n < d->classes; n++) {
        uint32_t k = order[n], count = first[k + 1] - first[k];
        kas_rng own = kas_rng_make(seed, KAS_PURPOSE_SPLIT, 1 + (uint64_t)k);
        kas_rng_shuffle(&own, members + first[k], count);
        seen += count;
        uint64_t next = (uint64_t)llround((double)seen * fraction);
        uint32_t take = (uint32_t)(next - due);
        due = next;
        if (take >= count)
            take = count ? count - 1 : 0;
        for (uint32_t i = 0; i < take; i++)
            chosen[members[first[k] + i]] = 1;
        total += take;
    }
    return total;
}

static void write_out(const uint8_t *chosen, uint32_t count, uint32_t train_count, uint32_t *index)
{
    uint32_t train = 0, validation = train_count;
    for (uint32_t i = 0; i < count; i++)
        index[chosen[i] ? validation++ : train++] = i;
}

kas_status kas_dataset_split(const kas_dataset *d, uint64_t seed, double fraction, uint32_t **index,
                             uint32_t *train_count, uint32_t *validation_count)
{
    uint32_t count = d->train.count;
    kas_status status = KAS_OK;
    *index = NULL;
    if (!(fraction > 0 && fraction < 1))
        return kas_fail(KAS_BAD_INPUT, "validation fraction: expected a number in (0, 1), found %g",
                        fraction);
    uint32_t *first = calloc((size_t)d->classes + 2, sizeof *first);
    uint32_t *order = malloc(d->classes * sizeof *order);
    uint32_t *members = malloc(count * sizeof *members), *out = malloc(count * sizeof *out);
    uint8_t *chosen = calloc(count, 1);
    if (!first || !order || !members || !out || !chosen) {
        status = kas_fail(KAS_NO_MEMORY, "out of memory for a split of %u images", count);
        goto done;
    }
    group_by_class(d, first, members);
    uint32_t validation = choose(d, seed, fraction, first, members, order, chosen);
    if (validation == 0 || validation == count) {
        status = kas_fail(KAS_BAD_INPUT,
                          "%s: train/images: a validation share of %g of %u images in %u classes "
                          "leaves one part empty; import more images or change the share",
                          d->path, fraction, count, d->classes);
        goto done;
    }
    write_out(chosen, count, count - validation, out);
    *index = out;
    out = NULL;
    *train_count = count - validation;
    *validation_count = validation;
done:
    free(chosen), free(out), free(members), free(order), free(first);
    return status;
}

/* A place in the order by class in which images are dealt out to the halves. */
typedef struct dealt {
    uint32_t image, key;
    uint16_t label;
} dealt;

static int by_class(const void *a, const void *b)
{
    const dealt *x = a, *y = b;
    return x->label != y->label ? x->label - y->label : (x->key > y->key) - (x->key < y->key);
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

kas_status kas_dataset_halve(const kas_dataset *d, uint64_t seed, uint32_t *index, uint32_t count,
                             uint32_t *first)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_HALVES, 0);
    if (count < 2)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: train/images: a validation share of %u of %u images cannot be halved; "
                        "import more images or give a larger share",
                        d->path, count, d->train.count);
    dealt *deal = malloc(count * sizeof *deal);
    uint32_t *key = malloc(count * sizeof *key);
    if (!deal || !key) {
        free(deal), free(key);
        return kas_fail(KAS_NO_MEMORY, "out of memory for halves of %u images", count);
    }
    for (uint32_t i = 0; i < count; i++)
        key[i] = i;
    kas_rng_shuffle(&rng, key, count);
    for (uint32_t i = 0; i < count; i++)
        deal[i] = (dealt){index[i], key[i], d->train.labels[index[i]]};
    qsort(deal, count, sizeof *deal, by_class);
    *first = (count + 1) / 2;
    for (uint32_t i = 0; i < count; i++) /* a class whose number is odd gives turns to the next */
        index[i % 2 ? *first + i / 2 : i / 2] = deal[i].image;
    qsort(index, *first, sizeof *index, by_number);
    qsort(index + *first, count - *first, sizeof *index, by_number);
    free(deal), free(key);
    return KAS_OK;
}
