/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated network: one byte stream per direction and connection.
 *
 * What is written is parsed for frame headers, so that reads and cuts can be placed at the boundaries of frames and segments.
 * A cut keeps a prefix of what is in flight, in each direction; both sides learn of it later, each at its own time, and what they
 * write meanwhile is lost. The writing side follows common/net/conn.c: compose, a write that may be taken in part, the hold.
 */
#include "sim.h"

#include "places.h"
#include "common/form.h"

#include <stdlib.h>
#include <string.h>

/* ---- the parser ---- */

static void trace_frame(struct sim *s, struct sim_conn *c, uint32_t side, const struct ps_frame_header *h)
{
    if (!s->verbose) {
        return;
    }
    char from[32], to[32];
    sim_trace(s, "c%llu %s -> %s: %s%s id %llu%s%s%s%s%s handle %u %s %llu body %u meta %u", (unsigned long long)c->id,
              sim_end_name(s, &c->end[side], from), sim_end_name(s, &c->end[1 - side], to), psi_op_name(h->op),
              (h->flags & PS_FLAG_REPLY) != 0 ? " reply" : "", (unsigned long long)h->id,
              (h->flags & PS_FLAG_SEQ) != 0 ? " SEQ" : "", (h->flags & PS_FLAG_FIRST) != 0 ? " FIRST" : "",
              (h->flags & PS_FLAG_LAST) != 0 ? " LAST" : "", (h->flags & PS_FLAG_VALUE) != 0 ? " VALUE" : "",
              (h->flags & PS_FLAG_MORE) != 0 ? " MORE" : "", h->handle,
              (h->flags & PS_FLAG_REPLY) != 0 && (h->flags & PS_FLAG_VALUE) == 0 ? "status" : "offset",
              (unsigned long long)h->offset, h->body_bytes, h->meta_bytes);
}

static void boundary_at(struct sim *s, struct sim_conn *c, uint32_t side, uint64_t at)
{
    struct sim_pipe *p = &c->pipe[side];
    if (p->boundary_count < SIM_BOUNDARIES_MAX) {
        p->boundary[(p->boundary_first + p->boundary_count) % SIM_BOUNDARIES_MAX] = at;
        p->boundary_count++;
    }
    if (p->trigger > 0 && --p->trigger == 0) {
        int64_t cut = (int64_t)at + p->trigger_shift;
        p->cut_at = cut > (int64_t)p->delivered ? (uint64_t)cut : at;
    }
    if (s->boundary_armed) {
        s->boundary_seen[side]++;
        if (side == s->cut_side && s->boundary_seen[side] == s->cut_boundary) {
            int64_t cut = (int64_t)at + s->cut_shift;
            p->cut_at = cut > (int64_t)p->delivered ? (uint64_t)cut : at;
        }
    }
}

/* Follow the stream: heads, segments and ends of frames are boundaries. */
static void parse(struct sim *s, struct sim_conn *c, uint32_t side, const uint8_t *bytes, size_t n)
{
    struct sim_pipe *p = &c->pipe[side];
    struct sim_parser *a = &p->parser;
    uint64_t at = p->written;
    while (n > 0) {
        size_t take = 0;
        if (a->have < PS_FRAME_HEADER_BYTES) {
            take = PS_FRAME_HEADER_BYTES - a->have;
            take = take < n ? take : n;
            memcpy(a->head + a->have, bytes, take);
            a->have += (uint32_t)take;
            if (a->have == PS_FRAME_HEADER_BYTES) {
                struct ps_frame_header h;
                memcpy(&h, a->head, sizeof(h));
                if (h.magic != PS_FRAME_MAGIC) {
                    sim_fail(s, "a stream is broken: no frame header where one must be (connection %llu)",
                             (unsigned long long)c->id);
                }
                a->meta_left = h.meta_bytes;
                a->body_left = h.body_bytes;
                a->segment_whole = PS_SEGMENT_BYTES + ((h.flags & PS_FLAG_CRC) != 0 ? 8u : 0u);
                a->segment_left = a->segment_whole;
                trace_frame(s, c, side, &h);
                boundary_at(s, c, side, at + take);
            }
        } else if (a->meta_left > 0) {
            take = a->meta_left < n ? a->meta_left : n;
            a->meta_left -= (uint32_t)take;
            if (a->meta_left == 0) {
                boundary_at(s, c, side, at + take);
            }
        } else if (a->body_left > 0) {
            take = a->body_left < n ? a->body_left : n;
            take = take < a->segment_left ? take : a->segment_left;
            a->body_left -= (uint32_t)take;
            a->segment_left -= (uint32_t)take;
            if (a->segment_left == 0 || a->body_left == 0) {
                boundary_at(s, c, side, at + take);
                a->segment_left = a->segment_whole;
            }
        }
        if (a->have == PS_FRAME_HEADER_BYTES && a->meta_left == 0 && a->body_left == 0) {
            a->have = 0;
        }
        bytes += take;
        n -= take;
        at += take;
    }
}

/* ---- pipes ---- */

size_t sim_pipe_room(const struct sim *s, const struct sim_pipe *p)
{
    if (p->limit != SIM_NEVER) {
        return p->stuck ? 0 : SIZE_MAX;
    }
    return p->len < s->k.pipe_bytes ? s->k.pipe_bytes - p->len : 0;
}

static void pipe_write(struct sim *s, struct sim_conn *c, uint32_t side, const uint8_t *bytes, size_t n)
{
    struct sim_pipe *p = &c->pipe[side];
    if (n == 0 || p->limit != SIM_NEVER) {
        p->written += n;
        return;
    }
    parse(s, c, side, bytes, n);
    if (p->len == 0) {
        p->head = 0;
        p->ready_at = s->now + sim_below(s, (uint64_t)s->k.delay_ms + 1);
    }
    if (p->head + p->len + n > p->capacity) {
        if (p->len > 0) {
            memmove(p->data, p->data + p->head, p->len);
        }
        p->head = 0;
        if (p->len + n > p->capacity) {
            p->capacity = (p->len + n) * 2;
            p->data = realloc(p->data, p->capacity);
            if (p->data == NULL) {
                abort();
            }
        }
    }
    memcpy(p->data + p->head + p->len, bytes, n);
    p->len += n;
    p->written += n;
}

bool sim_pipe_readable(const struct sim_pipe *p)
{
    return p->len > 0;
}

static uint64_t next_boundary(struct sim_pipe *p, uint64_t nth)
{
    while (p->boundary_count > 0 && p->boundary[p->boundary_first] <= p->delivered) {
        p->boundary_first = (p->boundary_first + 1) % SIM_BOUNDARIES_MAX;
        p->boundary_count--;
    }
    if (nth >= p->boundary_count) {
        return SIM_NEVER;
    }
    return p->boundary[(p->boundary_first + nth) % SIM_BOUNDARIES_MAX];
}

/* How many of the bytes in flight one read takes. */
static size_t read_size(struct sim *s, struct sim_pipe *p)
{
    size_t most = p->len < SIM_READ_MAX ? p->len : SIM_READ_MAX;
    size_t n = most;
    if (sim_one_in(s, s->k.small_read_in)) {
        n = (size_t)sim_range(s, 1, 64);
    } else if (sim_one_in(s, s->k.boundary_read_in)) {
        uint64_t at = next_boundary(p, sim_below(s, 3));
        if (at != SIM_NEVER) {
            int64_t to = (int64_t)at + (int64_t)sim_below(s, 5) / 2 - 1; /* -1 0 0 0 +1, mostly on it */
            n = to > (int64_t)p->delivered ? (size_t)(to - (int64_t)p->delivered) : n;
        }
    } else if (sim_one_in(s, 6)) {
        n = (size_t)sim_range(s, 1, most);
    }
    n = n < most ? n : most;
    if (p->cut_at > p->delivered && p->delivered + n > p->cut_at) {
        n = (size_t)(p->cut_at - p->delivered);
    }
    return n;
}

size_t sim_pipe_read(struct sim *s, struct sim_end *e, uint8_t **out, size_t *out_placed)
{
    struct sim_pipe *p = &e->conn->pipe[1 - e->side];
    size_t n = read_size(s, p);
    *out = s->scratch + p->delivered % 64;
    *out_placed = 0;
    if (!e->is_task && !sim_one_in(s, s->k.unplaced_in)) {
        struct places_read r = places_read(&e->link->in, p->data + p->head, n);
        *out_placed = r.placed;
        n = r.placed + r.rest;
    }
    memcpy(*out, p->data + p->head, n);
    p->head += n;
    p->len -= n;
    p->delivered += n;
    e->heard_at = s->now;
    if (e->is_task && !e->conn->end[0].is_task && e->conn->pipe[e->side].written > 0) { /* it has answered HELLO */
        s->program[e->conn->end[0].node].heard_at[e->node] = s->now;
    }
    return n;
}

/* ---- connections ---- */

struct sim_conn *sim_conn_new(struct sim *s, bool by_task, uint32_t node, uint32_t task)
{
    if (s->conn_count == SIM_CONNS_MAX) {
        sim_conn_sweep(s);
        if (s->conn_count == SIM_CONNS_MAX) {
            sim_fail(s, "%d connections are open at a time", SIM_CONNS_MAX);
        }
    }
    struct sim_conn *c = sim_alloc(sizeof(*c));
    c->sim = s;
    c->id = ++s->conn_next;
    for (uint32_t side = 0; side < 2; side++) {
        c->end[side].conn = c;
        c->end[side].side = side;
        c->end[side].learn_at = SIM_NEVER;
        c->end[side].linger_until = SIM_NEVER;
        c->pipe[side].limit = SIM_NEVER;
    }
    c->end[0].state = SIM_END_DIALING;
    c->end[0].is_task = by_task;
    c->end[0].node = node;
    c->end[0].life = by_task ? s->task[node].life : s->program[node].life;
    c->end[1].is_task = true;
    c->end[1].node = task;
    c->to_life = s->task[task].life;
    c->dial_at = s->now + sim_below(s, (uint64_t)s->k.delay_ms + 2);
    s->conn[s->conn_count++] = c;
    return c;
}

static bool over(const struct sim_conn *c)
{
    for (uint32_t side = 0; side < 2; side++) {
        if (c->end[side].link != NULL || (c->end[side].state != SIM_END_NONE && c->end[side].state != SIM_END_CLOSED)) {
            return false;
        }
    }
    return true;
}

void sim_conn_sweep(struct sim *s)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->conn_count; i++) {
        struct sim_conn *c = s->conn[i];
        if (over(c)) {
            free(c->pipe[0].data);
            free(c->pipe[1].data);
            free(c);
        } else {
            s->conn[kept++] = c;
        }
    }
    s->conn_count = kept;
}

/* What of the bytes in flight still arrives: all, none, or a part that often ends at a boundary. */
static void truncate_flight(struct sim *s, struct sim_pipe *p)
{
    if (p->limit != SIM_NEVER) {
        return;
    }
    uint64_t keep = p->len;
    uint64_t how = sim_below(s, 8);
    if (how < 2) {
        keep = 0;
    } else if (how < 5 && p->len > 0) {
        uint64_t at = next_boundary(p, sim_below(s, 8));
        keep = at != SIM_NEVER && at - p->delivered <= p->len ? at - p->delivered : sim_below(s, p->len + 1);
    } else if (how == 5) {
        keep = sim_below(s, p->len + 1);
    }
    p->len = (size_t)keep;
    p->limit = p->delivered + keep;
    p->stuck = sim_one_in(s, 3);
    if (p->len > 0 && sim_one_in(s, 3)) {
        p->paused_until = s->now + sim_below(s, 3000); /* late, maybe behind those of a newer connection */
    }
}

void sim_conn_cut(struct sim *s, struct sim_conn *c, uint64_t learn0_ms, uint64_t learn1_ms)
{
    if (c->cut) {
        return;
    }
    s->count_cuts++;
    c->cut = true;
    truncate_flight(s, &c->pipe[0]);
    truncate_flight(s, &c->pipe[1]);
    c->end[0].learn_at = learn0_ms == SIM_NEVER ? SIM_NEVER : s->now + learn0_ms;
    c->end[1].learn_at = learn1_ms == SIM_NEVER ? SIM_NEVER : s->now + learn1_ms;
    char a[32], b[32];
    sim_trace(s, "c%llu CUT %s - %s: %zu and %zu bytes still arrive", (unsigned long long)c->id, sim_end_name(s, &c->end[0], a),
              sim_end_name(s, &c->end[1], b), c->pipe[0].len, c->pipe[1].len);
}

/* ---- ends ---- */

const char *sim_end_name(const struct sim *s, const struct sim_end *e, char buf[32])
{
    if (e->is_task) {
        (void)snprintf(buf, 32, "%s:%u", s->task[e->node].job, s->task[e->node].index);
    } else {
        (void)snprintf(buf, 32, "client%u.%u", e->node, e->life);
    }
    return buf;
}

static size_t taken_of(struct sim *s, struct sim_pipe *p, size_t total)
{
    size_t room = sim_pipe_room(s, p);
    size_t take = total;
    if (p->limit != SIM_NEVER) {
        return p->stuck ? 0 : total; /* a buffer that nobody empties takes all or nothing */
    }
    if (sim_one_in(s, s->k.short_write_in)) {
        uint64_t how = sim_below(s, 3);
        take = how == 0 ? 0 : how == 1 ? (size_t)sim_below(s, total + 1) : total / PS_SEGMENT_BYTES * PS_SEGMENT_BYTES;
    }
    take = take < total ? take : total;
    return take < room ? take : room;
}

void sim_end_write(struct sim *s, struct sim_end *e)
{
    struct psi_outq *q = &e->link->out;
    struct sim_pipe *p = &e->conn->pipe[e->side];
    uint64_t budget = sim_range(s, 1, 6);
    e->write_turn = false;
    while (e->hold_bytes == 0 && psi_outq_ready(q)) {
        if (budget-- == 0) {
            e->write_turn = true;
            return;
        }
        const struct psi_iov *iov = NULL;
        size_t count = psi_outq_compose(q, PS_SEND_TRY_BYTES, &iov);
        size_t total = 0;
        for (size_t i = 0; i < count; i++) {
            total += iov[i].bytes;
        }
        size_t take = taken_of(s, p, total);
        size_t left = take;
        for (size_t i = 0; i < count && left > 0; i++) {
            size_t part = iov[i].bytes < left ? iov[i].bytes : left;
            pipe_write(s, e->conn, e->side, iov[i].base, part);
            left -= part;
        }
        const void *hold = NULL;
        size_t hold_bytes = 0;
        if (psi_outq_accepted(q, take, &hold, &hold_bytes) != PS_OK) {
            sim_fail(s, "psi_outq_accepted: no memory");
        }
        if (take < total && hold_bytes == 0) {
            sim_fail(s, "a write took %zu of %zu bytes and there is no hold", take, total);
        }
        e->room = e->room || take > 0;
        e->hold = hold;
        e->hold_bytes = hold_bytes;
        e->hold_sent = 0;
        if (count == 0 && hold_bytes == 0) {
            return;
        }
    }
}

void sim_end_hold(struct sim *s, struct sim_end *e)
{
    size_t left = e->hold_bytes - e->hold_sent;
    size_t room = sim_pipe_room(s, &e->conn->pipe[e->side]);
    size_t take = sim_one_in(s, 4) ? (size_t)sim_range(s, 1, left) : left;
    take = take < room ? take : room;
    pipe_write(s, e->conn, e->side, e->hold + e->hold_sent, take);
    e->hold_sent += take;
    psi_outq_held_left(&e->link->out, e->hold_bytes - e->hold_sent);
    if (e->hold_sent == e->hold_bytes) {
        e->hold_bytes = 0;
        psi_outq_held_written(&e->link->out);
        e->room = true;
    }
}

void sim_end_close(struct sim *s, struct sim_end *e, bool unread_lost)
{
    struct sim_pipe *out = &e->conn->pipe[e->side];
    struct sim_pipe *in = &e->conn->pipe[1 - e->side];
    if (unread_lost && in->len > 0) { /* the kernel resets the connection */
        truncate_flight(s, out);
    }
    e->state = SIM_END_CLOSED;
    out->fin = true;
    in->len = 0;
    in->limit = in->delivered;
    in->stuck = false;
}

void sim_end_release(struct sim_end *e)
{
    struct psi_link *link = e->link;
    if (link != NULL) {
        psi_outq_fini(&link->out);
        psi_outq_init(&link->out);
        psi_list_remove(&link->dirty);
        e->link = NULL;
        e->hold_bytes = 0;
        psi_link_free(link);
    }
}

void sim_end_drop(struct sim *s, struct sim_end *e)
{
    struct sim_pipe *out = &e->conn->pipe[e->side];
    struct sim_pipe *in = &e->conn->pipe[1 - e->side];
    if (e->state == SIM_END_CLOSED || e->state == SIM_END_NONE) {
        return;
    }
    truncate_flight(s, out);
    out->fin = true;
    in->len = 0;
    in->limit = in->delivered;
    e->state = SIM_END_CLOSED;
    e->link = NULL;
    e->hold_bytes = 0;
}

/* Effects of a dirty link, as psi_conn_update() of common/net/conn.c carries them out. */
void sim_end_update(struct sim *s, struct sim_end *e)
{
    if (e->state != SIM_END_OPEN) {
        return;
    }
    if (e->link->closing) {
        if (!e->link->close_after_flush) {
            sim_end_close(s, e, true);
            return;
        }
        e->state = SIM_END_LINGER;
        e->linger_until = s->now + PSI_LINK_LINGER_MS;
    }
    sim_end_write(s, e);
}

/* No HELLO of an older connection may have closed a newer one of the same session. e: where bytes arrived. */
void sim_older_check(struct sim *s, const struct sim_end *e, const bool *open_before)
{
    const struct sim_end *from = &e->conn->end[0];
    for (uint32_t i = 0; e->side == 1 && !from->is_task && i < s->conn_count; i++) {
        const struct sim_conn *c = s->conn[i];
        bool same =
            !c->end[0].is_task && c->end[0].node == from->node && c->end[0].life == from->life && c->end[1].node == e->node;
        if (same && c->id > e->conn->id && open_before[i] && c->end[1].state != SIM_END_OPEN && !c->cut) {
            sim_fail(s, "bytes of the older connection %llu made the task close the newer one %llu of the same session",
                     (unsigned long long)e->conn->id, (unsigned long long)c->id);
        }
    }
}

/* Silence is how a side learns of a half-open connection: it must act on it, whatever it could still write. */
void sim_half_open_check(struct sim *s, const struct sim_end *e)
{
    uint64_t resumed = e->is_task ? s->task[e->node].resumed_at : s->program[e->node].resumed_at;
    bool told = e->is_task || e->conn->pipe[1 - e->side].delivered > 1000; /* HELLO's answer has the lease */
    uint64_t lease = told ? s->k.lease_ms : PS_LEASE_MS;
    bool unread = e->is_task && s->k.buffers_max < 8; /* no deadline runs while the task does not read it for want of buffers */
    uint64_t since = e->heard_at > resumed ? e->heard_at : resumed;
    char name[32];
    if (e->conn->cut && !e->link->paused && !unread && since != 0 && s->now > since && s->now - since > 2 * lease + 1000) {
        sim_fail(s, "%s keeps half-open connection %llu, silent for %llu ms; the lease is %llu ms", sim_end_name(s, e, name),
                 (unsigned long long)e->conn->id, (unsigned long long)(s->now - since), (unsigned long long)lease);
    }
}
