/* SPDX-License-Identifier: Apache-2.0 */
/* Status names and error detail. psi_fail() formats into the caller's psi_err. Texts may contain a peer's bytes, so
 * control bytes become spaces and bytes that are not UTF-8 become '?'; a text that is too long is cut between characters. */
#include "status.h"

#include "utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ps_status_name(ps_status st)
{
    static const char *const names[] = {
        [PS_OK] = "OK",
        [PS_CANCELLED] = "CANCELLED",
        [PS_UNKNOWN] = "UNKNOWN",
        [PS_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [PS_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [PS_NOT_FOUND] = "NOT_FOUND",
        [PS_ALREADY_EXISTS] = "ALREADY_EXISTS",
        [PS_PERMISSION_DENIED] = "PERMISSION_DENIED",
        [PS_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
        [PS_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
        [PS_ABORTED] = "ABORTED",
        [PS_OUT_OF_RANGE] = "OUT_OF_RANGE",
        [PS_UNIMPLEMENTED] = "UNIMPLEMENTED",
        [PS_INTERNAL] = "INTERNAL",
        [PS_UNAVAILABLE] = "UNAVAILABLE",
        [PS_DATA_LOSS] = "DATA_LOSS",
        [PS_UNAUTHENTICATED] = "UNAUTHENTICATED",
    };
    unsigned int i = (unsigned int)st;
    return i < sizeof(names) / sizeof(names[0]) ? names[i] : "INVALID_STATUS";
}

const char *ps_reason_name(ps_reason reason)
{
    switch (reason) {
    case PS_REASON_NONE:
        return "NONE";
#define NAME(name, number, text)                                                                                                 \
    case PS_REASON_##name:                                                                                                       \
        return #name;
        PS_REASONS(NAME)
#undef NAME
    }
    return (unsigned int)reason <= PS_UNAUTHENTICATED ? ps_status_name((ps_status)reason) : "UNKNOWN_REASON";
}

const char *ps_reason_text(ps_reason reason)
{
    switch (reason) {
    case PS_REASON_NONE:
        return "no error";
#define TEXT(name, number, text)                                                                                                 \
    case PS_REASON_##name:                                                                                                       \
        return text;
        PS_REASONS(TEXT)
#undef TEXT
    }
    return "no more is known than the status";
}

const char *psi_applied_name(ps_applied applied)
{
    switch (applied) {
    case PS_NOTHING_APPLIED:
        return "nothing applied";
    case PS_MAYBE_PARTLY_APPLIED:
        return "may be partly applied";
    case PS_OUTCOME_UNKNOWN:
        return "outcome unknown";
    }
    return "outcome unknown"; /* a number that only newer servers know */
}

/* Make the text UTF-8 without control bytes. was_cut: the last character may be incomplete. */
static void clean_text(char *text, bool was_cut)
{
    size_t len = strlen(text);
    size_t i = 0;
    while (i < len) {
        unsigned char *p = (unsigned char *)&text[i];
        size_t bytes = psi_utf8_bytes(&text[i], len - i);
        if (bytes == 0) {
            if (was_cut && len - i < 4 && *p >= 0xc2) {
                text[i] = '\0';
                return;
            }
            *p = '?';
            bytes = 1;
        } else if (*p < 0x20 || *p == 0x7f) {
            *p = ' ';
        }
        i += bytes;
    }
}

static void fail(struct psi_err *err, ps_status st, ps_reason reason, const char *format, va_list ap)
    __attribute__((format(printf, 4, 0)));
static void fail(struct psi_err *err, ps_status st, ps_reason reason, const char *format, va_list ap)
{
    if (err == NULL) {
        return;
    }
    err->code = st;
    err->applied = PS_NOTHING_APPLIED;
    err->reason = reason;
    err->unreached = false;
    int n = vsnprintf(err->text, sizeof(err->text), format, ap);
    if (n < 0) {
        err->text[0] = '\0';
    }
    clean_text(err->text, n >= (int)sizeof(err->text));
}

ps_status psi_fail(struct psi_err *err, ps_status st, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fail(err, st, PS_REASON_NONE, format, ap);
    va_end(ap);
    return st;
}

ps_status psi_fail_as(struct psi_err *err, ps_status st, ps_reason reason, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fail(err, st, reason, format, ap);
    va_end(ap);
    return st;
}

ps_reason psi_reason(ps_reason reason, ps_status st)
{
    return st == PS_OK ? PS_REASON_NONE : reason != PS_REASON_NONE ? reason : (ps_reason)st;
}

static ps_status status_of_errno(int why)
{
    switch (why) {
    case ENOENT:
        return PS_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return PS_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return PS_RESOURCE_EXHAUSTED;
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
        return PS_INVALID_ARGUMENT;
    case ESTALE:
        return PS_FAILED_PRECONDITION;
    case EIO:
        return PS_DATA_LOSS;
    default:
        return PS_UNKNOWN;
    }
}

static const char *hint_of_errno(int why)
{
    switch (why) {
    case EFBIG:
        return " (a limit on the size of files, ulimit -f)";
    case ESTALE:
        return " (the directory was moved, removed or replaced)";
    case ENOSPC:
        return " (the disk is full, or out of inodes)";
    default:
        return "";
    }
}

ps_status psi_fail_errno(struct psi_err *err, int why, const char *what, const char *path)
{
    char text[256];
    char shown[PSI_PATH_SHOWN];
    ps_reason reason = why == ENOSPC || why == EDQUOT ? PS_REASON_DISK_FULL : PS_REASON_NONE;
    return psi_fail_as(err, status_of_errno(why), reason, "%s%s%s: %s%s",
                       psi_utf8_shorten(path == NULL ? "" : path, shown, sizeof(shown)), path == NULL ? "" : ": ", what,
                       strerror_r(why, text, sizeof(text)), hint_of_errno(why));
}

void psi_err_prefix(struct psi_err *err, const char *format, ...)
{
    if (err == NULL || err->code == PS_OK) {
        return;
    }
    char text[PSI_ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (n < 0) {
        return;
    }
    size_t used = strlen(text);
    int rest = snprintf(text + used, sizeof(text) - used, ": %s", err->text);
    clean_text(text, rest < 0 || used + (size_t)rest >= sizeof(text));
    memcpy(err->text, text, strlen(text) + 1);
}

void psi_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    abort();
}
