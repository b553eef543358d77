/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a file in Chrome's trace event format (Google, "Trace Event Format", JSON object form), for Perfetto and
 * chrome://tracing; and ps_trace_next_step(), which traces the next step of a session.
 *
 * Happy path: ps_trace_next_step() checks that the file can be made, and starts the recorder (worker/api/trace.h). ps_step_done()
 * ends it; all events are written into a buffer, and the file appears. A run of a plan writes its own trace by psi_trace_write().
 * Every span is a complete event ("X"); times are microseconds since the trace began. Events of one track (pid and tid) must
 * nest, or viewers drop some. A thread is a track, because its spans nest. Requests to a task overlap, so they get several tracks
 * ("lanes"); each request takes the first free one.
 *
 * Failure modes: the file cannot be made: an error at once; the disk is full in the end: ps_trace_status(), a log line, no file.
 */
#include "files.h"

#include "common/form.h"
#include "common/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PID_PROGRAM = 1, PID_TASKS = 2, LANES_MAX = 1024, FILE_BYTES_MAX = 1 << 28, GAP_NS = 1000, DEPTH_MAX = 64 };

struct writer {
    struct psi_trace *trace;
    struct psi_buf out;
    struct psi_err err;
    ps_status st; /* PS_OK until memory is lacking */
    bool comma;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    const int n = vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    PSI_ASSERT(n >= 0 && (size_t)n < sizeof(text)); /* fits: it has only numbers and constants; other texts go to put_text() */
    if (w->st == PS_OK) {
        w->st = psi_buf_append(&w->out, text, (size_t)n, &w->err);
    }
}

/* Write text as a JSON string. Each byte that is not printable ASCII becomes '?'. */
static void put_text(struct writer *w, const char *text)
{
    put(w, "\"");
    for (const char *at = text; *at != '\0' && w->st == PS_OK; at++) {
        const unsigned char ch = (unsigned char)*at;
        const char plain = ch < 0x20 || ch >= 0x7f ? '?' : (char)ch;
        if (plain == '"' || plain == '\\') {
            put(w, "\\");
        }
        w->st = w->st == PS_OK ? psi_buf_append(&w->out, &plain, 1, &w->err) : w->st;
    }
    put(w, "\"");
}

static void event(struct writer *w, char phase, uint32_t pid, uint32_t tid, const char *name)
{
    put(w, "%s\n{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"name\":", w->comma ? "," : "", phase, pid, tid);
    put_text(w, name);
    w->comma = true;
}

static double us(const struct writer *w, uint64_t ns)
{
    return ns > w->trace->begun_ns ? (double)(ns - w->trace->begun_ns) / 1000 : 0;
}

static void span(struct writer *w, uint32_t pid, uint32_t tid, const char *cat, const char *name, uint64_t from, uint64_t to)
{
    event(w, 'X', pid, tid, name);
    put(w, ",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f", cat, us(w, from), to > from ? us(w, to) - us(w, from) : 0);
}

static void leaf(struct writer *w, uint32_t pid, uint32_t tid, const char *cat, const char *name, uint64_t from, uint64_t to)
{
    span(w, pid, tid, cat, name, from, to);
    put(w, "}");
}

static void name_of(struct writer *w, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
    event(w, 'M', pid, tid, what);
    put(w, ",\"args\":{\"name\":");
    put_text(w, name);
    put(w, "}}");
}

/* qsort(): by thread; then by begin, and a span before those that it contains. */
static int by_thread(const void *a, const void *b)
{
    const struct psi_span *x = a, *y = b;
    if (x->thread != y->thread) {
        return x->thread < y->thread ? -1 : 1;
    }
    if (x->begun_ns != y->begun_ns) {
        return x->begun_ns < y->begun_ns ? -1 : 1;
    }
    return (x->ended_ns < y->ended_ns) - (x->ended_ns > y->ended_ns);
}

/* A span that may get more inner spans. covered_ns: end of its last inner span. parent: it has an inner span. */
struct open {
    const struct psi_span *span;
    uint64_t covered_ns;
    bool parent;
};

/* Write a span "self" from the end of the last inner span of `of` to time `to`, so that spans cover all of a step's time. */
static void fill(struct writer *w, const struct open *of, bool root, uint64_t to)
{
    if (of->parent && to > of->covered_ns + GAP_NS) {
        leaf(w, PID_PROGRAM, of->span->thread, "self", root && w->trace->of_step ? "program" : of->span->name, of->covered_ns,
             to);
    }
}

static void close_spans(struct writer *w, struct open *stack, size_t *depth, uint64_t until_ns)
{
    while (*depth > 0 && stack[*depth - 1].span->ended_ns <= until_ns) {
        const struct open *top = &stack[--*depth];
        fill(w, top, *depth == 0 && top->span->thread == w->trace->thread, top->span->ended_ns);
        if (*depth > 0) {
            stack[*depth - 1].covered_ns = top->span->ended_ns;
        }
    }
}

static void put_threads(struct writer *w)
{
    struct psi_trace *t = w->trace;
    struct open stack[DEPTH_MAX];
    size_t depth = 0;
    qsort(t->spans, t->span_count, sizeof(*t->spans), by_thread);
    for (size_t i = 0; i < t->span_count; i++) {
        const struct psi_span *s = &t->spans[i];
        if (i == 0 || t->spans[i - 1].thread != s->thread) {
            close_spans(w, stack, &depth, UINT64_MAX);
            name_of(w, "thread_name", PID_PROGRAM, s->thread, s->thread == t->thread ? "program" : "program, another thread");
        }
        close_spans(w, stack, &depth, s->begun_ns);
        if (depth > 0) {
            fill(w, &stack[depth - 1], depth == 1 && s->thread == t->thread, s->begun_ns);
            stack[depth - 1].parent = true;
        }
        leaf(w, PID_PROGRAM, s->thread, s->cat, s->name, s->begun_ns, s->ended_ns);
        if (depth < DEPTH_MAX) {
            stack[depth++] = (struct open){.span = s, .covered_ns = s->begun_ns};
        }
    }
    close_spans(w, stack, &depth, UINT64_MAX);
}

/* Cut all spans to the trace's begin and end, and add a span for the whole trace to its thread. */
static void add_root(struct writer *w)
{
    struct psi_trace *t = w->trace;
    for (size_t i = 0; i < t->span_count; i++) {
        struct psi_span *s = &t->spans[i];
        s->begun_ns = s->begun_ns < t->begun_ns ? t->begun_ns : s->begun_ns;
        s->ended_ns = s->ended_ns > t->ended_ns ? t->ended_ns : s->ended_ns;
        s->ended_ns = s->ended_ns < s->begun_ns ? s->begun_ns : s->ended_ns;
    }
    struct psi_span *more = psi_realloc(t->spans, (t->span_count + 1) * sizeof(*more));
    if (more == NULL) {
        w->st = psi_fail(&w->err, PS_RESOURCE_EXHAUSTED, "out of memory for a trace");
        return;
    }
    t->spans = more;
    t->span_capacity = t->span_count + 1;
    struct psi_span *root = &t->spans[t->span_count++];
    *root = (struct psi_span){.begun_ns = t->begun_ns, .ended_ns = t->ended_ns, .thread = t->thread, .cat = t->root};
    (void)snprintf(root->name, sizeof(root->name), "%s", t->root);
}

static int by_task(const void *a, const void *b)
{
    const struct psi_exchange *x = a, *y = b;
    if (x->task != y->task) {
        return x->task < y->task ? -1 : 1;
    }
    return x->begun_ns != y->begun_ns ? (x->begun_ns < y->begun_ns ? -1 : 1) : 0;
}

/* Write the durations that the ps task has reported, one behind the other, in the middle of the request's span: the clocks of two
 * machines cannot be compared. If the task's clock runs faster, the durations may exceed the span, and are cut. */
static void put_parts(struct writer *w, uint32_t pid, uint32_t lane, const struct psi_exchange *x, uint64_t from, uint64_t to)
{
    uint64_t left = to - from, sum = 0;
    for (size_t i = 0; i < PSI_EXCHANGE_PARTS; i++) {
        sum += x->parts_ns[i] < left - sum ? x->parts_ns[i] : left - sum;
    }
    uint64_t at = from + (left - sum) / 2;
    const uint64_t end = at + sum;
    for (size_t i = 0; i < PSI_EXCHANGE_PARTS; i++) {
        const uint64_t until = x->parts_ns[i] < end - at ? at + x->parts_ns[i] : end;
        if (until > at) {
            leaf(w, pid, lane, "server", x->part_names[i], at, until);
        }
        at = until;
    }
}

static void put_exchange(struct writer *w, uint32_t pid, uint32_t lane, const struct psi_exchange *x)
{
    char name[PS_NAME_BYTES_MAX + 32];
    const uint64_t end = x->ended_ns != 0 ? x->ended_ns : w->trace->ended_ns;
    const uint64_t begun = x->begun_ns < end ? x->begun_ns : end;
    const uint64_t sent = x->sent_ns == 0 || x->sent_ns > end ? end : x->sent_ns < begun ? begun : x->sent_ns;
    (void)snprintf(name, sizeof(name), "%s%s%s", psi_op_name(x->op), x->name[0] != '\0' ? " " : "", x->name);
    span(w, pid, lane, "request", name, begun, end);
    put(w, ",\"args\":{\"bytes\":%" PRIu64 ",\"status\":\"%s\"", x->bytes,
        x->ended_ns == 0 ? "unanswered" : ps_status_name(x->status));
    if (x->part_names != NULL) {
        uint64_t server = 0;
        for (size_t i = 0; i < PSI_EXCHANGE_PARTS; i++) {
            server += x->parts_ns[i];
        }
        const uint64_t way = end - sent;
        put(w, ",\"server_us\":%.3f,\"link_us\":%.3f", (double)server / 1000, way > server ? (double)(way - server) / 1000 : 0);
    }
    put(w, "}}");
    if (sent > begun) {
        leaf(w, pid, lane, "client", "not sent yet", begun, sent);
    }
    if (x->part_names != NULL) {
        put_parts(w, pid, lane, x, sent, end); /* may cut durations, whose full sum is in server_us */
    }
}

/* Give a task's row in the viewer its name: "/job:ps/task:0 127.0.0.1:2222". */
static void name_task(struct writer *w, uint32_t pid, const struct psi_exchange *x)
{
    ps_session *s = w->trace->session;
    char text[PSI_TASK_NAME_MAX + PS_ADDRESS_BYTES_MAX + 16];
    (void)snprintf(text, sizeof(text), "%s", x->task_name);
    (void)pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (s->tasks[i].index == x->task) {
            (void)snprintf(text, sizeof(text), "%s %s", x->task_name, s->tasks[i].address);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    name_of(w, "process_name", pid, 0, text);
}

static void put_tasks(struct writer *w)
{
    struct psi_exchanges *e = &w->trace->exchanges;
    uint64_t lanes[LANES_MAX]; /* [lane_count]: when the last request of each lane ended */
    uint32_t lane_count = 0;
    if (e->count > 0) {
        qsort(e->at, e->count, sizeof(*e->at), by_task);
    }
    for (size_t i = 0; i < e->count; i++) {
        const struct psi_exchange *x = &e->at[i];
        const uint32_t pid = PID_TASKS + x->task;
        uint32_t lane = 0;
        if (i == 0 || e->at[i - 1].task != x->task) {
            name_task(w, pid, x);
            lane_count = 0;
        }
        while (lane < lane_count && lanes[lane] > x->begun_ns) {
            lane++;
        }
        if (lane == LANES_MAX) {
            e->left_out++; /* no lane is free: unexpected, because no session has so many requests under way at one task */
            continue;
        }
        if (lane == lane_count) {
            lane_count++;
            name_of(w, "thread_name", pid, lane, "requests");
        }
        lanes[lane] = x->ended_ns != 0 ? x->ended_ns : UINT64_MAX;
        put_exchange(w, pid, lane, x);
    }
}

static ps_status write_file(struct writer *w, const char *path)
{
    struct psi_file_target target;
    ps_status st = psi_file_target_open(&target, path, &w->err);
    st = st == PS_OK ? psi_file_target_write(&target, w->out.data, w->out.len, 0, &w->err) : st;
    st = st == PS_OK ? psi_file_target_commit(&target, &w->err) : st;
    psi_file_target_close(&target);
    return st;
}

static ps_status put_all(struct writer *w)
{
    struct psi_trace *t = w->trace;
    char program[PSI_TASK_NAME_MAX + 16] = "client";
    if (t->session->job[0] != '\0') {
        (void)psi_task_name_format(program, sizeof(program), t->session->job, t->session->task);
    }
    add_root(w);
    put(w, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    name_of(w, "process_name", PID_PROGRAM, 0, program);
    put_threads(w);
    put_tasks(w);
    put(w, "\n],\"otherData\":{\"version\":\"psd %s\",\"left_out\":%" PRIu64 "}}\n", ps_version(),
        t->left_out + t->exchanges.left_out);
    return w->st;
}

ps_status psi_trace_write(struct psi_trace *t, const char *path, uint64_t *out_bytes, struct psi_err *err)
{
    struct writer w = {.trace = t};
    psi_err_none(&w.err);
    psi_buf_init(&w.out, FILE_BYTES_MAX);
    ps_status st = put_all(&w);
    st = st == PS_OK ? write_file(&w, path) : st;
    *out_bytes = w.out.len;
    psi_buf_fini(&w.out);
    if (st != PS_OK) {
        *err = w.err;
    }
    return st;
}

/* A psi_trace_over_fn, called when the traced step has ended: writes the trace to the path in t->ctx, and frees the path. */
static void step_over(struct psi_trace *t)
{
    ps_session *s = t->session;
    char *path = t->ctx;
    uint64_t bytes = 0;
    struct psi_err err;
    psi_err_none(&err);
    const ps_status st = psi_trace_write(t, path, &bytes, &err);
    psi_err_prefix(st == PS_OK ? NULL : &err, "trace of a step");
    err.code = st;
    if (st == PS_OK) {
        psi_api_log(s, PS_LOG_INFO, "trace_written", PSI_KV("file", path), PSI_KV("bytes", bytes));
    } else {
        psi_api_log(s, PS_LOG_WARN, "trace_failed", PSI_KV("file", path), PSI_KV("msg", err.text));
    }
    (void)pthread_mutex_lock(&s->lock);
    s->traced = err;
    (void)pthread_mutex_unlock(&s->lock);
    psi_free(path);
}

ps_status psi_trace_check(const char *path, struct psi_err *err)
{
    if (path == NULL || path[0] == '\0') {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the file's name is %s", path == NULL ? "NULL" : "empty");
    }
    struct psi_file_target target;
    const ps_status st = psi_file_target_open(&target, path, err);
    psi_file_target_close(&target);
    return st;
}

static ps_status begin(ps_session *s, const char *path, struct psi_err *err)
{
    ps_status st = psi_api_check(s, true, err);
    st = st == PS_OK ? psi_trace_check(path, err) : st;
    if (st != PS_OK) {
        return st;
    }
    struct psi_trace *t = psi_calloc(1, sizeof(*t));
    char *copy = psi_strndup(path, strlen(path));
    if (t == NULL || copy == NULL) {
        psi_free(t);
        psi_free(copy);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    t->root = "step";
    t->over = step_over;
    t->ctx = copy;
    t->of_step = true;
    (void)pthread_mutex_lock(&s->lock);
    const struct psi_err before = s->traced;
    (void)psi_fail(&s->traced, PS_UNAVAILABLE, "trace of a step into %s: the step is not over", path);
    (void)pthread_mutex_unlock(&s->lock);
    st = psi_trace_begin(s, t, err);
    if (st != PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        s->traced = before;
        (void)pthread_mutex_unlock(&s->lock);
        psi_free(copy);
        psi_free(t);
    }
    return st;
}

ps_status ps_trace_next_step(ps_session *s, const char *file)
{
    struct psi_err err = {0};
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    const ps_status st = begin(s, file, &err);
    psi_err_prefix(st == PS_OK ? NULL : &err, "ps_trace_next_step");
    psi_api_end(s);
    return psi_api_result(&err, st);
}

ps_status ps_trace_status(ps_session *s)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, false, &err);
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        err = s->traced;
        (void)pthread_mutex_unlock(&s->lock);
        st = err.code;
    }
    return psi_api_result(&err, st);
}
