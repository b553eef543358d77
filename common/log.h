/* SPDX-License-Identifier: Apache-2.0 */
/* Log events as logfmt lines: ts=... lvl=warn ev=push_rejected conn=7 msg="...". No clock and no output of its own. */
#ifndef PSI_LOG_H
#define PSI_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSI_LOG_LINE_MAX 2048

enum psi_log_level { PSI_LOG_DEBUG = 0, PSI_LOG_INFO = 1, PSI_LOG_WARN = 2, PSI_LOG_ERROR = 3, PSI_LOG_OFF = 4 };

/** A whole line, NUL-terminated, without a newline; borrows. */
typedef void (*psi_log_write)(void *data, enum psi_log_level level, const char *line);
/** Write the time as text (psi_log_format_time) to buf. */
typedef void (*psi_log_stamp)(void *data, char *buf, size_t n);

struct psi_log {
    psi_log_write write;      /* NULL: nothing is logged */
    psi_log_stamp stamp;      /* NULL: no ts= */
    void *data;               /* handed to both */
    enum psi_log_level level; /* lower ones are dropped */
};

/**
 * Emit one event. log may be NULL. fields: "key=%s other=%u": keys and single conversions or literals, one space between
 * fields; the value of each is quoted where it needs it, whatever it contains, so a value can never become a field.
 * Conversions: %s %.*s %c %d %i %u %x with h l ll j z t, 0 and a width; %f %g %e with a precision; %%. NULL for %s is "".
 * A line over PSI_LOG_LINE_MAX is cut and ends in cut=true. Any thread as far as write and stamp allow.
 */
void psi_log_event(const struct psi_log *log, enum psi_log_level level, const char *event, const char *fields, ...)
    __attribute__((format(printf, 4, 5)));
void psi_log_vevent(const struct psi_log *log, enum psi_log_level level, const char *event, const char *fields, va_list ap)
    __attribute__((format(printf, 4, 0)));
/** Would an event of this level be written? */
bool psi_log_enabled(const struct psi_log *log, enum psi_log_level level);
/** "debug" "info" "warn" "error" "off". */
const char *psi_log_level_name(enum psi_log_level level);
/** Milliseconds since 1970 as "2024-02-29T12:34:56.789Z"; n >= 32. Returns buf. */
const char *psi_log_format_time(uint64_t unix_ms, char *buf, size_t n);

#endif
