/* SPDX-License-Identifier: Apache-2.0 */
/*
 * * Read the files of a checkpoint without a task: psctl verifies them and exports values (docs/DURABILITY.md has the bytes). The
 * caller owns the files, and gives a function that reads a range of one.
 *
 * Happy path: psi_saved_open() finds a good manifest, which lists the files. psi_saved_state_read(), once a task, gives the
 * variables and the CRCs of their values. psi_saved_values_read() reads each file of values once, from its beginning on, and
 * passes on what the caller wants. psi_saved_verify() does all of it, and goes on behind a bad file. Failure: DATA_LOSS: a file
 * is not as it was written, and the text says where; FAILED_PRECONDITION: a newer psd or another cluster wrote the checkpoint;
 * what reading says. Bytes that were read without an error are those that the manifest and the state file have the CRCs of; a
 * file that was read whole has nothing else in it. Any thread.
 */
#ifndef PSI_SAVED_H
#define PSI_SAVED_H

#include "../proto/frame.h"
#include "limits.h"
#include "manifest.h"
#include "optimizer.h"
#include "safetensors.h"

/* A file of a checkpoint, as the manifest names it. */
struct psi_saved_file {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    uint32_t kind;  /* enum ps_file_kind */
    uint32_t index; /* of values: number in its container */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t bytes; /* of the manifest: 0, not known */
    uint32_t sum;
};
enum { PSI_SAVED_FILE_TEXT_MAX = 32 };
/** "state", "model-00003.safetensors": its name at its task. Returns buf [PSI_SAVED_FILE_TEXT_MAX]. */
const char *psi_saved_file_text(const struct psi_saved_file *file, char *buf);

struct psi_saved_io {
    /** Read bytes of a file from offset on, fewer only where the file ends. */
    ps_status (*read)(void *ctx, const struct psi_saved_file *file, uint64_t offset, void *dst, size_t bytes, size_t *out_bytes,
                      struct psi_err *err);
    /** `bytes` more bytes of a file have been checked; may be NULL. */
    void (*progress)(void *ctx, const struct psi_saved_file *file, uint64_t bytes);
    void *ctx;
    uint64_t map_seed[2]; /* random, for the hash tables */
};

/* A value or a slot. */
struct psi_saved_array {
    uint32_t *sums; /* CRCs of its blocks of 64 KiB */
    uint64_t sum_count;
    uint64_t at;  /* bytes read so far */
    uint32_t sum; /* CRC of the block that is being read, so far */
};
/* A variable that has a value. */
struct psi_saved_variable {
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    ps_dtype dtype;
    ps_shape shape;
    ps_optimizer optimizer;
    bool atomic;
    uint32_t order; /* rises with the creation of variables, over all tasks */
    uint32_t file;  /* index of its file of values, from 1 on */
    uint64_t creation, bytes, version;
    double powers[PSI_OPTIMIZER_SLOTS_MAX]; /* numbers of its slots */
    uint32_t array_count;                   /* the value and the slots */
    struct psi_saved_array arrays[1 + PSI_OPTIMIZER_SLOTS_MAX];
};
struct psi_saved_values {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t bytes, header_bytes; /* of the header: its prefix and padding included */
    uint32_t header_sum;
};
/* A container that has a variable, with a value or without one, or a queue. */
struct psi_saved_container {
    char name[PS_CONTAINER_BYTES_MAX + 1];
};
/* What a state file says. */
struct psi_saved_state {
    struct psi_saved_variable *variables;
    size_t variable_count, variable_capacity;
    struct psi_saved_values *files;
    size_t file_count, file_capacity;
    struct psi_saved_container *containers; /* in the order of the variables and queues; one may come several times */
    size_t container_count, container_capacity;
};
void psi_saved_state_fini(struct psi_saved_state *s);

/* A checkpoint whose manifest is known. */
struct psi_saved {
    ps_v1_SaveItem what;
    struct psi_buf manifest;
    struct psi_saved_file *files; /* by task; of each the state first, then values by index */
    size_t file_count;
};
/** tasks [count], job and task set: who may have it, the likeliest first. saved is set in any case: psi_saved_close(). */
ps_status psi_saved_open(struct psi_saved *saved, uint64_t number, const struct psi_saved_io *io,
                         const struct psi_saved_file *tasks, size_t count, struct psi_err *err) PSI_MUST;
void psi_saved_close(struct psi_saved *saved);

/** file, a state file. out is set in any case: psi_saved_state_fini(). */
ps_status psi_saved_state_read(const struct psi_saved *saved, const struct psi_saved_io *io, const struct psi_saved_file *file,
                               struct psi_saved_state *out, struct psi_err *err) PSI_MUST;
/** Bytes [at, at + n) of the value (0) or a slot (from 1 on) of a variable: of strings of the blob (common/blob.h). They come in
 * their order, and a piece may come before its CRC is known to be good. */
typedef ps_status (*psi_saved_sink_fn)(void *ctx, const struct psi_saved_variable *variable, uint32_t which, uint64_t at,
                                       const void *p, size_t n, struct psi_err *err);
/** Whether the sink is to have it: what is not wanted is not checked, and not read unless it lies close between others. */
typedef bool (*psi_saved_wanted_fn)(void *ctx, const struct psi_saved_variable *variable, uint32_t which);
/** file, one of values of the task of this state, once for each state. wanted NULL: all; sink may be NULL. */
ps_status psi_saved_values_read(const struct psi_saved_io *io, const struct psi_saved_file *file, struct psi_saved_state *state,
                                psi_saved_wanted_fn wanted, psi_saved_sink_fn sink, void *ctx, struct psi_err *err) PSI_MUST;

/** A file that is bad, and why; or, psi_saved_is_away(err->code), the first one of a task that could not be asked. */
typedef void (*psi_saved_bad_fn)(void *ctx, const struct psi_saved_file *file, const struct psi_err *err);
/** UNAVAILABLE, DEADLINE_EXCEEDED: that says nothing about a file. */
bool psi_saved_is_away(ps_status st);
/** All files of all its tasks, but those behind the first one that a task that is away was asked for. How many are bad. */
uint32_t psi_saved_verify(const struct psi_saved *saved, const struct psi_saved_io *io, psi_saved_bad_fn bad, void *ctx);

#endif
