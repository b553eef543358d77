/* SPDX-License-Identifier: Apache-2.0 */
/* INIT gives a variable its first value or, with `force`, another one; SEAL declares variables ready. A chief, the session that
 * may initialise a container, sends them.
 *
 * INIT is a mutation like a push: it has a sequence number, and its outcome is kept. It is carried out in one step; slow.c
 * prepares the values of large variables. INIT and SEAL carry the chief's number; each new chief has a higher one. A number below
 * the highest that this task has seen for the container is refused, so that a former chief that was stopped for a while changes
 * nothing. A SEAL with `fence` seals nothing, and only makes its number the highest. */
#include "rpc.h"

#include "common/optimizer.h"

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
        st = m.chief_number == 0 ? PS_OK : psd_chief_check(t, v->container->name, m.chief_number, err);
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
        const ps_shape whole = have.part.count > 0 ? psi_part_whole(&have.part, &have.shape).shape : have.shape;
        st = psi_initializer_check(&out->initializer, v->dtype, &whole, err);
        psi_err_prefix(st == PS_OK ? NULL : err, "variable '%s'", v->name);
    }
    return st == PS_OK && out->force ? psd_round_check(t, v, err) : st;
}

bool psd_init_runs(const struct psd_init *m)
{
    const struct psd_variable *v = m->variable;
    return !v->initialised || m->force || (psd_variable_is_provisional(v) && v->given && v->chief_value < m->chief_number);
}

/* Check the INIT in r, and fill in *out, the change that carries it out. On PS_OK the caller must commit *out. */
static ps_status decide_init(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made,
                             struct psd_change *out, struct psi_err *err)
{
    struct psd_init m;
    ps_status st = psd_init_check(t, r, &m, err);
    if (m.chief_number != 0) { /* the chief's number is noted even if the INIT is refused */
        struct psi_err own;
        ps_status followed = psd_chief_follow(t, m.variable->container->name, m.chief_number, c->text, st == PS_OK ? err : &own);
        st = st == PS_OK ? followed : st;
    }
    if (st != PS_OK) {
        return st;
    }
    bool runs = psd_init_runs(&m);
    if (made->value == NULL) {
        *made = (struct psd_making){.init = m.initializer, .seed = m.seed, .optimizer = m.optimizer};
    }
    if ((runs || m.chief_number != 0) && !psi_optimizer_equal(&m.variable->optimizer, &m.optimizer)) {
        char text[PSI_OPTIMIZER_TEXT_MAX];
        psd_log_batch(t, PSI_LOG_INFO, "hyperparameters", c->text, m.variable->name,
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

/* A SEAL goes over its variables in three passes, so that it seals all or none: check, note the chief's number, seal. */
enum seal_pass { SEAL_CHECK, SEAL_FOLLOW, SEAL_SET };

static ps_status seal_one(struct psd_task *t, const struct psd_conn *c, const struct psd_variable *v, const ps_v1_Seal *m,
                          enum seal_pass pass, struct psi_err *err)
{
    const char *container = v->container->name;
    if (pass == SEAL_FOLLOW) {
        return psd_chief_follow(t, container, m->chief_number, c->text, err);
    }
    if (pass == SEAL_SET && !v->sealed) {
        struct psd_change change = {.kind = PSD_CHANGE_SEAL, .seal = {.variable = v, .chief_number = m->chief_number}};
        psd_commit(t, &change);
        psd_wait_look(t, psd_variable_waiters(v));
    }
    if (pass == SEAL_SET) {
        return PS_OK;
    }
    ps_status st = psd_target_check(t, v, false, err);
    st = st == PS_OK ? psd_session_refuse(container, "seals", err) : st;
    if (st == PS_OK && m->chief_number != 0) {
        st = psd_chief_check(t, container, m->chief_number, err);
    }
    return st != PS_OK || v->initialised || m->fence
               ? st
               : psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED,
                             "UNINITIALIZED: variable '%s' at %s cannot be sealed", v->name, t->name);
}

static ps_status seal_items(struct psd_task *t, const struct psd_conn *c, const struct psd_request *r, const ps_v1_Seal *m,
                            enum seal_pass pass, struct psi_err *err)
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
        st = seal_one(t, c, v, m, pass, err);
        if (st != PS_OK) {
            return st;
        }
    }
}

void psd_rpc_seal(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Seal m;
    struct psi_err err;
    ps_status st = psi_msg_decode(&ps_v1_Seal_msg, &m, r->meta, r->header.meta_bytes, &err);
    for (enum seal_pass pass = SEAL_CHECK; st == PS_OK && pass <= (m.fence ? SEAL_FOLLOW : SEAL_SET); pass++) {
        st = seal_items(t, c, r, &m, pass, &err);
    }
    psd_reply(t, c, PS_OP_SEAL, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, NULL, NULL);
}
