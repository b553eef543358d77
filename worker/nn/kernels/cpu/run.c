/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations as the table has them: tensors taken apart into pointers and sizes. Addresses are pointers here.
 * There are no failure modes: the host has checked all that can be wrong.
 */
#include "cpu.h"

static float *floats(const struct psk_tensor *t)
{
    return (float *)(uintptr_t)t->address;
}

static const int32_t *labels_of(const struct psk_tensor *t)
{
    return (const int32_t *)(uintptr_t)t->address;
}

static int64_t count_of(const struct psk_tensor *t)
{
    return t->shape.dims[0] * t->shape.dims[1];
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

RUN(run_act)
{
    UNUSED();
    psk_cpu_act(floats(&args[0]), floats(&args[1]), count_of(&args[0]), (psk_activation)attrs->activation);
    return PS_OK;
}

RUN(run_act_backward)
{
    UNUSED();
    psk_cpu_act_backward(floats(&args[0]), floats(&args[1]), floats(&args[2]), count_of(&args[0]),
                         (psk_activation)attrs->activation);
    return PS_OK;
}

RUN(run_dropout)
{
    UNUSED();
    psk_cpu_dropout(floats(&args[0]), floats(&args[1]), count_of(&args[0]), attrs->seed, attrs->keep, attrs->step);
    return PS_OK;
}

RUN(run_softmax_xent)
{
    UNUSED();
    const double loss = psk_cpu_softmax_xent(floats(&args[0]), labels_of(&args[1]), floats(&args[2]), args[0].shape.dims[0],
                                             args[0].shape.dims[1]);
    if (args[3].dtype != PS_DTYPE_NONE) {
        *(double *)(uintptr_t)args[3].address = loss;
    }
    return PS_OK;
}

RUN(run_argmax_count)
{
    UNUSED();
    *(int64_t *)(uintptr_t)args[2].address =
        psk_cpu_argmax_count(floats(&args[0]), labels_of(&args[1]), args[0].shape.dims[0], args[0].shape.dims[1]);
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
};
