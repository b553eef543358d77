/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of worker/ops share: functions that the table of operations names, and helpers. */
#ifndef PSI_OPS_ROWS_H
#define PSI_OPS_ROWS_H

#include "worker/ops/ops.h"

/* number of elements or multiplications that an operation computes between two calls of psi_op_go_on() */
#define PSI_OP_SLICE ((int64_t)1 << 18)

/** Fail with INVALID_ARGUMENT and "NAME: (2, 3) float32 and (4, 5) float32: text", which shows the first four inputs at most. */
ps_status psi_op_misfit(const struct psi_op *op, const struct psi_type *in, uint32_t in_count, struct psi_err *err,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));
/** Call between slices of a long operation. CANCELLED: the run was cancelled; otherwise PS_OK. */
PSI_MUST ps_status psi_op_go_on(const struct psi_op *op, const struct psi_op_context *ctx, struct psi_err *err);
/** Check that a value of type *out is not too large; unknown dimensions count as 1. in: types that the error shows. */
PSI_MUST ps_status psi_op_size_check(const struct psi_op *op, const struct psi_type *in, uint32_t in_count,
                                     const struct psi_type *out, struct psi_err *err);
/** Set *out to the index of the axis that attrs gives, 0 to rank - 1; 0 if attrs gives none. INVALID_ARGUMENT: no such axis. */
PSI_MUST ps_status psi_op_axis(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                               uint32_t in_count, uint32_t rank, uint32_t *out, struct psi_err *err);
/** psi_op_axis() for attrs that were checked. */
static inline uint32_t psi_op_axis_of(const struct psi_op_attrs *attrs, uint32_t rank)
{
    return !attrs->has_axis ? 0 : (uint32_t)(attrs->axis < 0 ? attrs->axis + (int32_t)rank : attrs->axis);
}
static inline bool psi_dims_agree(int64_t a, int64_t b)
{
    return a == b || a == PSI_DIM_UNKNOWN || b == PSI_DIM_UNKNOWN;
}
/** The size of two dimensions that agree; PSI_DIM_UNKNOWN if neither is known. */
static inline int64_t psi_dim_of(int64_t a, int64_t b)
{
    return a == PSI_DIM_UNKNOWN ? b : a;
}

/** Elements before, along and after an axis: element (o, k, i) of a value is at index (o * count + k) * inner + i. */
struct psi_around {
    int64_t outer, count, inner;
};
struct psi_around psi_around_axis(const ps_shape *shape, uint32_t axis);

/* Functions that infer the types of an operation's outputs: in shapes.c; those of layers in layers.c. */
ps_status psi_infer_const(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_placeholder(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_same(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                         struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_print(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_cast(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                         struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_broadcast(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                              uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_matmul(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                           uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_softmax(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                            uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_reduce(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                           uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_argmax(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                           uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_split(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_concat(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                           uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_stack(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_alike(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_dense(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_dense_backward(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                   uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_softmax_xent(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                 uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_loss(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                         struct psi_type *out, uint32_t *out_count, struct psi_err *err);
ps_status psi_infer_dropout(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                            uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err);

/* Functions that compute the operations. psi_op_run() has checked their arguments. */
#define PSI_RUN(name)                                                                                                            \
    ps_status psi_run_##name(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_op_context *ctx,        \
                             const struct psi_value *in, uint32_t in_count, struct psi_value *out, uint32_t out_count,           \
                             struct psi_err *err)
PSI_RUN(const);
PSI_RUN(placeholder);
PSI_RUN(identity);
PSI_RUN(split);
PSI_RUN(concat);
PSI_RUN(cast);
PSI_RUN(add);
PSI_RUN(sub);
PSI_RUN(mul);
PSI_RUN(div);
PSI_RUN(relu);
PSI_RUN(sigmoid);
PSI_RUN(tanh);
PSI_RUN(matmul);
PSI_RUN(reduce_sum);
PSI_RUN(reduce_mean);
PSI_RUN(argmax);
PSI_RUN(softmax);
PSI_RUN(print);
PSI_RUN(relu_backward);
PSI_RUN(sigmoid_backward);
PSI_RUN(tanh_backward);
PSI_RUN(dense);          /* also of dense_act */
PSI_RUN(dense_backward); /* also of dense_act_backward */
PSI_RUN(softmax_xent);
PSI_RUN(mean_squared_error);
PSI_RUN(mean_absolute_error);
PSI_RUN(sigmoid_xent);
PSI_RUN(gelu);
PSI_RUN(gelu_backward);
PSI_RUN(dropout);

#endif
