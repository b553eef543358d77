/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that are on the host, on a device, or on both: what a tensor and a parameter's buffers are made of.
 *
 * A block's sides are made when they are first needed. Host memory is pinned for the device that it was last used on. Values that
 * nobody has written are zeros. On a device with host_memory the host's side is the device's. One thread at a time per block.
 */
#ifndef PSK_BLOCK_H
#define PSK_BLOCK_H

#include "worker/nn/kernels/device.h"
#include "worker/nn/kernels/ops.h"

/* may_alias: it lies in the program's ps_tensor as plain words */
struct __attribute__((may_alias)) psk_block {
    struct psk_place *place;  /* the device of what follows; holds a reference; NULL: none yet */
    psk_address address;      /* memory there; 0: none, or it is the host's */
    size_t device_bytes;      /* room at address */
    void *host;               /* NULL: none yet */
    size_t host_bytes;        /* room at host */
    size_t room_bytes;        /* what is made when a side is made: the owner's, who sets it; 0: what is asked for */
    struct psk_place *pinned; /* the device that made host, with a reference; NULL: malloc */
    bool on_host;             /* the values are there when marks are done */
    bool on_device;           /* the values are there, for whatever is ordered after marks */
    struct psk_marks marks;   /* what was last submitted that uses this block, at place */
};

/** Wait for what is under way with it, free both sides, make it empty. */
void psk_block_fini(struct psk_block *b);
/** Host memory of at least bytes to be written to by the caller, who replaces all values. Waits until nothing that was submitted
 *  reads it any more. place: for which to pin it if it is made now; NULL: the block's own, if any. */
PSI_MUST ps_status psk_block_write(struct psk_block *b, struct psk_place *place, size_t bytes, void **out, struct psi_err *err);
/** Host memory that has the values: copies out what only the device has, and waits for it. */
PSI_MUST ps_status psk_block_read(struct psk_block *b, size_t bytes, void **out, struct psi_err *err);
/** The same without waiting: done comes when the values are at b->host. call is the device's until then. */
PSI_MUST ps_status psk_block_fetch(struct psk_block *b, size_t bytes, struct psk_call *call, psk_done_fn done, void *ctx,
                                   struct psi_err *err);
/** Where the values are now, for people: the device, or NULL for the host. */
const struct psk_place *psk_block_where(const struct psk_block *b);

/** One argument of an operation: where it is and what it looks like. block NULL: the argument is not there. */
struct psk_use {
    struct psk_block *block;
    ps_shape shape;
    ps_dtype dtype;
};

/**
 * Run one operation on a device: check what there is to check, bring the inputs there, submit. Returns when it is submitted;
 * the outputs are then on that device.
 *
 * uses    psk_arg_count(op), inputs first; the same block twice where the operation works in place.
 * names   what the arguments are called in errors; NULL entries for the row's names.
 * Errors  INVALID_ARGUMENT  what does not fit (psk_op_check), before memory is touched
 *         UNIMPLEMENTED     the device does not have this operation
 *         and those of the device
 */
PSI_MUST ps_status psk_block_run(struct psk_place *place, psk_op op, const struct psk_use *uses, const struct psk_attrs *attrs,
                                 const char *const *names, struct psi_err *err);

#endif
