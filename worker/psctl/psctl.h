/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what its verbs share. The program is a user of <ps.h> and of nothing else. */
#ifndef PSCTL_H
#define PSCTL_H

#include <ps.h>
#include <stddef.h>
#include <stdio.h>

#define PSCTL_CONTAINER_DEFAULT "localhost" /* ps_session_options.container */
enum { PSCTL_TIMEOUT_DEFAULT_MS = 5000 };

enum psctl_exit { PSCTL_OK = 0, PSCTL_FAILED = 1, PSCTL_USAGE = 2 };

/* What a table may take; 0: no bound. */
struct out_room {
    int rows, columns;
};

/* The command line, and the session once psctl_connect() has made it. */
struct psctl {
    /* flags; what is not given is NULL, 0 or false */
    const char *target;    /* NULL: PSD_TARGET, then the default */
    const char *npy;       /* --npy FILE */
    const char *container; /* --container NAME; NULL: the default one */
    const char *task;      /* --task TASK */
    int64_t timeout_ms;
    int64_t watch_ms; /* --watch: time between rounds; 0: once */
    bool json, all, yes, fill, help, version;
    const struct psctl_verb *verb;
    /* what is left, behind the verb */
    int argc;
    char **argv;
    /* made by psctl_connect() */
    ps_session *session;
    int task_count;
    ps_task_info *infos; /* by psctl_ask() */
    int64_t deadline_ms; /* of the whole command, monotonic clock */
    /* made by psctl_rounds() */
    const char *when;     /* --watch: time of this round; NULL: it is the only one */
    struct out_room room; /* on the terminal */
};

/* ---- verbs.c: what psctl can do; help, completion and the check of a command line come from these rows ---- */
struct psctl_verb {
    const char *name;
    const char *arguments; /* as the usage line shows them, flags apart: "NAME" */
    const char *summary;   /* half a line */
    const char *help;      /* further lines, each with its newline */
    int args_min, args_max;
    uint32_t flags; /* PSCTL_FLAG(...) | ...; those that every verb has need not be here */
    const char
        *words; /* for completion: what its arguments are, of "variable", "container", "task", "verb", or words; "": files */
    enum psctl_exit (*run)(struct psctl *c);
};
extern const struct psctl_verb psctl_verbs[];
extern const int psctl_verb_count;
enum { PSCTL_ARGS_MANY = 1000 }; /* args_max: no bound */

enum psctl_exit psctl_status(struct psctl *c);
enum psctl_exit psctl_vars(struct psctl *c);
enum psctl_exit psctl_get(struct psctl *c);
enum psctl_exit psctl_set(struct psctl *c);
enum psctl_exit psctl_delete(struct psctl *c);
enum psctl_exit psctl_containers(struct psctl *c);
enum psctl_exit psctl_reset(struct psctl *c);
enum psctl_exit psctl_workers(struct psctl *c);
enum psctl_exit psctl_waits(struct psctl *c);
enum psctl_exit psctl_devices(struct psctl *c);
enum psctl_exit psctl_stop(struct psctl *c);
enum psctl_exit psctl_ping(struct psctl *c);
enum psctl_exit psctl_config(struct psctl *c);
enum psctl_exit psctl_shutdown(struct psctl *c);
enum psctl_exit psctl_export(struct psctl *c);
enum psctl_exit psctl_import(struct psctl *c);
enum psctl_exit psctl_help(struct psctl *c);
enum psctl_exit psctl_completion(struct psctl *c);

/* ---- flags.c ---- */
enum psctl_flag {
    PSCTL_TARGET,
    PSCTL_TIMEOUT,
    PSCTL_JSON,
    PSCTL_HELP,
    PSCTL_VERSION,
    PSCTL_WATCH,
    PSCTL_NPY,
    PSCTL_FILL,
    PSCTL_CONTAINER,
    PSCTL_TASK,
    PSCTL_ALL,
    PSCTL_YES,
    PSCTL_FLAG_COUNT
};
#define PSCTL_FLAG(name) (1u << (PSCTL_##name))
/* Those of every verb. */
#define PSCTL_FLAGS_COMMON (PSCTL_FLAG(TARGET) | PSCTL_FLAG(TIMEOUT) | PSCTL_FLAG(JSON) | PSCTL_FLAG(HELP) | PSCTL_FLAG(VERSION))
struct psctl_flag_row {
    const char *name;  /* without its dashes */
    char letter;       /* 0: none */
    const char *value; /* "FILE"; "[SECONDS]": may be left out; NULL: it takes none */
    const char *help;  /* lines are separated by newlines */
    enum { PSCTL_ON, PSCTL_TEXT, PSCTL_SECONDS } kind;
    size_t field; /* of struct psctl: bool, const char *, int64_t in ms */
};
extern const struct psctl_flag_row psctl_flags[PSCTL_FLAG_COUNT];
/** Take the flags and the verb out of argv; the arguments are left in c->argv, which has room for argc. Says what is wrong;
 *  PSCTL_OK: c->verb is set, or --help or --version was given. */
enum psctl_exit psctl_parse(struct psctl *c, int argc, char **argv);
/** NULL: there is none of that name, which was said. */
const struct psctl_verb *psctl_find_verb(const struct psctl *c, const char *name);
/** The one of names that was most likely meant; NULL: none is near. */
const char *psctl_nearest(const char *text, const char *const *names, size_t count);
/** The same of names that come one by one: near [n], "" before the first, becomes name where that is nearer. */
void psctl_nearer(const char *text, const char *name, char *near, size_t n);

/* ---- help.c ---- */
void psctl_usage(FILE *to);
void psctl_verb_usage(const struct psctl_verb *verb);
/** The bash script that completes this command line. */
void psctl_completion_bash(FILE *to);

/* ---- connect.c: the session, and what is said of it ---- */
/** Open the session and know the cluster. Says what failed; PSCTL_USAGE: the target is no address, or the verb asks and nobody is
 *  there to answer. */
enum psctl_exit psctl_connect(struct psctl *c);
/** What is left of the command's time; > 0. */
int64_t psctl_left_ms(const struct psctl *c);
/** The whole timeout again: the user was asked something. */
void psctl_restart_clock(struct psctl *c);
void psctl_disconnect(struct psctl *c);
/** From now on SIGINT and SIGTERM let the session say goodbye and end the process (leave.c). */
void psctl_leave_begin(void);
/** Which session; NULL before it is closed. */
void psctl_leave_session(ps_session *s);
/** psctl_connect(), and the variable that argv[0] names; says what failed, and what was likely meant. find.c */
enum psctl_exit psctl_find_variable(struct psctl *c, ps_variable **out);
/** The question, unless --yes or where nobody can be asked (there psctl_connect() has refused --all). Says that nothing was done
 *  when the answer is no. */
bool psctl_confirmed(struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** "/job:ps/task:1", or "-" for a session that is no task. Returns buf. */
const char *psctl_task_text(const char *job, uint32_t task, char *buf, size_t n);
/** "psctl: TEXT" on standard error; with --json also {"error": ...} on standard output, once. */
void psctl_error(const struct psctl *c, ps_status st, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** The same of a command line that makes no sense: PSCTL_USAGE. */
enum psctl_exit psctl_misused(const struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** A line beside the answer: on standard error; in a round of --watch on standard output, but not within JSON. */
void psctl_note(const struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- tasks.c: all tasks, and which of them answer ---- */
/** Ask all tasks for their state, at once: c->infos. Says what failed; a dead task is no failure. */
enum psctl_exit psctl_ask(struct psctl *c, int64_t timeout_ms);
/** psctl_connect(), and that, for verbs that then ask the tasks for more: a silent task takes half of the time at most. */
enum psctl_exit psctl_begin(struct psctl *c);
/** text, c->task or c->argv[0], must be a task: its index; NULL: -1, all of them. false: said what is wrong with it. */
bool psctl_only_task(const struct psctl *c, const char *text, int *out_task);
/** only: index of one task, or -1 for all. */
bool psctl_is_meant(int only, int i);
/** -1: it is not up, or nobody says that it is it. */
int psctl_directory(const struct psctl *c);
/** Task i was up and has not answered what it was asked since: it is down, with ps_last_error(). */
void psctl_task_failed(const struct psctl *c, int i);
/** Notes about the tasks that are down; true when all are up. */
bool psctl_all_up(const struct psctl *c, int only);
/** Notes about tasks that came back without what they had; true when none has. */
bool psctl_none_lost(const struct psctl *c, int only);
/** "down": those tasks, with address and reason. */
void out_json_down(const struct psctl *c, int only);

/* ---- watch.c ---- */
/** Connect, ask the tasks and show what they say; with --watch again and again until interrupted. show prints one answer, with
 *  c->when in it where that is not NULL. */
enum psctl_exit psctl_rounds(struct psctl *c, enum psctl_exit (*show)(struct psctl *c));
/** The outer object of an answer, with the time of its round. */
void out_json_answer(const struct psctl *c);

/* ---- out.c: tables ---- */
enum { OUT_COLUMNS_MAX = 16, OUT_CELL_MAX = 512 };
struct out_table {
    int columns;
    uint32_t right; /* bit i: column i is aligned to the right, and never cut */
    bool total;     /* the last row sums up: it is always shown */
    char **cells;   /* rows * columns, owned */
    size_t count, capacity;
};
/** Start with the headings, columns of them. */
void out_table_init(struct out_table *t, int columns, uint32_t right, const char *const *headings);
/** Next cell; rows fill up from the left. What is no printable text is shown as '?'. */
void out_cell(struct out_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Print and free; free alone. */
void out_table_print(struct out_table *t, const struct out_room *room);
void out_table_free(struct out_table *t);
/** An element of a string variable in double quotes on standard output: JSON's escapes, and \xNN for what is no UTF-8. */
void out_quoted(const char *text, size_t n);
/** Characters in a line of the terminal that standard output is; 0: it is none. */
int out_terminal_columns(void);
/** "3d 4h", "12min 5s", "1.2s", in the units that settings have. Returns buf. */
const char *out_duration(uint64_t ms, char *buf, size_t n);
/** "12.3 MiB". Returns buf. */
const char *out_bytes(double bytes, char *buf, size_t n);
/** "adagrad(learning_rate=0.1, initial_accumulator=0.1)". Returns buf. */
const char *out_optimizer(const ps_optimizer *o, char *buf, size_t n);
const char *out_optimizer_name(const ps_optimizer *o);

/* ---- text.c ---- */
/** Bytes of the UTF-8 character at p [n], n > 0; 0: there is none. */
size_t text_utf8(const char *p, size_t n);
bool text_is_utf8(const char *p, size_t n);
/** Control characters, and what is no UTF-8, become '?'. */
void text_printable(char *text);

/* ---- json.c: one value to standard output, written as it comes ---- */
/* key NULL inside lists and at the top */
/** "error": what psctl_error() prints. */
void out_json_error(ps_status st, const char *text);
void out_json_object(const char *key);
void out_json_list(const char *key);
/** Close the innermost object or list; a newline after the outermost. */
void out_json_end(void);
void out_json_text(const char *key, const char *value);
/** An element of a string variable; {"b64": "..."} when it is no UTF-8, as in TensorFlow Serving's REST interface. */
void out_json_bytes(const char *key, const char *value, size_t n);
/** A number's text as it is. */
void out_json_number(const char *key, const char *text);
void out_json_shape(const char *key, const ps_shape *shape);
void out_json_u64(const char *key, uint64_t value);
void out_json_i64(const char *key, int64_t value);
/** NaN and infinities become null. Shortest text that reads back the same. */
void out_json_f64(const char *key, double value);
void out_json_bool(const char *key, bool value);

#endif
