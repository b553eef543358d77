/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what its verbs share. The program is a user of <ps.h> and of nothing else. */
#ifndef PSCTL_H
#define PSCTL_H

#include <ps.h>
#include <stdio.h>

enum psctl_exit { PSCTL_OK = 0, PSCTL_FAILED = 1, PSCTL_USAGE = 2 };

/* The command line, and the session once psctl_connect() has made it. */
struct psctl {
    /* flags */
    const char *target; /* NULL: PSD_TARGET, then the default */
    const char *npy;
    int64_t timeout_ms;
    bool json, all, yes, help, version;
    /* what is left, behind the verb */
    int argc;
    char **argv;
    /* made by psctl_connect() */
    ps_session *session;
    int task_count;
    ps_task_info *infos; /* by psctl_ask() */
    int64_t deadline_ms; /* of the whole command, monotonic clock */
};

struct psctl_verb {
    const char *name, *arguments, *summary, *help;
    int args_max;
    bool takes_npy, takes_all, takes_yes;
    enum psctl_exit (*run)(struct psctl *c);
};

/* ---- verbs ---- */
enum psctl_exit psctl_status(struct psctl *c);
enum psctl_exit psctl_vars(struct psctl *c);
enum psctl_exit psctl_get(struct psctl *c);
enum psctl_exit psctl_ping(struct psctl *c);
enum psctl_exit psctl_config(struct psctl *c);
enum psctl_exit psctl_shutdown(struct psctl *c);

/* ---- connect.c ---- */
/** Open the session and know the cluster; says what failed. */
bool psctl_connect(struct psctl *c);
/** Ask all tasks for their state, at once: c->infos. Says what failed; a dead task is no failure. */
bool psctl_ask(struct psctl *c);
/** Lines on standard error for the tasks that are down; true when all are up. only: index of one task, or -1. */
bool psctl_all_up(const struct psctl *c, int only);
/** Index of "/job:ps/task:1", also "ps:1"; says what is wrong with text, -1 then. */
int psctl_find_task(const struct psctl *c, const char *text);
/** What is left of the command's time; > 0. */
int64_t psctl_left_ms(const struct psctl *c);
/** The whole timeout again: the user was asked something. */
void psctl_restart_clock(struct psctl *c);
void psctl_disconnect(struct psctl *c);
/** "psctl: TEXT" on standard error; with --json also {"error": ...} on standard output, once. */
void psctl_error(const struct psctl *c, ps_status st, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- out.c: tables ---- */
enum { OUT_COLUMNS_MAX = 16, OUT_CELL_MAX = 512 };
struct out_table {
    int columns;
    uint32_t right; /* bit i: column i is aligned to the right */
    char **cells;   /* rows * columns, owned */
    size_t count, capacity;
};
/** Start with the headings, columns of them. */
void out_table_init(struct out_table *t, int columns, uint32_t right, const char *const *headings);
/** Next cell; rows fill up from the left. */
void out_cell(struct out_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Print and free. */
void out_table_print(struct out_table *t);
/** "3d 4h", "12m 5s", "1.2 s". Returns buf. */
const char *out_duration(uint64_t ms, char *buf, size_t n);
/** "12.3 MiB". Returns buf. */
const char *out_bytes(double bytes, char *buf, size_t n);
/** "(64, 10)". Returns buf. */
const char *out_shape(const ps_shape *shape, char *buf, size_t n);
/** "adagrad(learning_rate=0.1, initial_accumulator=0.1)". Returns buf. */
const char *out_optimizer(const ps_optimizer *o, char *buf, size_t n);
const char *out_optimizer_name(const ps_optimizer *o);

/* ---- json.c: one value to standard output, written as it comes ---- */
/* key NULL inside lists and at the top */
void json_object(const char *key);
void json_list(const char *key);
/** Close the innermost object or list; a newline after the outermost. */
void json_end(void);
void json_text(const char *key, const char *value);
void json_u64(const char *key, uint64_t value);
void json_i64(const char *key, int64_t value);
/** NaN and infinities become null. Shortest text that reads back the same. */
void json_f64(const char *key, double value);
void json_f32(const char *key, float value);
void json_bool(const char *key, bool value);

#endif
