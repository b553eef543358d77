/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU plugin's table and its one exported symbol.
 * Happy path: psk_open(PSK_ABI) gives the constant table. Failure: another ABI gets NULL, and the host says so.
 */
#include "cpu.h"

static const struct psk_table cpu_table = {
    .abi = PSK_ABI,
    .struct_bytes = sizeof(struct psk_table),
    .device = "cpu",
    .describe = psk_cpu_describe,
    .dense_forward = psk_cpu_dense_forward,
    .dense_backward = psk_cpu_dense_backward,
    .relu_forward = psk_cpu_relu_forward,
    .relu_backward = psk_cpu_relu_backward,
    .sigmoid_forward = psk_cpu_sigmoid_forward,
    .sigmoid_backward = psk_cpu_sigmoid_backward,
    .tanh_forward = psk_cpu_tanh_forward,
    .tanh_backward = psk_cpu_tanh_backward,
    .dropout = psk_cpu_dropout,
    .softmax_xent = psk_cpu_softmax_xent,
    .argmax_count = psk_cpu_argmax_count,
};

const struct psk_table *psk_open(uint32_t abi)
{
    return abi == PSK_ABI ? &cpu_table : NULL;
}
