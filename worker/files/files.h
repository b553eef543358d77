/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ps_export() and ps_import() share: which variables there are, their records in the core, the file beside its target, and
 * the text of __metadata__.
 */
#ifndef PSI_WORKER_API_FILES_H
#define PSI_WORKER_API_FILES_H

#include "worker/api/api.h"

#include "common/safetensors.h"

#define PSI_FILES_PIECE_BYTES ((size_t)256 << 10)   /* of a pull: those on their way stay in the cache */
#define PSI_FILES_FLIGHT_BYTES ((uint64_t)64 << 20) /* of values that are in memory at a time, or one variable */

/* keys of __metadata__ (docs/OPERATIONS.md) */
#define PSI_FILES_FORMAT "psd"
#define PSI_FILES_KEY_FORMAT "format"
#define PSI_FILES_KEY_VERSION "psd_version"
#define PSI_FILES_KEY_CLUSTER "psd_cluster"
#define PSI_FILES_KEY_CONTAINER "psd_container"
#define PSI_FILES_KEY_VARIABLES "psd_variables"
/* the two tensors of a string variable */
#define PSI_FILES_OFFSETS ":offsets"
#define PSI_FILES_BYTES ":bytes"

/* A variable that goes into a file or comes out of one. */
struct psi_file_var {
    ps_variable_info info;    /* as its task listed it */
    uint32_t task;            /* entry in session->tasks */
    uint32_t handle;          /* 0: not open */
    bool missing;             /* to be created from spec, in info.container, as info.name */
    bool given;               /* it has its value from the file */
    bool lost;                /* its value from the file is gone: its task was lost, or has gone back to a checkpoint */
    bool any_shape;           /* strings of a file that does not say how they are arranged: their number counts */
    bool told;                /* of a file: its metadata has it */
    bool slot;                /* of a file: it is a slot ... */
    char *slot_of;            /* ... of this variable, or a power; psi_free */
    char *as;                 /* its name in the file, of an export that has prefixes; NULL: info.name; psi_free */
    const char *const *slots; /* [slot_count] tensors that are its slots; to be described */
    size_t slot_count;
    ps_variable_spec spec;
    ps_optimizer optimizer; /* spec's */
    struct psi_var *var;    /* loop thread only, but for its address */
};

/* ---- files.c ---- */
/** Checks both. *out: given (NULL: the defaults), with a container in any case; its texts are given's and the session's. */
ps_status psi_files_options(ps_session *s, const char *path, const ps_file_options *given, ps_file_options *out,
                            struct psi_err *err) PSI_MUST;
/** What the container has at all tasks, by task and name. *out_vars: psi_free. */
ps_status psi_files_list(ps_session *s, const char *container, struct psi_file_var **out_vars, size_t *out_count,
                         struct psi_err *err) PSI_MUST;
/** Find, or where they are missing create in this order, those of vars that are not open yet. info has the definition then. */
ps_status psi_files_open(ps_session *s, struct psi_file_var *vars, size_t count, struct psi_err *err) PSI_MUST;
/** "psd", or what the cluster is called. */
ps_status psi_files_cluster_name(ps_session *s, char *name, size_t n, struct psi_err *err) PSI_MUST;
/** For a request that moves so many bytes: the session's timeout, and a second more for each 64 MiB. */
int64_t psi_files_timeout_ms(const ps_session *s, uint64_t bytes);

/** The name of a variable in the file of an export. */
static inline const char *psi_files_name(const struct psi_file_var *v)
{
    return v->as != NULL ? v->as : v->info.name;
}

/* ---- metadata.c ---- */
/** JSON for PSI_FILES_KEY_VARIABLES; free(). NULL: no memory. */
char *psi_files_describe(const struct psi_file_var *vars, size_t count);
/**
 * What such a text says of the variables, each vars[i] by info.name: fills told, optimizer and spec.optimizer, spec.atomic, slot
 * with slot_of, and of strings spec.shape.
 * Errors  INVALID_ARGUMENT naming the variable.
 */
ps_status psi_files_understand(const char *text, struct psi_file_var *vars, size_t count, struct psi_err *err) PSI_MUST;

/* ---- target.c: a file that appears whole or not at all ---- */
struct psi_file_target {
    const char *path;    /* as given, for messages; borrows */
    char *directory;     /* of the file itself, links followed */
    char *name;          /* in it */
    char temporary[64];  /* in it; "" while the file has no name yet */
    int directory_fd;    /* -1 */
    int fd;              /* -1: not open */
    uint64_t written_to; /* for the hints to the kernel */
    bool held;           /* SIGXFSZ is blocked by us in this thread */
};
/** A new file in the directory of path; nothing is at path yet. out is set either way: psi_file_target_close(). */
ps_status psi_file_target_open(struct psi_file_target *t, const char *path, struct psi_err *err) PSI_MUST;
ps_status psi_file_target_write(struct psi_file_target *t, const void *p, size_t bytes, uint64_t offset,
                                struct psi_err *err) PSI_MUST;
/** A write beyond RLIMIT_FSIZE fails with EFBIG and ends no program, in this thread, until psi_files_release_signal(). true: it
 * is held by this call. */
bool psi_files_hold_signal(void);
void psi_files_release_signal(bool held);
/** To disk, then to its place, then the directory to disk. */
ps_status psi_file_target_commit(struct psi_file_target *t, struct psi_err *err) PSI_MUST;
/** What was not committed is gone. The same thread as open. */
void psi_file_target_close(struct psi_file_target *t);

#endif
