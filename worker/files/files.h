/* SPDX-License-Identifier: Apache-2.0 */
/* What ps_export(), ps_import() and traces share: a container's variables, their entries in __metadata__, and files to write. */
#ifndef PSI_WORKER_API_FILES_H
#define PSI_WORKER_API_FILES_H

#include "worker/api/api.h"

#include "common/optimizer.h"
#include "common/partition.h"
#include "common/safetensors.h"

#define PSI_FILES_PIECE_BYTES ((size_t)256 << 10)   /* most bytes of one read request; all requests under way fit a CPU cache */
#define PSI_FILES_FLIGHT_BYTES ((uint64_t)64 << 20) /* most bytes of values that an import sends at a time */

/* keys of a safetensors file's __metadata__ (docs/OPERATIONS.md) */
#define PSI_FILES_FORMAT "psd"
#define PSI_FILES_KEY_FORMAT "format"
#define PSI_FILES_KEY_VERSION "psd_version"
#define PSI_FILES_KEY_CLUSTER "psd_cluster"
#define PSI_FILES_KEY_CONTAINER "psd_container"
#define PSI_FILES_KEY_VARIABLES "psd_variables"
/* a string variable is two tensors in the file: its name with each of these endings */
#define PSI_FILES_OFFSETS ":offsets"
#define PSI_FILES_BYTES ":bytes"

struct psi_file_var {
    ps_variable_info info; /* the variable as its ps task has listed it */
    uint32_t task;
    uint32_t handle;          /* number by which requests name it at the task; 0: not opened yet */
    bool missing;             /* import: the variable does not exist, and is created from spec, as info.name in info.container */
    bool given;               /* importer.vars: the value was set; importer.there: the file has a value for the variable */
    bool lost;                /* import: the value was set and is lost again: its ps task was lost, or restored a checkpoint */
    bool any_shape;           /* strings whose shape the file lacks: only the number of elements is compared */
    bool told;                /* import: the file's __metadata__ describes the tensor, so its kind need not be guessed */
    bool slot;                /* import: the tensor is optimizer state: a slot (such as momentum) or a power */
    char *slot_of;            /* name of the variable to which the slot belongs; psi_free() */
    char *as;                 /* export: the variable's name in the file; NULL: info.name; psi_free() */
    const char *const *slots; /* export: [slot_count] names of the tensors with its slots */
    size_t slot_count;
    ps_variable_spec spec;
    ps_optimizer optimizer;     /* memory for spec.optimizer */
    struct psi_var *var;        /* the client library's record of it; only the loop thread reads it */
    struct psi_parts cut;       /* if the variable is partitioned: how it is cut */
    struct psi_file_var *parts; /* [cut.count], in order; NULL: the variable is not partitioned */
    /* whole variable: some of its parts lack a value; part: the task has another cut of the variable now than it has listed */
    bool torn;
};

/* ---- files.c ---- */
/** Check path and options. *out: a copy of *given (NULL: defaults) with a container; its texts belong to given or the session. */
ps_status psi_files_options(ps_session *s, const char *path, const ps_file_options *given, ps_file_options *out,
                            struct psi_err *err) PSI_MUST;
/** List the container's variables at all tasks, sorted by task and name. Free with psi_files_vars_free(). */
ps_status psi_files_list(ps_session *s, const char *container, struct psi_file_var **out_vars, size_t *out_count,
                         struct psi_err *err) PSI_MUST;
/** Open each variable that is not open; create it first if `missing`. A variable in parts is opened with all its parts. Sets
 * handle and info as the tasks answer. ABORTED: a variable's parts have changed since psi_files_list(). */
ps_status psi_files_open(ps_session *s, struct psi_file_var *vars, size_t count, struct psi_err *err) PSI_MUST;
/** Initialise a hash map with a random seed, because names in a file may be chosen to collide. borrowing: m copies no keys. */
void psi_files_map_init(struct psi_map *m, bool borrowing);
/** Get a random hash seed, for a map whose keys come from a file. */
void psi_files_map_seed(uint64_t out[2]);
ps_status psi_files_cluster_name(ps_session *s, char *name, size_t n, struct psi_err *err) PSI_MUST;
/** Timeout in ms of a request that moves this many bytes: the session's timeout, and one second more for each 64 MiB. */
int64_t psi_files_timeout_ms(const ps_session *s, uint64_t bytes);

static inline const char *psi_files_name(const struct psi_file_var *v)
{
    return v->as != NULL ? v->as : v->info.name;
}

/** Free the list vars (may be NULL), with its entries' names and parts. */
void psi_files_vars_free(struct psi_file_var *vars, size_t count);

/* ---- cut.c: partitioned variables, whose rows lie at several ps tasks ---- */
/** Which part of a variable info describes; count 0: info describes a whole variable. */
struct psi_part psi_files_part(const ps_variable_info *info);
/** Replace a variable's parts in the list by one entry with `parts`. DATA_LOSS: a part is missing. Free vars in that case too. */
ps_status psi_files_join(struct psi_file_var *vars, size_t *count, struct psi_err *err) PSI_MUST;
/** Set v->cut and v->parts of a variable that is to be created, as v->spec says. INVALID_ARGUMENT: its shape cannot be cut so. */
ps_status psi_files_cut(struct psi_file_var *v, struct psi_err *err) PSI_MUST;
/** Byte `at` of part `index` is byte *out_whole of the whole variable. Returns how many bytes from there on, at most `bytes`, lie
 * together in the part and in the whole variable. each: bytes of an element. */
uint64_t psi_files_run(const struct psi_parts *cut, uint32_t index, size_t each, uint64_t at, uint64_t bytes,
                       uint64_t *out_whole);
/** How an optimizer slot is cut if its variable is cut as `cut` says: a slot may have another shape. */
struct psi_parts psi_files_slot_cut(const struct psi_parts *cut, const struct psi_slot *slot);

/* ---- metadata.c ---- */
/** Describe vars as JSON, the value of PSI_FILES_KEY_VARIABLES; free() it. NULL: no memory. */
char *psi_files_describe(const struct psi_file_var *vars, size_t count);
/** Read psi_files_describe()'s JSON from a file. Finds each variable in vars by info.name and sets told, optimizer,
 * spec.optimizer, spec.atomic, slot and slot_of; for strings also spec.shape. INVALID_ARGUMENT names the variable. */
ps_status psi_files_understand(const char *text, struct psi_file_var *vars, size_t count, struct psi_err *err) PSI_MUST;

/* ---- trace.c ---- */
/** Check that a file can be made at path, by making one. INVALID_ARGUMENT: path is empty; else as psi_file_target_open(). */
ps_status psi_trace_check(const char *path, struct psi_err *err) PSI_MUST;
/** Write an ended trace (ended_ns is set) as Chrome trace JSON; after an error there is no file. Only once for a trace, because
 * the call changes t: it cuts spans to the trace's time, sorts them and adds a root span. *out_bytes: size of the file. Errors:
 * those of psi_file_target_*(), RESOURCE_EXHAUSTED. */
ps_status psi_trace_write(struct psi_trace *t, const char *path, uint64_t *out_bytes, struct psi_err *err) PSI_MUST;

/* ---- target.c: a file to be written, which gets its name only when it is complete ---- */
struct psi_file_target {
    const char *path;    /* as the caller gave it, for messages; borrowed */
    char *directory;     /* directory of the file to which path leads, through symbolic links */
    char *name;          /* name in the directory */
    char temporary[64];  /* the file's name until the commit; "": it has no name (O_TMPFILE) */
    int directory_fd;    /* -1: not open */
    int fd;              /* -1: not open */
    uint64_t written_to; /* up to this offset the kernel was asked to begin writing to disk */
    bool held;           /* psi_files_hold_signal() has blocked SIGXFSZ in the thread that opened this */
};
/** Begin a new file in path's directory. A file at path stays until the commit. Always end with psi_file_target_close(). */
ps_status psi_file_target_open(struct psi_file_target *t, const char *path, struct psi_err *err) PSI_MUST;
ps_status psi_file_target_write(struct psi_file_target *t, const void *p, size_t bytes, uint64_t offset,
                                struct psi_err *err) PSI_MUST;
/** Block SIGXFSZ: a write beyond RLIMIT_FSIZE then fails with EFBIG. Pass the result to psi_files_release_signal(). */
bool psi_files_hold_signal(void);
void psi_files_release_signal(bool held);
/** Make the file durable (fsync) and give it its name, in place of an older file there. */
ps_status psi_file_target_commit(struct psi_file_target *t, struct psi_err *err) PSI_MUST;
/** Close t; without a commit remove the file. Call it in the thread that opened t, whose signal mask it restores. */
void psi_file_target_close(struct psi_file_target *t);

#endif
