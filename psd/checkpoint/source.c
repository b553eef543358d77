/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a part of a checkpoint over a connection to the task that has it.
 *
 * Happy path: this task dials the task that has the part, says HELLO as a client of no job, and calls ready(). A piece is asked
 * for range by range. When all ranges have come, the CRCs are computed, and done() is called. Failure: the dial, the connection
 * or a range fails: the source is closed, and done() says why. The other task has too many reads: the range is asked for again,
 * until no range has come for the time of a lease. If the source is closed during the dial, its connection is not used. */
#include "source.h"
#include "beside.h"

#include "psd/rpc/handlers.h"

#include "common/crc32c.h"

#include <stdio.h>
#include <string.h>

enum { RANGE_BYTES = PS_CONTROL_BODY_MAX };

static struct psd_source *source(const struct psd_task *t)
{
    return t->beside == NULL ? NULL : &t->beside->source;
}

void psd_source_init(struct psd_source *s)
{
    *s = (struct psd_source){.from = PSD_NO_PEER};
}

bool psd_source_is_open(const struct psd_task *t)
{
    return source(t)->from != PSD_NO_PEER;
}

bool psd_source_is_ready(const struct psd_task *t)
{
    const struct psd_source *s = source(t);
    return s->conn != NULL && s->conn->hello_done && !s->reads;
}

static void say_goodbye(struct psd_conn *c)
{
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = PS_OP_GOODBYE, .id = ++c->next_id};
    PSI_IGNORE(psi_outq_push(&c->link->out, &h, NULL, NULL)); /* without memory for this frame the session ends with its lease */
}

void psd_source_close(struct psd_task *t)
{
    struct psd_source *s = source(t);
    struct psd_conn *c = s->conn;
    bool dials = s->dial != PSD_SOURCE_DIAL_NONE;
    psd_source_init(s);
    s->dial = dials ? PSD_SOURCE_DIAL_OLD : PSD_SOURCE_DIAL_NONE;
    if (c != NULL && c->hello_done && !c->closing) {
        say_goodbye(c);
    }
    if (c != NULL) {
        psd_conn_close(t, c, true);
    }
}

/* Close the source, then tell done() the error. done() may open the source again. */
static void fails(struct psd_task *t, ps_status st, const char *why)
{
    psd_source_done_fn done = source(t)->done;
    struct psi_err err;
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    PSI_IGNORE(
        psi_fail(&err, st, "%s: %s", psd_peer_text(t, &t->peers[source(t)->from], who, sizeof(who)), why)); /* err goes to done */
    psd_source_close(t);
    done(t, st, 0, err.text);
}

static void dial(struct psd_task *t)
{
    struct psd_source *s = source(t);
    bool on = psd_effect_dial(t, PSD_DIAL_SOURCE, &t->peers[s->from]); /* false: no memory; the next tick tries again */
    s->dial = on ? PSD_SOURCE_DIAL_ON : PSD_SOURCE_DIAL_NONE;
}

void psd_source_open(struct psd_task *t, uint32_t from, psd_source_ready_fn ready, psd_source_done_fn done)
{
    struct psd_source *s = source(t);
    PSI_ASSERT(s->from == PSD_NO_PEER && s->conn == NULL);
    s->from = from;
    s->ready = ready;
    s->done = done;
    if (s->dial == PSD_SOURCE_DIAL_NONE) {
        dial(t);
    }
}

static void say_hello(struct psd_task *t, struct psd_conn *c)
{
    const struct psd_peer *p = &t->peers[source(t)->from];
    ps_v1_Hello hello = ps_v1_Hello_init_zero;
    uint64_t session[2] = {psd_random(t), psd_random(t)};
    hello.protocol = PS_FRAME_VERSION;
    hello.features = PS_FEATURES_KNOWN;
    hello.role = PSD_ROLE_CLIENT;
    hello.connection = 1;
    hello.believed_task = p->task;
    hello.cluster_hash = psi_cluster_hash(&t->cluster);
    hello.pid = t->config.pid;
    hello.session.size = sizeof(session);
    memcpy(hello.session.bytes, session, sizeof(session));
    PSI_IGNORE(PSI_BYTES_SET(hello.host, t->config.host)); /* cut is fine */
    PSI_IGNORE(PSI_BYTES_SET(hello.program, t->name));     /* cut is fine */
    PSI_IGNORE(PSI_BYTES_SET(hello.believed_job, p->job)); /* fits: checked name */
    psd_ask_meta(t, c, PS_OP_HELLO, &ps_v1_Hello_msg, &hello);
}

struct psd_conn *psd_source_dialed(struct psd_task *t, void *shell, const char *why)
{
    struct psd_source *s = source(t);
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    bool old = s->dial == PSD_SOURCE_DIAL_OLD;
    s->dial = PSD_SOURCE_DIAL_NONE;
    if (old) {
        if (s->from != PSD_NO_PEER) {
            dial(t);
        }
        return NULL;
    }
    struct psd_conn *c = NULL;
    if (shell != NULL && !t->draining) {
        c = psd_conn_new(t, shell, PSD_ROLE_SOURCE, psd_peer_text(t, &t->peers[s->from], who, sizeof(who)));
        why = "no memory";
    }
    if (c == NULL) {
        fails(t, PS_UNAVAILABLE, why == NULL ? "this task ends" : why);
        return NULL;
    }
    c->body.max = PS_CONTROL_BODY_MAX;
    s->conn = c;
    say_hello(t, c);
    return c;
}

void psd_rpc_source_hello(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    if (c != source(t)->conn) {
        return;
    }
    if (psd_reply_error(r, &err) != PS_OK) {
        fails(t, PS_UNAVAILABLE, err.text);
    } else if ((r->header.flags & PS_FLAG_MORE) == 0) {
        c->hello_done = true;
        source(t)->ready(t);
    }
}

void psd_source_lost(struct psd_task *t, const struct psd_conn *c)
{
    struct psd_source *s = source(t);
    if (s != NULL && s->conn == c) {
        s->conn = NULL;
        fails(t, PS_UNAVAILABLE, "the connection was lost");
    }
}

static void ask_range(struct psd_task *t, struct psd_source_ask *a)
{
    struct psd_source *s = source(t);
    const struct psd_disk_file *file = &s->piece.file;
    ps_v1_CheckpointRead m = ps_v1_CheckpointRead_init_zero;
    m.number = file->number;
    m.kind = file->kind == PSD_DISK_STATE ? PS_FILE_STATE : PS_FILE_VALUES;
    m.index = file->index;
    m.offset = s->piece.offset + a->at;
    m.bytes = a->bytes;
    m.writer = file->writer;
    a->id = psd_ask_id(s->conn);
    a->refused = false;
    psd_ask_meta(t, s->conn, PS_OP_CHECKPOINT_READ, &ps_v1_CheckpointRead_msg, &m);
}

static void ask_more(struct psd_task *t)
{
    struct psd_source *s = source(t);
    for (uint32_t i = 0; i < PSD_SOURCE_ASKS && s->asked < s->piece.bytes && !s->conn->closing; i++) {
        struct psd_source_ask *a = &s->asks[i];
        if (a->id == 0) {
            uint64_t left = s->piece.bytes - s->asked;
            a->at = s->asked;
            a->bytes = left < RANGE_BYTES ? (uint32_t)left : RANGE_BYTES;
            s->asked += a->bytes;
            ask_range(t, a);
        }
    }
}

/* End the piece, when all its bytes have come or the file has ended: compute its CRCs if it is whole, and call done(). */
static void piece_over(struct psd_task *t, size_t bytes)
{
    struct psd_source *s = source(t);
    const uint8_t *p = s->piece.out;
    for (size_t at = 0; s->piece.sums != NULL && bytes == s->piece.bytes && at < bytes; at += PSD_DISK_SUM_BYTES) {
        size_t left = bytes - at;
        s->piece.sums[at / PSD_DISK_SUM_BYTES] = psi_crc32c(0, p + at, left < PSD_DISK_SUM_BYTES ? left : PSD_DISK_SUM_BYTES);
    }
    s->reads = false;
    memset(s->asks, 0, sizeof(s->asks));
    s->done(t, PS_OK, bytes, NULL);
}

void psd_source_read(struct psd_task *t, const struct psd_disk_op *op)
{
    struct psd_source *s = source(t);
    PSI_ASSERT(psd_source_is_ready(t) && op->kind == PSD_DISK_READ && op->bytes > 0);
    s->reads = true;
    s->piece = *op;
    s->asked = s->got = 0;
    s->moved_ms = t->now_ms;
    ask_more(t);
}

static struct psd_source_ask *range_of(struct psd_source *s, uint64_t id)
{
    for (uint32_t i = 0; i < PSD_SOURCE_ASKS; i++) {
        if (s->asks[i].id == id) {
            return &s->asks[i];
        }
    }
    return NULL;
}

void psd_rpc_source_read(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_source *s = source(t);
    struct psd_source_ask *a = c == s->conn ? range_of(s, r->header.id) : NULL;
    struct psi_err err;
    struct ps_reply_meta m;
    uint64_t bytes = 0;
    if (a == NULL || r->header.id == 0) {
        return; /* the answer is for a piece that has ended */
    }
    ps_status st = psd_reply_error(r, &err);
    if (st == PS_RESOURCE_EXHAUSTED && t->now_ms - s->moved_ms < t->config.lease_ms) {
        a->refused = true;
        return;
    }
    if (st != PS_OK) {
        fails(t, st == PS_RESOURCE_EXHAUSTED ? PS_UNAVAILABLE : st, err.text);
        return;
    }
    memcpy(&m, r->meta, sizeof(m)); /* psi_form_check() has made sure that the meta has at least these bytes */
    if (m.result_bytes == sizeof(bytes)) {
        memcpy(&bytes, r->meta + sizeof(m), sizeof(bytes));
    }
    if (m.result_bytes != sizeof(bytes) || bytes > a->bytes || bytes > r->body_bytes) {
        fails(t, PS_UNAVAILABLE, "an answer that is none");
        return;
    }
    if (bytes > 0) { /* with 0 bytes r->body may be NULL */
        memcpy((uint8_t *)s->piece.out + a->at, r->body, bytes);
    }
    s->got += bytes;
    s->moved_ms = t->now_ms;
    bool cut = bytes < a->bytes;
    a->id = 0;
    if (cut || s->got == s->piece.bytes) {
        piece_over(t, cut ? a->at + bytes : s->got);
    } else {
        ask_more(t);
    }
}

static void beat(struct psd_task *t, struct psd_conn *c)
{
    const ps_v1_Beat m = ps_v1_Beat_init_zero;
    c->beat_sent_ms = t->now_ms;
    psd_ask_meta(t, c, PS_OP_BEAT, &ps_v1_Beat_msg, &m);
}

void psd_source_tick(struct psd_task *t)
{
    struct psd_source *s = source(t);
    if (s == NULL || s->from == PSD_NO_PEER) {
        return;
    }
    struct psd_conn *c = s->conn;
    if (c == NULL && s->dial == PSD_SOURCE_DIAL_NONE) {
        dial(t);
    }
    if (c != NULL && c->hello_done && !c->closing && t->now_ms - c->beat_sent_ms >= t->config.beat_ms) {
        beat(t, c);
    }
    for (uint32_t i = 0; c != NULL && i < PSD_SOURCE_ASKS && !c->closing; i++) {
        if (s->asks[i].id != 0 && s->asks[i].refused) {
            ask_range(t, &s->asks[i]);
        }
    }
}
