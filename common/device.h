/* SPDX-License-Identifier: Apache-2.0 */
/* Device strings: "/job:ps/replica:0/task:1/device:CPU:0", every field optional. TensorFlow's DeviceSpec. Pure, any thread. */
#ifndef PSI_DEVICE_H
#define PSI_DEVICE_H

#include "limits.h"
#include "status.h"

/** Room for any canonical device string; the public PS_DEVICE_BYTES. */
#define PSI_DEVICE_BYTES 160
#define PSI_DEVICE_TYPE_BYTES_MAX 31
/** Replica, task and index are at most this, as TensorFlow's int32. */
#define PSI_DEVICE_NUMBER_MAX 2147483647u

/** What a device string fixes; a field that it leaves open is 0 or "" with its has_ false. */
struct psi_device {
    bool has_job, has_replica, has_task, has_type, has_index;
    char job[PS_JOB_BYTES_MAX + 1];
    char type[PSI_DEVICE_TYPE_BYTES_MAX + 1]; /* "CPU"; any name is legal here */
    uint32_t replica, task, index;
};

/**
 * Segments in any order, each field once; "" and "/" fix nothing, "*" leaves its field open, empty segments and a missing first
 * '/' are fine. /device:TYPE[:N|:*]; /cpu and /gpu in any case, with or without a number.
 * Errors  PS_INVALID_ARGUMENT that quotes the string and the part. *out is unchanged then.
 */
PSI_MUST ps_status psi_device_parse(const char *text, struct psi_device *out, struct psi_err *err);
/** Canonical form; a type without index prints ":*", an index without type "*:N". n >= PSI_DEVICE_BYTES. Returns buf. */
const char *psi_device_format(const struct psi_device *d, char *buf, size_t n);
/** tf.device(outer) around inner: field by field what inner fixes wins. out may be either. */
void psi_device_merge(const struct psi_device *outer, const struct psi_device *inner, struct psi_device *out);
/** Nothing is fixed. */
bool psi_device_is_empty(const struct psi_device *d);
bool psi_device_equal(const struct psi_device *a, const struct psi_device *b);

#endif
