/* SPDX-License-Identifier: Apache-2.0 */
/* Where new variables go: TensorFlow's replica_device_setter with merge_devices, and explicit pins. Pure. */
#ifndef PSI_PLACEMENT_H
#define PSI_PLACEMENT_H

#include "limits.h"
#include "status.h"

/** What a device string fixes. "" and "/" fix nothing; "*" leaves its field open. */
struct psi_pin {
    bool has_job;
    bool has_task;
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
};
/**
 * "/job:ps/task:1" with an optional "/device:CPU:0" or "/cpu:0", segments in any order, each field once.
 * Errors  PS_INVALID_ARGUMENT: not such a string, task over PS_TASKS_MAX. PS_UNIMPLEMENTED: a replica or another device.
 */
PSI_MUST ps_status psi_pin_parse(const char *text, struct psi_pin *out, struct psi_err *err);

struct psi_placement {
    char ps_job[PS_JOB_BYTES_MAX + 1]; /* the directory's job */
    uint32_t ps_tasks;                 /* its tasks */
    uint32_t next;                     /* round-robin counter, < ps_tasks */
};
struct psi_place {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    bool pinned; /* the user fixed the task (or another job): finding the variable elsewhere is a conflict */
};

/** ps_job a checked job name. */
void psi_placement_init(struct psi_placement *p, const char *ps_job, uint32_t ps_tasks);
/**
 * Place one get-or-create; call it once for each, found or new. pin NULL: not pinned. As in TensorFlow the counter
 * advances also where the pin then fixes the task, and stays only where the pin names another job. A missing task of
 * another job is 0.
 * Errors  PS_FAILED_PRECONDITION no ps task and no pin; PS_INVALID_ARGUMENT the ps job has no such task. Nothing advances.
 */
PSI_MUST ps_status psi_placement_place(struct psi_placement *p, const struct psi_pin *pin, struct psi_place *out,
                                       struct psi_err *err);
/** NULL or "" is fine; any other partitioner gets PS_UNIMPLEMENTED that names it. */
PSI_MUST ps_status psi_placement_partitioner_check(const char *partitioner, struct psi_err *err);
/** TensorFlow's log_device_placement line: "v1: (Variable): /job:ps/task:0/device:CPU:0". Returns buf. */
const char *psi_place_format(const struct psi_place *place, const char *name, const char *type, char *buf, size_t n);

#endif
