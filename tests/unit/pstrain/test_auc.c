/* SPDX-License-Identifier: Apache-2.0 */
/* worker/pstrain/auc.c against examples done by hand, ties and all, and against counting pairs. */
#include "test.h"
#include "worker/pstrain/auc.h"

#include <math.h>
#include <stdlib.h>

static void near(double got, double expected)
{
    if (!(fabs(got - expected) < 1e-12)) {
        fail_msg("%.17g instead of %.17g", got, expected);
    }
}

TEST(test_by_hand)
{
    /* scores rising: -(1) +(2) -(3) +(4): of the 4 pairs the second + beats both, the first + one */
    const float four[] = {0.8f, 0.1f, 0.35f, 0.4f};
    const int32_t labels[] = {1, 0, 1, 0};
    near(auc_of(four, labels, 4), 0.75);
    const int32_t opposite[] = {0, 1, 0, 1};
    near(auc_of(four, opposite, 4), 0.25);
    const int32_t perfect[] = {1, 0, 0, 1};
    near(auc_of(four, perfect, 4), 1);
}

TEST(test_ties)
{
    /* + at 1, 2, 2; - at 2, 3, 0: pairs won 1>0, 2>0, 2>0 = 3, tied 2=2 twice = 1; 4 of 9 */
    const float scores[] = {1, 2, 2, 2, 3, 0};
    const int32_t labels[] = {1, 1, 1, 0, 0, 0};
    near(auc_of(scores, labels, 6), 4.0 / 9);
    const float same[] = {5, 5, 5, 5};
    const int32_t some[] = {1, 0, 0, 0};
    near(auc_of(same, some, 4), 0.5);
    const float zeros[] = {0.0f, -0.0f};
    const int32_t two[] = {1, 0};
    near(auc_of(zeros, two, 2), 0.5);
}

TEST(test_pairs)
{
    enum { N = 300 };
    float scores[N];
    int32_t labels[N];
    unsigned x = 12345;
    for (int i = 0; i < N; i++) {
        x = x * 1103515245u + 12345u;
        scores[i] = (float)(x >> 16 & 31) / 8 - 1; /* many ties */
        x = x * 1103515245u + 12345u;
        labels[i] = (x >> 16 & 7) < 3;
    }
    double won = 0;
    double pairs = 0;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            if (labels[i] == 1 && labels[k] == 0) {
                pairs++;
                won += scores[i] > scores[k] ? 1 : scores[i] == scores[k] ? 0.5 : 0;
            }
        }
    }
    near(auc_of(scores, labels, N), won / pairs);
}

TEST(test_nothing_to_compare)
{
    const float scores[] = {1, 2, NAN};
    const int32_t ones[] = {1, 1, 1};
    const int32_t zeros[] = {0, 0, 0};
    const int32_t both[] = {0, 1, 0};
    assert_true(isnan(auc_of(scores, ones, 2)));
    assert_true(isnan(auc_of(scores, zeros, 2)));
    assert_true(isnan(auc_of(scores, both, 0)));
    assert_true(isnan(auc_of(scores, both, 3)));
    const float far[] = {-INFINITY, INFINITY};
    near(auc_of(far, both, 2), 1);
}
