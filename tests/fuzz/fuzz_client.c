/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core with a true task behind a link that lies: frames of the task are changed (and sealed again), dropped, doubled
 * or held back, connections break, dials fail, time passes, allocations fail. The core must never crash or touch memory that is
 * not its own, keep its invariants, and end every request exactly once, by its deadline.
 *
 * Input: commands of a kind byte each. kind % 8: 0-2 start a request, 3 deliver all frames, 4 deliver one frame changed, 5 drop
 * or double a frame, 6 cut or refuse, 7 time passes or an allocation will fail.
 */
#include "lib/fake_client.h"
#include "lib/places.h"

#include "common/blob.h"
#include "common/mem.h"
#include "worker/core/core.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { SLOTS = 12, VARS = 6, STRINGS = 3, ELEMENTS = 20000, COMMANDS_MAX = 120, TIMEOUT_MS = 1500, STEP_MS = 50 };

struct input {
    const uint8_t *p;
    size_t n;
};

struct slot {
    struct psi_request req;
    struct psi_var_name name; /* DELETE */
    struct psi_barrier barrier;
    bool busy;
    uint64_t started_ms;
    uint8_t *dst; /* of its own, exact: the sanitizer sees a byte too much */
    ps_task_info info;
    uint32_t told;
    struct psi_readied readied;
};

struct scene {
    struct shell_net net;
    struct shell_task *task;
    struct psi_client *c;
    struct psi_link *link; /* the client's end */
    struct shell_conn *conn;
    uint64_t to_client; /* bytes of the stream so far: alignment */
    bool dialing;
    uint32_t dial_task;
    struct psi_var *vars[VARS];
    struct slot slots[SLOTS];
};

static struct scene s;
static uint8_t source[ELEMENTS * 4];
static int64_t strings[STRINGS + 1 + 2] = {0, 5, 5, 16}; /* offsets and sixteen bytes */

static uint8_t byte(struct input *in)
{
    if (in->n == 0) {
        return 0;
    }
    in->n--;
    return *in->p++;
}

static void on_done(struct psi_request *req)
{
    struct slot *slot = req->ctx;
    PSI_ASSERT(slot->busy); /* once, and only after a start that said OK */
    PSI_ASSERT((req->status == PS_OK) == (req->err == NULL));
    if (req->status == PS_OK && req->kind == PSI_REQ_PULL && req->var->dtype == PS_STRING) { /* what is given out is whole */
        uint64_t bytes = psi_blob_bytes_min(STRINGS) + psi_blob_offset(slot->dst, STRINGS);
        PSI_ASSERT(psi_blob_check(slot->dst, bytes, STRINGS, NULL) == PS_OK);
    }
    slot->busy = false;
}

/* ---- the shell of the client ---- */

static void link_gone(void)
{
    psi_link_free(s.link);
    s.link = NULL;
    if (s.conn != NULL) {
        shell_cut(s.conn);
        s.conn = NULL;
    }
}

static void write_out(void)
{
    struct psi_outq *q = &s.link->out;
    while (psi_outq_ready(q)) {
        const struct psi_iov *iov = NULL;
        const void *hold = NULL;
        size_t hold_bytes = 0, total = 0;
        struct wire w;
        wire_init(&w);
        size_t count = psi_outq_compose(q, PS_SEND_TRY_BYTES, &iov);
        for (size_t i = 0; i < count; i++) {
            wire_append(&w, iov[i].base, iov[i].bytes);
            total += iov[i].bytes;
        }
        PSI_ASSERT(psi_outq_accepted(q, total, &hold, &hold_bytes) == PS_OK);
        if (s.conn != NULL) {
            shell_send(s.conn, &w);
        }
        wire_fini(&w);
    }
}

static void settle(void)
{
    struct psi_client_effect effect;
    for (;;) {
        struct psi_link *link = psi_client_next_dirty(s.c);
        struct psi_request *req = NULL;
        if (link != NULL) {
            PSI_ASSERT(link == s.link);
            uint64_t sent = link->out.sent_bytes;
            if (!link->closing || link->close_after_flush) {
                write_out();
            }
            if (link->closing) {
                link_gone();
            } else if (link->out.sent_bytes != sent) {
                psi_client_writable(s.c, link);
            }
        } else if (psi_client_next_effect(s.c, &effect)) {
            if (effect.kind == PSI_CLIENT_DIAL) {
                PSI_ASSERT(!s.dialing && s.link == NULL);
                s.dialing = true;
                s.dial_task = effect.task;
            }
        } else if ((req = psi_client_next_done(s.c)) != NULL) {
            req->done(req);
        } else {
            break;
        }
    }
    psi_client_check_invariants(s.c);
}

static void dialed(bool works)
{
    if (!s.dialing) {
        return;
    }
    s.dialing = false;
    s.conn = works ? shell_connect(s.task) : NULL;
    s.to_client = 0;
    s.link = psi_client_dialed(s.c, s.dial_task, s.conn == NULL ? NULL : &s, true, "refused");
    if (s.link == NULL && s.conn != NULL) {
        shell_cut(s.conn);
        s.conn = NULL;
    }
    settle();
}

static void cut(void)
{
    if (s.link != NULL) {
        psi_client_closed(s.c, s.link, NULL);
        link_gone();
        settle();
    }
}

static void pass(uint64_t ms)
{
    shell_tick(&s.net, s.task->now + ms);
    psi_client_tick(s.c, s.task->now);
    settle();
}

static void deliver_bytes(const struct wire *w)
{
    void *at = NULL;
    if (s.link == NULL || s.link->paused || posix_memalign(&at, 64, w->len + 64) != 0) {
        return;
    }
    memcpy((uint8_t *)at + s.to_client % 64, w->data, w->len);
    uint64_t from = s.to_client % 64;
    const uint8_t *p = (uint8_t *)at + from;
    size_t n = w->len;
    s.to_client += w->len;
    while (n > 0 && s.link != NULL) { /* the head apart; values to where they belong, every other time */
        size_t head = n == w->len && n > PS_FRAME_HEADER_BYTES ? PS_FRAME_HEADER_BYTES : n;
        struct places_read r = {.rest = head};
        if (s.to_client / 8 % 2 == 0) {
            r = places_read(&s.link->in, p, head);
        }
        psi_client_bytes(s.c, s.link, p + r.placed, r.rest);
        p += r.placed + r.rest;
        n -= r.placed + r.rest;
        settle();
    }
    memset(at, 0xdb, w->len + 64);
    free(at);
}

/* The frame as it came, then changed where the input says so; lengths and CRCs are right again. */
static void deliver(struct shell_frame *f, struct input *in, uint32_t changes)
{
    struct wire w;
    struct wire_frame out = {.op = f->h.op, .dtype = f->h.dtype, .flags = f->h.flags, .id = f->h.id, .handle = f->h.handle};
    out.meta_bytes = f->h.meta_bytes;
    for (uint32_t i = 0; i < changes; i++) {
        uint8_t what = byte(in), to = byte(in);
        switch (what % 8) {
        case 0:
            out.flags = (uint16_t)(out.flags ^ (1u << (to % 7)));
            break;
        case 1:
            out.id += to < 128 ? (uint64_t)(int64_t)-1 - to : to;
            break;
        case 2:
            f->h.offset = to % 3 == 0 ? to : (uint64_t)to << (to % 60);
            break;
        case 3:
            out.meta_bytes = to;
            break;
        case 4:
            f->meta[what / 8] = to;
            break;
        case 5:
            f->body.len = f->body.len > to ? f->body.len - to : 0;
            break;
        case 6:
            out.op = to < 90 ? to : out.op;
            break;
        default:
            if (f->body.len > 0) {
                f->body.data[(size_t)what * 7 % f->body.len] = to;
            }
        }
    }
    out.offset = f->h.offset;
    out.meta = f->meta;
    out.payload = f->body.data;
    out.payload_bytes = f->body.len;
    bool trailer =
        (out.flags & PS_FLAG_VALUE) != 0 || (out.op == PS_OP_PULL && (out.flags & PS_FLAG_REPLY) != 0 && out.offset == 0);
    out.trailer = trailer ? &f->trailer : NULL;
    wire_init(&w);
    PSI_IGNORE(wire_frame(&w, &out));
    deliver_bytes(&w);
    wire_fini(&w);
}

static void deliver_all(void)
{
    for (int i = 0; s.conn != NULL && i < 1000; i++) {
        struct shell_frame *f = shell_take(s.conn);
        if (f == NULL) {
            break;
        }
        deliver(f, NULL, 0);
        shell_frame_free(f);
    }
    if (s.conn != NULL && shell_is_closed(s.conn)) {
        cut();
    }
}

/* ---- requests ---- */

static bool is_list(enum psi_request_kind kind)
{
    return kind == PSI_REQ_VARS || kind == PSI_REQ_CONFIG || kind == PSI_REQ_CONTAINERS || kind == PSI_REQ_SESSIONS ||
           kind == PSI_REQ_WAITS || kind == PSI_REQ_TASKS;
}

/* What is given out is whole, whatever came. */
static void see_variable(void *ctx, const ps_variable_info *info)
{
    (void)ctx;
    PSI_ASSERT(memchr(info->name, 0, sizeof(info->name)) != NULL && info->shape.rank <= PS_RANK_MAX);
}

static void see_config(void *ctx, const struct psi_setting_seen *info)
{
    (void)ctx;
    PSI_ASSERT(strlen(info->name) < 64 && strlen(info->value) < 512);
}

static void see_container(void *ctx, const ps_container_info *info)
{
    (void)ctx;
    PSI_ASSERT(memchr(info->name, 0, sizeof(info->name)) != NULL);
}

static void see_session(void *ctx, const ps_session_info *info)
{
    (void)ctx;
    PSI_ASSERT(strlen(info->id) == 16 && info->global_step >= -1 && info->steps_per_second >= 0);
}

static void see_wait(void *ctx, const ps_wait_info *info)
{
    (void)ctx;
    PSI_ASSERT(strlen(info->id) == 16 && info->left_ms >= -1 && memchr(info->release, 0, sizeof(info->release)) != NULL);
}

static void see_task(void *ctx, const struct psi_task_seen *info)
{
    (void)ctx;
    PSI_ASSERT(memchr(info->conflict, 0, sizeof(info->conflict)) != NULL);
}

static struct psi_list_sink sink = {.variable = see_variable,
                                    .config = see_config,
                                    .container = see_container,
                                    .session = see_session,
                                    .wait = see_wait,
                                    .task = see_task};
static const struct psi_setting setting = {.name = "limit", .value = "7"};

static void start(struct input *in)
{
    static const enum psi_request_kind kinds[] = {
        PSI_REQ_GET,    PSI_REQ_PUSH,         PSI_REQ_PUSH_PULL, PSI_REQ_ASSIGN,     PSI_REQ_INIT_FROM,  PSI_REQ_ADD,
        PSI_REQ_INIT,   PSI_REQ_PULL,         PSI_REQ_STATUS,    PSI_REQ_READY,      PSI_REQ_WAIT_READY, PSI_REQ_RESET,
        PSI_REQ_DELETE, PSI_REQ_WAIT_CLUSTER, PSI_REQ_CLUSTER,   PSI_REQ_INFO,       PSI_REQ_PING,       PSI_REQ_LOOK,
        PSI_REQ_PUSH,   PSI_REQ_PULL,         PSI_REQ_VARS,      PSI_REQ_CONFIG,     PSI_REQ_CONTAINERS, PSI_REQ_SESSIONS,
        PSI_REQ_WAITS,  PSI_REQ_TASKS,        PSI_REQ_STOP,      PSI_REQ_CONFIG_SET, PSI_REQ_STOP_AT,    PSI_REQ_BARRIER};
    struct slot *slot = &s.slots[byte(in) % SLOTS];
    uint8_t kind = byte(in);
    struct psi_var *var = s.vars[byte(in) % VARS];
    if (slot->busy) {
        return;
    }
    memset(&slot->req, 0, sizeof(slot->req));
    free(slot->dst);
    bool text = var->dtype == PS_STRING;
    uint64_t size = text ? psi_blob_bytes_max(STRINGS) : var->elements * ps_dtype_bytes(var->dtype);
    slot->dst = malloc(size);
    PSI_ASSERT(slot->dst != NULL);
    slot->req.kind = kinds[kind % (sizeof(kinds) / sizeof(kinds[0]))];
    slot->req.done = on_done;
    slot->req.ctx = slot;
    slot->req.scale = 1;
    slot->req.deadline_ms = s.task->now + TIMEOUT_MS;
    bool values = (slot->req.kind >= PSI_REQ_PUSH && slot->req.kind <= PSI_REQ_ADD) || slot->req.kind == PSI_REQ_PULL;
    slot->req.var = values || slot->req.kind == PSI_REQ_GET || slot->req.kind == PSI_REQ_INIT || slot->req.kind == PSI_REQ_STATUS
                        ? var
                        : NULL;
    slot->req.bytes = values ? size : 0;
    if (text && (slot->req.kind == PSI_REQ_ASSIGN || slot->req.kind == PSI_REQ_INIT_FROM)) {
        slot->req.bytes = sizeof(strings);
    }
    slot->name = (struct psi_var_name){.container = var->container, .name = var->name};
    slot->barrier = (struct psi_barrier){.at = slot->name, .count = kind % 3};
    slot->req.src = slot->req.kind == PSI_REQ_DELETE         ? (const void *)&slot->name
                    : slot->req.kind == PSI_REQ_BARRIER      ? (const void *)&slot->barrier
                    : slot->req.kind == PSI_REQ_RESET        ? NULL
                    : slot->req.kind == PSI_REQ_READY        ? NULL
                    : slot->req.kind == PSI_REQ_CONFIG_SET   ? (const void *)&setting
                    : slot->req.kind == PSI_REQ_WAIT_CLUSTER ? (const void *)"ps"
                    : text                                   ? (const void *)strings
                                                             : source;
    bool stops = slot->req.kind == PSI_REQ_STOP || slot->req.kind == PSI_REQ_STOP_AT;
    slot->req.dst = slot->req.kind == PSI_REQ_INFO    ? (void *)&slot->info
                    : slot->req.kind == PSI_REQ_READY ? (void *)&slot->readied
                    : stops                           ? (void *)&slot->told
                    : is_list(slot->req.kind)         ? (void *)&sink
                                                      : slot->dst;
    slot->started_ms = s.task->now;
    slot->busy = true;
    struct psi_err err;
    if (psi_client_start(s.c, &slot->req, &err) != PS_OK) {
        slot->busy = false;
    }
    settle();
}

static void check_deadlines(void)
{
    for (int i = 0; i < SLOTS; i++) {
        PSI_ASSERT(!s.slots[i].busy || s.task->now < s.slots[i].started_ms + TIMEOUT_MS + 8000); /* ABANDON may take a while */
    }
}

static void start_all(void)
{
    static const struct {
        const char *name;
        ps_dtype dtype;
        int64_t elements;
        uint32_t kind;
        ps_dtype wire;
        bool atomic;
    } specs[VARS] = {{"w", PS_F32, ELEMENTS, PS_OPT_SGD, PS_DTYPE_NONE, false},
                     {"step", PS_I64, 1, PS_OPT_NONE, PS_DTYPE_NONE, false},
                     {"b", PS_F64, 100, PS_OPT_SGD, PS_DTYPE_NONE, false},
                     {"narrow", PS_F32, ELEMENTS, PS_OPT_SGD, PS_BF16, false},
                     {"atomic", PS_F32, ELEMENTS, PS_OPT_SGD, PS_F16, true},
                     {"text", PS_STRING, STRINGS, PS_OPT_NONE, PS_DTYPE_NONE, false}};
    uint8_t random[PSI_CLIENT_RANDOM_BYTES] = {9};
    struct psi_err err;
    ps_status st = PS_OK;
    memset(&s, 0, sizeof(s));
    shell_net_init(&s.net);
    s.task = shell_task_new(&s.net, "ps=h:1", "ps", 0, 1, 1000, NULL, &st);
    PSI_ASSERT(s.task != NULL);
    struct psi_client_config config = {.target = "h:1", .cluster_name = "", .job = "", .host = "here", .program = "fuzz"};
    PSI_ASSERT(psi_client_new(&config, random, s.task->now, &s.c, &err) == PS_OK);
    settle();
    for (int i = 0; i < VARS; i++) {
        ps_optimizer opt = {.kind = specs[i].kind, .learning_rate = 1};
        ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = specs[i].name, .dtype = specs[i].dtype};
        spec.shape = (ps_shape){.rank = 1, .dims = {specs[i].elements}};
        spec.optimizer = &opt;
        spec.wire_dtype = specs[i].wire;
        spec.atomic = specs[i].atomic;
        PSI_ASSERT(psi_client_variable(s.c, &spec, false, &s.vars[i], &err) == PS_OK);
        s.vars[i]->elements = (uint64_t)specs[i].elements;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input in = {.p = data, .n = bytes};
    start_all();
    for (int commands = 0; in.n > 0 && commands < COMMANDS_MAX; commands++) {
        uint8_t kind = byte(&in) % 8;
        uint8_t how = kind >= 3 ? byte(&in) : 0;
        struct shell_frame *f = NULL;
        if (kind < 3) {
            start(&in);
        } else if (kind == 3) {
            dialed(true);
            deliver_all();
        } else if (kind == 6) {
            if (s.dialing) {
                dialed(how % 4 != 0);
            } else {
                cut();
            }
        } else if (kind == 7) {
            if (how >= 200) {
                psi_mem_fail_after(how - 200);
            } else {
                pass((uint64_t)how * 5 + 1);
            }
        } else if (s.conn != NULL && (f = shell_take(s.conn)) != NULL) {
            if (kind == 4) {
                deliver(f, &in, 1 + how % 3);
            } else if (how % 2 == 1) {
                deliver(f, NULL, 0);
                deliver(f, NULL, 0);
            }
            shell_frame_free(f);
        }
        check_deadlines();
    }
    psi_mem_fail_after(-1);
    /* from here on all is well: every request ends, and the session can be left */
    for (int i = 0; i < (TIMEOUT_MS + 9000) / STEP_MS && psi_client_pending(s.c) > 0; i++) {
        dialed(true);
        deliver_all();
        pass(STEP_MS);
        check_deadlines();
    }
    for (int i = 0; i < SLOTS; i++) {
        PSI_ASSERT(!s.slots[i].busy);
    }
    PSI_ASSERT(psi_client_pending(s.c) == 0);
    cut();
    psi_client_free(s.c);
    for (int i = 0; i < SLOTS; i++) {
        free(s.slots[i].dst);
    }
    shell_net_fini(&s.net);
    return 0;
}
