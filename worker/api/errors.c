/* SPDX-License-Identifier: Apache-2.0 */
/* Logs and errors of the whole public API: a thread's last error, a session's first error, the checks when a call begins. */
#include "lock.h"
#include "monitored.h"

#include "common/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HELP "--help was given: nothing is done"
#define FORKED "a session belongs to the process that opened it (pid %ld); this is a child made by fork()"

enum { LOG_LINE_BYTES_MAX = 4096 }; /* PIPE_BUF of Linux: write() to a pipe does not split a line of at most this size */
static atomic_int log_fd = -1;

void ps_log_to(int fd)
{
    atomic_store(&log_fd, fd);
}

/* Write a log line of a session without a log function. */
static void write_line(enum psi_log_level level, const char *line)
{
    char text[LOG_LINE_BYTES_MAX];
    const int fd = atomic_load(&log_fd);
    if (fd < 0) {
        (void)fprintf(stderr, "%s\n", line);
        return;
    }
    const int n = snprintf(text, sizeof(text), "%d %s", (int)level, line);
    const size_t bytes = n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    text[bytes] = '\n';
    if (write(fd, text, bytes + 1) < 0) {
        return; /* the line is lost, as documented at ps_log_to() */
    }
}

static void log_line(void *data, enum psi_log_level level, const char *line)
{
    ps_session *s = data;
    (void)pthread_mutex_lock(&s->log_lock);
    if (s->log != NULL) {
        s->log(s->log_ctx, (ps_log_level)level, line);
    } else {
        write_line(level, line);
    }
    (void)pthread_mutex_unlock(&s->log_lock);
}

void psi_api_log_raw(ps_session *s, const char *line)
{
    (void)pthread_mutex_lock(&s->log_lock);
    if (s->placement_log != NULL) {
        s->placement_log(s->placement_log_ctx, PS_LOG_INFO, line);
    } else {
        write_line(PSI_LOG_INFO, line);
    }
    (void)pthread_mutex_unlock(&s->log_lock);
}

static void log_stamp(void *data, char *buf, size_t n)
{
    struct timespec now;
    (void)data;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)psi_log_format_time((uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u, buf, n);
}

void psi_api_log_fields(ps_session *s, int level, const char *event, const struct psi_kv *kv, size_t count)
{
    struct psi_log log = {.write = log_line, .stamp = log_stamp, .data = s, .level = (enum psi_log_level)s->log_level};
    psi_log_fields(&log, (enum psi_log_level)level, event, kv, count, "");
}

void psi_api_log_core(void *session, int level, const char *event, const char *fields)
{
    ps_session *s = session;
    struct psi_log log = {.write = log_line, .stamp = log_stamp, .data = s, .level = (enum psi_log_level)s->log_level};
    psi_log_fields(&log, (enum psi_log_level)level, event, NULL, 0, fields);
}

static _Thread_local struct psi_err last_error;

ps_status psi_api_last_error_set(const struct psi_err *err)
{
    last_error = *err;
    return err->code;
}

ps_status psi_api_result(const struct psi_err *err, ps_status st)
{
    return st == PS_OK ? PS_OK : psi_api_last_error_set(err);
}

void psi_api_last_error_get(struct psi_err *err)
{
    *err = last_error;
}

const char *ps_last_error(void)
{
    return last_error.text;
}

ps_applied ps_last_applied(void)
{
    return last_error.applied;
}

ps_reason ps_last_reason(void)
{
    return psi_reason(last_error.reason, last_error.code);
}

static bool is_status(ps_status st)
{
    return (unsigned)st <= PS_UNAUTHENTICATED;
}

bool psi_api_returned(ps_status st, struct psi_err *err)
{
    const bool by_a_call = last_error.code == st;
    *err = (struct psi_err){0};
    if (by_a_call) {
        *err = last_error;
    } else if (is_status(st)) {
        (void)psi_fail(err, st, "it returned %s", ps_status_name(st));
    } else {
        (void)psi_fail(err, PS_INTERNAL, "it returned %d, which is no status", (int)st);
    }
    return by_a_call;
}

ps_status psi_api_check(ps_session *s, bool may_block, struct psi_err *err)
{
    if (s == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the session is NULL");
    }
    if (!psi_api_here(s)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, FORKED, (long)s->pid);
    }
    if (s->opened != PSI_OPENED) {
        ps_status st = psi_api_sticky(s, err);
        return st != PS_OK ? st : psi_fail(err, PS_CANCELLED, HELP);
    }
    if (may_block && psi_io_on_loop(s->io)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, PSI_CALL_BLOCKS);
    }
    return PS_OK;
}

ps_status psi_api_enter(ps_session *s, bool may_block)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, may_block, &err);
    return st == PS_OK ? psi_api_sticky(s, NULL) : psi_api_last_error_set(&err);
}

bool psi_api_evaluates(const ps_session *s)
{
    return s->job[0] == 'e' && strcmp(s->job, "evaluator") == 0; /* each push calls this, and mostly one byte decides */
}

ps_status psi_api_may_change(const ps_session *s, enum psi_request_kind kind, struct psi_err *err)
{
    const bool changes = kind == PSI_REQ_PUSH || kind == PSI_REQ_PUSH_PULL || kind == PSI_REQ_ASSIGN ||
                         kind == PSI_REQ_INIT_FROM || kind == PSI_REQ_ADD || kind == PSI_REQ_INIT || kind == PSI_REQ_SET_RATE ||
                         kind == PSI_REQ_PUSH_ROWS || kind == PSI_REQ_PUSH_PULL_ROWS || kind == PSI_REQ_SCATTER ||
                         kind == PSI_REQ_DELETE || kind == PSI_REQ_RESET;
    return changes && psi_api_evaluates(s)
               ? psi_fail(err, PS_FAILED_PRECONDITION, "an evaluator reads the model and changes nothing of it")
               : PS_OK;
}

ps_status psi_api_sticky(ps_session *s, struct psi_err *err)
{
    if (!psi_api_here(s)) {
        /* the lock is not taken: in a child process, nobody might ever release it */
        return psi_fail(err, PS_FAILED_PRECONDITION, FORKED, (long)s->pid);
    }
    ps_status st = PS_OK;
    (void)pthread_mutex_lock(&s->lock);
    if (!psi_session_runs(&s->machine)) {
        const struct psi_who who = psi_api_who(s);
        st = psi_session_error(&s->machine, &who, err);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

ps_status psi_api_go_on(ps_session *s)
{
    struct psi_err err = {0};
    const ps_status st = psi_api_sticky(s, NULL);
    return st != PS_OK ? st : psi_api_result(&err, psi_api_interrupted(s, &err));
}

ps_status psi_api_last(ps_session *s, ps_status st)
{
    struct psi_err err;
    if (st == PS_OK || s == NULL) {
        return st;
    }
    const bool lost = s->monitor != NULL && (psi_monitor_tell(s, PSI_MAY_RECOVER, 0) != 0 || atomic_load(&s->ends));
    if (lost && psi_api_interrupted(s, &err) != PS_OK) { /* the interrupt came first: report it, not the lost session */
        return psi_api_last_error_set(&err);
    }
    if (psi_api_sticky(s, &err) == st) {
        PSI_IGNORE(psi_api_last_error_set(&err)); /* st is the status of the session's first error, whose text explains it */
    }
    return st;
}

static ps_status stick(ps_session *s, const struct psi_err *err, bool final)
{
    if (!psi_api_here(s) || psi_api_is_interrupt(err) || s->opened == PSI_OPENED_HELP) {
        return err->code; /* an interrupt, and an error in a forked child or with --help, does not stick */
    }
    struct psi_err named = *err;
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    if (!who.on_loop) { /* on the loop thread the error is of a request, not of a hook */
        psi_api_hook_name(s, &who, &named);
    }
    const enum psi_stuck how = psi_session_fails(&s->machine, &who, &named, final);
    const ps_status now = psi_session_error(&s->machine, &who, NULL);
    const ps_status st = now != PS_OK ? now : s->machine.cause.code;
    const bool said = (how == PSI_STUCK_FIRST || how == PSI_STUCK_LOSS) && !psi_session_only_closes(&s->machine, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (said) {
        psi_api_log(s, how == PSI_STUCK_LOSS ? PS_LOG_WARN : PS_LOG_ERROR,
                    how == PSI_STUCK_LOSS ? "session_lost" : "session_failed", PSI_KV("st", ps_status_name(err->code)),
                    PSI_KV("reason", ps_reason_name(psi_reason(err->reason, err->code))),
                    PSI_KV("applied", psi_applied_name(err->applied)), PSI_KV("msg", named.text));
    }
    return st;
}

ps_status psi_api_stick(ps_session *s, const struct psi_err *err)
{
    return stick(s, err, false);
}

ps_status psi_api_refused(ps_session *s, struct psi_err *err, const char *call)
{
    psi_err_prefix(err, "%s", call);
    PSI_IGNORE(psi_api_last_error_set(err)); /* the thread's last error is *err, even if the session has an earlier one */
    return psi_api_stick(s, err);
}

ps_status psi_api_stick_final(ps_session *s, const struct psi_err *err)
{
    return stick(s, err, true);
}

ps_status psi_api_may_start(ps_session *s, struct psi_err *err)
{
    return psi_api_interrupted(s, err) != PS_OK ? PS_CANCELLED : psi_api_may_clear(s, err);
}

ps_status psi_api_may_clear(ps_session *s, struct psi_err *err)
{
    if (psi_session_runs(&s->machine)) {
        return PS_OK;
    }
    const struct psi_who who = psi_api_who(s);
    return psi_session_may_start(&s->machine, &who, err);
}

ps_status ps_session_status(ps_session *s)
{
    return s == NULL ? PS_INVALID_ARGUMENT : psi_api_sticky(s, NULL);
}

const char *ps_session_error(ps_session *s)
{
    if (s == NULL || s->opened == PSI_OPENED_HELP) {
        return s == NULL ? "the session is NULL" : HELP;
    }
    if (s->monitor == NULL && psi_api_here(s)) {
        return psi_api_sticky(s, NULL) == PS_OK ? "" : s->machine.error.text; /* the text is written once */
    }
    /* copied, because a recovery clears the session's error, and a child process has none */
    static _Thread_local struct psi_err shown;
    memset(&shown, 0, sizeof(shown));
    PSI_IGNORE(psi_api_sticky(s, &shown)); /* "" if there is none */
    return shown.text;
}

ps_applied ps_session_error_applied(ps_session *s)
{
    struct psi_err err = {0};
    if (s != NULL) {
        PSI_IGNORE(psi_api_sticky(s, &err)); /* zeroed if there is none */
    }
    return err.applied;
}

ps_reason ps_session_reason(ps_session *s)
{
    struct psi_err err = {.code = PS_INVALID_ARGUMENT};
    ps_status st = s == NULL ? PS_INVALID_ARGUMENT : psi_api_sticky(s, &err);
    return psi_reason(err.reason, st);
}

ps_status ps_session_fail(ps_session *s, ps_status st, const char *text)
{
    struct psi_err err = {0};
    if (s == NULL || st == PS_OK) {
        return s == NULL ? PS_INVALID_ARGUMENT : ps_session_status(s);
    }
    if (psi_monitor_says(s, st)) {
        return st;
    }
    (void)psi_fail(&err, is_status(st) ? st : PS_INTERNAL, "%s", text == NULL ? "" : text);
    if (!is_status(st)) {
        psi_err_prefix(&err, "%d, which is no status", (int)st);
    }
    return psi_api_stick_final(s, &err);
}
