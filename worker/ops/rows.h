/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of worker/ops share: the rules and bodies that the table's rows name, and helpers. */
#ifndef PSI_OPS_ROWS_H
#define PSI_OPS_ROWS_H

#include "worker/ops/ops.h"

/* elements or multiplications between two looks at ctx->cancelled */
#define PSI_OP_SLICE ((int64_t)1 << 18)

/** INVALID_ARGUMENT "NAME: (2, 3) float32 and (4, 5) float32: text"; of more than four inputs the first four are shown. */
ps_status psi_op_misfit(const struct psi_op *op, const struct psi_type *in, uint32_t in_count, struct psi_err *err,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));
/** CANCELLED if the run was cancelled, else PS_OK. */
PSI_MUST ps_status psi_op_go_on(const struct psi_op *op, const struct psi_op_context *ctx, struct psi_err *err);
/** Check that a value may have this size; unknown dimensions count as 1. */
PSI_MUST ps_status psi_op_size_check(const struct psi_op *op, const struct psi_type *in, uint32_t in_count,
                                     const struct psi_type *out, struct psi_err *err);
/** attrs->axis for `rank` dimensions; 0 if not set. INVALID_ARGUMENT: no such axis. */
PSI_MUST ps_status psi_op_axis(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                               uint32_t in_count, uint32_t rank, uint32_t *out, struct psi_err *err);
/** psi_op_axis() for attrs that were checked. */
static inline uint32_t psi_op_axis_of(const struct psi_op_attrs *attrs, uint32_t rank)
{
    return !attrs->has_axis ? 0 : (uint32_t)(attrs->axis < 0 ? attrs->axis + (int32_t)rank : attrs->axis);
}
/** True if two dimensions agree as far as they are known. */
static inline bool psi_dims_agree(int64_t a, int64_t b)
{
    return a == b || a == PSI_DIM_UNKNOWN || b == PSI_DIM_UNKNOWN;
}
/** Of two dimensions that agree the known one, if any. */
static inline int64_t psi_dim_of(int64_t a, int64_t b)
{
    return a == PSI_DIM_UNKNOWN ? b : a;
}

/** Elements before, along and behind an axis: element (o, k, i) of a value is at index (o * count + k) * inner + i. */
struct psi_around {
    int64_t outer, count, inner;
};
struct psi_around psi_around_axis(const ps_shape *shape, uint32_t axis);

/* rules: in shapes.c, those of layers in layers.c */
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

/* bodies; psi_op_run() has checked their arguments */
#define PSI_RUN(name)                                                                                                            \
    ps_status psi_run_##name(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_op_context *ctx,        \
                             const struct psi_value *in, uint32_t in_count, struct psi_value *out, uint32_t out_count,           \
                             struct psi_err *err)
PSI_RUN(const);               /* arrange.c */
PSI_RUN(placeholder);         /* arrange.c */
PSI_RUN(identity);            /* arrange.c */
PSI_RUN(split);               /* arrange.c */
PSI_RUN(concat);              /* arrange.c */
PSI_RUN(cast);                /* convert.c */
PSI_RUN(add);                 /* elementwise.c */
PSI_RUN(sub);                 /* elementwise.c */
PSI_RUN(mul);                 /* elementwise.c */
PSI_RUN(div);                 /* elementwise.c */
PSI_RUN(relu);                /* layers.c */
PSI_RUN(sigmoid);             /* layers.c */
PSI_RUN(tanh);                /* layers.c */
PSI_RUN(matmul);              /* matmul.c */
PSI_RUN(reduce_sum);          /* reduce.c */
PSI_RUN(reduce_mean);         /* reduce.c */
PSI_RUN(argmax);              /* reduce.c */
PSI_RUN(softmax);             /* reduce.c */
PSI_RUN(print);               /* print.c */
PSI_RUN(relu_backward);       /* layers.c */
PSI_RUN(sigmoid_backward);    /* layers.c */
PSI_RUN(tanh_backward);       /* layers.c */
PSI_RUN(dense);               /* layers.c; also dense_act */
PSI_RUN(dense_backward);      /* layers.c; also dense_act_backward */
PSI_RUN(softmax_xent);        /* layers.c */
PSI_RUN(mean_squared_error);  /* layers.c */
PSI_RUN(mean_absolute_error); /* layers.c */
PSI_RUN(sigmoid_xent);        /* layers.c */
PSI_RUN(gelu);                /* layers.c */
PSI_RUN(gelu_backward);       /* layers.c */
PSI_RUN(dropout);             /* layers.c */

#endif
