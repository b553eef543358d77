/* SPDX-License-Identifier: Apache-2.0 */
/* What a mutation with a body does to its variable: one segment at a time, and at its end.
 *
 * Happy path: a gradient or an ADD changes the variable segment by segment; float16 is first widened in a block on the stack.
 * Mutations for which psd_progress_stages() is true, such as ASSIGN, are gathered in memory and take effect with the last
 * segment. LAMB and LARS make passes over all elements after the last segment: at once or, if the value is large, in slices
 * (rpc/moves.c). Before that, each segment for LAMB changes the slots and adds to the norms. Gradients of CONTRIBUTE stay in
 * memory of their own until their round is committed. Mutations of rows are in rows.c.
 *
 * Failure: none; psd/rpc/push.c has refused mutations that do not fit their variable. */
#include "mutate.h"
#include "overlay.h"

#include "common/half.h"

#include <string.h>

/* elements converted at a time: 16 KiB of float32 on the stack, which stay in the first-level cache */
enum { BLOCK_ELEMENTS = 4096 };

static void slots_at(const struct psd_variable *v, uint64_t first, uint64_t count, void *slots[PSD_OPTIM_SLOTS_MAX])
{
    for (uint32_t i = 0; i < PSD_OPTIM_SLOTS_MAX; i++) {
        slots[i] = v->slots[i] == NULL ? NULL : (uint8_t *)v->slots[i] + psd_variable_span(v, 1 + i, first, count).at;
    }
}

void psd_apply_gradient(const struct psd_progress *g, uint64_t first, const uint8_t *grad, ps_dtype wire, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    const uint64_t step = v->row_elements;
    const bool widen = wire != v->dtype && wire != PS_BF16;
    const uint64_t most = !widen ? count : step > BLOCK_ELEMENTS ? step : BLOCK_ELEMENTS / step * step;
    /* room for a whole row, which an optimizer by row needs at once and which may fill a segment */
    _Alignas(64) float block[PS_SEGMENT_BYTES / sizeof(float)];
    while (count > 0) {
        const uint64_t take = count < most ? count : most;
        void *slots[PSD_OPTIM_SLOTS_MAX];
        slots_at(v, first, take, slots);
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

/* First pass of LAMB or LARS over elements [first, first + count): add the squares of values and steps to g->scalars. LAMB also
 * changes its slots. grad: the gradient of these elements, in the variable's dtype. */
static void measure(struct psd_progress *g, uint64_t first, const void *grad, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    void *slots[PSD_OPTIM_SLOTS_MAX];
    slots_at(v, first, count, slots);
    psd_optim_measure_segment(v->optimizer.kind, v->dtype, &g->scalars, (const uint8_t *)v->value + first * v->element_bytes,
                              slots, grad, count);
}

/* measure() for a segment as it comes, in dtype g->wire; float16 and bfloat16 are converted to the variable's dtype first. */
static void measure_segment(struct psd_progress *g, uint64_t first, const uint8_t *grad, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    const bool widen = g->wire != v->dtype;
    _Alignas(64) float block[BLOCK_ELEMENTS];
    while (count > 0) {
        const uint64_t take = widen && count > BLOCK_ELEMENTS ? BLOCK_ELEMENTS : count;
        if (widen) {
            psi_half_widen((ps_dtype)g->wire, grad, block, take);
        }
        measure(g, first, widen ? (const void *)block : grad, take);
        first += take;
        grad += take * g->unit;
        count -= take;
    }
}

static void changed(const struct psd_variable *v, uint64_t first, uint64_t count)
{
    psd_sums_changed(&psd_variable_own(v)->sums, v->value, v->bytes, first * v->element_bytes, count * v->element_bytes);
}

void psd_apply_move(struct psd_progress *p, uint64_t count)
{
    const struct psd_variable *v = p->variable;
    /* without staging the gradient was used when it came, and `grad` is not read: slot 0 only serves as a valid pointer */
    const uint8_t *grad = p->staging != NULL ? p->staging : v->slots[0];
    if (psd_progress_measures(p)) {
        const uint64_t first = psd_progress_passed(p);
        measure(p, first, grad + first * v->element_bytes, count);
    } else {
        const uint64_t first = psd_progress_moved(p);
        if (first == 0) {
            psd_optim_last_pass(v->optimizer.kind, v->dtype, &p->scalars);
        }
        psd_apply_gradient(p, first, grad + first * v->element_bytes, v->dtype, count);
        changed(v, first, count);
    }
    p->scalars.moved += (double)count;
}

/* Add delta, elements [first, first + count) of an ADD, to the variable; a negative scale subtracts it. */
static void add(const struct psd_progress *g, uint64_t first, const uint8_t *delta, uint64_t count)
{
    const struct psd_variable *v = g->variable;
    bool known = psd_add(v->dtype, (uint8_t *)v->value + first * v->element_bytes, delta, count, g->scale < 0 ? -1 : 1);
    changed(v, first, count);
    PSI_ASSERT(known); /* psd_add() fails only for dtypes that were refused when the push began */
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
        if (g->kind == PSD_CONTRIBUTE_ROWS) {
            if (g->area != NULL) {
                psd_overlay_contribute(g, n->offset, p, count);
            }
        } else if (g->staging != NULL) {
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
    } else if (psd_progress_moves_last(g)) { /* LAMB: the gradient is used for slots and norms now, not gathered */
        measure_segment(g, n->offset, p, count);
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

/* Make the gathered values a slot of v. If the slot has a power (such as Adam's beta1^t), its bits came in chief_number. */
static void finish_slot(struct psd_store *s, struct psd_progress *g, struct psd_variable *v)
{
    uint32_t slot = psd_push_slot(g->kind);
    psd_variable_swap_slot_in(s, v, slot, g->staging, &g->kept);
    g->staging = NULL;
    memcpy(&v->optim_state.powers[slot - 1], &g->chief_number, sizeof(v->optim_state.powers[0]));
}

/* A push, an add or an assign of a slot has changed v: from now on no newer chief that sets up the model replaces v's value. */
static void changed_by_others(struct psd_variable *v)
{
    if (!v->sealed) {
        v->chief_value = 0;
    }
}

/* End a contribution. n->result, a little-endian u64, tells the client whether it counts (0), or was dropped (1), because its
 * round is over or its member has left. */
static void finish_contribution(struct psd_progress *g, struct psd_number *n)
{
    n->result_bytes = sizeof(uint64_t);
    memset(n->result, 0, sizeof(uint64_t));
    n->result[0] = !psd_area_end(g, true);
}

void psd_apply_finish(struct psd_store *s, const struct psd_record *record, struct psd_number *n)
{
    struct psd_progress *g = n->progress;
    struct psd_variable *v = psd_variable_own(g->variable);
    if (g->kind == PSD_ASSIGN) {
        finish_assign(s, record, g, v);
    } else if (psd_push_slot(g->kind) != 0) {
        finish_slot(s, g, v);
        changed_by_others(v);
    } else if (psd_push_contributes(g->kind)) {
        finish_contribution(g, n);
    } else {
        v->version++;
        changed_by_others(v);
    }
    if (psd_push_is_applied(g->kind)) {
        if (psi_optimizer_is_whole(v->optimizer.kind)) {
            while (psd_progress_left(g) > 0) {
                psd_apply_move(g, psd_progress_left(g));
            }
        } else if (g->staging != NULL && !psd_push_is_rows(g->kind)) { /* the whole gradient was gathered until now */
            psd_apply_gradient(g, 0, g->staging, v->dtype, v->elements);
            changed(v, 0, v->elements);
        }
        psd_optim_end(&v->optimizer, v->dtype, &v->optim_state);
        v->pushes++;
        v->step = g->step > v->step + 1 ? g->step - 1 : v->step;
    }
    if (psd_push_is_rows(g->kind) && g->staging != NULL) {
        psd_rows_apply_staged(g);
    }
    if (g->kind == PSD_ADD && g->staging != NULL) { /* the variable is atomic, so the values to add were gathered until now */
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
