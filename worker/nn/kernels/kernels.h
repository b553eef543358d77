/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel plugin (libpsworker_<plugin>.so) gives to libpsworker: devices, their memory, copies, streams, events, and the
 * operations. The same struct serves a device that computes later and elsewhere (CUDA) and one that computes at the call in the
 * host's memory (cpu, which is the reference); the host (block.c, device.c) knows them by it only.
 *
 * A plugin exports one symbol, psk_open, and nothing else of it is known by name.
 *
 * Order    Work that was submitted to a stream runs in order. Streams of a device run beside each other, except where an event
 *          orders them. Submitting may return before the work is done, and on every device may not.
 * Threads  The host submits work to a device (copies, operations, event_record, stream_wait) on any thread, one call at a time.
 *          event_wait, stream_call and the functions for memory may run beside that, and beside each other. On a device with
 *          host_memory everything may.
 * Errors   Functions return PS_OK or a status, with a text that names the operation and what failed: RESOURCE_EXHAUSTED for lack
 * of memory, INTERNAL for a device that failed. Work that fails after it was submitted is told by whatever waits for it: its
 *          event_wait, its stream_call, and, as of then, any call. Nothing ends the process. What runs after such a failure may
 * do anything to the memory of the device, and to host memory that a copy was to fill, but it ends: every event is reached, every
 * stream_call made. The host closes the device then and may open it anew. Fork     A child does not use a device of its parent.
 */
#ifndef PSK_KERNELS_H
#define PSK_KERNELS_H

#include "common/status.h"

/* rises with every change of the structures below, of the operations, or of what one of them means */
#define PSK_ABI 4u

struct psk_device; /* of the plugin, like the next two */
struct psk_stream;
struct psk_event;

/** Memory of a device, by a number that only its plugin can use; of a device with host_memory the pointer's value. 0: none. */
typedef uint64_t psk_address;

/** What an operation reads or writes: row-major, contiguous, 64-byte aligned unless host_memory. */
struct psk_tensor {
    psk_address address; /* 0 where there are no elements, or no tensor */
    ps_shape shape;
    ps_dtype dtype; /* PS_DTYPE_NONE: the optional argument is not there */
};

typedef enum psk_activation { PSK_LINEAR = 0, PSK_RELU, PSK_SIGMOID, PSK_TANH, PSK_ACTIVATIONS } psk_activation;

/** What an operation takes besides tensors; zeros where it does not look. */
struct psk_attrs {
    uint64_t seed, step; /* dropout */
    float keep;          /* dropout: 2^-20 <= keep <= 1 */
    uint32_t activation; /* psk_activation */
    uint32_t tf32;       /* 1: matrix products may round their inputs to 10 bits of fraction, where that is faster */
    float rate;          /* sgd: finite */
};

/*
 * The operations. B rows of a batch, I inputs, O outputs, C classes, N values a row, K values that are stored of all rows; B and
 * K may be 0, the others are >= 1. Float32 but for labels, ends and columns (int32), loss (float64) and count (int64). [x]: may
 * be absent. act' is written in terms of the activation's result: linear 1, relu (y <= 0 ? 0 : 1), sigmoid y (1 - y), tanh 1 -
 * y^2. What is added up over B is 0 for B = 0. Outputs may hold anything before; all of it is replaced. They overlap nothing,
 * except where "in place" says that the very same memory is fine. All operations give the same bits for the same input on one
 * machine and device.
 */
typedef enum psk_op {
    PSK_DENSE,        /* x (B,I), w (I,O), [b] (O) -> y (B,O): act(x w + b) */
    PSK_DENSE_DX,     /* dy (B,O), w (I,O), [x] (B,I) -> dx (B,I): (dy w^T) act'(x), x = the activation's result; x is there
                         unless the activation is linear */
    PSK_DENSE_DW,     /* x (B,I), dy (B,O) -> dw (I,O), [db] (O): x^T dy, column sums of dy */
    PSK_ACT,          /* x (B,N) -> y (B,N): act(x), in place */
    PSK_ACT_BACKWARD, /* y (B,N), dy (B,N) -> dx (B,N): dy act'(y), in place of either */
    PSK_DROPOUT,      /* in (B,N) -> out (B,N), in place: kept(seed, step, i) ? in_i / keep : 0, i = row * N + column; the mask is
                         that of cpu/dropout.c, bit for bit */
    PSK_SOFTMAX_XENT, /* logits (B,C), labels (B) -> [dlogits] (B,C), [loss] (): mean cross-entropy, (softmax - onehot) / B;
                         dlogits in place of logits */
    PSK_ARGMAX_COUNT, /* logits (B,C), labels (B) -> count (): rows whose first largest value is at the label; a row with a NaN
                         does not count */
    PSK_SGD,          /* w (B,N), dw (B,N) -> out (B,N): w - rate dw, in place of either */
    PSK_SPARSE,       /* ends (B), columns (K), values (K), w (I,O), [b] (O) -> y (B,O): act(x w + b), x (B,I) in compressed
                         sparse rows: row i has values[k] in columns[k] for k = ends[i-1] .. ends[i]-1, row 0 from k = 0 on, and
                         0 elsewhere. Columns rise strictly within a row. A product is added up in the order of the columns */
    PSK_SPARSE_DW,    /* ends (B), columns (K), values (K), dy (B,O) -> dw (I,O), [db] (O): x^T dy, column sums of dy; added up in
                         the order of the rows */
    PSK_OPS
} psk_op;

#define PSK_ARGS_MAX 6

/**
 * Submit one operation. args are those listed above, in that order, inputs first; the host has checked them (ops.h): shapes fit,
 * dtypes, overlaps, attributes. Labels in host_memory are in range; elsewhere the operation checks them before it indexes with
 * them, and one that is not fails it with INVALID_ARGUMENT, "label 12 of row 3 is not a class, allowed is 0 to 9".
 */
typedef ps_status (*psk_run_fn)(struct psk_device *device, struct psk_stream *stream, const struct psk_tensor *args,
                                const struct psk_attrs *attrs, struct psi_err *err);

struct psk_properties {
    char name[96];         /* for people: "OpenBLAS SkylakeX, 1 thread", "NVIDIA H200" */
    char warning[256];     /* what makes it slower than it should be; "" if nothing is known */
    uint64_t memory_bytes; /* of the device; 0 where it is the host's */
    uint32_t index;
    bool host_memory; /* addresses are those of the host, and everything is done when the submitting call returns */
};

/** done: once, on a thread of the plugin (with host_memory: before stream_call returns), with NULL or what failed before it.
 * Calls no function of the plugin. */
typedef void (*psk_done_fn)(void *ctx, const struct psi_err *error);

struct psk_plugin {
    uint32_t abi;          /* PSK_ABI that the plugin was built with; the first two fields never change */
    uint32_t struct_bytes; /* sizeof(struct psk_plugin) there */
    const char *name;      /* as in its file name: "cpu", "cuda" */
    const char *type;      /* "CPU", "GPU": as in names of devices */

    /* Devices that can be opened now, 0 .. count-1. Without any *why says why not (no driver); untouched otherwise. */
    uint32_t (*device_count)(struct psi_err *why);
    ps_status (*device_open)(uint32_t index, struct psk_device **out, struct psi_err *err);
    /* Nothing that was submitted is under way, and all that was made of it is freed. */
    void (*device_close)(struct psk_device *device);
    void (*properties)(struct psk_device *device, struct psk_properties *out);
    /* Threads that compute, where these are the host's; 1 at first. NULL: the device has its own. */
    void (*set_threads)(struct psk_device *device, uint32_t threads);

    /* Memory of the device, bytes >= 1, 256-byte aligned, contents arbitrary. */
    ps_status (*buffer_new)(struct psk_device *device, size_t bytes, psk_address *out, struct psi_err *err);
    /* Nothing that was submitted uses it any more. */
    void (*buffer_free)(struct psk_device *device, psk_address address);
    /* Host memory that copies reach without a detour, 64-byte aligned, contents arbitrary. */
    ps_status (*pinned_new)(struct psk_device *device, size_t bytes, void **out, struct psi_err *err);
    void (*pinned_free)(struct psk_device *device, void *memory);

    ps_status (*stream_new)(struct psk_device *device, struct psk_stream **out, struct psi_err *err);
    void (*stream_free)(struct psk_device *device, struct psk_stream *stream);
    ps_status (*event_new)(struct psk_device *device, struct psk_event **out, struct psi_err *err);
    void (*event_free)(struct psk_device *device, struct psk_event *event);

    /* to, from: pinned memory, or a part of it, that stays as it is (to: that nobody looks at) until the copy is done. */
    ps_status (*copy_in)(struct psk_device *device, struct psk_stream *stream, psk_address to, const void *from, size_t bytes,
                         struct psi_err *err);
    ps_status (*copy_out)(struct psk_device *device, struct psk_stream *stream, void *to, psk_address from, size_t bytes,
                          struct psi_err *err);
    /* The event stands for all that was submitted to the stream so far, until it is recorded again. */
    ps_status (*event_record)(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err);
    /* What is submitted to stream from now on starts after what event stands for; one never recorded stands for nothing. */
    ps_status (*stream_wait)(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err);
    /* Until what event stands for is done; it may be recorded again meanwhile, and may then be waited for instead. */
    ps_status (*event_wait)(struct psk_device *device, struct psk_event *event, struct psi_err *err);
    /* When all that was submitted to the stream so far is done. Without PS_OK done is never called. */
    ps_status (*stream_call)(struct psk_device *device, struct psk_stream *stream, psk_done_fn done, void *ctx,
                             struct psi_err *err);

    const psk_run_fn *run; /* [PSK_OPS], by enum psk_op; a NULL in it: this device cannot */
};

#define PSK_OPEN_SYMBOL "psk_open"
typedef const struct psk_plugin *(*psk_open_fn)(uint32_t abi);

/** Exported by each plugin: what it has, whatever version the host is of (abi); the host compares. Any thread; opens nothing. */
PS_API const struct psk_plugin *psk_open(uint32_t abi);

#endif
