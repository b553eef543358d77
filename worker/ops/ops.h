/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on values: what a row of a plan computes, on any task. One table, by name. The training kernels have a table of
 * their own (worker/nn/kernels/ops.h), with fixed dimensions; rows of this table call them.
 *
 * A plan calls psi_op_infer() while it is built, for dtypes and shapes, whose dimensions may be unknown (-1). The executing task
 * calls it again with the shapes of the inputs, allocates the outputs, and calls psi_op_run(). Shapes are NumPy's: row-major, and
 * element-wise operations broadcast. Where TensorFlow 1.x differs from NumPy the row follows TensorFlow: sums and means keep
 * their dtype, argmax has axis 0 unless told otherwise. docs/TF_MAP.md has the table of all rows, made from this one by `make
 * generated`.
 *
 * Threads: any, several at a time. Memory: nothing is kept after a return; rows free their scratch memory, and lack of it is
 * RESOURCE_EXHAUSTED.
 */
#ifndef PSI_OPS_H
#define PSI_OPS_H

#include "common/status.h"

struct psk_place;

enum {
    PSI_OP_INPUTS_MAX = 255,
    PSI_OP_OUTPUTS_MAX = 255,
    PSI_OP_MESSAGE_BYTES_MAX = 1024, /* of print, without the NUL */
    PSI_OP_SUMMARIZE = 3             /* elements that print shows of each value by default */
};
/** A dimension that is not known while a plan is built. */
#define PSI_DIM_UNKNOWN ((int64_t)-1)

/** dtype and shape of a value. */
struct psi_type {
    ps_dtype dtype;
    ps_shape shape; /* inference: a dimension may be PSI_DIM_UNKNOWN; the rank is always known */
};

/** A value in host memory. */
struct psi_value {
    ps_dtype dtype;
    ps_shape shape; /* all dimensions are known */
    void *data;     /* [bytes], row-major, aligned to its element; NULL if bytes is 0. PS_STRING: a blob (common/blob.h) */
    size_t bytes;   /* elements times ps_dtype_bytes(); PS_STRING: of the blob */
};

/** Arguments of an operation besides its inputs; all zeros: defaults. psi_op.attrs lists those that an operation reads. */
struct psi_op_attrs {
    ps_dtype dtype;    /* cast: of the result; placeholder: of the value */
    ps_shape shape;    /* placeholder: what may be fed; dimensions may be unknown */
    const void *value; /* const: a struct psi_value, kept by the caller as long as these attrs */
    bool has_axis;     /* axis is set; false: reduce_sum and reduce_mean take all axes, argmax, split, concat and stack axis 0 */
    int32_t axis;      /* with has_axis; -1: the last axis (stack: of the result) */
    bool keep_dims;    /* reduce_*: a reduced axis stays as a dimension of 1 */
    bool transpose_a;  /* matmul */
    bool transpose_b;  /* matmul */
    uint32_t outputs;  /* split: number of parts, 1 .. PSI_OP_OUTPUTS_MAX. dense_backward, dense_act_backward, losses:
                        * number of outputs to compute, the first ones; 0: all */
    uint32_t activation; /* dense_act, dense_act_backward: ps_activation (ps_nn.h) */
    uint64_t seed, step; /* dropout */
    float keep;          /* dropout: 2^-20 .. 1 */
    const char *message; /* print: text before the values; NULL: "". At most PSI_OP_MESSAGE_BYTES_MAX bytes; kept by the caller */
    uint32_t first_n;    /* print: only this many first times; 0: always */
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
    bool (*cancelled)(void *arg); /* asked from time to time by long rows; true ends the row with CANCELLED; NULL: never */
    void *arg;                    /* for print and cancelled */
    /* print with first_n: number of times that this row has printed, incremented by it; NULL: it always prints */
    uint64_t *printed;
};

/* Bound on a row's error (psi_op.bound), as a multiple of these, for finite results. eps is that of the first input's dtype,
 * 2^-23 or 2^-52. Twice the least normal number (2^-125, 2^-1021) is added, except for EXACT: smaller numbers may be 0, because
 * the kernels' exponential has no subnormal results. */
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

/** A row of the table. */
struct psi_op {
    const char *name;          /* "reduce_sum" */
    const char *type;          /* TensorFlow's type, for lines about placement: "Sum" */
    const char *type_integers; /* TensorFlow's type for integers, if it differs; NULL: `type` */
    uint8_t inputs_min, inputs_max;
    uint16_t dtypes;      /* bits 1 << ps_dtype: dtypes that it computes with; all inputs have one of them */
    uint8_t own_dtypes;   /* `dtypes` holds for this many first inputs, and the row's rule checks the others; 0: for all */
    uint16_t attrs;       /* bits PSI_OP_...: the psi_op_attrs that it reads */
    uint8_t in_place;     /* bit i: output 0 may use the memory of input i if both have the same dtype and shape */
    enum psi_bound bound; /* against the reference, for finite results */
    double bound_factor;  /* multiple of `bound` */
    const char *integers; /* for the docs: what is special for integers; NULL: nothing */
    const char *reference;
    psi_op_infer_fn infer; /* called by psi_op_infer() only, after arity and dtypes were checked */
    psi_op_run_fn run;     /* called by psi_op_run() only */
};

/** The operation of this name. NULL: there is none, and *out_nearest (may be NULL) gets the nearest name, or NULL. */
const struct psi_op *psi_op_find(const char *name, const char **out_nearest);
/** Row i of the table; NULL: behind the last. */
const struct psi_op *psi_op_at(size_t i);
/** TensorFlow's type of an operation whose first input, or without inputs the output, has this dtype. */
const char *psi_op_type(const struct psi_op *op, ps_dtype dtype);

/**
 * Types of the outputs. Arity, dtypes and shapes are checked, as far as the shapes are known.
 *
 * in         [in_count].
 * out        [PSI_OP_OUTPUTS_MAX]; written only on success.
 *
 * Errors     INVALID_ARGUMENT  the text begins with the operation's name and names all sides that do not fit:
 *                              "matmul: (2, 3) float32 and (4, 5) float32: 3 columns and 4 rows"
 */
PSI_MUST ps_status psi_op_infer(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);

/**
 * Bytes of output `index`, whose type psi_op_infer() gave for these inputs; of a string the bytes of the value that it copies.
 */
size_t psi_op_output_bytes(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_value *in,
                           uint32_t in_count, const struct psi_type *out, uint32_t index);

/**
 * Run an operation on this thread. The types are inferred again and compared: inputs and outputs may come from anybody, as long
 * as each value's data has its bytes.
 *
 * out      [out_count], allocated by the caller: dtype, shape, data, bytes. No output overlaps an input or another output, except
 *          that output 0 may be the whole of an input that op->in_place names. Undefined after an error.
 *
 * Errors   INVALID_ARGUMENT    as psi_op_infer(); an integer divided by 0; cast of NaN, or of a number that does not fit, to an
 *                              integer; a label that is no class: the text names the element
 *          CANCELLED           ctx->cancelled() was true
 *          RESOURCE_EXHAUSTED  no memory for scratch, or on the device
 *          UNIMPLEMENTED       no kernel plugin
 */
PSI_MUST ps_status psi_op_run(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_op_context *ctx,
                              const struct psi_value *in, uint32_t in_count, struct psi_value *out, uint32_t out_count,
                              struct psi_err *err);

/**
 * Convert a fed value to the dtype of its placeholder. Numbers are converted if the dtype can hold them: integers exactly, floats
 * rounded to the nearest float; 0 and 1 are bools. float16, bfloat16, int8 and uint8 can be fed too.
 *
 * who        begins the text of an error: "placeholder 'input'".
 * to         the caller's: dtype, and data [elements] with its bytes; shape becomes that of `from`. With equal dtypes it is a
 *            copy, and to->bytes is from->bytes.
 * Errors     INVALID_ARGUMENT  names the first element that does not fit, with index and value: "placeholder 'input' is int32,
 *                              which cannot hold 1.5 (element 3)"; also a string for another dtype
 */
PSI_MUST ps_status psi_value_feed(const char *who, const struct psi_value *from, struct psi_value *to, struct psi_err *err);
/** Check that a shape fits a placeholder's (unknown dimensions fit any). INVALID_ARGUMENT names both. */
PSI_MUST ps_status psi_type_accepts(const char *who, const ps_shape *declared, const ps_shape *shape, struct psi_err *err);

/** Longest text of psi_type_format() with its NUL. */
#define PSI_TYPE_TEXT_MAX 208
/** Write "(2, ?) float32", with ? for an unknown dimension, into buf; returns buf. */
const char *psi_type_format(const struct psi_type *type, char *buf, size_t n);

#endif
