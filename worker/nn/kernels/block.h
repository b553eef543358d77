/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that are on the host, on a device, or on both: the contents of a tensor and of a parameter's buffers.
 *
 * A side is allocated when it is first needed. Host memory is pinned for the device that it was last used on. Values that nobody
 * has written are zeros. On a device with host_memory the host's side is the device's. One thread at a time per block.
 */
#ifndef PSK_BLOCK_H
#define PSK_BLOCK_H

#include "worker/nn/kernels/device.h"
#include "worker/nn/kernels/ops.h"

/* may_alias: it is stored in the words of the program's ps_tensor */
struct __attribute__((may_alias)) psk_block {
    struct psk_place *place;  /* the device that address, pinned and marks belong to, with a reference; NULL: none yet */
    psk_address address;      /* memory on the device; 0: none, or the host's memory */
    size_t device_bytes;      /* size of the buffer at address */
    void *host;               /* NULL: none yet */
    size_t host_bytes;        /* size of the buffer at host */
    size_t room_bytes;        /* size of new buffers, set by the owner; 0: as asked for */
    struct psk_place *pinned; /* the device that has allocated host, with a reference; NULL: malloc() */
    bool on_host;             /* the values are at host when marks are done */
    bool on_device;           /* the values are at address, for work that is ordered after marks */
    struct psk_marks marks;   /* the last submissions at place that use this block */
};

/** Wait for submissions that use the block, free both sides and empty it. */
void psk_block_fini(struct psk_block *b);
/** Host memory of at least bytes for new values, all of which the caller writes. Waits until nothing that was submitted reads
 * it. place: device to pin it for, if it is allocated now; NULL: the block's own. */
PSI_MUST ps_status psk_block_write(struct psk_block *b, struct psk_place *place, size_t bytes, void **out, struct psi_err *err);
/** Host memory with the values; copies them from the device, and waits, if only the device has them. */
PSI_MUST ps_status psk_block_read(struct psk_block *b, size_t bytes, void **out, struct psi_err *err);
/** psk_block_read() without waiting: done is called when the values are at b->host. call is used until then. */
PSI_MUST ps_status psk_block_fetch(struct psk_block *b, size_t bytes, struct psk_call *call, psk_done_fn done, void *ctx,
                                   struct psi_err *err);
/** The device that has the values now; NULL: the host. */
const struct psk_place *psk_block_where(const struct psk_block *b);

/** An argument of an operation: its block, shape and dtype. block NULL: an optional argument that is missing. */
struct psk_use {
    struct psk_block *block;
    ps_shape shape;
    ps_dtype dtype;
};

/**
 * Run an operation on a device: check the arguments, copy the inputs there, submit. Returns when it is submitted; the outputs are
 * on that device then.
 *
 * uses    psk_arg_count(op), inputs first; a block is there twice if the operation works in place.
 * names   names of the arguments in errors; a NULL entry: the row's name.
 * Errors  INVALID_ARGUMENT  an argument does not fit (psk_op_check()); memory is untouched
 *         UNIMPLEMENTED     the device does not have this operation
 *         and those of the device
 */
PSI_MUST ps_status psk_block_run(struct psk_place *place, psk_op op, const struct psk_use *uses, const struct psk_attrs *attrs,
                                 const char *const *names, struct psi_err *err);

/* A listener for operations. Its functions are called on any thread, also during psk_watch(). */
struct psk_watch {
    uint64_t (*now_ns)(void);
    /* called when psk_block_run() has submitted this operation, or psk_block_read() has waited for values of a device ("read") */
    void (*ran)(const char *name, uint64_t begun_ns, uint64_t ended_ns);
};
/** Set the listener; w: constant for good; NULL: none. Any thread. */
void psk_watch(const struct psk_watch *w);

#endif
