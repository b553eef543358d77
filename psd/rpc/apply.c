/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mutation with a body does to its variable: one segment at a time, and at its end.
 *
 * Happy path: a gradient is applied segment by segment while it is in cache, from float16 or bfloat16 by way of a small block on
 * the stack; values of ASSIGN and gradients of an atomic variable are gathered in staging memory and take effect at LAST.
 * Failure: NaN or infinity in a gradient, strings whose offsets do not fit: the push is refused; of a staged one nothing is in.
 */
#include "rpc.h"

#include "common/blob.h"
#include "common/half.h"

#include <stdio.h>
#include <string.h>

/* elements converted at a time: 16 KiB of stack, so that they are in the first-level cache when they are applied */
enum { BLOCK_ELEMENTS = 4096 };

/* Elements [first, first + count) by the optimizer; grad is float16, bfloat16 or of the variable's dtype. */
static void optimise(const struct psd_progress *g, uint64_t first, const uint8_t *grad, ps_dtype wire, uint64_t count)
{
    struct psd_variable *v = g->variable;
    uint64_t at = first * v->element_bytes;
    void *slots[PSD_OPTIM_SLOTS_MAX];
    for (uint32_t i = 0; i < PSD_OPTIM_SLOTS_MAX; i++) {
        slots[i] = v->slots[i] == NULL ? NULL : (uint8_t *)v->slots[i] + at;
    }
    if (wire == v->dtype) {
        psd_optim_apply(v->optimizer.kind, v->dtype, &g->scalars, (uint8_t *)v->value + at, slots, grad, count);
        return;
    }
    _Alignas(64) float block[BLOCK_ELEMENTS];
    float *value = (float *)v->value + first;
    while (count > 0) {
        uint64_t take = count < BLOCK_ELEMENTS ? count : BLOCK_ELEMENTS;
        psi_half_widen(wire, grad, block, take);
        psd_optim_apply(v->optimizer.kind, v->dtype, &g->scalars, value, slots, block, take);
        value += take;
        for (uint32_t i = 0; i < PSD_OPTIM_SLOTS_MAX; i++) {
            slots[i] = slots[i] == NULL ? NULL : (float *)slots[i] + take;
        }
        grad += take * g->unit;
        count -= take;
    }
}

static ps_status check_finite(struct psd_task *t, const struct psd_number *n, const uint8_t *p, uint64_t count,
                              struct psi_err *err)
{
    const struct psd_progress *g = n->progress;
    size_t bad = 0;
    if (!t->config.refuse_nonfinite || psd_optim_finite((ps_dtype)g->wire, p, count, g->scale, &bad)) {
        return PS_OK;
    }
    t->count.nonfinite++;
    char scaled[48] = "";
    if (g->scale != 1) {
        PSI_IGNORE(snprintf(scaled, sizeof(scaled), " times the scale %g", (double)g->scale)); /* fits */
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "gradient of '%s': element %llu%s is NaN or infinite", g->variable->name,
                    (unsigned long long)(n->offset + bad), scaled);
}

static void stage(const struct psd_progress *g, uint64_t first, const uint8_t *p, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    if (g->wire == v->dtype) {
        memcpy((uint8_t *)g->staging + first * g->unit, p, count * g->unit);
    } else {
        psi_half_widen((ps_dtype)g->wire, p, (uint8_t *)g->staging + first * v->element_bytes, count);
    }
}

ps_status psd_apply_segment(struct psd_task *t, struct psd_number *n, const uint8_t *p, uint64_t count, struct psi_err *err)
{
    const struct psd_progress *g = n->progress;
    struct psd_variable *v = g->variable;
    if (psd_push_is_gradient(g->kind)) {
        ps_status st = check_finite(t, n, p, count, err);
        if (st != PS_OK) {
            return st;
        }
    }
    if (g->staging != NULL) {
        stage(g, n->offset, p, count);
    } else if (psd_push_is_gradient(g->kind)) {
        optimise(g, n->offset, p, (ps_dtype)g->wire, count);
    } else {
        bool known = psd_add(v->dtype, v->value, p, count, g->scale < 0 ? -1 : 1);
        PSI_ASSERT(known); /* admission refuses other dtypes */
    }
    n->offset += count;
    return PS_OK;
}

static ps_status finish_assign(struct psd_task *t, const struct psd_record *record, struct psd_progress *g, struct psi_err *err)
{
    struct psd_variable *v = g->variable;
    if (v->dtype == PS_STRING) {
        ps_status st = psi_blob_check(g->staging, g->total, v->elements, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "strings for '%s'", v->name);
            return st;
        }
    }
    if (g->init_only && v->initialised) {
        return PS_OK;
    }
    bool first = !v->initialised;
    ps_status st = psd_variable_swap_in(&t->store, v, g->staging, g->staging_bytes, err);
    if (st == PS_OK) {
        g->staging = NULL;
    }
    if (st == PS_OK && first) {
        v->given = true;
        memcpy(v->giver, record->session, sizeof(v->giver));
    }
    return st;
}

ps_status psd_apply_finish(struct psd_task *t, const struct psd_record *record, struct psd_number *n, struct psi_err *err)
{
    struct psd_progress *g = n->progress;
    struct psd_variable *v = g->variable;
    if (g->kind == PSD_ASSIGN) {
        ps_status st = finish_assign(t, record, g, err);
        if (st != PS_OK) {
            return st;
        }
    } else {
        v->version++;
    }
    if (psd_push_is_gradient(g->kind)) {
        if (g->staging != NULL) { /* all of it now; its scalars are those of this moment */
            psd_optim_begin(&v->optimizer, v->dtype, &v->optim_state, g->scale, &g->scalars);
            optimise(g, 0, g->staging, v->dtype, v->elements);
        }
        psd_optim_end(&v->optimizer, v->dtype, &v->optim_state);
        v->pushes++;
        t->count.pushes_applied++;
    }
    if (g->kind == PSD_ADD) {
        n->result_bytes = (uint8_t)v->bytes;
        memcpy(n->result, v->value, v->bytes);
    }
    n->version = v->version;
    n->position = ++t->position;
    return PS_OK;
}
