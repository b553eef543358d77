/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on values, which a task computes for a client's plan. Each operation is a row of one table, found by name; many rows
 * call the training kernels of worker/nn/kernels/ops.h. A plan calls psi_op_infer() while it is built, with dimensions that may
 * be unknown (-1). The executing task calls it again with the shapes of the inputs, allocates the outputs, and calls
 * psi_op_run(). Shapes are NumPy's; where TensorFlow 1.x differs the row follows TensorFlow: sums and means keep their dtype,
 * argmax has axis 0 by default. docs/TF_MAP.md has the table (`make generated`). Several threads may call these functions at a
 * time. RESOURCE_EXHAUSTED: no scratch memory. */
#ifndef PSI_OPS_H
#define PSI_OPS_H

#include "common/status.h"

struct psk_place;

enum {
    PSI_OP_INPUTS_MAX = 255,
    PSI_OP_OUTPUTS_MAX = 255,
    PSI_OP_MESSAGE_BYTES_MAX = 1024, /* message of print, without the NUL */
    PSI_OP_SUMMARIZE = 3             /* elements that print shows of each value by default */
};
/** A dimension that is not known while a plan is built. */
#define PSI_DIM_UNKNOWN ((int64_t)-1)

struct psi_type {
    ps_dtype dtype;
    ps_shape shape; /* inference: a dimension may be PSI_DIM_UNKNOWN; the rank is always known */
};

struct psi_value {
    ps_dtype dtype;
    ps_shape shape;
    void *data;   /* [bytes], row-major, aligned to its element; NULL if bytes is 0. PS_STRING: a blob (common/blob.h) */
    size_t bytes; /* elements times ps_dtype_bytes(); PS_STRING: bytes of the blob */
};

/** Arguments of an operation besides its inputs; all zeros: defaults. psi_op.attrs lists those that an operation reads. */
struct psi_op_attrs {
    ps_dtype dtype;    /* cast: dtype of the result; placeholder: dtype of the value */
    ps_shape shape;    /* placeholder: shape of the value; dimensions may be unknown */
    const void *value; /* const: a struct psi_value, kept by the caller as long as these attrs */
    bool has_axis;     /* axis is set; false: reduce_sum and reduce_mean take all axes, argmax, split, concat and stack axis 0 */
    int32_t axis;      /* with has_axis; -1: the last axis (stack: of the result) */
    bool keep_dims;    /* reduce_*: a reduced axis stays as a dimension of 1 */
    bool transpose_a;
    bool transpose_b;
    uint32_t outputs;    /* split: number of parts, 1 .. PSI_OP_OUTPUTS_MAX. dense_backward, dense_act_backward and losses: how
                          * many outputs, from the first on, are computed; 0: all */
    uint32_t activation; /* dense_act, dense_act_backward: ps_activation (ps_nn.h) */
    uint64_t seed, step;
    float keep;          /* dropout: 2^-20 .. 1 */
    const char *message; /* print: text before the values; NULL: "". At most PSI_OP_MESSAGE_BYTES_MAX bytes; kept by the caller */
    uint32_t first_n;    /* print: prints only the first first_n times; 0: always */
    int32_t summarize;   /* print: elements shown of each value; 0: PSI_OP_SUMMARIZE; negative: all */
};

/* bits of psi_op.attrs */
enum {
    PSI_OP_DTYPE = 1,
    PSI_OP_SHAPE = 2,
    PSI_OP_VALUE = 4,
    PSI_OP_AXIS = 8,
    PSI_OP_KEEP_DIMS = 16,
    PSI_OP_TRANSPOSE = 32,
    PSI_OP_OUTPUTS = 64,
    PSI_OP_ACTIVATION = 128,
    PSI_OP_DROPOUT = 256, /* seed, step, keep */
    PSI_OP_PRINT = 512    /* message, first_n, summarize */
};

/** The place where an operation runs. All zeros: the CPU, stderr, never cancelled. */
struct psi_op_context {
    struct psk_place *place; /* for the training kernels and matmul of float32; NULL: the device of ps_nn_open() */
    /* print: writes one line with its newline, on any thread; NULL: one write() to stderr */
    void (*print)(void *arg, const char *line, size_t bytes);
    bool (*cancelled)(void *arg); /* long operations ask from time to time; true ends them with CANCELLED; NULL: never */
    void *arg;
    /* print with first_n: counts how often this operation of the plan has printed; NULL: it always prints */
    uint64_t *printed;
};

/* How the error of finite results is bounded: the difference from the reference is at most psi_op.bound_factor times the bound.
 * eps is 2^-23 (float32) or 2^-52 (float64), by the dtype of the first input. Except for EXACT, twice the least normal number
 * (2^-125, 2^-1021) is added, because the kernels' exponential gives 0 instead of subnormal results. */
enum psi_bound {
    PSI_BOUND_EXACT,  /* equal to the reference; NaNs are equal, and so are 0 and -0 */
    PSI_BOUND_RESULT, /* eps times the absolute value of the result */
    PSI_BOUND_TERMS,  /* eps times the sum of the absolute values of all terms; integers are exact */
    PSI_BOUND_PRODUCT /* PSI_BOUND_TERMS times the square root of the number of terms: the error of a product over n terms
                       * (Higham and Mary 2019, with overwhelming probability) */
};

struct psi_op;
typedef ps_status (*psi_op_infer_fn)(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                     uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
typedef ps_status (*psi_op_run_fn)(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_op_context *ctx,
                                   const struct psi_value *in, uint32_t in_count, struct psi_value *out, uint32_t out_count,
                                   struct psi_err *err);

struct psi_op {
    const char *name;          /* "reduce_sum" */
    const char *type;          /* TensorFlow's type, for lines about placement: "Sum" */
    const char *type_integers; /* TensorFlow's type for integers, if it differs; NULL: `type` */
    uint8_t inputs_min, inputs_max;
    uint16_t dtypes;      /* dtypes of the first own_dtypes inputs, as bits 1 << ps_dtype; these inputs have one dtype */
    uint8_t own_dtypes;   /* how many inputs `dtypes` is for, from the first on; 0: all. `infer` checks the others */
    uint16_t attrs;       /* bits PSI_OP_...: the fields of psi_op_attrs that the operation reads */
    uint8_t in_place;     /* bit i: output 0 may use the memory of input i if both have the same dtype and shape */
    enum psi_bound bound; /* how the difference of finite results from the reference is bounded */
    double bound_factor;  /* multiple of `bound` */
    const char *integers; /* text for the docs about integer inputs; NULL: nothing is special */
    const char *reference;
    psi_op_infer_fn infer; /* called by psi_op_infer() only, after arity and dtypes were checked */
    psi_op_run_fn run;     /* called by psi_op_run() only */
};

/** Find the operation of this name. NULL: there is none, and *out_nearest (may be NULL) gets the nearest name, or NULL. */
const struct psi_op *psi_op_find(const char *name, const char **out_nearest);
/** Row i of the table; NULL: the table has no row i. */
const struct psi_op *psi_op_at(size_t i);
/** TensorFlow's type of an operation whose first input, or without inputs the output, has this dtype. */
const char *psi_op_type(const struct psi_op *op, ps_dtype dtype);

/** Infer the types of the outputs. Arity, dtypes and shapes are checked, as far as the shapes are known.
 *
 * in         [in_count].
 * out        [PSI_OP_OUTPUTS_MAX]; written only on success.
 *
 * Errors     INVALID_ARGUMENT  the text begins with the operation's name and names all sides that do not fit:
 *                              "matmul: (2, 3) float32 and (4, 5) float32: 3 columns and 4 rows" */
PSI_MUST ps_status psi_op_infer(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);

/** Bytes that the data of output `index` needs. out: the types that psi_op_infer() gave for these inputs. Strings: the bytes of
 * the value that the operation copies. */
size_t psi_op_output_bytes(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_value *in,
                           uint32_t in_count, const struct psi_type *out, uint32_t index);

/** Run an operation on this thread. The types are inferred again and compared, so `in` and `out` need no check before; only data
 * must have as many bytes as the value says.
 *
 * out      [out_count], allocated by the caller: dtype, shape, data, bytes. No output overlaps an input or another output, except
 *          that output 0 may be the whole of an input that op->in_place names. Undefined after an error.
 *
 * Errors   INVALID_ARGUMENT    as psi_op_infer(); an integer divided by 0; cast of NaN, or of a number that does not fit, to an
 *                              integer; a label that is no class: the text names the element
 *          CANCELLED           ctx->cancelled() was true
 *          RESOURCE_EXHAUSTED  no memory for scratch, or on the device
 *          UNIMPLEMENTED       no kernel plugin */
PSI_MUST ps_status psi_op_run(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_op_context *ctx,
                              const struct psi_value *in, uint32_t in_count, struct psi_value *out, uint32_t out_count,
                              struct psi_err *err);

/** Convert a fed value to the dtype of its placeholder. Numbers are converted if the dtype can hold them: integers exactly,
 * floats rounded to the nearest float; 0 and 1 are bools. float16, bfloat16, int8 and uint8 can be fed too.
 *
 * who        begins the text of an error: "placeholder 'input'".
 * to         the caller's: dtype, and data [elements] with its bytes; shape becomes that of `from`. With equal dtypes it is a
 *            copy, and to->bytes is from->bytes.
 * Errors     INVALID_ARGUMENT  names the first element that does not fit, with index and value: "placeholder 'input' is int32,
 *                              which cannot hold 1.5 (element 3)"; also a string for another dtype */
PSI_MUST ps_status psi_value_feed(const char *who, const struct psi_value *from, struct psi_value *to, struct psi_err *err);
/** Check that a shape fits the shape of a placeholder; unknown dimensions fit any. INVALID_ARGUMENT names both shapes. */
PSI_MUST ps_status psi_type_accepts(const char *who, const ps_shape *declared, const ps_shape *shape, struct psi_err *err);

#define PSI_TYPE_TEXT_MAX 208
/** Write "(2, ?) float32", with ? for an unknown dimension, into buf; returns buf. */
const char *psi_type_format(const struct psi_type *type, char *buf, size_t n);

#endif
