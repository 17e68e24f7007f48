/* Which images a network classified correctly, and what that says of two networks that saw the same
 * images.
 *
 * The figures of two trainings are compared image by image, because most images are easy or hard
 * for both: the difference of the two accuracies then has a much smaller error than either of them.
 * Of n images let b be those that only the first network has right, and c those that only the
 * second has right. The second loses (b - c) / n against the first, with the standard error
 *
 *     sqrt(b + c - (b - c)^2 / n) / n
 *
 * (McNemar 1947, in the form for a difference of paired shares). It is the error of drawing n
 * images; that of drawing initial weights is not in it (interval.h).
 *
 * In messages and in the store the images are a text of one or two parts with a blank between them:
 * the number of images, a colon, and a hexadecimal digit for every four images, the first of them
 * in the highest bit. In "6:b4 3:e" the second and the fifth of six images are wrong, and three
 * more are right. The parts are the halves of the validation images, or the test set alone. */
#ifndef KAS_SCORE_CORRECT_H
#define KAS_SCORE_CORRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/buf.h"

/* Parts of the text of a candidate. The test set of a final training is the first part. */
enum { KAS_SELECTING = 0, KAS_CONFIRMING = 1, KAS_TESTED = 0 };

/* Appends a part: `hit` is 1 for a correct image and 0 for a wrong one. */
void kas_correct_add(const float *hit, uint32_t images, kas_buf *text);

/* Returns the share of a part's images that are correct; NaN when the text (NULL is allowed) does
 * not have the part. */
double kas_correct_share(const char *text, int part);

/* What `b` loses against `a`: positive when b is worse. NaN, and no images, when one of the texts
 * does not have the part or they are of different images. */
typedef struct kas_paired {
    double lost, error; /* as shares, 0.01 is a point */
    uint32_t images;
} kas_paired;
kas_paired kas_correct_compare(const char *a, const char *b, int part);

#endif
