/* SPDX-License-Identifier: Apache-2.0 */
/* What psi_run_decode() and psi_run_answer_decode() promise of bytes from anybody: for the unit test and the fuzz target. */
#ifndef TESTS_LIB_RUN_CHECK_H
#define TESTS_LIB_RUN_CHECK_H

#include "common/blob.h"
#include "common/shape.h"
#include "worker/plan/run.h"

#include <math.h>
#include <string.h>

static inline void run_value_check(const struct psi_type *type, const void *data, size_t bytes, const uint8_t *from, size_t n)
{
    PSI_ASSERT(psi_dtype_known(type->dtype) && psi_shape_check(&type->shape, NULL) == PS_OK);
    PSI_ASSERT(bytes == 0 ? data == NULL : (const uint8_t *)data >= from && (const uint8_t *)data + bytes <= from + n);
    const uint64_t elements = (uint64_t)ps_shape_elements(&type->shape);
    PSI_ASSERT(type->dtype == PS_STRING ? psi_blob_check(data, bytes, elements, NULL) == PS_OK
                                        : bytes == elements * ps_dtype_bytes(type->dtype));
}

static inline void run_text_check(const char *text, size_t max)
{
    PSI_ASSERT(text != NULL && strnlen(text, max + 1) <= max);
}

static inline void run_variable_check(const struct psi_run_variable *v)
{
    run_text_check(v->container, PS_CONTAINER_BYTES_MAX);
    run_text_check(v->name, PS_NAME_BYTES_MAX);
    run_text_check(v->job, PS_JOB_BYTES_MAX);
    PSI_ASSERT(v->container[0] != '\0' && v->name[0] != '\0' && v->job[0] != '\0');
}

/* A run that was decoded from bytes [n]. */
static inline void run_check(const struct psi_run *run, const uint8_t *bytes, size_t n)
{
    uint32_t values = run->input_count;
    run_text_check(run->container, PS_CONTAINER_BYTES_MAX);
    for (uint32_t i = 0; i < run->input_count; i++) {
        const struct psi_run_input *in = &run->inputs[i];
        if (in->from == PSI_RUN_FROM_CALL) {
            run_value_check(&in->type, in->data, in->bytes, bytes, n);
        } else {
            PSI_ASSERT(in->from == PSI_RUN_FROM_VARIABLE && in->data == NULL);
            run_variable_check(&in->variable);
        }
    }
    for (uint32_t i = 0; i < run->row_count; i++) {
        const struct psi_run_row *row = &run->rows[i];
        run_text_check(row->op, PSI_RUN_OP_BYTES_MAX);
        run_text_check(row->name, PS_NAME_BYTES_MAX);
        run_text_check(row->device, PSI_RUN_DEVICE_BYTES_MAX);
        run_text_check(row->attrs.message, PSI_OP_MESSAGE_BYTES_MAX);
        PSI_ASSERT(row->first_value == values && row->input_count <= PSI_OP_INPUTS_MAX && row->op[0] != '\0');
        PSI_ASSERT(row->output_count >= 1 && row->output_count <= PSI_OP_OUTPUTS_MAX);
        PSI_ASSERT(row->attrs.value == NULL);
        for (uint32_t k = 0; k < row->input_count; k++) {
            PSI_ASSERT(row->inputs[k] < values);
        }
        values += row->output_count;
    }
    PSI_ASSERT(values == run->value_count && values <= PSI_RUN_VALUES_MAX);
    for (uint32_t i = 0; i < run->output_count; i++) {
        const struct psi_run_output *o = &run->outputs[i];
        PSI_ASSERT(o->value < values && (o->to == PSI_RUN_TO_ADD || !o->answers));
        PSI_ASSERT(o->to != PSI_RUN_TO_PUSH || (isfinite(o->scale) && o->scale > 0));
        if (o->to != PSI_RUN_TO_ANSWER) {
            run_variable_check(&o->variable);
        }
    }
}

static inline void run_answer_check(const struct psi_run_answer *answer, const uint8_t *bytes, size_t n)
{
    for (uint32_t i = 0; i < answer->result_count; i++) {
        run_value_check(&answer->results[i].type, answer->results[i].data, answer->results[i].bytes, bytes, n);
    }
}

/* Decode bytes of either kind; what is accepted is sound, and encoded and decoded again it is as long as it was. */
static inline void run_decode_check(const uint8_t *bytes, size_t n)
{
    struct psi_run run = {0};
    struct psi_run_answer answer = {0};
    struct psi_buf b;
    psi_buf_init(&b, 1 << 20);
    if (psi_run_decode(bytes, n, &run, NULL) == PS_OK) {
        struct psi_run again = {0};
        run_check(&run, bytes, n);
        PSI_ASSERT(psi_run_encode(&run, &b, NULL) == PS_OK);
        PSI_ASSERT(psi_run_decode(b.data, b.len, &again, NULL) == PS_OK);
        PSI_ASSERT(again.value_count == run.value_count && again.output_count == run.output_count);
        psi_run_fini(&again);
    } else {
        PSI_ASSERT(run.memory == NULL);
    }
    psi_buf_clear(&b);
    if (psi_run_answer_decode(bytes, n, &answer, NULL) == PS_OK) {
        run_answer_check(&answer, bytes, n);
        PSI_ASSERT(psi_run_answer_encode(&answer, &b, NULL) == PS_OK);
    } else {
        PSI_ASSERT(answer.memory == NULL);
    }
    psi_buf_fini(&b);
    psi_run_fini(&run);
    psi_run_answer_fini(&answer);
}

#endif
