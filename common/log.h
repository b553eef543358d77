/* SPDX-License-Identifier: Apache-2.0 */
/* Log events as logfmt lines: ts=... lvl=warn ev=push_rejected conn=7 msg="...". The program's functions give time and output. */
#ifndef PSI_LOG_H
#define PSI_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSI_LOG_LINE_MAX 2048

enum psi_log_level { PSI_LOG_DEBUG = 0, PSI_LOG_INFO = 1, PSI_LOG_WARN = 2, PSI_LOG_ERROR = 3, PSI_LOG_OFF = 4 };

/** Writes a whole line, NUL-terminated, without a newline; borrows. */
typedef void (*psi_log_write)(void *data, enum psi_log_level level, const char *line);
/** Writes the time as text (psi_log_format_time()) to buf. */
typedef void (*psi_log_stamp)(void *data, char *buf, size_t n);

struct psi_log {
    psi_log_write write; /* NULL: nothing is logged */
    psi_log_stamp stamp; /* NULL: no ts= */
    void *data;
    enum psi_log_level level;
};

/* One field, key=value: PSI_KV(). A value is quoted if necessary, so that no part of the value can be taken for a field. */
struct psi_kv {
    const char *key;
    enum { PSI_KV_TEXT, PSI_KV_U64, PSI_KV_I64 } kind;
    const char *text; /* borrows */
    size_t len;
    uint64_t u64;
    int64_t i64;
};
struct psi_kv psi_kv_bytes(const char *key, const void *p, size_t n);
struct psi_kv psi_kv_text(const char *key, const char *value); /* value NULL counts as "" */
struct psi_kv psi_kv_u64(const char *key, uint64_t value);
struct psi_kv psi_kv_i64(const char *key, int64_t value);
/** Make a field from a text or a whole number: PSI_KV("peer", text), PSI_KV("count", n). A bool is written as 0 or 1. */
#ifdef __cppcheck__ /* cppcheck 2.10 crashes on some forms of psi_kv_any() */
struct psi_kv psi_kv_any(const char *key, ...);
#define PSI_KV(key_, value_) psi_kv_any(key_, value_)
#else
#define PSI_KV(key_, value_)                                                                                                     \
    _Generic((value_), char *                                                                                                    \
             : psi_kv_text, const char *                                                                                         \
             : psi_kv_text, bool                                                                                                 \
             : psi_kv_u64, unsigned char                                                                                         \
             : psi_kv_u64, unsigned short                                                                                        \
             : psi_kv_u64, unsigned int                                                                                          \
             : psi_kv_u64, unsigned long                                                                                         \
             : psi_kv_u64, unsigned long long                                                                                    \
             : psi_kv_u64, int                                                                                                   \
             : psi_kv_i64, long                                                                                                  \
             : psi_kv_i64, long long                                                                                             \
             : psi_kv_i64)(key_, value_)
#endif
#define PSI_KV_BYTES(key_, p_, n_) psi_kv_bytes(key_, p_, n_)
/** PSI_KVS(PSI_KV(...), ...) gives two arguments of the functions below: fields and their count. */
#define PSI_KVS(...) (const struct psi_kv[]){__VA_ARGS__}, sizeof((const struct psi_kv[]){__VA_ARGS__}) / sizeof(struct psi_kv)

/** Emit one event: psi_log_event(log, level, "ev", PSI_KV(...), ...). log may be NULL. A line over PSI_LOG_LINE_MAX is cut and
 * ends in cut=true. May be called on every thread on which log->write and log->stamp may be called. */
#define psi_log_event(log_, level_, event_, ...) psi_log_fields(log_, level_, event_, PSI_KVS(__VA_ARGS__), "")
/** psi_log_event() with an array of fields. more: further fields as text, made by psi_log_format(); "": there are none. */
void psi_log_fields(const struct psi_log *log, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count,
                    const char *more);
/** Write the fields alone, "a=1 b=two", into buf [n], n > 64. A text that is too long is cut as a log line is. Returns buf. */
const char *psi_log_format(char *buf, size_t n, const struct psi_kv *kv, size_t count);
bool psi_log_enabled(const struct psi_log *log, enum psi_log_level level);
const char *psi_log_level_name(enum psi_log_level level);
/** Write a time, in milliseconds since 1970, as "2024-02-29T12:34:56.789Z". n >= 32. Returns buf. */
const char *psi_log_format_time(uint64_t unix_ms, char *buf, size_t n);

#endif
