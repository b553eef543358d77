/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a kernel plugin (libpsworker_<plugin>.so): devices, their memory, copies, streams, events, and the operations.
 * One struct serves devices that compute later and elsewhere (CUDA) and a device that computes within the call in host memory
 * (cpu, the reference); the host (block.c, device.c) uses nothing else of a plugin. A plugin exports one symbol, psk_open.
 *
 * Order    Work of one stream runs in the order of submission. Streams run beside each other unless an event orders them. A
 *          submission may return before the work is done.
 * Threads  The host submits work to a device (copies, operations, event_record, stream_wait) on any thread, one call at a time.
 *          event_wait, stream_call and the functions for memory may run beside that, and beside each other. On a device with
 *          host_memory all functions may.
 * Errors   Functions return PS_OK or a status whose text names the operation and what failed: RESOURCE_EXHAUSTED for lack of
 *          memory, INTERNAL for a failed device. Work that fails after its submission is reported by what waits for it
 *          (event_wait, stream_call), and by every later call. The process never ends. Work that runs after such a failure may do
 *          anything to the device's memory, and to host memory that a copy was to fill, but it ends: every event is reached,
 *          every stream_call is made. The host then closes the device, and may open it again.
 * Fork     A child does not use a device of its parent.
 */
#ifndef PSK_KERNELS_H
#define PSK_KERNELS_H

#include "common/status.h"

/* increased with every change of the structs below, of the operations, or of their meaning */
#define PSK_ABI 6u

struct psk_device; /* the plugin's own types */
struct psk_stream;
struct psk_event;

/** Address of device memory, which only its plugin can use; with host_memory the value of the pointer. 0: none. */
typedef uint64_t psk_address;

/** An input or output of an operation: row-major, contiguous, 64-byte aligned unless host_memory. */
struct psk_tensor {
    psk_address address; /* 0 if there are no elements, or no tensor */
    ps_shape shape;
    ps_dtype dtype; /* PS_DTYPE_NONE: a missing optional argument */
};

typedef enum psk_activation { PSK_LINEAR = 0, PSK_RELU, PSK_SIGMOID, PSK_TANH, PSK_ACTIVATIONS } psk_activation;

/* Losses of one value x and its target t; loss.h has the formulas. */
/* What divides a bag's sum of w e: 1, the sum of w, the root of the sum of w^2; where the divisor is 0 the result is zeros. */
typedef enum psk_combiner { PSK_SUM = 0, PSK_MEAN, PSK_SQRTN, PSK_COMBINERS } psk_combiner;

typedef enum psk_loss { PSK_SQUARED = 0, PSK_ABSOLUTE, PSK_HUBER, PSK_SIGMOID_XENT, PSK_LOSSES } psk_loss;

/** Arguments of an operation besides tensors; unused ones are zeros. */
struct psk_attrs {
    uint64_t seed, step; /* for dropout */
    float keep;          /* dropout: 2^-20 <= keep <= 1 */
    uint32_t activation; /* psk_activation */
    uint32_t tf32;       /* 1: matrix products may round their inputs to 10 bits of fraction, if that is faster */
    float rate;          /* for sgd: finite */
    uint32_t loss;       /* psk_loss */
    float delta;         /* PSK_HUBER: finite, > 0 */
    float epsilon;       /* for layer_norm: finite, > 0 */
    uint32_t combiner;   /* psk_combiner */
    uint32_t fields;     /* for dot: vectors in a row, >= 2 */
    /* 1 + the padding index, which may lie outside of the table: its entries are as if they were not there; 0: none */
    uint64_t padding_plus_1;
};

/*
 * The operations. Letters: B rows of a batch, I inputs, O outputs, C classes, N values per row, K stored values of all rows, R
 * rows of a table, M values of all fields, P pairs of fields; B, K and R may be 0, the others are >= 1. Values are float32,
 * except labels, ends and columns of sparse rows (int32), indices and ends of bags (int64), loss (float64) and count (int64).
 * [x]: optional. act' is a function of the activation's result: linear 1, relu (y <= 0 ? 0 : 1), sigmoid y (1 - y), tanh 1 - y^2.
 * Sums over B are 0 for B = 0. Outputs are replaced completely. They overlap no other argument, except that "in place" allows the
 * very same memory. On one machine and device the same input gives the same bits.
 */
typedef enum psk_op {
    PSK_DENSE,        /* x (B,I), w (I,O), [b] (O) -> y (B,O): act(x w + b) */
    PSK_DENSE_DX,     /* dy (B,O), w (I,O), [x] (B,I) -> dx (B,I): (dy w^T) act'(x), x = the activation's result, required
                       * unless the activation is linear */
    PSK_DENSE_DW,     /* x (B,I), dy (B,O) -> dw (I,O), [db] (O): x^T dy, column sums of dy */
    PSK_ACT,          /* x (B,N) -> y (B,N): act(x), in place */
    PSK_ACT_BACKWARD, /* y (B,N), dy (B,N) -> dx (B,N): dy act'(y), in place of either */
    PSK_DROPOUT,      /* in (B,N) -> out (B,N), in place: kept(seed, step, i) ? in_i / keep : 0, i = row * N + column; the mask
                       * is that of cpu/dropout.c, bit for bit */
    PSK_SOFTMAX_XENT, /* logits (B,C), labels (B) -> [dlogits] (B,C), [loss] (): mean cross-entropy, (softmax - onehot) / B;
                         dlogits in place of logits */
    /* logits (B,C), labels (B) -> count (): number of rows whose first largest value is at the label; a row with a NaN does not
     * count */
    PSK_ARGMAX_COUNT,
    PSK_SGD,       /* w (B,N), dw (B,N) -> out (B,N): w - rate dw, in place of either */
    PSK_SPARSE,    /* ends (B), columns (K), values (K), w (I,O), [b] (O) -> y (B,O): act(x w + b), x (B,I) in compressed sparse
                    * rows: row i has values[k] in columns[k] for k = ends[i-1] .. ends[i]-1, row 0 from k = 0 on, and 0
                    * elsewhere. Columns ascend within a row. Sums are made in the order of the columns */
    PSK_SPARSE_DW, /* ends (B), columns (K), values (K), dy (B,O) -> dw (I,O), [db] (O): x^T dy, column sums of dy; sums are
                    * made in the order of the rows */
    PSK_LOSS,      /* x (B,N), t (B,N) -> [dx] (B,N), [loss] (): mean of loss(x, t) over all elements, and its gradient; dx in
                    * place of either */
    PSK_GELU,      /* x (B,N) -> y (B,N): x Phi(x), Phi the distribution function of the standard normal distribution; in place */
    PSK_GELU_BACKWARD, /* x (B,N), dy (B,N) -> dx (B,N): dy (Phi(x) + x Phi'(x)), in place of either */
    PSK_ADD,           /* a (B,N), b (B,N) -> out (B,N): a + b, in place of either */
    /* x (B,N), gamma (N), beta (N) -> y (B,N): gamma h + beta, h = (x - mean) / sqrt(variance + epsilon) with mean and variance
     * (divided by N) of the row; in place */
    PSK_LAYER_NORM,
    /* x (B,N), gamma (N), dy (B,N) -> [dx] (B,N), [dgamma] (N), [dbeta] (N): h = (x - mean) / sqrt(variance + epsilon),
     * g = dy gamma: dx = (g - mean(g) - h mean(g h)) / sqrt(variance + epsilon), in place of dy; column sums of dy h; column sums
     * of dy */
    PSK_LAYER_NORM_BACKWARD,
    /* Bags: bag i has the entries k = ends[i-1] .. ends[i]-1, bag 0 from k = 0 on. Entry k is row indices[k] of the table, times
     * weights[k] (1 without weights). Backward sums are made in the order of the entries. */
    PSK_EMBEDDING,          /* rows (R,N), indices (K) -> y (K,N): y_k = row indices[k]; zeros for the padding index */
    PSK_EMBEDDING_BACKWARD, /* [rows] (R,N), indices (K), dy (K,N) -> drows (R,N); of rows only the shape is used */
    PSK_EMBEDDING_BAG,      /* rows (R,N), indices (K), ends (B), [weights] (K) -> y (B,N): the combined entries of each bag */
    PSK_EMBEDDING_BAG_BACKWARD, /* [rows] (R,N), indices (K), ends (B), [weights] (K), dy (B,N) -> drows (R,N) */
    /* rows (R,N), indices (K), ends (B), [weights] (K) -> y (B), sums (B,N): y = the sum of the dot products of all pairs of
     * different entries of a bag (factorization machine), sums = the sum of its entries */
    PSK_FM,
    /* rows (R,N), indices (K), ends (B), [weights] (K), sums (B,N), dy (B) -> drows (R,N) */
    PSK_FM_BACKWARD,
    /* x (B,M), M = fields D: D values a field -> y (B,P), P = fields (fields - 1) / 2: dot products of fields i > j, in the order
     * (1,0) (2,0) (2,1) (3,0) */
    PSK_DOT,
    PSK_DOT_BACKWARD, /* x (B,M), dy (B,P) -> dx (B,M) */
    PSK_OPS
} psk_op;

#define PSK_ARGS_MAX 7

/**
 * Submit an operation. args: those listed above, in that order, inputs first; the host has checked shapes, dtypes, overlaps and
 * attributes (ops.h). Labels in host_memory are in range; on other devices the operation checks them before it indexes with them,
 * and a wrong one makes it fail with INVALID_ARGUMENT, "label 12 of row 3 is not a class, allowed is 0 to 9". Indices and ends of
 * bags were checked by the host on every device.
 */
typedef ps_status (*psk_run_fn)(struct psk_device *device, struct psk_stream *stream, const struct psk_tensor *args,
                                const struct psk_attrs *attrs, struct psi_err *err);

struct psk_properties {
    char name[96];         /* for people: "OpenBLAS SkylakeX, 1 thread", "NVIDIA H200" */
    char warning[256];     /* what makes it slower than it could be; "": nothing known */
    uint64_t memory_bytes; /* of the device; 0: it uses the host's */
    uint32_t index;
    bool host_memory; /* addresses are pointers, and work is done when the submitting call returns */
};

/** Called once, on a thread of the plugin (with host_memory before stream_call returns). error: NULL, or the failure of earlier
 * work. Must call no function of the plugin. */
typedef void (*psk_done_fn)(void *ctx, const struct psi_err *error);

struct psk_plugin {
    uint32_t abi;          /* PSK_ABI of the plugin's build; the first two fields never change */
    uint32_t struct_bytes; /* sizeof(struct psk_plugin) in the plugin's build */
    const char *name;      /* as in the file's name: "cpu", "cuda" */
    const char *type;      /* as in names of devices: "CPU", "GPU" */

    /* Number of devices that can be opened now. If 0, *why has the reason (no driver); untouched otherwise. */
    uint32_t (*device_count)(struct psi_err *why);
    ps_status (*device_open)(uint32_t index, struct psk_device **out, struct psi_err *err);
    /* Nothing that was submitted is under way, and all objects of the device are freed. */
    void (*device_close)(struct psk_device *device);
    void (*properties)(struct psk_device *device, struct psk_properties *out);
    /* Set the number of CPU threads that compute; 1 at first. NULL: the device does not use CPU threads. */
    void (*set_threads)(struct psk_device *device, uint32_t threads);

    /* Allocate device memory: bytes >= 1, 256-byte aligned, arbitrary contents. */
    ps_status (*buffer_new)(struct psk_device *device, size_t bytes, psk_address *out, struct psi_err *err);
    /* Nothing that was submitted uses it. */
    void (*buffer_free)(struct psk_device *device, psk_address address);
    /* Allocate host memory that copies reach directly, 64-byte aligned, arbitrary contents. */
    ps_status (*pinned_new)(struct psk_device *device, size_t bytes, void **out, struct psi_err *err);
    void (*pinned_free)(struct psk_device *device, void *memory);

    ps_status (*stream_new)(struct psk_device *device, struct psk_stream **out, struct psi_err *err);
    void (*stream_free)(struct psk_device *device, struct psk_stream *stream);
    ps_status (*event_new)(struct psk_device *device, struct psk_event **out, struct psi_err *err);
    void (*event_free)(struct psk_device *device, struct psk_event *event);

    /* Copies. The host side is pinned memory, or a part of it, which nobody writes (or, for `to`, reads) until the copy is
     * done. */
    ps_status (*copy_in)(struct psk_device *device, struct psk_stream *stream, psk_address to, const void *from, size_t bytes,
                         struct psi_err *err);
    ps_status (*copy_out)(struct psk_device *device, struct psk_stream *stream, void *to, psk_address from, size_t bytes,
                          struct psi_err *err);
    /* Make the event stand for everything submitted to the stream so far, until it is recorded again. */
    ps_status (*event_record)(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err);
    /* Work submitted to stream from now on starts after what the event stands for; an event that was never recorded stands for
     * nothing. */
    ps_status (*stream_wait)(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err);
    /* Wait until what the event stands for is done. It may be recorded again meanwhile; then that may be waited for instead. */
    ps_status (*event_wait)(struct psk_device *device, struct psk_event *event, struct psi_err *err);
    /* Call done when everything submitted to the stream so far is done. Not PS_OK: done is never called. */
    ps_status (*stream_call)(struct psk_device *device, struct psk_stream *stream, psk_done_fn done, void *ctx,
                             struct psi_err *err);

    const psk_run_fn *run; /* [PSK_OPS], by enum psk_op; NULL entry: the device lacks the operation */
};

#define PSK_OPEN_SYMBOL "psk_open"
typedef const struct psk_plugin *(*psk_open_fn)(uint32_t abi);

/** Exported by each plugin. abi: the host's PSK_ABI; the host compares the versions. Any thread; opens nothing. */
PS_API const struct psk_plugin *psk_open(uint32_t abi);

#endif
