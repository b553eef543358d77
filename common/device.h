/* SPDX-License-Identifier: Apache-2.0 */
/* Device strings: "/job:ps/replica:0/task:1/device:CPU:0", every field optional. TensorFlow's DeviceSpec. Pure, any thread. */
#ifndef PSI_DEVICE_H
#define PSI_DEVICE_H

#include "limits.h"
#include "status.h"

#define PSI_DEVICE_BYTES 160
#define PSI_DEVICE_TYPE_BYTES_MAX 31
#define PSI_DEVICE_NUMBER_MAX 2147483647u

/** The fields of a device string. A field that the string leaves open is 0 or "", and its has_ flag is false. */
struct psi_device {
    bool has_job, has_replica, has_task, has_type, has_index;
    char job[PS_JOB_BYTES_MAX + 1];
    char type[PSI_DEVICE_TYPE_BYTES_MAX + 1]; /* "CPU"; any name is legal */
    uint32_t replica, task, index;
};

/** Read a device string. Its segments, such as /job:ps, come in any order, each field at most once; the first '/' may be missing,
 * and empty segments are ignored. Value * leaves a field open. Forms of the device: /device:TYPE[:N|:*], /cpu[:N], /gpu[:N].
 * Errors  PS_INVALID_ARGUMENT that quotes the string and the part. *out is unchanged then. */
PSI_MUST ps_status psi_device_parse(const char *text, struct psi_device *out, struct psi_err *err);
/** Write the canonical form; type without index as ":*", index without type as "*:N". n >= PSI_DEVICE_BYTES. Returns buf. */
const char *psi_device_format(const struct psi_device *d, char *buf, size_t n);
/** Merge as tf.device(outer) around tf.device(inner): a field is inner's, if inner fixes it, else outer's. out may be either. */
void psi_device_merge(const struct psi_device *outer, const struct psi_device *inner, struct psi_device *out);
bool psi_device_is_empty(const struct psi_device *d);

#endif
