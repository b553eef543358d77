/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are on the host, on a device, or on both: the contents of a tensor and of a parameter's buffers. A side is
 * allocated when it is first needed. Host memory is pinned for the device that last used it. Unwritten values are zeros. A device
 * with host_memory uses the host's side. One thread at a time may use a block. */
#ifndef PSK_BLOCK_H
#define PSK_BLOCK_H

#include "worker/nn/kernels/device.h"
#include "worker/nn/kernels/ops.h"

/* may_alias: a block is stored in ps_tensor.memory, an array of another type */
struct __attribute__((may_alias)) psk_block {
    struct psk_place *place; /* the device of `address` and `marks`, to which the block holds a reference; NULL: no device yet */
    /* buffer on the device; 0: not allocated yet, or the device computes in host memory, with `host` */
    psk_address address;
    size_t device_bytes;
    void *host; /* NULL: none yet */
    size_t host_bytes;
    size_t room_bytes;        /* new buffers get at least this size; set by the block's owner */
    struct psk_place *pinned; /* the device that has allocated `host`, with a reference; NULL: malloc() has allocated it */
    bool on_host;             /* `host` has the values when the submissions in marks are done */
    bool on_device;           /* the buffer at `address` has the values, once the submissions in `marks` are done */
    struct psk_marks marks;   /* last submissions to `place` that use this block */
};

void psk_block_fini(struct psk_block *b);
/** Host memory of at least `bytes` for new values, all of which the caller must write. Waits for submitted copies that use it.
 * place: device that will use the values; if the block has no device yet, the memory is pinned for `place`. NULL: not known. */
PSI_MUST ps_status psk_block_write(struct psk_block *b, struct psk_place *place, size_t bytes, void **out, struct psi_err *err);
/** Host memory with the values; copies them from the device, and waits, if only the device has them. */
PSI_MUST ps_status psk_block_read(struct psk_block *b, size_t bytes, void **out, struct psi_err *err);
/** psk_block_read() without waiting: calls done() when b->host has the values, even before returning. Keep `call` until then. */
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

/** Run an operation on a device: check the arguments, copy the inputs there, submit. Returns when it is submitted; the outputs
 * are on that device then.
 *
 * uses    psk_arg_count(op), inputs first; a block is there twice if the operation works in place.
 * names   names of the arguments in errors; a NULL entry: the name in psk_rows[op].
 * Errors  INVALID_ARGUMENT  an argument does not fit (psk_op_check()); memory is untouched
 *         UNIMPLEMENTED     the device does not have this operation
 *         and those of the device */
PSI_MUST ps_status psk_block_run(struct psk_place *place, psk_op op, const struct psk_use *uses, const struct psk_attrs *attrs,
                                 const char *const *names, struct psi_err *err);

/* Functions of a tracer, called for operations. They are called on any thread, also during psk_watch(). */
struct psk_watch {
    uint64_t (*now_ns)(void);
    /* called after psk_block_run() has submitted operation `name`, or psk_block_read() has waited for a device ("read") */
    void (*ran)(const char *name, uint64_t begun_ns, uint64_t ended_ns);
};
/** Set the tracer's functions; NULL: no tracer. *w must stay valid for ever: other threads may still use a replaced one. */
void psk_watch(const struct psk_watch *w);

#endif
