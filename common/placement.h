/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where new variables go. psi_placer: the stack of device scopes (tf.device, tf.train.replica_device_setter), which gives the
 * requested device. psi_placement: what a session does with a request: round robin over the directory's job, and explicit pins.
 * Pure; one thread at a time.
 */
#ifndef PSI_PLACEMENT_H
#define PSI_PLACEMENT_H

#include "cluster.h"
#include "device.h"
#include "limits.h"
#include "status.h"

/* ---- device scopes ---- */

/** Scopes inside each other. */
#define PSI_PLACER_DEPTH_MAX 1024

enum psi_strategy { PSI_STRATEGY_ROUND_ROBIN = 0, PSI_STRATEGY_GREEDY_BYTES = 1 };
/** replica_device_setter's arguments. */
struct psi_setter {
    uint32_t ps_tasks;                 /* where cluster is NULL; 0: the setter does nothing */
    const struct psi_cluster *cluster; /* not NULL: the tasks that ps_device's job has there, ps_tasks does not count */
    const char *ps_device;             /* "/job:ps"; NULL is "" */
    const char *worker_device;         /* "/job:worker"; NULL is "" */
    bool merge_devices;                /* false: an explicit device wins whole */
    enum psi_strategy strategy;
};

struct psi_placer_scope;
struct psi_placer {
    struct psi_placer_scope *scopes; /* depth of them, the innermost last */
    uint32_t depth;
    size_t capacity;
};
/** What the scopes say of one object. */
struct psi_request_place {
    struct psi_device device; /* empty: nothing was said */
    bool by_strategy;         /* a setter's strategy chose device.task */
    bool setter;              /* a setter was asked: the session's own turns are not for this object */
    bool pinned;              /* something else fixed the task, or the job */
};

void psi_placer_init(struct psi_placer *p);
void psi_placer_fini(struct psi_placer *p);
/** device NULL hides all outer scopes. Errors of the pushes: PS_INVALID_ARGUMENT (a malformed device, too many tasks),
 *  PS_RESOURCE_EXHAUSTED (memory, PSI_PLACER_DEPTH_MAX); nothing is pushed then. */
PSI_MUST ps_status psi_placer_push(struct psi_placer *p, const char *device, struct psi_err *err);
/** The scope's counter starts at 0. A setter without tasks is pushed too and does nothing. Borrows what setter points at. */
PSI_MUST ps_status psi_placer_push_setter(struct psi_placer *p, const struct psi_setter *setter, struct psi_err *err);
/** Errors  PS_FAILED_PRECONDITION: there is none. */
PSI_MUST ps_status psi_placer_pop(struct psi_placer *p, struct psi_err *err);
/** Scopes apply innermost first; every setter that is reached for a ps op takes a turn. type NULL is "Variable". */
void psi_placer_place(struct psi_placer *p, const char *type, uint64_t bytes, struct psi_request_place *out);
/** TensorFlow's STANDARD_PS_OPS: the types that setters put on ps tasks. */
bool psi_is_ps_op(const char *type);

/* ---- a session's default ---- */

struct psi_placement {
    const struct psi_cluster *cluster; /* borrows */
    const char *ps_job;                /* the directory's job, "" where the cluster is empty */
    uint32_t ps_tasks;                 /* tasks that it has */
    uint32_t next;                     /* round-robin counter, < ps_tasks: position among them, by index */
};
struct psi_place {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    bool pinned; /* the user fixed the task (or another job): finding the variable elsewhere is a conflict */
};

/** cluster is borrowed, and must not change, for as long as the placement is used. */
void psi_placement_init(struct psi_placement *p, const struct psi_cluster *cluster);
/**
 * Place one get-or-create; call it once for each, found or new. pin NULL: not pinned; its device type and index do not matter
 * here. As in TensorFlow the counter advances also where the pin then fixes the task, and stays only where the pin names another
 * job. A missing task of another job is 0. Where the ps job has holes, the turns go over the tasks that it has, by index.
 * Errors  PS_FAILED_PRECONDITION no ps task and no pin; PS_INVALID_ARGUMENT the ps job has no such task, the replica is not 0.
 *         Nothing advances.
 */
PSI_MUST ps_status psi_placement_place(struct psi_placement *p, const struct psi_device *pin, struct psi_place *out,
                                       struct psi_err *err);

#endif
