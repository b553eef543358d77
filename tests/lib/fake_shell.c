/* SPDX-License-Identifier: Apache-2.0 */
/* One loop moves everything: shell_run(). An event is delivered, then the task's effects are carried out, then its invariants
 * hold. */
#include "fake_shell.h"

#include "common/cluster.h"
#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_BYTES = 1 << 20, TURNS_MAX = 2000000, SHARES = 64 };

static void broken(const char *what)
{
    fprintf(stderr, "tests/lib/fake_shell.c: %s\n", what);
    abort();
}

static void *must_alloc(size_t n)
{
    void *p = calloc(1, n);
    if (p == NULL) {
        broken("no memory");
    }
    return p;
}

void shell_net_init(struct shell_net *net)
{
    memset(net, 0, sizeof(*net));
    net->scratch = aligned_alloc(64, SCRATCH_BYTES + 64);
    if (net->scratch == NULL) {
        broken("no memory");
    }
}

void shell_net_fini(struct shell_net *net)
{
    while (net->task_count > 0) {
        shell_task_free(net->tasks[0]);
    }
    free(net->scratch);
    memset(net, 0, sizeof(*net));
}

/* ---- what comes out of a task ---- */

void shell_frame_free(struct shell_frame *f)
{
    if (f != NULL) {
        wire_fini(&f->body);
        free(f);
    }
}

struct shell_frame *shell_take(struct shell_conn *c)
{
    struct psi_list *link = psi_list_pop_front(&c->frames);
    if (link == NULL) {
        return NULL;
    }
    c->frame_count--;
    return PSI_CONTAINER_OF(link, struct shell_frame, link);
}

void shell_forget(struct shell_conn *c)
{
    struct shell_frame *f = NULL;
    while ((f = shell_take(c)) != NULL) {
        shell_frame_free(f);
    }
}

static void head_came(struct shell_conn *c)
{
    struct shell_frame *f = must_alloc(sizeof(*f));
    psi_list_init(&f->link);
    wire_init(&f->body);
    f->h = c->reader.header;
    memcpy(f->meta, psi_reader_meta(&c->reader), c->reader.meta_bytes);
    psi_list_push_back(&c->frames, &f->link);
}

/* The test's end of a connection: bytes to frames. */
static void decode(struct shell_conn *c, const uint8_t *p, size_t n)
{
    struct psi_err err;
    for (;;) {
        struct psi_list *last = psi_list_last(&c->frames);
        struct shell_frame *f = last == NULL ? NULL : PSI_CONTAINER_OF(last, struct shell_frame, link);
        switch (psi_reader_next(&c->reader, &p, &n, &err)) {
        case PSI_PIECE_NONE:
            if (n == 0) {
                return;
            }
            c->reader.buffer = c->buffer;
            break;
        case PSI_PIECE_HEAD:
            head_came(c);
            break;
        case PSI_PIECE_SEGMENT:
            wire_append(&f->body, c->reader.payload, c->reader.payload_bytes);
            break;
        case PSI_PIECE_END:
            f->has_trailer = c->reader.has_trailer;
            f->trailer = c->reader.trailer;
            c->frame_count++;
            break;
        case PSI_PIECE_BAD:
            broken(err.text); /* the core sends frames that its own reader refuses */
        }
    }
}

static void goes_out(struct shell_conn *c, const void *p, size_t n)
{
    c->bytes_out += n;
    if (c->tap != NULL) {
        wire_append(c->tap, p, n);
    }
    if (c->peer != NULL) {
        wire_append(&c->peer->in, p, n);
        return;
    }
    /* an exact block, so that the sanitizer sees a read past the end; aligned as the reader's owner wants it */
    uint8_t *copy = must_alloc(n > 0 ? n : 1);
    memcpy(copy, p, n);
    decode(c, copy, n);
    free(copy);
}

/* ---- effects ---- */

static void write_out(struct shell_conn *c)
{
    struct psi_outq *q = &c->core->out;
    while (psi_outq_ready(q)) {
        const struct psi_iov *iov = NULL;
        const void *hold = NULL;
        size_t hold_bytes = 0, total = 0;
        size_t count = psi_outq_compose(q, PS_SEND_TRY_BYTES, &iov);
        for (size_t i = 0; i < count; i++) {
            total += iov[i].bytes;
        }
        size_t n = c->stuck ? 0 : c->write_most != 0 && c->write_most < total ? c->write_most : total;
        size_t left = n;
        for (size_t i = 0; i < count && left > 0; i++) {
            size_t take = iov[i].bytes < left ? iov[i].bytes : left;
            goes_out(c, iov[i].base, take);
            left -= take;
        }
        if (psi_outq_accepted(q, n, &hold, &hold_bytes) != PS_OK) {
            return; /* the caller cuts it */
        }
        if (hold_bytes > 0) {
            if (c->stuck) {
                return;
            }
            goes_out(c, hold, hold_bytes);
            psi_outq_held_written(q);
        }
    }
}

static void let_go(struct shell_conn *c)
{
    struct psi_link *core = c->core;
    c->core = NULL;
    psi_list_remove(&c->link);
    psi_list_push_back(&c->task->closed, &c->link);
    psi_link_free(core);
    if (c->peer != NULL) {
        c->peer->eof = true;
        c->peer->peer = NULL;
        c->peer = NULL;
    }
}

/* Returns true when an event came of it (the connection could not be written to). */
static bool carry_out_link(struct shell_conn *c)
{
    struct psi_link *core = c->core;
    if (core->closing) {
        if (core->close_after_flush && !c->stuck) {
            write_out(c);
        } else if (core->out.frame_count != 0 && !core->close_after_flush) {
            broken("a link that closes hard still has frames");
        }
        let_go(c);
        return false;
    }
    uint64_t sent = core->out.sent_bytes;
    write_out(c);
    if (psi_outq_ready(&core->out)) { /* no memory for the hold: the shell closes */
        psd_task_closed(c->task->core, core);
        let_go(c);
        return true;
    }
    if (core->out.sent_bytes != sent) {
        psd_task_writable(c->task->core, core);
        return true;
    }
    return false;
}

static void log_line(struct shell_task *t, const struct psd_effect *e)
{
    char line[sizeof(e->event) + sizeof(e->text) + 4];
    int n = snprintf(line, sizeof(line), "%s %s\n", e->event, e->text);
    size_t bytes = (size_t)n;
    if (t->log_bytes + bytes + 1 > SHELL_LOG_BYTES) {
        t->log_bytes = 0; /* old lines are of no use */
    }
    memcpy(t->log + t->log_bytes, line, bytes + 1);
    t->log_bytes += bytes;
}

static void carry_out_effect(struct shell_task *t, const struct psd_effect *e)
{
    switch (e->kind) {
    case PSD_EFFECT_DIAL:
        if (e->dial == PSD_DIAL_SOURCE) {
            if (t->source[0] != '\0') {
                broken("a second dial of a source while one is out");
            }
            PSI_IGNORE(snprintf(t->source, sizeof(t->source), "%s", e->text)); /* fits: an address */
            break;
        }
        if (t->dials != 0) {
            broken("a second dial while one is out");
        }
        t->dials++;
        break;
    case PSD_EFFECT_LOG:
        log_line(t, e);
        break;
    case PSD_EFFECT_SHUTDOWN:
        t->shutdown = true;
        break;
    case PSD_EFFECT_SERVING:
        t->serving = true;
        break;
    case PSD_EFFECT_READY:
        t->ready = true;
        break;
    case PSD_EFFECT_CALL:
    case PSD_EFFECT_CALL_EARLY:
    case PSD_EFFECT_CALL_CANCEL:
        shell_call_effect(t, e);
        break;
    case PSD_EFFECT_DISK:
        if (t->disk_count == PSD_DISK_OPS_MAX) {
            broken("more operations of the disk than there may be");
        }
        t->disk[t->disk_count++] = e->disk;
        break;
    }
}

void shell_disk_done(struct shell_task *t, ps_status st, size_t bytes, const char *error)
{
    shell_disk_over(t, st, PS_REASON_NONE, bytes, error);
}

void shell_disk_over(struct shell_task *t, ps_status st, ps_reason reason, size_t bytes, const char *error)
{
    if (t->disk_count == 0) {
        broken("the test ends an operation of the disk that there is not");
    }
    uint64_t id = t->disk[0].id;
    t->disk_count--;
    memmove(&t->disk[0], &t->disk[1], t->disk_count * sizeof(t->disk[0]));
    psd_task_disk_done(t->core, id, st, reason, bytes, error);
    shell_settle(t);
    shell_run(t->net);
}

void shell_settle(struct shell_task *t)
{
    struct psd_effect effect;
    for (;;) {
        struct psi_link *link = psd_task_next_dirty(t->core);
        if (link != NULL) {
            struct shell_conn *c = link->shell;
            if (c->core != link) {
                broken("a dirty link that the shell has freed");
            }
            PSI_IGNORE(carry_out_link(c)); /* new dirty links are seen by this loop */
        } else if (psd_task_next_effect(t->core, &effect)) {
            carry_out_effect(t, &effect);
        } else {
            break;
        }
    }
    if (++t->net->unchecked >= t->net->check_every) {
        t->net->unchecked = 0;
        psd_task_check_invariants(t->core);
    }
}

/* ---- events ---- */

static void say_turn(const struct shell_task *t, bool begins)
{
    t->net->turning = t;
    if (t->net->turn != NULL) {
        t->net->turn(begins);
    }
}

static bool deliver(struct shell_conn *c)
{
    if (c->core == NULL || c->frozen || c->core->paused) {
        return false;
    }
    size_t left = c->in.len - c->in_at;
    if (left == 0) {
        if (c->eof) {
            psd_task_closed(c->task->core, c->core);
            let_go(c);
            return true;
        }
        return false;
    }
    size_t n = c->piece != 0 && c->piece < left ? c->piece : left;
    n = n < SCRATCH_BYTES ? n : SCRATCH_BYTES;
    uint8_t *at = c->task->net->scratch + c->delivered % 64;
    memcpy(at, c->in.data + c->in_at, n);
    c->in_at += n;
    if (c->in_at == c->in.len) {
        c->in_at = 0;
        wire_clear(&c->in);
    }
    c->delivered += n;
    say_turn(c->task, true);
    psd_task_bytes(c->task->core, c->core, at, n);
    say_turn(c->task, false);
    memset(at, 0xdb, n); /* nothing of it may be looked at later */
    return true;
}

void shell_run(struct shell_net *net)
{
    bool moved = true;
    for (int turn = 0; moved; turn++) {
        if (turn == TURNS_MAX) {
            broken("it never comes to rest");
        }
        moved = false;
        for (uint32_t i = 0; i < net->task_count; i++) {
            struct shell_task *t = net->tasks[i];
            struct psi_list *it = NULL, *tmp = NULL;
            shell_settle(t);
            if (!t->work_held && psd_task_has_work(t->core)) {
                say_turn(t, true);
                psd_task_work(t->core);
                say_turn(t, false);
                shell_settle(t);
                moved = true;
            }
            PSI_LIST_FOREACH_SAFE(it, tmp, &t->conns) {
                struct shell_conn *c = PSI_CONTAINER_OF(it, struct shell_conn, link);
                if (deliver(c)) {
                    moved = true;
                    shell_settle(t);
                    break; /* the list may be another one now */
                }
            }
        }
    }
}

void shell_task_tick(struct shell_task *t, uint64_t now)
{
    t->now = now;
    say_turn(t, true);
    psd_task_tick(t->core, now);
    say_turn(t, false);
    shell_settle(t);
}

void shell_tick(struct shell_net *net, uint64_t now)
{
    for (uint32_t i = 0; i < net->task_count; i++) {
        shell_task_tick(net->tasks[i], now);
    }
    shell_run(net);
}

void shell_pass(struct shell_net *net, uint64_t ms)
{
    uint64_t now = net->tasks[0]->now, end = now + ms;
    while (now < end) {
        now = now + 100 < end ? now + 100 : end;
        shell_tick(net, now);
    }
}

/* ---- connections ---- */

static struct shell_conn *conn_new(struct shell_task *t)
{
    struct shell_conn *c = must_alloc(sizeof(*c));
    psi_list_init(&c->link);
    psi_list_init(&c->frames);
    wire_init(&c->in);
    psi_reader_init(&c->reader, UINT32_MAX);
    c->buffer = aligned_alloc(64, (PSI_READER_BUFFER_BYTES + 63) / 64 * 64);
    if (c->buffer == NULL) {
        broken("no memory");
    }
    c->reader.buffer = c->buffer;
    c->task = t;
    return c;
}

void shell_conn_free(struct shell_conn *c)
{
    if (c == NULL) {
        return;
    }
    if (c->core != NULL) {
        broken("an open connection is freed");
    }
    psi_list_remove(&c->link);
    shell_forget(c);
    wire_fini(&c->in);
    free(c->buffer);
    free(c);
}

static struct shell_conn *attached(struct shell_conn *c, struct psi_link *core)
{
    if (core == NULL) {
        shell_conn_free(c);
        return NULL;
    }
    c->core = core;
    psi_list_push_back(&c->task->conns, &c->link);
    return c;
}

struct shell_conn *shell_connect(struct shell_task *t)
{
    struct shell_conn *c = conn_new(t);
    c = attached(c, psd_task_accepted(t->core, c, "test:1"));
    shell_settle(t);
    return c;
}

struct shell_conn *shell_dial_test(struct shell_task *from)
{
    if (from->dials != 1) {
        broken("nobody dials");
    }
    from->dials = 0;
    struct shell_conn *c = conn_new(from);
    c = attached(c, psd_task_dialed(from->core, PSD_DIAL_DIRECTORY, c, NULL));
    shell_settle(from);
    return c;
}

static struct shell_conn *dialed(struct shell_task *from, enum psd_dial dial, struct shell_task *to)
{
    struct shell_conn *b = to == NULL ? NULL : shell_connect(to);
    if (b == NULL) {
        if (psd_task_dialed(from->core, dial, NULL, "refused") != NULL) {
            broken("a link for a dial that failed");
        }
        shell_settle(from);
        return NULL;
    }
    struct shell_conn *a = conn_new(from);
    a->peer = b;
    b->peer = a;
    a = attached(a, psd_task_dialed(from->core, dial, a, NULL));
    if (a == NULL) {
        b->peer = NULL;
        b->eof = true;
    }
    shell_settle(from);
    if (to->lists_held) {
        to->lists_held = false;
        PSI_IGNORE(deliver(b)); /* there is something */
        shell_settle(to);
        b->frozen = true;
    }
    shell_run(from->net);
    return a;
}

struct shell_conn *shell_dial(struct shell_task *from, struct shell_task *to)
{
    if (from->dials != 1) {
        broken("nobody dials");
    }
    from->dials = 0;
    return dialed(from, PSD_DIAL_DIRECTORY, to);
}

struct shell_conn *shell_dial_source(struct shell_task *from, struct shell_task *to)
{
    if (from->source[0] == '\0') {
        broken("nobody dials a source");
    }
    from->source[0] = '\0';
    return dialed(from, PSD_DIAL_SOURCE, to);
}

void shell_send(struct shell_conn *c, const struct wire *w)
{
    if (c->core == NULL) {
        return;
    }
    wire_append(&c->in, w->data, w->len);
    shell_run(c->task->net);
}

static void break_end(struct shell_conn *c)
{
    if (c->core != NULL) {
        c->peer = NULL;
        psd_task_closed(c->task->core, c->core);
        let_go(c);
        shell_settle(c->task);
    }
}

void shell_cut(struct shell_conn *c)
{
    struct shell_conn *peer = c->peer;
    struct shell_net *net = c->task->net;
    break_end(c);
    if (peer != NULL) {
        break_end(peer);
    }
    shell_run(net);
}

bool shell_is_closed(const struct shell_conn *c)
{
    return c->core == NULL;
}

void shell_unstick(struct shell_conn *c)
{
    c->stuck = false;
    if (c->core != NULL && c->core->out.hold_bytes > 0) {
        goes_out(c, c->core->out.hold, c->core->out.hold_bytes);
        psi_outq_held_written(&c->core->out);
        psd_task_writable(c->task->core, c->core);
    }
    shell_run(c->task->net);
}

void shell_thaw(struct shell_conn *c)
{
    c->frozen = false;
    shell_run(c->task->net);
}

/* ---- tasks ---- */

struct shell_task *shell_task_new(struct shell_net *net, const char *spec, const char *job, uint32_t task, uint64_t seed,
                                  uint64_t now, shell_tweak tweak, ps_status *out_status)
{
    struct psd_task_config config;
    struct psi_cluster cluster;
    struct psi_err err;
    uint8_t seed_bytes[32] = {0};
    int64_t armed = psi_mem_fail_left();
    psi_mem_fail_after(-1); /* the spec is ours, not the task's */
    psi_cluster_init(&cluster);
    if (psi_cluster_parse(&cluster, spec, &err) != PS_OK) {
        broken(err.text);
    }
    psd_task_config_init(&config);
    config.cluster = &cluster;
    config.task = task;
    config.memory_budget_bytes = (uint64_t)64 << 20;
    snprintf(config.job, sizeof(config.job), "%s", job);
    snprintf(config.address, sizeof(config.address), "%s", psi_cluster_task_address(&cluster, job, task));
    if (tweak != NULL) {
        tweak(&config);
    }
    memcpy(seed_bytes, &seed, sizeof(seed));
    struct shell_task *t = must_alloc(sizeof(*t));
    psi_list_init(&t->conns);
    psi_list_init(&t->closed);
    t->net = net;
    t->now = now;
    psi_mem_fail_after(armed);
    *out_status = psd_task_new(&config, seed_bytes, now, &t->core, &err);
    armed = psi_mem_fail_left();
    psi_mem_fail_after(-1);
    psi_cluster_fini(&cluster);
    psi_mem_fail_after(armed);
    if (*out_status != PS_OK) {
        free(t);
        return NULL;
    }
    if (net->task_count == SHELL_TASKS_MAX) {
        broken("too many tasks");
    }
    net->tasks[net->task_count++] = t;
    shell_settle(t);
    return t;
}

void shell_task_free(struct shell_task *t)
{
    struct shell_net *net = t->net;
    struct psi_list *link = NULL;
    psd_task_free(t->core); /* frees the links, too */
    while ((link = psi_list_pop_front(&t->conns)) != NULL) {
        struct shell_conn *c = PSI_CONTAINER_OF(link, struct shell_conn, link);
        c->core = NULL;
        if (c->peer != NULL) {
            c->peer->eof = true;
            c->peer->peer = NULL;
        }
        shell_conn_free(c);
    }
    while ((link = psi_list_first(&t->closed)) != NULL) {
        shell_conn_free(PSI_CONTAINER_OF(link, struct shell_conn, link));
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < net->task_count; i++) {
        if (net->tasks[i] != t) {
            net->tasks[kept++] = net->tasks[i];
        }
    }
    net->task_count = kept;
    free(t);
}

bool shell_logged(const struct shell_task *t, const char *text)
{
    return t->log_bytes > 0 && strstr(t->log, text) != NULL;
}

void shell_log_clear(struct shell_task *t)
{
    t->log_bytes = 0;
    t->log[0] = '\0';
}
