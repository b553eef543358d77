/* SPDX-License-Identifier: Apache-2.0 */
/* psctl's session, and the messages beside its answers. The first target that answers counts (target.c). Failure modes: those of
 * the targets; a verb that must ask the user while nobody can answer: exit 2. */
#include "psctl.h"

#include "common/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WAITED_MS = 500, /* a request that took longer has waited for a task; a refused connection takes less */
    ERROR_MAX = 4608 /* room for the errors of 64 addresses in -t */
};

json_t *psctl_error_value(ps_status st, ps_reason reason, const char *text)
{
    return json_pack("{s:s, s:s, s:o}", "status", ps_status_name(st), "reason", ps_reason_name(reason), "message",
                     cli_json_text(text));
}

static void say_error(const struct psctl *c, ps_status st, ps_reason reason, const char *format, va_list ap)
    __attribute__((format(printf, 4, 0)));
static void say_error(const struct psctl *c, ps_status st, ps_reason reason, const char *format, va_list ap)
{
    char text[ERROR_MAX];
    (void)vsnprintf(text, sizeof(text), format, ap);
    psctl_add_in_all(c, reason, text, sizeof(text));
    psi_utf8_printable(text);
    psctl_leave_says(NULL);
    if (!c->quiet) {
        (void)fprintf(stderr, "psctl: %s\n", text);
    }
    if (c->json) {
        cli_json_print(json_pack("{s:o}", "error", psctl_error_value(st, reason, text)));
    }
}

void psctl_error(const struct psctl *c, ps_status st, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say_error(c, st, (ps_reason)st, format, ap);
    va_end(ap);
}

void psctl_failed(const struct psctl *c, ps_status st, ps_reason reason, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say_error(c, st, reason, format, ap);
    va_end(ap);
}

enum psctl_exit psctl_last_failed(const struct psctl *c, ps_status st)
{
    psctl_failed(c, st, ps_last_reason(), "%s", ps_last_error());
    return PSCTL_FAILED;
}

const char *psctl_change_error(const struct psctl *c, char *buf, size_t n)
{
    ps_applied applied = ps_last_applied();
    if (applied == PS_NOTHING_APPLIED) {
        (void)snprintf(buf, n, "%s", ps_last_error());
    } else {
        const char *look = c->verb->look;
        (void)snprintf(buf, n, "%s; %s may have been carried out%s%s", ps_last_error(),
                       applied == PS_OUTCOME_UNKNOWN ? "it" : "a part of it", look != NULL ? ": look with psctl " : "",
                       look != NULL ? look : "");
    }
    return buf;
}

enum psctl_exit psctl_change_failed(const struct psctl *c, ps_status st)
{
    char text[1024];
    psctl_failed(c, st, ps_last_reason(), "%s", psctl_change_error(c, text, sizeof(text)));
    return PSCTL_FAILED;
}

enum psctl_exit psctl_misused(const struct psctl *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say_error(c, PS_INVALID_ARGUMENT, (ps_reason)PS_INVALID_ARGUMENT, format, ap);
    va_end(ap);
    return PSCTL_USAGE;
}

void psctl_note(const struct psctl *c, const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    psi_utf8_printable(text);
    if (c->when == NULL) {
        (void)fprintf(stderr, "psctl: %s\n", text);
    } else if (!c->json) {
        (void)printf("%s\n", text);
    }
}

/* Drops the library's log lines: psctl prints errors itself. */
static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

int64_t psctl_left_ms(const struct psctl *c)
{
    int64_t left = c->deadline_ms - cli_clock_ms();
    return left > 50 ? left : 50;
}

static int64_t taken_ms(const struct psctl *c)
{
    return c->timeout_ms - (c->deadline_ms - cli_clock_ms());
}

void psctl_asked(struct psctl *c)
{
    c->before_ms = taken_ms(c);
}

void psctl_add_in_all(const struct psctl *c, ps_reason reason, char *text, size_t n)
{
    size_t at = strlen(text);
    if (reason == PS_REASON_NOT_CONNECTED && c->before_ms >= WAITED_MS) {
        /* a cut text is harmless */
        (void)snprintf(text + at, n - at, " (psctl has asked for %.1f s in all)", (double)taken_ms(c) / 1000);
    }
}

void psctl_restart_clock(struct psctl *c)
{
    c->before_ms = 0;
    c->deadline_ms = cli_clock_ms() + c->timeout_ms;
    ps_session_set_deadline(c->session, c->verb->each ? 0 : c->timeout_ms);
}

enum psctl_exit psctl_connect(struct psctl *c)
{
    ps_session_options o;
    if (c->all && (c->verb->flags & PSCTL_FLAG(YES)) != 0 && !c->yes && isatty(STDIN_FILENO) == 0) {
        return psctl_misused(c,
                             "%s --all asks first, and nobody can be asked: standard input is no terminal; --yes does it unasked",
                             c->verb->name);
    }
    ps_session_options_init(&o);
    o.cluster_name = NULL;
    o.container = c->container;
    o.operation_timeout_ms = c->timeout_ms;
    o.log_level = PS_LOG_ERROR;
    o.log = no_log;
    o.program = "psctl";
    o.fail_fast = true;
    o.key_file = c->key_file;
    o.tls_cert = c->tls_cert;
    o.tls_key = c->tls_key;
    o.tls_ca = c->tls_ca;
    c->room.columns = cli_terminal_columns();
    if (c->watch_ms == 0) {
        psctl_leave_begin();
    }
    return psctl_first_target(c, &o);
}

bool psctl_confirmed(struct psctl *c, const char *format, ...)
{
    char answer[16] = "";
    if (c->yes || isatty(STDIN_FILENO) == 0) {
        return true;
    }
    va_list ap;
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fputs(" [y/N] ", stderr);
    bool yes = fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
    if (!yes) {
        (void)fprintf(stderr, "psctl: nothing was done\n");
    }
    psctl_restart_clock(c);
    return yes;
}

const char *psctl_task_text(const char *job, uint32_t task, char *buf, size_t n)
{
    (void)snprintf(buf, n, job[0] == '\0' ? "-" : "/job:%s/task:%u", job, task);
    return buf;
}

json_t *psctl_task_value(const char *job, uint32_t task)
{
    char text[80];
    return json_string(job[0] != '\0' ? psctl_task_text(job, task, text, sizeof(text)) : "");
}

void psctl_disconnect(struct psctl *c)
{
    free(c->infos);
    c->infos = NULL;
    psctl_leave_hold();
    psctl_leave_session(NULL);
    (void)ps_session_close(c->session); /* no check: an error of the session was printed when it happened */
    c->session = NULL;
}
