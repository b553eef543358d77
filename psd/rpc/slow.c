/* SPDX-License-Identifier: Apache-2.0 */
/* An INIT of a large variable: its values are made in slices, so that other connections are served meanwhile. An INIT that
 * replaces a value waits while a push updates the old value in slices (moves.c), and while a checkpoint would have to copy the
 * old value and has no memory left (psd_cut_is_full()).
 *
 * Happy path: psd_rpc_init() keeps the INIT, which has no effect yet, and its connection is not read. psd_slow_work() makes one
 * slice in each turn of the event loop, for the oldest INIT that need not wait. When all values are made, the INIT is carried out
 * in one step, with all checks. The bytes that have come behind it are handled, and the connection is read again.
 *
 * Failure:
 * - The connection ends: nothing has happened, and the client repeats the INIT.
 * - The INIT would be refused by now, or an ASSIGN has given the first value: the slices end, and the INIT is answered at once.
 * - No memory for the values: the INIT is carried out at once. A first value is refused, a forced value is made in the old
 *   value's memory.
 * - No memory for psd_slow: a push to the variable is finished first, then the INIT is carried out. */
#include "rpc.h"

#include "psd/store/cut.h"

#include "common/mem.h"

#include <string.h>

struct psd_slow {
    struct psi_list link;
    struct psd_conn *conn;
    const struct psd_variable *variable; /* holds a reference */
    struct psd_making making;
    bool sliced; /* false: the values are made at once, when the INIT is carried out */
    uint64_t beat_ms;
    struct ps_frame_header header;
    uint8_t meta[PS_META_BYTES_MAX];
};

static struct psd_request request_of(const struct psd_slow *s)
{
    return (struct psd_request){
        .header = s->header, .meta = s->meta, .variable = psd_variable_is_gone(s->variable) ? NULL : s->variable};
}

/* True if the INIT in r is permitted and would run its initializer. */
static bool runs(const struct psd_task *t, const struct psd_request *r, struct psd_init *out)
{
    struct psi_err err;
    return psd_init_check(t, r, out, &err) == PS_OK && psd_init_runs(out);
}

/* True if v must not change now: a checkpoint lacks the memory to copy its value first, or a push is changing it in slices. */
static bool is_held(const struct psd_task *t, const struct psd_variable *v)
{
    return (psd_cut_is_full(&t->store) && psd_cut_missing(&t->store, v, 0, v->bytes) > 0) || psd_moves_value(t, v);
}

static bool slow_begin(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_init in;
    bool begins = psd_record_find(c->record, r->header.id) == NULL && r->header.id > c->last_first;
    if (!begins || !runs(t, r, &in)) {
        return false;
    }
    bool sliced = in.variable->dtype != PS_STRING && psd_variable_promised_bytes(in.variable) > t->config.init_at_once_bytes;
    if (!sliced && !is_held(t, in.variable)) {
        return false;
    }
    struct psd_slow *s = psi_calloc(1, sizeof(*s));
    if (s == NULL) {
        psd_moves_finish(t, in.variable);
        return false;
    }
    s->conn = c;
    s->variable = psd_variable_ref(in.variable);
    s->making.init = in.initializer;
    s->making.seed = in.seed;
    s->making.optimizer = in.optimizer;
    s->sliced = sliced;
    s->beat_ms = t->now_ms;
    s->header = r->header;
    memcpy(s->meta, r->meta, r->header.meta_bytes);
    psi_list_push_back(&t->slow, &s->link);
    c->slow = s;
    return true;
}

static void release(struct psd_task *t, struct psd_slow *s)
{
    psd_variable_make_end(&t->store, s->variable, &s->making);
    psd_variable_unref(&t->store, s->variable);
    psi_free(s);
}

static void leave(struct psd_slow *s)
{
    psi_list_remove(&s->link);
    s->conn->slow = NULL;
}

void psd_slow_drop(struct psd_task *t, struct psd_conn *c)
{
    struct psd_slow *s = c->slow;
    if (s != NULL) {
        leave(s);
        release(t, s);
    }
}

uint64_t psd_slow_bytes(const struct psd_conn *c)
{
    const struct psd_slow *s = c->slow;
    if (s == NULL || s->making.value == NULL) {
        return 0;
    }
    return s->making.replaces ? psd_variable_promised_bytes(s->variable) : s->variable->bytes;
}

/* Allocate the new value and slots; a first value in the memory reserved for it. False: no memory. */
static bool begin(struct psd_task *t, struct psd_slow *s)
{
    const struct psd_variable *v = s->variable;
    struct psd_making *m = &s->making;
    m->replaces = v->initialised;
    if (!psd_room(t, PSD_ROOM_MEMORY, m->replaces ? psd_variable_promised_bytes(v) : 0)) {
        return false;
    }
    m->value = psd_room_stage_first(t, v, v->bytes);
    for (uint32_t i = 0; m->replaces && m->value != NULL && i < psd_optim_slot_count(&v->optimizer); i++) {
        m->slots[i] = psd_room_stage(t, psd_variable_bytes_of(v, 1 + i));
        if (m->slots[i] == NULL) {
            return false;
        }
    }
    return m->value != NULL && psd_variable_make_begin(&t->store, v, m);
}

/* Do one slice of s. True: slices are left. False: the caller finishes the INIT now. *out_made: all its values are made. */
static bool go_on(struct psd_task *t, struct psd_slow *s, bool *out_made)
{
    struct psd_request r = request_of(s);
    struct psd_init in;
    struct psd_making *m = &s->making;
    if (!runs(t, &r, &in)) {
        return false;
    }
    if (m->value != NULL && !m->replaces && s->variable->initialised) {
        /* an ASSIGN gave a first value meanwhile, which uses the slots: begin again with new memory for value and slots */
        psd_variable_make_end(&t->store, s->variable, m);
    }
    if (m->value == NULL && !begin(t, s)) {
        return false;
    }
    *out_made = psd_variable_make(s->variable, m, t->config.init_slice_bytes);
    return !*out_made;
}

static bool waits(const struct psd_task *t, const struct psd_slow *s)
{
    struct psd_request r = request_of(s);
    struct psd_init in;
    return is_held(t, s->variable) && runs(t, &r, &in);
}

/* Find the oldest INIT that need not wait for a checkpoint's memory or for a push. NULL: there is none. */
static struct psd_slow *next(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->slow) {
        struct psd_slow *s = PSI_CONTAINER_OF(it, struct psd_slow, link);
        if (!waits(t, s)) {
            return s;
        }
    }
    return NULL;
}

bool psd_slow_has_work(const struct psd_task *t)
{
    const struct psd_slow *s = next(t);
    /* want_buffer: no segment buffer is free, so the bytes behind the INIT could not be processed */
    return s != NULL && !s->conn->link->want_buffer;
}

struct psd_conn *psd_slow_work(struct psd_task *t)
{
    bool made = false;
    struct psd_slow *s = next(t);
    struct psd_conn *c = s->conn;
    if (s->sliced && go_on(t, s, &made)) {
        return NULL;
    }
    leave(s);
    struct psd_request r = request_of(s);
    if (!made) {
        /* the INIT is carried out at once now, and may need this memory */
        psd_variable_make_end(&t->store, s->variable, &s->making);
    }
    psd_init_carry_out(t, c, &r, made ? &s->making : NULL);
    release(t, s);
    return c;
}

void psd_slow_tick(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->slow) {
        struct psd_slow *s = PSI_CONTAINER_OF(it, struct psd_slow, link);
        if (t->now_ms - s->beat_ms >= t->config.beat_ms) {
            s->beat_ms = t->now_ms;
            psd_beat_answer(t, s->conn, 0); /* id 0: this answers no BEAT, but shows that this task is alive */
        }
    }
}

void psd_rpc_init(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    if (!slow_begin(t, c, r)) {
        psd_init_carry_out(t, c, r, NULL);
    }
}
