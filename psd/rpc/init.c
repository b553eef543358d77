/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a chief makes variables ready: INIT, carried out in one step (slow.c has what comes before it for large ones), and SEAL.
 *
 * INIT is a mutation like a push (sequence number, outcome kept). It and SEAL carry the number of the chief lease: one lower than
 * this task has seen is refused, so a chief that was paused and wakes up late changes nothing.
 */
#include "rpc.h"

#include "common/optimizer.h"

static ps_status check_chief(const struct psd_task *t, uint64_t number, struct psi_err *err)
{
    if (number > PS_CHIEF_NUMBER_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "chief number %llu: no directory has given it", (unsigned long long)number);
    }
    if (number != 0 && number < t->chief_number) {
        return psi_fail_as(
            err, PS_ABORTED, PS_REASON_NEWER_CHIEF, "%s follows a newer chief: %s has number %llu, this session %llu", t->name,
            t->chief_text[0] == '\0' ? "one" : t->chief_text, (unsigned long long)t->chief_number, (unsigned long long)number);
    }
    return PS_OK;
}

/* A number that has passed the check; 0: not as a chief. */
static void follow_chief(struct psd_task *t, const struct psd_conn *c, uint64_t number)
{
    if (number > t->chief_number || (number != 0 && t->chief_text[0] == '\0')) {
        struct psd_change change = {.kind = PSD_CHANGE_CHIEF, .chief = {.number = number, .text = c->text}};
        psd_commit(t, &change);
    }
}

ps_status psd_init_check(const struct psd_task *t, const struct psd_request *r, struct psd_init *out, struct psi_err *err)
{
    ps_v1_Init m;
    *out = (struct psd_init){.variable = r->variable};
    if (r->refusal != NULL) {
        *err = *r->refusal;
        return err->code;
    }
    const struct psd_variable *v = out->variable;
    ps_status st = psi_msg_decode(&ps_v1_Init_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK) {
        st = psi_optimizer_from_msg(&m.optimizer, &out->optimizer, err);
    }
    if (st == PS_OK && v == NULL) {
        st = psd_fail_gone(t, r->header.handle, err);
    }
    if (st == PS_OK && t->draining) {
        st = psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name);
    }
    if (st == PS_OK) {
        st = check_chief(t, m.chief_number, err);
    }
    if (st != PS_OK) {
        return st;
    }
    out->chief_number = m.chief_number;
    out->initializer = (ps_initializer){.kind = m.kind, .a = m.a, .b = m.b};
    out->seed = m.seed;
    out->force = m.force;
    struct psd_definition have = psd_variable_definition(v);
    struct psd_definition want = have;
    want.optimizer = out->optimizer;
    st = psd_definition_compare(&have, t->name, &want, v->name, err);
    if (st == PS_OK) {
        st = psd_definition_check(&want, v->name, err);
    }
    if (st == PS_OK) {
        st = psi_initializer_check(&out->initializer, v->dtype, &v->shape, err);
        psi_err_prefix(st == PS_OK ? NULL : err, "variable '%s'", v->name);
    }
    return st == PS_OK && out->force ? psd_round_check(t, v, err) : st;
}

/* What r says, decided: on PS_OK out is to be committed. */
static ps_status decide_init(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made,
                             struct psd_change *out, struct psi_err *err)
{
    struct psd_init m;
    ps_status st = psd_init_check(t, r, &m, err);
    follow_chief(t, c, m.chief_number);
    if (st != PS_OK) {
        return st;
    }
    bool runs = !m.variable->initialised || m.force;
    if (made->value == NULL) {
        *made = (struct psd_making){.init = m.initializer, .seed = m.seed, .optimizer = m.optimizer};
    }
    if ((runs || m.chief_number != 0) && !psi_optimizer_equal(&m.variable->optimizer, &m.optimizer)) {
        char text[PSI_OPTIMIZER_TEXT_MAX];
        psd_log(t, PSI_LOG_INFO, "hyperparameters", PSI_KV("var", m.variable->name),
                PSI_KV("now", psi_optimizer_format(&m.optimizer, text, sizeof(text))));
    }
    *out = (struct psd_change){.kind = PSD_CHANGE_INIT,
                               .init = {.record = c->record,
                                        .number = r->header.id,
                                        .variable = m.variable,
                                        .chief_number = m.chief_number,
                                        .making = made,
                                        .runs = runs}};
    return psd_change_reserve(t, out, err);
}

void psd_init_carry_out(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made)
{
    struct psd_making at_once = {.value = NULL};
    struct psd_change change;
    struct psi_err err;
    if (!psd_outcome_may_begin(t, c, r)) {
        return;
    }
    ps_status st = decide_init(t, c, r, made != NULL ? made : &at_once, &change, &err);
    if (st == PS_OK) {
        psd_commit(t, &change);
    } else {
        psd_outcome_refuse(t, c->record, r->header.id, &err);
    }
    psd_outcome_send(t, c, PS_OP_INIT, r->header.handle, psd_record_find(c->record, r->header.id));
    if (st == PS_OK) {
        psd_wait_look(t, psd_variable_waiters(change.init.variable));
    }
}

/* First pass checks, second sets: all or none of a frame. One that names nothing has asked for no right: it is refused. */
static ps_status seal_items(struct psd_task *t, const struct psd_request *r, bool set, struct psi_err *err)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    for (bool any = false;; any = true) {
        ps_v1_HandleItem item;
        bool end = false;
        ps_status st = psi_list_next(&p, &n, &ps_v1_HandleItem_msg, &item, &end, err);
        if (st == PS_OK && end && !any) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "SEAL at %s names no variable", t->name);
        }
        if (st != PS_OK || end) {
            return st;
        }
        const struct psd_variable *v = psd_variable_by_handle(&t->store, item.handle);
        if (v == NULL || v->creation != item.creation) {
            return psd_fail_gone(t, item.handle, err);
        }
        st = psd_target_check(t, v, false, err);
        if (st != PS_OK) {
            return st;
        }
        if (!v->initialised) {
            return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED,
                               "UNINITIALIZED: variable '%s' at %s cannot be sealed", v->name, t->name);
        }
        if (set && !v->sealed) {
            struct psd_change c = {.kind = PSD_CHANGE_SEAL, .variable = v};
            psd_commit(t, &c);
            psd_wait_look(t, psd_variable_waiters(v));
        }
    }
}

void psd_rpc_seal(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Seal m;
    struct psi_err err;
    ps_status st = psi_msg_decode(&ps_v1_Seal_msg, &m, r->meta, r->header.meta_bytes, &err);
    if (st == PS_OK) {
        st = check_chief(t, m.chief_number, &err);
    }
    if (st == PS_OK) {
        st = seal_items(t, r, false, &err);
    }
    if (st == PS_OK) {
        follow_chief(t, c, m.chief_number);
        st = seal_items(t, r, true, &err);
    }
    psd_reply(t, c, PS_OP_SEAL, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, NULL, NULL);
}
