/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SET_RATE: a learning rate in place of that of a variable's optimizer, or of all optimizers of a container, until it is cleared.
 * It stands beside the definition (DESIGN 10): no chief's INIT changes it, nobody's definition is compared with it.
 *
 * Happy path: every variable that is meant can have the rate -> each has it, in one event: the next push that begins captures it,
 * one in progress keeps its own. Asked again it changes nothing.
 * Variables in rounds change together, with one round: the directory is asked for that (psd/directory/rounds_rate.c).
 * Failure: a name that is not there names the nearest one; a variable without an optimizer; a rate that an optimizer does not
 * take: nothing has changed then.
 */
#include "rounds.h"
#include "rpc.h"

#include "common/name.h"
#include "common/near.h"
#include "common/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is asked for. */
struct setting {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1]; /* "": all */
    double rate;                      /* 0: cleared */
};

static ps_status parse(const struct psd_request *r, struct setting *out, struct psi_err *err)
{
    ps_v1_SetRate m;
    ps_v1_ContainerItem item;
    ps_status st = psi_msg_decode(&ps_v1_SetRate_msg, &m, r->meta, r->header.meta_bytes, err);
    st = st == PS_OK ? psd_item_only(r, &ps_v1_ContainerItem_msg, &item, "container", NULL, err) : st;
    st = st == PS_OK ? psd_container_parse((const pb_bytes_array_t *)&item.container, out->container, err) : st;
    if (st == PS_OK && m.name.size > 0) {
        st = psi_variable_name_check((const char *)m.name.bytes, m.name.size, err);
    }
    if (st != PS_OK) {
        return st;
    }
    memcpy(out->name, m.name.bytes, m.name.size);
    out->name[m.name.size] = '\0';
    out->rate = m.clear ? 0 : m.rate;
    return m.clear || m.rate != 0
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "SET_RATE: the rate is 0, it must be > 0; to stop training, stop it");
}

/* v can have it. */
static ps_status check(const struct psd_task *t, const struct psd_variable *v, double rate, struct psi_err *err)
{
    ps_optimizer with = v->optimizer;
    if (with.kind == PS_OPT_NONE) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "variable '%s' at %s has no optimizer: it has no learning rate", v->name,
                        t->name);
    }
    with.learning_rate = rate;
    ps_status st = rate == 0 ? PS_OK : psi_optimizer_check(&with, v->dtype, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "variable '%s'", v->name);
    }
    return st;
}

ps_status psd_rate_check(double rate, struct psi_err *err)
{
    return rate == 0 || (isfinite(rate) && rate > 0)
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "learning rate %g: it must be finite and > 0", rate);
}

bool psd_rate_change(struct psd_task *t, const struct psd_variable *v, double rate)
{
    const struct psd_change c = {.kind = PSD_CHANGE_RATE, .rate = {.variable = v, .rate = rate}};
    if (memcmp(&v->rate, &rate, sizeof(rate)) == 0) {
        return false;
    }
    psd_commit(t, &c);
    return true;
}

void psd_rate_log(struct psd_task *t, const char *peer, const char *container, uint64_t changed, double rate)
{
    char text[32];
    PSI_IGNORE(snprintf(text, sizeof(text), "%g", rate)); /* fits */
    psd_log(t, PSI_LOG_INFO, rate == 0 ? "rate_cleared" : "rate_set", PSI_KV("peer", peer), PSI_KV("container", container),
            PSI_KV("variables", changed), PSI_KV("rate", text));
}

static void change_one(struct psd_task *t, const char *peer, const struct psd_variable *v, double rate)
{
    ps_optimizer with = v->optimizer;
    char text[PSI_OPTIMIZER_TEXT_MAX];
    if (!psd_rate_change(t, v, rate)) {
        return;
    }
    with.learning_rate = rate == 0 ? with.learning_rate : rate;
    psd_log(t, PSI_LOG_INFO, rate == 0 ? "rate_cleared" : "rate_set", PSI_KV("peer", peer), PSI_KV("var", v->name),
            PSI_KV("now", psi_optimizer_format(&with, text, sizeof(text))));
}

static ps_status set_one(struct psd_task *t, const struct psd_conn *c, const struct psd_container *in, const struct setting *s,
                         struct psi_err *err)
{
    const struct psd_variable *v = in != NULL ? psd_variable_find(in, s->name) : NULL;
    if (v != NULL) {
        ps_status st = psd_target_check(t, v, false, err);
        st = st == PS_OK ? check(t, v, s->rate, err) : st;
        if (st == PS_OK) {
            change_one(t, c->text, v, s->rate);
        }
        return st;
    }
    size_t best = SIZE_MAX;
    uint64_t cursor = 0;
    void *value = NULL;
    const char *nearest = NULL;
    while (in != NULL && psi_map_next(&in->variables, &cursor, NULL, NULL, &value)) {
        const struct psd_variable *other = value;
        size_t d = other->optimizer.kind != PS_OPT_NONE ? psi_near(s->name, other->name) : SIZE_MAX;
        nearest = d < best ? other->name : nearest;
        best = d < best ? d : best;
    }
    return psi_fail(err, PS_NOT_FOUND, "%s has no variable '%s' in container '%s'%s%s%s", t->name, s->name, s->container,
                    nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
}

/* The first pass checks, and the second one sets: all variables or none. The log has one line for all, because a container may
 * have a million. */
static ps_status set_all(struct psd_task *t, const struct psd_conn *c, const struct psd_container *in, double rate,
                         uint64_t *out_count, struct psi_err *err)
{
    uint64_t changed = 0;
    *out_count = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t cursor = 0;
        void *value = NULL;
        while (in != NULL && psi_map_next(&in->variables, &cursor, NULL, NULL, &value)) {
            const struct psd_variable *v = value;
            if (v->optimizer.kind == PS_OPT_NONE) {
                continue; /* queues too */
            }
            if (pass == 1) {
                changed += psd_rate_change(t, v, rate);
                ++*out_count;
                continue;
            }
            ps_status st = check(t, v, rate, err);
            if (st != PS_OK) {
                return st;
            }
        }
    }
    if (changed > 0) {
        psd_rate_log(t, c->text, in->name, changed, rate);
    }
    return PS_OK;
}

void psd_rpc_set_rate(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct setting s;
    struct psi_err err;
    uint64_t count = 1;
    ps_status st = parse(r, &s, &err);
    const struct psd_container *in = st == PS_OK && !t->fenced ? psd_container_find(&t->store, s.container) : NULL;
    if (st == PS_OK && s.name[0] != '\0') {
        st = set_one(t, c, in, &s, &err);
    } else if (st == PS_OK) {
        st = set_all(t, c, in, s.rate, &count, &err);
    }
    const struct ps_reply_meta meta = {.result_bytes = sizeof(count)};
    psd_reply(t, c, PS_OP_SET_RATE, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, st == PS_OK ? &meta : NULL,
              (const uint8_t *)&count); /* little-endian */
}
