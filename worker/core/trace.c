/* SPDX-License-Identifier: Apache-2.0 */
/* Records the exchanges of a traced session with tasks. Happy path: after psi_client_trace() each sequence number, PULL frame and
 * ask begins an exchange. If the task knows flag TIMES, the first frame asks for durations at the task by this flag. The answer
 * ends the exchange, and has the durations. All times are those of events: the shell calls psi_client_time() before each event.
 * Failure: an exchange without an answer has no end; without memory, or beyond PSI_EXCHANGES_MAX, it is left out and counted. */
#include "client.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

/* names, in a trace, of the fields of struct ps_times, in their order */
static const char *const PARTS[PSI_EXCHANGE_PARTS] = {"queue", "wait", "apply", "kernel"};
_Static_assert(sizeof(struct ps_times) == sizeof(((struct psi_exchange *)0)->parts_ns), "a name for each");

void psi_client_trace(struct psi_client *c, struct psi_exchanges *to)
{
    c->trace = to;
    c->trace_number++;                     /* makes the ids of an earlier trace's exchanges invalid */
    if (to != NULL && to->begun_ns == 0) { /* 0: a new trace; otherwise a recovered session continues its trace */
        to->begun_ns = c->now_ns;
    }
}

void psi_client_time(struct psi_client *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
}

struct psi_exchange *psi_exchanges_add(struct psi_exchanges *to)
{
    struct psi_exchange *more = to->at;
    if (to->count == PSI_EXCHANGES_MAX) {
        more = NULL;
    } else if (to->count == to->capacity) {
        more = psi_grow(to->at, to->count, &to->capacity, sizeof(*more));
    }
    if (more == NULL) {
        to->left_out++;
        return NULL;
    }
    to->at = more;
    more[to->count] = (struct psi_exchange){0};
    return &more[to->count++];
}

static struct psi_exchange *find(const struct psi_client *c, uint64_t id)
{
    const size_t index = (size_t)(id & UINT32_MAX);
    return c->trace != NULL && id >> 32 == c->trace_number && index > 0 ? &c->trace->at[index - 1] : NULL;
}

uint64_t psi_exchange_begin(const struct psi_peer *peer, uint8_t op, const struct psi_request *req, const char *name,
                            uint64_t bytes)
{
    const struct psi_client *c = peer->c;
    struct psi_exchanges *t = c->trace;
    struct psi_exchange *x = psi_exchanges_add(t);
    if (x == NULL) {
        return 0;
    }
    *x = (struct psi_exchange){.begun_ns = c->now_ns, .task = peer->index, .op = op, .bytes = bytes};
    (void)snprintf(x->task_name, sizeof(x->task_name), "%s", peer->name);
    if (req != NULL) { /* the exchange begins with its request, or, if the request is older than the trace, with the trace */
        x->begun_ns = req->begun_ns > t->begun_ns && req->begun_ns <= c->now_ns ? req->begun_ns : t->begun_ns;
    }
    (void)snprintf(x->name, sizeof(x->name), "%s", name != NULL ? name : "");
    return (uint64_t)c->trace_number << 32 | t->count;
}

bool psi_exchange_sent(const struct psi_peer *peer, uint64_t id)
{
    struct psi_exchange *x = find(peer->c, id);
    if (x != NULL && x->sent_ns == 0) {
        x->sent_ns = peer->c->now_ns;
    }
    return x != NULL && (peer->features & PS_FEATURE_TIMES) != 0;
}

static uint64_t begin_unless(const struct psi_peer *peer, uint64_t id, uint8_t op, const struct psi_request *req, uint64_t bytes)
{
    return find(peer->c, id) != NULL ? id : psi_exchange_begin(peer, op, req, req->var->name, bytes);
}

void psi_exchange_entry(struct psi_entry *e, struct ps_frame_header *h)
{
    e->exchange = begin_unless(e->peer, e->exchange, e->op, e->req, e->total * e->unit);
    h->flags |= psi_exchange_sent(e->peer, e->exchange) ? PS_FLAG_TIMES : 0;
}

void psi_exchange_chunk(const struct psi_peer *peer, struct psi_chunk *k, struct ps_frame_header *h)
{
    k->exchange = begin_unless(peer, k->exchange, k->op, k->req, k->bytes);
    h->flags |= psi_exchange_sent(peer, k->exchange) ? PS_FLAG_TIMES : 0;
}

void psi_exchange_end(const struct psi_peer *peer, uint64_t id, uint64_t number, ps_status status)
{
    struct psi_exchange *x = find(peer->c, id);
    if (x == NULL || x->ended_ns != 0) {
        return;
    }
    x->ended_ns = peer->c->now_ns;
    x->status = status;
    if (peer->link == NULL) {
        return;
    }
    const struct psi_reader *in = &peer->link->in;
    const struct ps_frame_header *h = &in->header;
    if ((h->flags & PS_FLAG_TIMES) != 0 && h->op == x->op && h->id == number) {
        x->part_names = PARTS;
        /* psi_form_check() has checked that the meta is long enough */
        memcpy(x->parts_ns, psi_reader_meta(in) + h->meta_bytes - sizeof(x->parts_ns), sizeof(x->parts_ns));
    }
}
