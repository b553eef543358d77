/* SPDX-License-Identifier: Apache-2.0 */
/* The area under the ROC curve, a measure for two classes. */
#ifndef PSTRAIN_AUC_H
#define PSTRAIN_AUC_H

#include <stdint.h>

/** The probability that a random example of class 1 has a higher score than a random one of class 0; a tie counts a half
 * (Mann-Whitney, with mean ranks for equal scores; Fawcett 2006).
 *
 * scores   [count], no NaN.
 * labels   [count], 0 or 1.
 * Returns  0 to 1; NaN if a class has no example, a score is NaN, or there is no memory. */
double auc_of(const float *scores, const int32_t *labels, int64_t count);

#endif
