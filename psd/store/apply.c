/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mutation with a body does to its variable: one segment at a time, and at its end.
 *
 * Happy path: a gradient is applied segment by segment while it is in cache, from float16 by way of a small block on the
 * stack. Values of ADD are added segment by segment. Values of ASSIGN, gradients and values of ADD for an atomic variable, and
 * gradients for an optimizer that needs norms of them, are gathered in staging memory and take effect at LAST. Gradients of
 * CONTRIBUTE wait for their round in the area of their member. Pushes of some rows are in rows.c.
 *
 * Failure: none; what does not fit was refused before (psd/rpc/push.c).
 */
#include "mutate.h"

#include "common/half.h"

#include <string.h>

/* elements converted at a time: 16 KiB of stack, so that they are in the first-level cache when they are applied */
enum { BLOCK_ELEMENTS = 4096 };

void psd_apply_gradient(const struct psd_progress *g, uint64_t first, const uint8_t *grad, ps_dtype wire, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    const uint64_t step = v->row_elements;
    const bool widen = wire != v->dtype && wire != PS_BF16;
    const uint64_t most = !widen ? count : step > BLOCK_ELEMENTS ? step : BLOCK_ELEMENTS / step * step;
    _Alignas(64) float block[PS_SEGMENT_BYTES / sizeof(float)]; /* a row of an optimizer by row may take all of it */
    while (count > 0) {
        const uint64_t take = count < most ? count : most;
        void *slots[PSD_OPTIM_SLOTS_MAX];
        for (uint32_t i = 0; i < PSD_OPTIM_SLOTS_MAX; i++) {
            slots[i] = v->slots[i] == NULL ? NULL : (uint8_t *)v->slots[i] + psd_variable_span(v, 1 + i, first, take).at;
        }
        if (widen) {
            psi_half_widen(wire, grad, block, take);
        }
        psd_optim_apply_beside(v->optimizer.kind, v->dtype, widen ? PS_F32 : wire, &g->scalars,
                               (uint8_t *)v->value + first * v->element_bytes, slots, widen ? (const void *)block : grad,
                               step == 1 ? take : take / step, step);
        first += take;
        grad += take * psi_wire_unit(wire);
        count -= take;
    }
}

/* Apply a gradient that was staged, in the dtype of its variable. What an optimizer with norms makes of it takes its place. */
static void apply_staged(struct psd_progress *g)
{
    const struct psd_variable *v = g->variable;
    struct psd_optim_norms norms = {0};
    if (!psi_optimizer_is_whole(v->optimizer.kind)) {
        psd_apply_gradient(g, 0, g->staging, v->dtype, v->elements);
        return;
    }
    psd_optim_measure(v->optimizer.kind, v->dtype, &g->scalars, v->value, v->slots, g->staging, g->staging, v->elements, &norms);
    psd_optim_scale(v->optimizer.kind, v->dtype, &norms, &g->scalars);
    psd_apply_gradient(g, 0, g->staging, v->dtype, v->elements);
}

static void changed(const struct psd_variable *v, uint64_t first, uint64_t count)
{
    psd_sums_changed(&psd_variable_own(v)->sums, v->value, v->bytes, first * v->element_bytes, count * v->element_bytes);
}

/* Add delta, elements [first, first + count) of an ADD, to the variable, or subtract it. */
static void add(const struct psd_progress *g, uint64_t first, const uint8_t *delta, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    bool known = psd_add(v->dtype, (uint8_t *)v->value + first * v->element_bytes, delta, count, g->scale < 0 ? -1 : 1);
    changed(v, first, count);
    PSI_ASSERT(known); /* admission refuses other dtypes */
}

static void stage(const struct psd_progress *g, void *staging, uint64_t first, const uint8_t *p, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    if (g->wire == v->dtype) {
        memcpy((uint8_t *)staging + first * g->unit, p, count * g->unit);
    } else {
        psi_half_widen((ps_dtype)g->wire, p, (uint8_t *)staging + first * v->element_bytes, count);
    }
}

void psd_apply_segment(struct psd_number *n, const uint8_t *p, uint64_t count, bool last)
{
    struct psd_progress *g = n->progress;
    const struct psd_variable *v = g->variable;
    if (psd_push_is_rows(g->kind)) {
        if (g->staging != NULL) {
            psd_rows_stage(g, n->offset, p, count);
        } else {
            psd_rows_apply(g, p, count, last);
        }
        psd_rows_come(g, p, count);
    } else if (g->kind == PSD_CONTRIBUTE) {
        if (g->area != NULL) {
            stage(g, g->area->memory, n->offset, p, count);
        }
    } else if (g->staging != NULL) {
        stage(g, g->staging, n->offset, p, count);
    } else if (psd_push_is_gradient(g->kind)) {
        psd_apply_gradient(g, n->offset, p, (ps_dtype)g->wire, count);
        changed(v, n->offset, count);
    } else {
        add(g, n->offset, p, count);
    }
    n->offset += count;
}

void psd_apply_value(struct psd_store *s, struct psd_variable *v, void *value, uint64_t bytes, struct psd_kept **kept,
                     const uint8_t giver[8], uint64_t chief_number)
{
    bool first = !v->initialised;
    psd_variable_swap_in(s, v, value, bytes, kept);
    if (first || psd_variable_is_provisional(v) || chief_number != 0) {
        v->given = true;
        memcpy(v->giver, giver, sizeof(v->giver));
    }
    if (!v->sealed) {
        v->chief_value = chief_number;
    }
}

static void finish_assign(struct psd_store *s, const struct psd_record *record, struct psd_progress *g, struct psd_variable *v)
{
    if (g->init_only && v->initialised) {
        return;
    }
    psd_apply_value(s, v, g->staging, g->staging_bytes, &g->kept, record->session, g->chief_number);
    g->staging = NULL;
}

/* A slot's value takes effect, with the power that belongs to the slot; 0 where none does. */
static void finish_slot(struct psd_store *s, struct psd_progress *g, struct psd_variable *v)
{
    uint32_t slot = psd_push_slot(g->kind);
    psd_variable_swap_slot_in(s, v, slot, g->staging, &g->kept);
    g->staging = NULL;
    memcpy(&v->optim_state.powers[slot - 1], &g->chief_number, sizeof(v->optim_state.powers[0]));
}

/* A push, an add or a slot's assign has changed a value that a chief gave and did not seal. No later chief may replace it. */
static void changed_by_others(struct psd_variable *v)
{
    if (!v->sealed) {
        v->chief_value = 0;
    }
}

/* The result is a little-endian u64. 1: the contribution was dropped: its round is over, or its member has left the group. */
static void finish_contribution(struct psd_progress *g, struct psd_number *n)
{
    n->result_bytes = sizeof(uint64_t);
    memset(n->result, 0, sizeof(uint64_t));
    n->result[0] = !psd_area_end(g, true);
}

void psd_apply_finish(struct psd_store *s, const struct psd_record *record, struct psd_number *n,
                      const struct psd_optim_scalars *scalars)
{
    struct psd_progress *g = n->progress;
    struct psd_variable *v = psd_variable_own(g->variable);
    if (g->kind == PSD_ASSIGN) {
        finish_assign(s, record, g, v);
    } else if (psd_push_slot(g->kind) != 0) {
        finish_slot(s, g, v);
        changed_by_others(v);
    } else if (g->kind == PSD_CONTRIBUTE) {
        finish_contribution(g, n);
    } else {
        v->version++;
        changed_by_others(v);
    }
    if (psd_push_is_applied(g->kind)) {
        if (g->staging != NULL) { /* the gradient was staged until now */
            g->scalars = *scalars;
        }
        if (g->staging != NULL && !psd_push_is_rows(g->kind)) {
            apply_staged(g);
            changed(v, 0, v->elements);
        }
        psd_optim_end(&v->optimizer, v->dtype, &v->optim_state);
        v->pushes++;
        v->step = g->step > v->step + 1 ? g->step - 1 : v->step;
    }
    if (psd_push_is_rows(g->kind) && g->staging != NULL) {
        psd_rows_apply_staged(g);
    }
    if (g->kind == PSD_ADD && g->staging != NULL) { /* the variable is atomic: the values to add were staged until now */
        add(g, 0, g->staging, v->elements);
    }
    if (g->kind == PSD_ADD && v->bytes <= PS_RESULT_BYTES_MAX) {
        n->result_bytes = (uint8_t)v->bytes;
        memcpy(n->result, v->value, v->bytes);
    }
    n->version = v->version;
}

bool psd_apply_torn(const struct psd_number *n)
{
    if (!psd_number_is_torn(n)) {
        return false;
    }
    const struct psd_progress *g = n->progress;
    psd_variable_own(g->variable)->version++;
    changed_by_others(psd_variable_own(g->variable));
    return true;
}
