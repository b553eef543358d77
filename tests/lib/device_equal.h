/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of two devices, for tests. */
#ifndef DEVICE_EQUAL_H
#define DEVICE_EQUAL_H

#include "common/device.h"

#include <string.h>

/** The same parts are given, and are the same. */
static inline bool psi_device_equal(const struct psi_device *a, const struct psi_device *b)
{
    return a->has_job == b->has_job && a->has_replica == b->has_replica && a->has_task == b->has_task &&
           a->has_type == b->has_type && a->has_index == b->has_index && (!a->has_job || strcmp(a->job, b->job) == 0) &&
           (!a->has_type || strcmp(a->type, b->type) == 0) && (!a->has_replica || a->replica == b->replica) &&
           (!a->has_task || a->task == b->task) && (!a->has_index || a->index == b->index);
}

#endif
