/* SPDX-License-Identifier: Apache-2.0 */
/* AUC = (R - P (P + 1) / 2) / (P N). P and N are the numbers of examples of class 1 and class 0. R is the sum of the ranks of the
 * examples of class 1 when all P + N are ordered by rising score; equal scores share their mean rank. */
#include "auc.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct scored {
    float score;
    int32_t label;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a;
    const struct scored *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

double auc_of(const float *scores, const int32_t *labels, int64_t count)
{
    struct scored *all = count > 0 ? malloc((size_t)count * sizeof(*all)) : NULL;
    int64_t positives = 0;
    double ranks = 0;
    bool known = all != NULL;
    for (int64_t i = 0; known && i < count; i++) {
        all[i] = (struct scored){scores[i], labels[i]};
        known = !isnan(scores[i]);
    }
    if (!known) {
        free(all);
        return NAN;
    }
    qsort(all, (size_t)count, sizeof(*all), by_score);
    for (int64_t i = 0; i < count;) {
        int64_t end = i;
        int64_t here = 0;
        while (end < count && all[end].score == all[i].score) {
            here += all[end++].label;
        }
        ranks += (double)here * ((double)(i + 1) + (double)end) / 2; /* ranks i + 1 .. end tie: each example gets their mean */
        positives += here;
        i = end;
    }
    free(all);
    if (positives == 0 || positives == count) {
        return NAN;
    }
    double p = (double)positives;
    return (ranks - p * (p + 1) / 2) / (p * (double)(count - positives));
}
