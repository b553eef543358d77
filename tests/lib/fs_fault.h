/* SPDX-License-Identifier: Apache-2.0 */
/* A struct psd_fs between psd/durable/ and another one: it counts calls, lets the n-th of some kinds fail, and cuts writes. */
#ifndef TESTS_LIB_FS_FAULT_H
#define TESTS_LIB_FS_FAULT_H

#include "psd/durable/fs.h"

enum fs_call {
    FS_MAKE_DIR = 1,
    FS_OPEN_DIR = 2,
    FS_OPEN_FILE = 4,
    FS_WRITE = 8,
    FS_READ = 16,
    FS_SYNC = 32,
    FS_RENAME = 64,
    FS_REMOVE = 128,
    FS_EACH = 256,
    FS_ALL = 511
};

struct fs_fault {
    struct psd_fs real;
    unsigned kinds;    /* those that are counted */
    uint64_t calls;    /* of them */
    uint64_t fail_at;  /* the one that fails, from 1; 0: none */
    bool stays;        /* ... and all after it, as when the power is off */
    int why;           /* ... with this */
    size_t write_most; /* of one write; 0: all */
    bool sync_not;     /* a sync is counted and not carried out: nothing waits for a disk that is busy */
    void (*before)(void *ctx, enum fs_call call); /* NULL: nothing */
    void *ctx;
};

/** Calls of *out count in f and go on to real. */
void fs_fault_init(struct fs_fault *f, const struct psd_fs *real, struct psd_fs *out);

#endif
