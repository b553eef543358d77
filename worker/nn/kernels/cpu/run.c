/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the CPU plugin's table: each takes pointers and sizes from its tensors (addresses are pointers here).
 * Elementwise work is divided among the threads; operations on logits are not: they have few rows. The host has checked all. */
#include "cpu.h"

enum { PART_ELEMENTS = 1 << 15 }; /* least work for another thread: so many elements take 5 us, the hand-over 2 us */

static float *floats(const struct psk_tensor *t)
{
    return (float *)(uintptr_t)t->address;
}

static const int32_t *ints(const struct psk_tensor *t)
{
    return (const int32_t *)(uintptr_t)t->address;
}

#define RUN(name)                                                                                                                \
    static ps_status name(struct psk_device *device, struct psk_stream *stream, const struct psk_tensor *args,                   \
                          const struct psk_attrs *attrs, struct psi_err *err)
#define UNUSED() (void)device, (void)stream, (void)attrs, (void)err

RUN(run_dense)
{
    UNUSED();
    psk_cpu_dense(floats(&args[0]), floats(&args[1]), floats(&args[2]), floats(&args[3]), args[0].shape.dims[0],
                  args[1].shape.dims[0], args[1].shape.dims[1], (psk_activation)attrs->activation);
    return PS_OK;
}

RUN(run_dense_dx)
{
    UNUSED();
    psk_cpu_dense_dx(floats(&args[0]), floats(&args[1]), floats(&args[2]), floats(&args[3]), args[0].shape.dims[0],
                     args[1].shape.dims[0], args[1].shape.dims[1], (psk_activation)attrs->activation);
    return PS_OK;
}

RUN(run_dense_dw)
{
    UNUSED();
    psk_cpu_dense_dw(floats(&args[0]), floats(&args[1]), floats(&args[2]), floats(&args[3]), args[0].shape.dims[0],
                     args[0].shape.dims[1], args[1].shape.dims[1]);
    return PS_OK;
}

static struct psk_cpu_rows rows_of(const struct psk_tensor *args, const struct psk_tensor *weights)
{
    return (struct psk_cpu_rows){.ends = ints(&args[0]),
                                 .columns = ints(&args[1]),
                                 .values = floats(&args[2]),
                                 .rows = args[0].shape.dims[0],
                                 .in = weights->shape.dims[0]};
}

RUN(run_sparse)
{
    UNUSED();
    const struct psk_cpu_rows x = rows_of(args, &args[3]);
    psk_cpu_sparse(&x, floats(&args[3]), floats(&args[4]), floats(&args[5]), args[3].shape.dims[1],
                   (psk_activation)attrs->activation);
    return PS_OK;
}

RUN(run_sparse_dw)
{
    UNUSED();
    const struct psk_cpu_rows x = rows_of(args, &args[4]);
    psk_cpu_sparse_dw(&x, floats(&args[3]), floats(&args[4]), floats(&args[5]), args[4].shape.dims[1]);
    return PS_OK;
}

struct elements {
    const struct psk_tensor *args; /* the operation's arguments, all of one size */
    int64_t count;
    const struct psk_attrs *attrs;
    void (*range)(const struct elements *e, int64_t first, int64_t end);
};

static void elements_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct elements *e = work;
    e->range(e, psk_cpu_cut(e->count, part, parts), psk_cpu_cut(e->count, part + 1, parts));
}

static ps_status over_elements(void (*range)(const struct elements *e, int64_t first, int64_t end), const struct psk_tensor *args,
                               const struct psk_attrs *attrs)
{
    const struct elements e = {args, args[0].shape.dims[0] * args[0].shape.dims[1], attrs, range};
    const int64_t worth = e.count / PART_ELEMENTS;
    const uint32_t threads = psk_cpu_threads();
    psk_cpu_split(worth < 1 ? 1 : worth < threads ? (uint32_t)worth : threads, elements_part, &e);
    return PS_OK;
}

static float *from(const struct elements *e, uint32_t arg, int64_t first)
{
    return floats(&e->args[arg]) + first;
}

static void act_range(const struct elements *e, int64_t first, int64_t end)
{
    psk_cpu_act(from(e, 0, first), from(e, 1, first), end - first, (psk_activation)e->attrs->activation);
}

static void act_backward_range(const struct elements *e, int64_t first, int64_t end)
{
    psk_cpu_act_backward(from(e, 0, first), from(e, 1, first), from(e, 2, first), end - first,
                         (psk_activation)e->attrs->activation);
}

static void dropout_range(const struct elements *e, int64_t first, int64_t end)
{
    psk_cpu_dropout(from(e, 0, 0), from(e, 1, 0), first, end, e->attrs->seed, e->attrs->keep, e->attrs->step);
}

static void sgd_range(const struct elements *e, int64_t first, int64_t end)
{
    psk_cpu_sgd(from(e, 0, first), from(e, 1, first), from(e, 2, first), end - first, e->attrs->rate);
}

RUN(run_act)
{
    UNUSED();
    return over_elements(act_range, args, attrs);
}

RUN(run_act_backward)
{
    UNUSED();
    return over_elements(act_backward_range, args, attrs);
}

RUN(run_dropout)
{
    UNUSED();
    return over_elements(dropout_range, args, attrs);
}

RUN(run_sgd)
{
    UNUSED();
    return over_elements(sgd_range, args, attrs);
}

static void gelu_range(const struct elements *e, int64_t first, int64_t end)
{
    psk_cpu_gelu(from(e, 0, first), from(e, 1, first), end - first);
}

static void gelu_backward_range(const struct elements *e, int64_t first, int64_t end)
{
    psk_cpu_gelu_backward(from(e, 0, first), from(e, 1, first), from(e, 2, first), end - first);
}

RUN(run_gelu)
{
    UNUSED();
    return over_elements(gelu_range, args, attrs);
}

RUN(run_gelu_backward)
{
    UNUSED();
    return over_elements(gelu_backward_range, args, attrs);
}

RUN(run_add)
{
    UNUSED();
    const struct psk_attrs minus = {.rate = -1.0f}; /* sgd computes a - b * rate; with rate -1 that is exactly a + b */
    return over_elements(sgd_range, args, &minus);
}

RUN(run_loss)
{
    UNUSED();
    const double loss = psk_cpu_loss(floats(&args[0]), floats(&args[1]), floats(&args[2]),
                                     args[0].shape.dims[0] * args[0].shape.dims[1], (psk_loss)attrs->loss, attrs->delta);
    if (args[3].dtype != PS_DTYPE_NONE) {
        *(double *)(uintptr_t)args[3].address = loss;
    }
    return PS_OK;
}

RUN(run_layer_norm)
{
    UNUSED();
    psk_cpu_layer_norm(floats(&args[0]), floats(&args[1]), floats(&args[2]), floats(&args[3]), args[0].shape.dims[0],
                       args[0].shape.dims[1], attrs->epsilon);
    return PS_OK;
}

RUN(run_layer_norm_backward)
{
    UNUSED();
    psk_cpu_layer_norm_backward(floats(&args[0]), floats(&args[1]), floats(&args[2]), floats(&args[3]), floats(&args[4]),
                                floats(&args[5]), args[0].shape.dims[0], args[0].shape.dims[1], attrs->epsilon);
    return PS_OK;
}

static const int64_t *longs(const struct psk_tensor *t)
{
    return (const int64_t *)(uintptr_t)t->address;
}

/* An operation's bags, lists of rows of the table `rows`. indices: its argument `indices`; if `bags`, ends and weights follow. */
static struct psk_cpu_bags bags_of(const struct psk_tensor *indices, bool bags, const struct psk_tensor *rows,
                                   const struct psk_attrs *attrs)
{
    return (struct psk_cpu_bags){.indices = longs(indices),
                                 .ends = bags ? longs(&indices[1]) : NULL,
                                 .weights = bags ? floats(&indices[2]) : NULL,
                                 .count = indices[bags].shape.dims[0],
                                 .index_count = indices->shape.dims[0],
                                 .row_count = rows->shape.dims[0],
                                 .combiner = (psk_combiner)attrs->combiner,
                                 .padding_plus_1 = attrs->padding_plus_1};
}

RUN(run_embedding)
{
    UNUSED();
    const struct psk_cpu_bags bags = bags_of(&args[1], false, &args[0], attrs);
    psk_cpu_bag(&bags, floats(&args[0]), floats(&args[2]), args[0].shape.dims[1]);
    return PS_OK;
}

RUN(run_embedding_backward)
{
    UNUSED();
    const struct psk_cpu_bags bags = bags_of(&args[1], false, &args[3], attrs);
    psk_cpu_bag_backward(&bags, floats(&args[2]), floats(&args[3]), args[3].shape.dims[1]);
    return PS_OK;
}

RUN(run_embedding_bag)
{
    UNUSED();
    const struct psk_cpu_bags bags = bags_of(&args[1], true, &args[0], attrs);
    psk_cpu_bag(&bags, floats(&args[0]), floats(&args[4]), args[0].shape.dims[1]);
    return PS_OK;
}

RUN(run_embedding_bag_backward)
{
    UNUSED();
    const struct psk_cpu_bags bags = bags_of(&args[1], true, &args[5], attrs);
    psk_cpu_bag_backward(&bags, floats(&args[4]), floats(&args[5]), args[5].shape.dims[1]);
    return PS_OK;
}

RUN(run_fm)
{
    UNUSED();
    const struct psk_cpu_bags bags = bags_of(&args[1], true, &args[0], attrs);
    psk_cpu_fm(&bags, floats(&args[0]), floats(&args[4]), floats(&args[5]), args[0].shape.dims[1]);
    return PS_OK;
}

RUN(run_fm_backward)
{
    UNUSED();
    const struct psk_cpu_bags bags = bags_of(&args[1], true, &args[0], attrs);
    psk_cpu_fm_backward(&bags, floats(&args[0]), floats(&args[4]), floats(&args[5]), floats(&args[6]), args[0].shape.dims[1]);
    return PS_OK;
}

RUN(run_dot)
{
    UNUSED();
    psk_cpu_dot(floats(&args[0]), floats(&args[1]), args[0].shape.dims[0], attrs->fields, args[0].shape.dims[1] / attrs->fields);
    return PS_OK;
}

RUN(run_dot_backward)
{
    UNUSED();
    psk_cpu_dot_backward(floats(&args[0]), floats(&args[1]), floats(&args[2]), args[0].shape.dims[0], attrs->fields,
                         args[0].shape.dims[1] / attrs->fields);
    return PS_OK;
}

RUN(run_softmax_xent)
{
    UNUSED();
    const double loss =
        psk_cpu_softmax_xent(floats(&args[0]), ints(&args[1]), floats(&args[2]), args[0].shape.dims[0], args[0].shape.dims[1]);
    if (args[3].dtype != PS_DTYPE_NONE) {
        *(double *)(uintptr_t)args[3].address = loss;
    }
    return PS_OK;
}

RUN(run_argmax_count)
{
    UNUSED();
    *(int64_t *)(uintptr_t)args[2].address =
        psk_cpu_argmax_count(floats(&args[0]), ints(&args[1]), args[0].shape.dims[0], args[0].shape.dims[1]);
    return PS_OK;
}

const psk_run_fn psk_cpu_run[PSK_OPS] = {
    [PSK_DENSE] = run_dense,
    [PSK_DENSE_DX] = run_dense_dx,
    [PSK_DENSE_DW] = run_dense_dw,
    [PSK_ACT] = run_act,
    [PSK_ACT_BACKWARD] = run_act_backward,
    [PSK_DROPOUT] = run_dropout,
    [PSK_SOFTMAX_XENT] = run_softmax_xent,
    [PSK_ARGMAX_COUNT] = run_argmax_count,
    [PSK_SGD] = run_sgd,
    [PSK_SPARSE] = run_sparse,
    [PSK_SPARSE_DW] = run_sparse_dw,
    [PSK_LOSS] = run_loss,
    [PSK_GELU] = run_gelu,
    [PSK_GELU_BACKWARD] = run_gelu_backward,
    [PSK_ADD] = run_add,
    [PSK_LAYER_NORM] = run_layer_norm,
    [PSK_LAYER_NORM_BACKWARD] = run_layer_norm_backward,
    [PSK_EMBEDDING] = run_embedding,
    [PSK_EMBEDDING_BACKWARD] = run_embedding_backward,
    [PSK_EMBEDDING_BAG] = run_embedding_bag,
    [PSK_EMBEDDING_BAG_BACKWARD] = run_embedding_bag_backward,
    [PSK_FM] = run_fm,
    [PSK_FM_BACKWARD] = run_fm_backward,
    [PSK_DOT] = run_dot,
    [PSK_DOT_BACKWARD] = run_dot_backward,
};
