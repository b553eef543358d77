/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of a checkpoint without a running task: psctl verifies them and exports values (docs/DURABILITY.md has the
 * formats). The caller has the files, and gives a function that reads a range of bytes of one. Any thread.
 *
 * Happy path: psi_saved_open() finds a good manifest, which lists the files. psi_saved_state_read(), called for each task's state
 * file, gives the variables and the CRCs of their values. psi_saved_values_read() reads each file of values once, from its
 * beginning on, and passes on what the caller wants. psi_saved_verify() does all of this, and goes on after a bad file.
 *
 * Failure: DATA_LOSS: a file is not as it was written, and the text says where. FAILED_PRECONDITION: a newer psd wrote the file,
 * or a state file is not of the task and cluster that the manifest names. Errors of psi_saved_io.read(). */
#ifndef PSI_SAVED_H
#define PSI_SAVED_H

#include "../proto/frame.h"
#include "limits.h"
#include "manifest.h"
#include "optimizer.h"
#include "partition.h"
#include "safetensors.h"

struct psi_saved_file {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    uint32_t kind;  /* enum ps_file_kind */
    uint32_t index; /* file of values: its index among all files of values of the task */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t bytes; /* size of the file in bytes; 0 for the manifest, whose size is not known */
    uint32_t sum;
};
enum { PSI_SAVED_FILE_TEXT_MAX = 32 };
/** The file's name in its task's directory, as "state" or "model-00003.safetensors". Returns buf [PSI_SAVED_FILE_TEXT_MAX]. */
const char *psi_saved_file_text(const struct psi_saved_file *file, char *buf);

struct psi_saved_io {
    /** Reads bytes from offset on; it may return fewer only at the end of the file. */
    ps_status (*read)(void *ctx, const struct psi_saved_file *file, uint64_t offset, void *dst, size_t bytes, size_t *out_bytes,
                      struct psi_err *err);
    /** Called after `bytes` more bytes of a file were read or skipped; may be NULL. */
    void (*progress)(void *ctx, const struct psi_saved_file *file, uint64_t bytes);
    void *ctx;
    uint64_t map_seed[2]; /* random numbers for the hash tables */
};

struct psi_saved_array {
    uint32_t *sums; /* CRC of each block of 64 KiB in the array */
    uint64_t sum_count;
    uint64_t at;
    uint32_t sum; /* CRC of the present block so far */
};
struct psi_saved_variable {
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    char whole[PS_NAME_BYTES_MAX + 1]; /* for a part of a partitioned variable: the variable's name; otherwise its own name */
    ps_dtype dtype;
    ps_shape shape;
    ps_optimizer optimizer;
    bool atomic;
    struct psi_part part;
    uint32_t order; /* rises in the order in which variables were created, over all tasks */
    uint32_t file;  /* number of the file with its values, from 1 on, among the state's `files` */
    uint64_t creation, bytes, version;
    double powers[PSI_OPTIMIZER_SLOTS_MAX];
    uint32_t array_count; /* the value and the slots */
    struct psi_saved_array arrays[1 + PSI_OPTIMIZER_SLOTS_MAX];
};
struct psi_saved_values {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t bytes, header_bytes; /* header_bytes: length of the safetensors header with its prefix and padding */
    uint32_t header_sum;
};
/* A container that has a queue, or a variable with or without a value. */
struct psi_saved_container {
    char name[PS_CONTAINER_BYTES_MAX + 1];
};
struct psi_saved_state {
    struct psi_saved_variable *variables;
    size_t variable_count, variable_capacity;
    struct psi_saved_values *files;
    size_t file_count, file_capacity;
    struct psi_saved_container *containers; /* in the order of variables and queues, so a container may come more than once */
    size_t container_count, container_capacity;
};
void psi_saved_state_fini(struct psi_saved_state *s);

struct psi_saved {
    ps_v1_SaveItem what;
    struct psi_buf manifest;
    struct psi_saved_file *files; /* task after task; for each task its state file, then its files of values */
    size_t file_count;
};
/** Find the manifest of checkpoint `number` and list its files in saved. tasks [count]: which tasks (job and index) may have the
 * manifest, the likeliest first. Call psi_saved_close() afterwards, also after a failure. NOT_FOUND: no task has it. */
ps_status psi_saved_open(struct psi_saved *saved, uint64_t number, const struct psi_saved_io *io,
                         const struct psi_saved_file *tasks, size_t count, struct psi_err *err) PSI_MUST;
void psi_saved_close(struct psi_saved *saved);

/** Read a state file. Call psi_saved_state_fini() afterwards, also after a failure. */
ps_status psi_saved_state_read(const struct psi_saved *saved, const struct psi_saved_io *io, const struct psi_saved_file *file,
                               struct psi_saved_state *out, struct psi_err *err) PSI_MUST;
/** Gets bytes [at, at + n) of an array of a variable. which: 0 for the value (of strings: all strings encoded, common/blob.h), n
 * for the optimizer's n-th slot. Pieces come in order, and some before their CRC was checked. */
typedef ps_status (*psi_saved_sink_fn)(void *ctx, const struct psi_saved_variable *variable, uint32_t which, uint64_t at,
                                       const void *p, size_t n, struct psi_err *err);
/** Says whether the caller wants an array. Other arrays are not checked; they are read only where they fill a short gap. */
typedef bool (*psi_saved_wanted_fn)(void *ctx, const struct psi_saved_variable *variable, uint32_t which);
/** Read a file of values and check its CRCs, once for each file. state: from psi_saved_state_read() for the file's task. wanted
 * NULL: all arrays are wanted. sink NULL: values are only checked. */
ps_status psi_saved_values_read(const struct psi_saved_io *io, const struct psi_saved_file *file, struct psi_saved_state *state,
                                psi_saved_wanted_fn wanted, psi_saved_sink_fn sink, void *ctx, struct psi_err *err) PSI_MUST;

/** For each bad file; err says why. Also for the first file of a task that does not answer (psi_saved_is_away(err->code)). */
typedef void (*psi_saved_bad_fn)(void *ctx, const struct psi_saved_file *file, const struct psi_err *err);
/** True for UNAVAILABLE and DEADLINE_EXCEEDED: the task does not answer, which says nothing about its files. */
bool psi_saved_is_away(ps_status st);
/** Verify the files of all tasks. A task that does not answer once is skipped. Returns the number of bad files. */
uint32_t psi_saved_verify(const struct psi_saved *saved, const struct psi_saved_io *io, psi_saved_bad_fn bad, void *ctx);

#endif
