/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ps_export() and ps_import() share: the list of variables, their records in the core, the temporary file, and the text of
 * __metadata__.
 */
#ifndef PSI_WORKER_API_FILES_H
#define PSI_WORKER_API_FILES_H

#include "worker/api/api.h"

#include "common/safetensors.h"

#define PSI_FILES_PIECE_BYTES ((size_t)256 << 10)   /* of a pull: small enough that pieces that travel stay in the cache */
#define PSI_FILES_FLIGHT_BYTES ((uint64_t)64 << 20) /* of values in memory at a time, unless one variable is larger */

/* keys of __metadata__ (docs/OPERATIONS.md) */
#define PSI_FILES_FORMAT "psd"
#define PSI_FILES_KEY_FORMAT "format"
#define PSI_FILES_KEY_VERSION "psd_version"
#define PSI_FILES_KEY_CLUSTER "psd_cluster"
#define PSI_FILES_KEY_CONTAINER "psd_container"
#define PSI_FILES_KEY_VARIABLES "psd_variables"
/* endings of the two tensors of a string variable */
#define PSI_FILES_OFFSETS ":offsets"
#define PSI_FILES_BYTES ":bytes"

/* A variable that is exported or imported. */
struct psi_file_var {
    ps_variable_info info;    /* from its task's list */
    uint32_t task;            /* index in session->tasks */
    uint32_t handle;          /* 0: not open */
    bool missing;             /* to be created from spec, in info.container, as info.name */
    bool given;               /* it has got its value from the file */
    bool lost;                /* it has lost the value from the file: its task was lost, or went back to a checkpoint */
    bool any_shape;           /* strings of a file without their shape: only the number of elements is compared */
    bool told;                /* the file's metadata describes it */
    bool slot;                /* import: the tensor is a slot or power */
    char *slot_of;            /* the variable that the slot belongs to; psi_free() */
    char *as;                 /* export with prefixes: its name in the file; NULL: info.name; psi_free() */
    const char *const *slots; /* [slot_count] names of the tensors of its slots, for the metadata */
    size_t slot_count;
    ps_variable_spec spec;
    ps_optimizer optimizer; /* of spec */
    struct psi_var *var;    /* for the loop thread; other threads only pass the pointer on */
};

/* ---- files.c ---- */
/** Check path and options. *out: given (NULL: defaults) with a container; its texts are borrowed from given and the session. */
ps_status psi_files_options(ps_session *s, const char *path, const ps_file_options *given, ps_file_options *out,
                            struct psi_err *err) PSI_MUST;
/** The variables of the container at all tasks, by task and name. *out_vars: psi_free(). */
ps_status psi_files_list(ps_session *s, const char *container, struct psi_file_var **out_vars, size_t *out_count,
                         struct psi_err *err) PSI_MUST;
/** Find the variables that are not open, or, if `missing`, create them, in this order. Afterwards info has their definitions. */
ps_status psi_files_open(ps_session *s, struct psi_file_var *vars, size_t count, struct psi_err *err) PSI_MUST;
/** Initialise a map whose keys come from a file or a model. Its seed is random, so that nobody can choose keys that collide.
 * borrowing: as psi_map_init_borrowing(). */
void psi_files_map_init(struct psi_map *m, bool borrowing);
/** The random seed of such a map. */
void psi_files_map_seed(uint64_t out[2]);
/** Name of the cluster, usually "psd". */
ps_status psi_files_cluster_name(ps_session *s, char *name, size_t n, struct psi_err *err) PSI_MUST;
/** Timeout of a request that moves this many bytes: the session's, and a second for each 64 MiB. */
int64_t psi_files_timeout_ms(const ps_session *s, uint64_t bytes);

/** Name of a variable in the file of an export. */
static inline const char *psi_files_name(const struct psi_file_var *v)
{
    return v->as != NULL ? v->as : v->info.name;
}

/* ---- metadata.c ---- */
/** JSON for PSI_FILES_KEY_VARIABLES; free(). NULL: no memory. */
char *psi_files_describe(const struct psi_file_var *vars, size_t count);
/**
 * Read such a text for vars, found by info.name: sets told, optimizer and spec.optimizer, spec.atomic, slot with slot_of, and for
 * strings spec.shape. INVALID_ARGUMENT names the variable.
 */
ps_status psi_files_understand(const char *text, struct psi_file_var *vars, size_t count, struct psi_err *err) PSI_MUST;

/* ---- trace.c ---- */
/** Check that a file can be made there; it is removed again. Errors: INVALID_ARGUMENT (no name), those of
 * psi_file_target_open(). */
ps_status psi_trace_check(const char *path, struct psi_err *err) PSI_MUST;
/**
 * Write a trace that has ended (ended_ns) as Chrome trace JSON. The file appears whole or not at all. t is changed: spans are cut
 * to the trace and sorted, and its root is added; so it is written once. *out_bytes: size of the file. Errors: those of
 * psi_file_target_..., memory.
 */
ps_status psi_trace_write(struct psi_trace *t, const char *path, uint64_t *out_bytes, struct psi_err *err) PSI_MUST;

/* ---- target.c: a file that appears whole or not at all ---- */
struct psi_file_target {
    const char *path;    /* as given, for messages; borrows */
    char *directory;     /* of the file itself, after following links */
    char *name;          /* name in the directory */
    char temporary[64];  /* temporary name in the directory; "": the file has no name yet */
    int directory_fd;    /* -1: not open */
    int fd;              /* -1: not open */
    uint64_t written_to; /* up to which the kernel was asked to write to disk */
    bool held;           /* this object blocks SIGXFSZ in this thread */
};
/** Make a new file in the directory of path; nothing is at path yet. t is set in any case: psi_file_target_close(). */
ps_status psi_file_target_open(struct psi_file_target *t, const char *path, struct psi_err *err) PSI_MUST;
ps_status psi_file_target_write(struct psi_file_target *t, const void *p, size_t bytes, uint64_t offset,
                                struct psi_err *err) PSI_MUST;
/** Block SIGXFSZ in this thread until psi_files_release_signal(), so that a write beyond RLIMIT_FSIZE fails with EFBIG and does
 * not end the program. True: it was not blocked before. */
bool psi_files_hold_signal(void);
void psi_files_release_signal(bool held);
/** Sync the file, move it to its place, sync the directory. */
ps_status psi_file_target_commit(struct psi_file_target *t, struct psi_err *err) PSI_MUST;
/** Remove what was not committed. On the thread of psi_file_target_open(). */
void psi_file_target_close(struct psi_file_target *t);

#endif
