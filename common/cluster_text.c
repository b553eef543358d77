/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a ClusterSpec. psi_cluster_parse() reads a spec string "ps=a:1,b:1;worker=1@c:1" (';' or a newline ends a job), or
 * an object of JSON or Python: job -> list of addresses, or job -> {index: address}. A job without tasks is read from "worker=",
 * [] or {}, and written as {}, as by TensorFlow's ClusterSpec.as_dict(). An error has line and column. */
#include "cluster_internal.h"
#include "literal.h"
#include "name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool psi_task_index_read(const char *p, size_t len, uint32_t *out)
{
    return len <= 5 && psi_digits_read(p, len, PS_TASKS_MAX - 1, out);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **from, const char **to)
{
    while (*from < *to && is_blank(**from)) {
        (*from)++;
    }
    while (*to > *from && is_blank((*to)[-1])) {
        (*to)--;
    }
}

ps_status psi_cluster_job_put_list(struct psi_cluster *c, uint32_t job, const char *hosts, size_t len, size_t *out_at,
                                   struct psi_err *err)
{
    const char *p = hosts;
    const char *end = hosts + len;
    uint32_t next = 0;
    ps_status st = PS_OK;
    trim(&p, &end);
    *out_at = len;
    for (bool more = p < end; st == PS_OK && more;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *from = p;
        const char *to = comma == NULL ? end : comma;
        more = comma != NULL;
        p = more ? comma + 1 : end;
        trim(&from, &to);
        *out_at = (size_t)(from - hosts);
        size_t digits = 0;
        while (from + digits < to && from[digits] >= '0' && from[digits] <= '9') {
            digits++;
        }
        if (digits > 0 && from + digits < to && from[digits] == '@') {
            if (!psi_task_index_read(from, digits, &next)) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s': task %.*s: a task index is at most %d", c->jobs[job].name,
                                digits > 20 ? 20 : (int)digits, from, PS_TASKS_MAX - 1);
            }
            from += digits + 1;
        }
        st = psi_cluster_job_put(c, job, next, from, (size_t)(to - from), err);
        next++;
    }
    return st;
}

static ps_status read_job(struct psi_cluster *c, const char *p, const char *end, const char **out_at, struct psi_err *err)
{
    uint32_t job = 0;
    size_t at = 0;
    trim(&p, &end);
    *out_at = p;
    const char *equals = p < end ? memchr(p, '=', (size_t)(end - p)) : NULL;
    if (equals == NULL) {
        char quoted[PSI_QUOTE_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is not of the form JOB=HOST:PORT,HOST:PORT",
                        psi_quote(quoted, sizeof(quoted), p, (size_t)(end - p)));
    }
    const char *name_end = equals;
    trim(&p, &name_end);
    ps_status st = psi_cluster_job_begin(c, p, (size_t)(name_end - p), &job, err);
    if (st == PS_OK) {
        st = psi_cluster_job_put_list(c, job, equals + 1, (size_t)(end - equals - 1), &at, err);
        *out_at = equals + 1 + at;
    }
    return st;
}

static ps_status read_spec(struct psi_cluster *c, const char *text, struct psi_err *err)
{
    const char *at = text;
    const char *line = text;
    uint32_t number = 1, jobs = 0;
    ps_status st = PS_OK;
    for (bool lines = true; st == PS_OK && lines; number += lines ? 1 : 0) {
        const char *end = line + strcspn(line, "\n");
        const char *from = line;
        const char *to = end;
        trim(&from, &to);
        at = from;
        for (bool more = from < to && *from != '#'; st == PS_OK && more;) {
            const char *semicolon = memchr(from, ';', (size_t)(to - from));
            st = read_job(c, from, semicolon == NULL ? to : semicolon, &at, err);
            more = semicolon != NULL;
            from = more ? semicolon + 1 : to;
            jobs++;
        }
        lines = st == PS_OK && *end == '\n';
        line = lines ? end + 1 : line;
    }
    if (st == PS_OK && jobs == 0) {
        st = read_job(c, at, at, &at, err); /* the text is empty: read_job() fails, and says what is missing */
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "line %u, column %u", number, (uint32_t)(at - line) + 1);
    }
    return st;
}

struct reader {
    struct psi_cluster *c;
    struct psi_literal literal;
    struct psi_token t;
    struct psi_err *err;
};

static ps_status next(struct reader *r)
{
    return psi_literal_next(&r->literal, &r->t, r->err);
}

static bool is_mark(const struct reader *r, char mark)
{
    return r->t.kind == PSI_TOKEN_MARK && r->t.mark == mark;
}

static ps_status at_token(const struct psi_token *t, ps_status st, struct psi_err *err)
{
    if (st != PS_OK) {
        psi_err_prefix(err, "line %u, column %u", t->line, t->column);
    }
    return st;
}

static ps_status expected(struct reader *r, const char *what)
{
    char found[128];
    return at_token(
        &r->t,
        psi_fail(r->err, PS_INVALID_ARGUMENT, "%s is expected, not %s", what, psi_token_describe(&r->t, found, sizeof(found))),
        r->err);
}

/* Read the token `close`, or a ',' and the token behind it. */
static ps_status next_item(struct reader *r, char close, const char *what)
{
    ps_status st = next(r);
    if (st != PS_OK || is_mark(r, close)) {
        return st;
    }
    return is_mark(r, ',') ? next(r) : expected(r, what);
}

static ps_status read_list(struct reader *r, uint32_t job, char close)
{
    uint32_t task = 0;
    ps_status st = next(r);
    while (st == PS_OK && !is_mark(r, close)) {
        if (r->t.kind != PSI_TOKEN_STRING) {
            return expected(r, "an address in quotes, or the end of the list,");
        }
        st = at_token(&r->t, psi_cluster_job_put(r->c, job, task++, r->t.text, r->t.len, r->err), r->err);
        if (st == PS_OK) {
            st = next_item(r, close, "',' or the end of the list");
        }
    }
    return st;
}

/* Read the tasks of a job, {index: address, ...}, from behind '{' to '}', into r->c. */
static ps_status read_tasks(struct reader *r, uint32_t job)
{
    ps_status st = next(r);
    while (st == PS_OK && !is_mark(r, '}')) {
        uint32_t task = 0;
        if ((r->t.kind != PSI_TOKEN_NUMBER && r->t.kind != PSI_TOKEN_STRING) ||
            !psi_task_index_read(r->t.text, r->t.len, &task)) {
            return expected(r, "a task index from 0 to 1023, or '}',");
        }
        st = next(r);
        if (st == PS_OK && !is_mark(r, ':')) {
            return expected(r, "':' and an address");
        }
        st = st == PS_OK ? next(r) : st;
        if (st == PS_OK && r->t.kind != PSI_TOKEN_STRING) {
            return expected(r, "an address in quotes");
        }
        if (st == PS_OK) {
            st = at_token(&r->t, psi_cluster_job_put(r->c, job, task, r->t.text, r->t.len, r->err), r->err);
        }
        st = st == PS_OK ? next_item(r, '}', "',' or '}'") : st;
    }
    return st;
}
_Static_assert(PS_TASKS_MAX == 1024, "read_tasks names it");

static ps_status read_pair(struct reader *r)
{
    uint32_t job = 0;
    if (r->t.kind != PSI_TOKEN_STRING) {
        return expected(r, "a job name in quotes, or '}',");
    }
    ps_status st = at_token(&r->t, psi_cluster_job_begin(r->c, r->t.text, r->t.len, &job, r->err), r->err);
    st = st == PS_OK ? next(r) : st;
    if (st == PS_OK && !is_mark(r, ':')) {
        return expected(r, "':'");
    }
    st = st == PS_OK ? next(r) : st;
    if (st != PS_OK) {
        return st;
    }
    if (is_mark(r, '[') || is_mark(r, '(')) {
        st = read_list(r, job, r->t.mark == '[' ? ']' : ')');
    } else if (is_mark(r, '{')) {
        st = read_tasks(r, job);
    } else {
        char what[PS_JOB_BYTES_MAX + 64];
        PSI_IGNORE(snprintf(what, sizeof(what), "job '%s': a list of addresses, or {index: address},", r->c->jobs[job].name));
        return expected(r, what);
    }
    return st;
}

static ps_status read_literal(struct psi_cluster *c, const char *text, struct psi_err *err)
{
    struct reader r = {.c = c, .err = err};
    psi_literal_init(&r.literal, text);
    ps_status st = next(&r);
    PSI_ASSERT(st == PS_OK && is_mark(&r, '{'));
    st = next(&r);
    while (st == PS_OK && !is_mark(&r, '}')) {
        st = read_pair(&r);
        st = st == PS_OK ? next_item(&r, '}', "',' or '}'") : st;
    }
    st = st == PS_OK ? next(&r) : st;
    return st == PS_OK && r.t.kind != PSI_TOKEN_END ? expected(&r, "the end of the text") : st;
}

static char first_byte(const char *p)
{
    for (;;) {
        p += strspn(p, " \t\r\n");
        if (*p != '#') {
            return *p;
        }
        p += strcspn(p, "\n");
    }
}

ps_status psi_cluster_parse(struct psi_cluster *c, const char *text, struct psi_err *err)
{
    struct psi_cluster work;
    psi_cluster_init(&work);
    ps_status st = psi_cluster_copy(&work, c, err);
    if (st == PS_OK) {
        st = first_byte(text) == '{' ? read_literal(&work, text, err) : read_spec(&work, text, err);
    }
    if (st == PS_OK) {
        psi_cluster_fini(c);
        *c = work;
        return PS_OK;
    }
    psi_cluster_fini(&work);
    psi_err_prefix(err, "cluster spec");
    return st;
}

ps_status psi_cluster_format(const struct psi_cluster *c, struct psi_buf *out, struct psi_err *err)
{
    size_t start = out->len;
    ps_status st = PS_OK;
    for (uint32_t j = 0; st == PS_OK && j < c->job_count; j++) {
        uint32_t expected_index = 0;
        st = psi_buf_printf(out, err, "%s%s=", j == 0 ? "" : ";", c->jobs[j].name);
        for (uint32_t t = 0; st == PS_OK && t < c->jobs[j].task_count; t++) {
            const struct psi_cluster_task *task = &c->jobs[j].tasks[t];
            const char *comma = t == 0 ? "" : ",";
            st = task->index == expected_index ? psi_buf_printf(out, err, "%s%s", comma, task->address)
                                               : psi_buf_printf(out, err, "%s%" PRIu32 "@%s", comma, task->index, task->address);
            expected_index = task->index + 1;
        }
    }
    if (st != PS_OK) {
        out->len = start;
    }
    return st;
}

/* Append a JSON string. Paths may have quotes and backslashes, but no control bytes. */
static ps_status put_string(struct psi_buf *out, const char *text, struct psi_err *err)
{
    ps_status st = psi_buf_append_text(out, "\"", err);
    for (const char *p = text; st == PS_OK && *p != '\0'; p++) {
        st = *p == '"' || *p == '\\' ? psi_buf_append_text(out, "\\", err) : PS_OK;
        st = st == PS_OK ? psi_buf_append(out, p, 1, err) : st;
    }
    return st == PS_OK ? psi_buf_append_text(out, "\"", err) : st;
}

static ps_status put_job(struct psi_buf *out, const struct psi_cluster_job *job, struct psi_err *err)
{
    bool whole = job->task_count > 0 && job->tasks[job->task_count - 1].index + 1 == job->task_count;
    ps_status st = psi_buf_printf(out, err, "\"%s\": %s", job->name, whole ? "[" : "{");
    for (uint32_t t = 0; st == PS_OK && t < job->task_count; t++) {
        st = psi_buf_append_text(out, t == 0 ? "" : ", ", err);
        if (st == PS_OK && !whole) {
            st = psi_buf_printf(out, err, "\"%" PRIu32 "\": ", job->tasks[t].index);
        }
        st = st == PS_OK ? put_string(out, job->tasks[t].address, err) : st;
    }
    return st == PS_OK ? psi_buf_append_text(out, whole ? "]" : "}", err) : st;
}

ps_status psi_cluster_format_json(const struct psi_cluster *c, struct psi_buf *out, struct psi_err *err)
{
    size_t start = out->len;
    ps_status st = psi_buf_append_text(out, "{", err);
    for (uint32_t j = 0; st == PS_OK && j < c->job_count; j++) {
        st = psi_buf_append_text(out, j == 0 ? "" : ", ", err);
        st = st == PS_OK ? put_job(out, &c->jobs[j], err) : st;
    }
    st = st == PS_OK ? psi_buf_append_text(out, "}", err) : st;
    if (st != PS_OK) {
        out->len = start;
    }
    return st;
}
