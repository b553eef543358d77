/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file of the public API leans on: log lines, the calling thread's last error, the session's first one, and what every
 * call looks for before all else. Happy path: nothing is wrong. Failure: this is where it is kept.
 */
#include "api.h"

#include "common/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FORKED "a session belongs to the process that opened it (pid %ld); this is a child made by fork()"

/* ---- log ---- */

static void log_line(void *data, enum psi_log_level level, const char *line)
{
    ps_session *s = data;
    (void)pthread_mutex_lock(&s->log_lock);
    if (s->log != NULL) {
        s->log(s->log_ctx, (ps_log_level)level, line);
    } else {
        (void)fprintf(stderr, "%s\n", line);
    }
    (void)pthread_mutex_unlock(&s->log_lock);
}

void psi_api_log_raw(ps_session *s, const char *line)
{
    (void)pthread_mutex_lock(&s->log_lock);
    if (s->placement_log != NULL) {
        s->placement_log(s->placement_log_ctx, PS_LOG_INFO, line);
    } else {
        (void)fprintf(stderr, "%s\n", line);
    }
    (void)pthread_mutex_unlock(&s->log_lock);
}

static void log_stamp(void *data, char *buf, size_t n)
{
    struct timespec now;
    (void)data;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
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

/* ---- the last error of a thread ---- */

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

/* ---- the first error of a session ---- */

ps_status psi_api_check(ps_session *s, bool may_block, struct psi_err *err)
{
    if (s == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the session is NULL");
    }
    if (!psi_api_here(s)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, FORKED, (long)s->pid);
    }
    if (s->io == NULL) {
        ps_status st = psi_api_sticky(s, err);
        return st != PS_OK ? st : psi_fail(err, PS_CANCELLED, "--help was given: nothing is done");
    }
    if (may_block && psi_io_on_loop(s->io)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "a call that blocks cannot be made in a callback of the library");
    }
    return PS_OK;
}

ps_status psi_api_sticky(ps_session *s, struct psi_err *err)
{
    if (!psi_api_here(s)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, FORKED,
                        (long)s->pid); /* the lock may be held by a thread that is not here */
    }
    (void)pthread_mutex_lock(&s->lock);
    ps_status st = s->error.code;
    if (st != PS_OK && err != NULL) {
        *err = s->error;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

ps_status psi_api_stick(ps_session *s, const struct psi_err *err)
{
    if (!psi_api_here(s)) {
        return err->code;
    }
    (void)pthread_mutex_lock(&s->lock);
    bool first = s->error.code == PS_OK && err->code != PS_OK;
    if (first) {
        s->error = *err;
    }
    ps_status st = s->error.code;
    (void)pthread_mutex_unlock(&s->lock);
    if (first) {
        psi_api_log(s, PS_LOG_ERROR, "session_failed", PSI_KV("st", ps_status_name(err->code)),
                    PSI_KV("reason", ps_reason_name(psi_reason(err->reason, err->code))),
                    PSI_KV("applied", psi_applied_name(err->applied)), PSI_KV("msg", err->text));
    }
    return st;
}

ps_status ps_session_status(ps_session *s)
{
    return s == NULL ? PS_INVALID_ARGUMENT : psi_api_sticky(s, NULL);
}

const char *ps_session_error(ps_session *s)
{
    return s == NULL ? "the session is NULL" : s->error.text; /* written once, before its code is seen */
}

ps_applied ps_session_error_applied(ps_session *s)
{
    struct psi_err err = {0};
    if (s != NULL) {
        PSI_IGNORE(psi_api_sticky(s, &err)); /* all zero where there is no error */
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
    (void)psi_fail(&err, st, "%s", text == NULL ? "" : text);
    return psi_api_stick(s, &err);
}
