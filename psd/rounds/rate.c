/* SPDX-License-Identifier: Apache-2.0 */
/* SET_RATE: a learning rate that replaces that of one variable's optimizer, or of all optimizers of a container, until it is
 * cleared. The rate is not part of a variable's definition: no INIT changes it, and no comparison of definitions looks at it.
 *
 * Happy path: one variable is checked and gets the rate in one event. The next push that begins uses the rate; a push in progress
 * keeps its own. A container may have a million variables, so a SET_RATE of all of them works in slices. The first slices check
 * all variables; then one event puts the rate into force (psd_container_rate()); further slices write the rate to each variable's
 * record, by a change; then the client is answered. Meanwhile another SET_RATE in the container is refused with UNAVAILABLE, and
 * its client repeats it. In synchronous rounds the directory lets all tasks change the rate with one round (group_rate.c).
 *
 * Failures, after which nothing has changed: an unknown name (the error names the nearest one), a named variable without an
 * optimizer, a rate that an optimizer refuses. A SET_RATE of all variables skips those without an optimizer. */
#include "rounds.h"

#include "psd/base/items.h"

#include "common/mem.h"
#include "common/name.h"
#include "common/near.h"
#include "common/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 50 };

/* A SET_RATE request, decoded. */
struct setting {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1]; /* "": all variables */
    double rate;                      /* 0: clear the rate */
};

static ps_status parse(const struct psd_request *r, struct setting *out, struct psi_err *err)
{
    ps_v1_SetRate m;
    ps_v1_ContainerItem item;
    ps_status st = psi_msg_decode(&ps_v1_SetRate_msg, &m, r->meta, r->header.meta_bytes, err);
    st = st == PS_OK ? psd_item_only(r, &ps_v1_ContainerItem_msg, &item, "container", NULL, err) : st;
    st = st == PS_OK ? psd_container_parse((const pb_bytes_array_t *)&item.container, out->container, err) : st;
    st = st == PS_OK ? psd_session_refuse(out->container, "learning rates", err) : st;
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

struct psd_rate_set {
    struct psi_list link;  /* task->rate_sets */
    struct psd_conn *conn; /* NULL: the client's connection has ended, so nobody is answered */
    uint64_t id;           /* id of the request, for its answer */
    const struct psd_container *container;
    double rate;
    uint32_t before;         /* store.next_handle at the request: variables from this handle on are newer, and are not set */
    uint64_t cursor;         /* position in the iteration over the container's variables */
    bool in_force;           /* all variables were checked: the rate counts, and slices write it to each variable's record */
    uint64_t count, changed; /* how many variables were written, and how many of them had another rate */
    char peer[96];           /* name of the client, for the log */
};

static struct psd_rate_set *at(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psd_rate_set, link);
}

static struct psd_rate_set *set_of(const struct psd_task *t, const struct psd_container *in)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->rate_sets) {
        if (at(it)->container == in) {
            return at(it);
        }
    }
    return NULL;
}

static void answer(struct psd_task *t, struct psd_conn *c, uint64_t id, uint64_t count, const struct psi_err *err,
                   uint32_t retry_after_ms)
{
    const struct ps_reply_meta meta = {.result_bytes = sizeof(count)};
    psd_reply(t, c, PS_OP_SET_RATE, 0, id, 0, err, retry_after_ms, err == NULL ? &meta : NULL,
              (const uint8_t *)&count); /* little-endian */
}

static void set_over(struct psd_task *t, struct psd_rate_set *s, const struct psi_err *err)
{
    psi_list_remove(&s->link);
    if (s->in_force) {
        psd_container_rated(s->container);
    }
    if (s->changed > 0) { /* one log line for all, because there may be a million variables */
        psd_rate_log(t, s->peer, s->container->name, s->changed, s->rate);
    }
    if (s->conn != NULL) {
        answer(t, s->conn, s->id, s->count, err, 0);
    }
    psi_free(s);
}

static ps_status step(struct psd_task *t, struct psd_rate_set *s, const struct psd_variable *v, struct psi_err *err)
{
    if (v->optimizer.kind == PS_OPT_NONE || v->handle >= s->before) { /* queues have no optimizer */
        return PS_OK;
    }
    if (!s->in_force) {
        return check(t, v, s->rate, err);
    }
    s->changed += psd_rate_change(t, v, s->rate);
    s->count++;
    return PS_OK;
}

/* Check the next `most` variables or, after the checks, set their rate. True: s has ended and is freed. */
static bool go_on(struct psd_task *t, struct psd_rate_set *s, uint32_t most)
{
    struct psi_err err;
    void *value = NULL;
    for (uint32_t left = most; left > 0; left--) {
        if (psi_map_next(&s->container->variables, &s->cursor, NULL, NULL, &value)) {
            if (step(t, s, value, &err) != PS_OK) {
                set_over(t, s, &err);
                return true;
            }
        } else if (s->in_force) {
            set_over(t, s, NULL);
            return true;
        } else {
            psd_container_rate(&t->store, s->before, s->container, s->rate);
            s->in_force = true;
            s->cursor = 0;
        }
    }
    return false;
}

static void set_all(struct psd_task *t, struct psd_conn *c, uint64_t id, const struct psd_container *in, double rate)
{
    struct psi_err err;
    if (in == NULL) {
        answer(t, c, id, 0, NULL, 0);
        return;
    }
    struct psd_rate_set *s = psi_calloc(1, sizeof(*s));
    if (s == NULL) {
        PSI_IGNORE(psi_fail(&err, PS_RESOURCE_EXHAUSTED, "%s: no memory to set a learning rate", t->name)); /* sent below */
        answer(t, c, id, 0, &err, RETRY_MS);
        return;
    }
    s->conn = c;
    s->id = id;
    s->container = in;
    s->rate = rate;
    s->before = t->store.next_handle;
    PSI_IGNORE(snprintf(s->peer, sizeof(s->peer), "%s", c->text)); /* fits */
    psi_list_push_back(&t->rate_sets, &s->link);
    (void)go_on(t, s, t->config.list_slice_rows); /* psd_rates_work() does the remaining variables */
}

bool psd_rates_have_work(const struct psd_task *t)
{
    return !psi_list_empty(&t->rate_sets);
}

void psd_rates_work(struct psd_task *t)
{
    (void)go_on(t, at(psi_list_first(&t->rate_sets)), t->config.list_slice_rows); /* the next call goes on */
}

void psd_rates_finish(struct psd_task *t, const struct psd_container *in)
{
    struct psd_rate_set *s = set_of(t, in);
    if (s != NULL && s->in_force) {
        (void)go_on(t, s, UINT32_MAX); /* one call is enough: no task has so many variables */
    }
}

void psd_rates_end(struct psd_task *t, const struct psd_container *in)
{
    struct psd_rate_set *s = set_of(t, in);
    if (s != NULL) {
        s->count = 0;
        set_over(t, s, NULL);
    }
}

void psd_rates_conn_lost(struct psd_task *t, const struct psd_conn *c)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->rate_sets) {
        struct psd_rate_set *s = at(it);
        if (s->conn != c) {
            continue;
        }
        s->conn = NULL;
        if (!s->in_force) {
            set_over(t, s, NULL);
        }
    }
}

void psd_rates_fini(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&t->rate_sets)) != NULL) {
        psi_free(at(link));
    }
}

void psd_rpc_set_rate(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct setting s;
    struct psi_err err;
    ps_status st = parse(r, &s, &err);
    const struct psd_container *in = st == PS_OK && !t->fenced ? psd_container_find(&t->store, s.container) : NULL;
    if (in != NULL && set_of(t, in) != NULL) { /* slices of an older SET_RATE would overwrite this rate */
        st = psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_NOT_READY,
                         "%s still sets another learning rate of all variables in container '%s'", t->name, s.container);
    } else if (st == PS_OK && s.name[0] != '\0') {
        st = set_one(t, c, in, &s, &err);
    } else if (st == PS_OK) {
        set_all(t, c, r->header.id, in, s.rate);
        return;
    }
    answer(t, c, r->header.id, 1, st == PS_OK ? NULL : &err, st == PS_UNAVAILABLE ? RETRY_MS : 0);
}
