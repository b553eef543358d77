/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of a kernel plugin (libpsworker_<plugin>.so): devices, their memory, copies, streams, events, and the operations.
 * One struct serves devices that compute later and elsewhere (CUDA) and a device that computes within the call in host memory
 * (cpu, the reference); the host (block.c, device.c) uses nothing else of a plugin. A plugin exports one symbol, psk_open.
 *
 * Order    Work of one stream runs in the order of submission. Streams run concurrently unless an event orders them. A
 *          submission may return before the work is done.
 * Threads  The host submits work to a device (copies, operations, event_record, stream_wait) on any thread, one call at a time.
 *          event_wait, stream_call and the functions for memory may run concurrently with these and each other. On a device with
 *          host_memory all functions may run concurrently.
 * Errors   Functions return PS_OK or a status whose text names the operation and what failed: RESOURCE_EXHAUSTED for lack of
 *          memory, INTERNAL for a failed device, INVALID_ARGUMENT for a wrong label (psk_run_fn). Work that fails after its
 *          submission is reported by what waits for it (event_wait, stream_call), and by every later call. Work that runs after
 *          such a failure may do anything to the device's memory, and to host memory that a copy was to fill, but it ends: every
 *          event is reached, every stream_call is made. The host then closes the device, and may open it again.
 * Fork     A child does not use a device of its parent. */
#ifndef PSK_KERNELS_H
#define PSK_KERNELS_H

#include "common/status.h"

/* increase PSK_ABI with every change of the structs below, of the operations, or of their meaning */
#define PSK_ABI 6u

struct psk_device; /* the plugin's own types */
struct psk_stream;
struct psk_event;

/** Address of device memory, which only its plugin can use; with host_memory the value of the pointer. 0: no memory. */
typedef uint64_t psk_address;

/** An input or output of an operation: row-major, contiguous, 64-byte aligned unless host_memory. */
struct psk_tensor {
    psk_address address; /* 0 if the tensor has no elements or is missing */
    ps_shape shape;
    ps_dtype dtype; /* PS_DTYPE_NONE: a missing optional argument */
};

typedef enum psk_activation { PSK_LINEAR = 0, PSK_RELU, PSK_SIGMOID, PSK_TANH, PSK_ACTIVATIONS } psk_activation;

/* Divisor of the sum of a bag's weighted rows: 1, sum of the weights, root of the sum of their squares. Divisor 0: zeros. */
typedef enum psk_combiner { PSK_SUM = 0, PSK_MEAN, PSK_SQRTN, PSK_COMBINERS } psk_combiner;

/* Losses of one value x with its target t; pointwise.h has the formulas. */
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
    uint32_t fields;     /* dot: number of vectors that follow each other in a row, >= 2 */
    /* 1 + the padding index, which may lie outside of the table: entries with this index are ignored; 0: no padding index */
    uint64_t padding_plus_1;
};

/* The operations. Sizes, with their letters in psk_arg.dims: batch (B) rows, in (I) and out (O) values of a layer, classes (C), n
 * (N) values per row, entries (K): stored values or indices of all rows, rows (R) of a table, values (M) of all fields, pairs (P)
 * of fields. Batch, entries and rows may be 0, the others are >= 1. Values are float32, except labels, ends and columns of sparse
 * rows (int32), indices and ends of bags (int64), loss (float64) and count (int64). [x]: optional. act' is a function of the
 * activation's result: linear 1, relu (y <= 0 ? 0 : 1), sigmoid y (1 - y), tanh 1 - y^2. Sums over the batch are 0 for batch 0.
 * Outputs are replaced completely. They overlap no other argument, except that "in place" allows the very same memory. On one
 * machine and device the same input gives the same bits. */
typedef enum psk_op {
    PSK_DENSE,        /* x (batch, in), w (in, out), [b] (out) -> y (batch, out): act(x w + b) */
    PSK_DENSE_DX,     /* dy (batch, out), w (in, out), [x] (batch, in) -> dx (batch, in): (dy w^T) act'(x), x = the activation's
                       * result, required unless the activation is linear */
    PSK_DENSE_DW,     /* x (batch, in), dy (batch, out) -> dw (in, out), [db] (out): x^T dy, column sums of dy */
    PSK_ACT,          /* x (batch, n) -> y (batch, n): act(x), in place */
    PSK_ACT_BACKWARD, /* y (batch, n), dy (batch, n) -> dx (batch, n): dy act'(y), in place of either */
    PSK_DROPOUT,      /* in, out (batch, n), in place: kept(seed, step, i) ? in_i / keep : 0, i = row * n + column (mask.h) */
    PSK_SOFTMAX_XENT, /* logits (batch, classes), labels (batch) -> [dlogits] (batch, classes), [loss] (1 number): mean
                       * cross-entropy, (softmax - onehot) / batch; dlogits in place of logits */
    /* logits (batch, classes), labels (batch) -> count (1 number): rows without NaN whose first largest value is the label's */
    PSK_ARGMAX_COUNT,
    PSK_SGD,       /* w (batch, n), dw (batch, n) -> out (batch, n): w - rate dw, in place of either */
    PSK_SPARSE,    /* ends (batch), columns (entries), values (entries), w (in, out), [b] (out) -> y (batch, out): act(x w + b), x
                    * (batch, in) in compressed sparse rows: row i has values[k] in columns[k] for k = ends[i-1] .. ends[i]-1, row
                    * 0 from k = 0 on, and 0 elsewhere. Columns ascend within a row. Sums are made in the order of the columns */
    PSK_SPARSE_DW, /* ends (batch), columns (entries), values (entries), dy (batch, out) -> dw (in, out), [db] (out): x^T dy,
                    * column sums of dy; sums are made in the order of the rows */
    PSK_LOSS,      /* x, t (batch, n) -> [dx] (batch, n), [loss] (1 number): mean of loss(x, t), its gradient; dx in place of
                    * either */
    PSK_GELU,      /* x (batch, n) -> y (batch, n): x Phi(x), Phi the standard normal distribution function; in place */
    PSK_GELU_BACKWARD, /* x (batch, n), dy (batch, n) -> dx (batch, n): dy (Phi(x) + x Phi'(x)), in place of either */
    PSK_ADD,           /* a (batch, n), b (batch, n) -> out (batch, n): a + b, in place of either */
    /* x (batch, n), gamma (n), beta (n) -> y (batch, n): gamma h + beta, h = (x - mean) / sqrt(variance + epsilon) with mean and
     * variance (divided by n) of the row; in place */
    PSK_LAYER_NORM,
    /* x (batch, n), gamma (n), dy (batch, n) -> [dx] (batch, n), [dgamma] (n), [dbeta] (n): h = (x - mean) / sqrt(variance +
     * epsilon), g = dy gamma: dx = (g - mean(g) - h mean(g h)) / sqrt(variance + epsilon), in place of dy; column sums of dy h
     * and of dy */
    PSK_LAYER_NORM_BACKWARD,
    /* Bags: bag i has the entries k = ends[i-1] .. ends[i]-1, bag 0 from k = 0 on. Entry k is row indices[k] of the table, times
     * weights[k] (1 without weights). Backward sums are made in the order of the entries. */
    PSK_EMBEDDING,          /* rows (rows, n), indices (entries) -> y (entries, n): y_k = row indices[k]; 0 for padding */
    PSK_EMBEDDING_BACKWARD, /* [rows] (rows, n), indices (entries), dy (entries, n) -> drows (rows, n); rows: only the shape */
    PSK_EMBEDDING_BAG,      /* rows (rows, n), indices (entries), ends (batch), [weights] (entries) -> y (batch, n): combined
                             * bags */
    PSK_EMBEDDING_BAG_BACKWARD, /* [rows] (rows, n), indices (entries), ends (batch), [weights] (entries), dy (batch, n) -> drows
                                 * (rows, n) */
    /* rows (rows, n), indices (entries), ends (batch), [weights] (entries) -> y (batch), sums (batch, n): y = the sum of the dot
     * products of all pairs of different entries of a bag (factorization machine), sums = the sum of its entries */
    PSK_FM,
    /* rows (rows, n), indices (entries), ends (batch), [weights] (entries), sums (batch, n), dy (batch) -> drows (rows, n) */
    PSK_FM_BACKWARD,
    /* x (batch, values): `fields` vectors of one length in a row -> y (batch, pairs), pairs = fields (fields - 1) / 2: dot
     * products of vectors i > j, in the order (1,0) (2,0) (2,1) (3,0) */
    PSK_DOT,
    PSK_DOT_BACKWARD, /* x (batch, values), dy (batch, pairs) -> dx (batch, values) */
    PSK_OPS
} psk_op;

#define PSK_ARGS_MAX 7

/** Submit an operation. args: the tensors listed above, in that order, inputs first; the host has checked shapes, dtypes,
 * overlaps and attributes (ops.h). Labels in host_memory are in range; on other devices the operation checks them before it
 * indexes with them, and a wrong one makes it fail with INVALID_ARGUMENT, "label 12 of row 3 is not a class, allowed is 0 to 9".
 * Indices and ends of bags were checked by the host on every device. */
typedef ps_status (*psk_run_fn)(struct psk_device *device, struct psk_stream *stream, const struct psk_tensor *args,
                                const struct psk_attrs *attrs, struct psi_err *err);

struct psk_properties {
    char name[96];         /* for people: "OpenBLAS SkylakeX, 1 thread", "NVIDIA H200" */
    char warning[256];     /* reason why the device is slower than it could be, if known; "": no known reason */
    uint64_t memory_bytes; /* bytes of the device's own memory; 0: it uses the host's */
    uint32_t index;
    bool host_memory; /* addresses are pointers, and work is done when the submitting call returns */
};

/** Called once, on a plugin's thread (host_memory: in stream_call). error: of earlier work, or NULL. Must not call the plugin. */
typedef void (*psk_done_fn)(void *ctx, const struct psi_err *error);

struct psk_plugin {
    uint32_t abi;          /* PSK_ABI of the plugin's build; this field and the next one stay first in every version */
    uint32_t struct_bytes; /* sizeof(struct psk_plugin) in the plugin's build */
    const char *name;      /* as in the file's name: "cpu", "cuda" */
    const char *type;      /* as in names of devices: "CPU", "GPU" */

    /* Number of devices that can be opened now. If 0, *why has the reason (no driver); untouched otherwise. */
    uint32_t (*device_count)(struct psi_err *why);
    ps_status (*device_open)(uint32_t index, struct psk_device **out, struct psi_err *err);
    /* Close the device. The caller has waited for all work, and freed all objects of the device. */
    void (*device_close)(struct psk_device *device);
    void (*properties)(struct psk_device *device, struct psk_properties *out);
    /* Set the number of CPU threads that compute; 1 at first. NULL: the device does not use CPU threads. */
    void (*set_threads)(struct psk_device *device, uint32_t threads);

    /* Allocate device memory: bytes >= 1, 256-byte aligned, arbitrary contents. */
    ps_status (*buffer_new)(struct psk_device *device, size_t bytes, psk_address *out, struct psi_err *err);
    /* Free device memory. The caller has waited for all submitted work that uses it. */
    void (*buffer_free)(struct psk_device *device, psk_address address);
    /* Allocate host memory that copies reach directly, 64-byte aligned, arbitrary contents. */
    ps_status (*pinned_new)(struct psk_device *device, size_t bytes, void **out, struct psi_err *err);
    void (*pinned_free)(struct psk_device *device, void *memory);

    ps_status (*stream_new)(struct psk_device *device, struct psk_stream **out, struct psi_err *err);
    void (*stream_free)(struct psk_device *device, struct psk_stream *stream);
    ps_status (*event_new)(struct psk_device *device, struct psk_event **out, struct psi_err *err);
    void (*event_free)(struct psk_device *device, struct psk_event *event);

    /* Copies. The host side lies in pinned memory. Until a copy is done nobody writes its source, and nobody uses its target. */
    ps_status (*copy_in)(struct psk_device *device, struct psk_stream *stream, psk_address to, const void *from, size_t bytes,
                         struct psi_err *err);
    ps_status (*copy_out)(struct psk_device *device, struct psk_stream *stream, void *to, psk_address from, size_t bytes,
                          struct psi_err *err);
    /* Make the event stand for everything submitted to the stream so far, until it is recorded again. */
    ps_status (*event_record)(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err);
    /* Work submitted to `stream` from now on starts after the work before the event's last record; never recorded: no wait. */
    ps_status (*stream_wait)(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err);
    /* Wait until the work that the event stands for is done; if it is recorded again meanwhile, perhaps for the newer work. */
    ps_status (*event_wait)(struct psk_device *device, struct psk_event *event, struct psi_err *err);
    /* Call done() when all work submitted to the stream so far has ended. After an error done() is never called. */
    ps_status (*stream_call)(struct psk_device *device, struct psk_stream *stream, psk_done_fn done, void *ctx,
                             struct psi_err *err);

    const psk_run_fn *run; /* [PSK_OPS], by enum psk_op; NULL entry: the device lacks the operation */
};

#define PSK_OPEN_SYMBOL "psk_open"
typedef const struct psk_plugin *(*psk_open_fn)(uint32_t abi);

/** Exported by each plugin. abi: the library's PSK_ABI. A plugin with another psk_plugin.abi is refused. Any thread. */
PS_API const struct psk_plugin *psk_open(uint32_t abi);

#endif
