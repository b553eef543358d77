/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what its verbs share. psctl uses the library by its public header <ps.h> only. */
#ifndef PSCTL_H
#define PSCTL_H

#include "common/cli/list.h"
#include "common/cli/text.h"
#include "common/options.h"
#include "common/resolve/rows.h"

#include <ps.h>
#include <stddef.h>
#include <stdio.h>

#define PSCTL_CONTAINER_DEFAULT "localhost" /* default of ps_session_options.container */

enum { PSCTL_TEXTS_MAX = 64 }; /* limit of the lists in ps_file_options */
enum psctl_exit { PSCTL_OK = 0, PSCTL_FAILED = 1, PSCTL_USAGE = 2 };

/* The command line; after psctl_connect() also the session. */
struct psctl {
    /* the flags; a flag that is not given is NULL, 0 or false */
    const char *target;                                 /* -t, an address or a list of them; NULL: PSD_TARGET, then the
                                                         * library's default */
    const char *key_file, *tls_cert, *tls_key, *tls_ca; /* as in ps_session_options */
    const char *npy;                                    /* --npy FILE */
    bool imports;          /* no flag: psctl set runs as part of an import, which saves the values as a checkpoint itself */
    const char *container; /* the first --container; NULL: the default container */
    const char *task;      /* --task TASK */
    int64_t timeout_ms;
    int64_t watch_ms;                                        /* time between two rounds; 0: one round only */
    int64_t shard_bytes;                                     /* 0: not given */
    int64_t days;                                            /* 0: not given */
    const char *file, *out, *role, *hosts, *until, *cluster; /* flags of psctl key; cluster also of psctl cluster */
    const char *dir, *user;                                  /* flags of psctl tls */
    const char *job_name;                                    /* this and the next: flags of psctl cluster */
    ps_resolver_options resolver;
    bool json, all, by_key, yes, fill, clear, slots, force, create, spread, no_save, def, show, follow, help, version;
    const char *containers[PSCTL_TEXTS_MAX + 1]; /* each --container, then NULL; containers[0] == container */
    const char *only[PSCTL_TEXTS_MAX + 1];
    const char *prefix[PSCTL_TEXTS_MAX + 1];
    const struct psctl_verb *const *verbs; /* all verbs, then NULL */
    const struct psctl_verb *verb;
    bool quiet;     /* no flag: nothing is printed on standard error, as psd-exporter's answers have the errors */
    uint64_t given; /* flags on the command line: PSCTL_FLAG(...) | ... */
    /* the arguments behind the verb */
    int argc;
    char **argv;
    /* set by psctl_connect() */
    ps_session *session;
    int task_count;
    ps_task_info *infos; /* [task_count], set by psctl_ask() */
    int64_t deadline_ms; /* of the whole command, monotonic clock */
    int64_t before_ms;   /* part of the command's time that earlier requests have taken */
    /* set by psctl_rounds() */
    const char *when;     /* time of this round of --watch; NULL: without --watch */
    struct cli_room room; /* rows and columns of the terminal */
};

/* ---- verbs: help, completion and the check of a command line are made from these rows ---- */
struct psctl_verb {
    const char *name;
    const char *arguments; /* as in the usage line, without flags: "NAME" */
    const char *summary;   /* shown in the list of verbs: less than a line */
    const char *help;      /* further lines of help, each with its newline */
    int args_min, args_max;
    bool each;         /* --timeout is for each request or step, not for the whole command */
    const char *look;  /* another verb that shows whether the change was made; NULL: this verb changes nothing */
    uint64_t flags;    /* PSCTL_FLAG(...) | ...; without PSCTL_FLAGS_COMMON */
    const char *words; /* what bash completes the arguments with: "variable", "queue_name", "container", "task", "verb", or a
                        * list of words; "": file names */
    /* a verb has one of the two. run() gets the command line only. show() runs after all tasks were asked for their state, in
     * each round of --watch (psctl_rounds()) */
    enum psctl_exit (*run)(struct psctl *c);
    enum psctl_exit (*show)(struct psctl *c);
};
/* In the order of `psctl --help`: verbs that only look, then verbs that change something. VERB(name) is the row psctl_verb_name
 * of the verb's file. */
/* clang-format off */
#define PSCTL_VERBS(VERB) \
    VERB(status) VERB(vars) VERB(queues) VERB(work) VERB(workers) VERB(whoami) VERB(rounds) VERB(events) VERB(waits) VERB(get) \
    VERB(export) VERB(containers) VERB(devices) VERB(ping) VERB(config) VERB(cluster) VERB(set) VERB(set_lr) VERB(queue) \
    VERB(checkpoint) VERB(import) VERB(delete) VERB(reset) VERB(stop) VERB(shutdown) VERB(key) VERB(tls) VERB(help) \
    VERB(completion)
/* clang-format on */
#define PSCTL_VERB_ROW(name) extern const struct psctl_verb psctl_verb_##name;
PSCTL_VERBS(PSCTL_VERB_ROW)
#undef PSCTL_VERB_ROW
extern const struct psctl_verb *const psctl_verbs[]; /* all verbs, then NULL (verbs.c); main() alone uses the table */
enum { PSCTL_ARGS_MANY = 1000 };                     /* psctl_verb.args_max of a verb without a limit */

/* ---- flags.c ---- */
enum psctl_flag {
    PSCTL_TARGET,
    PSCTL_KEY_FILE,
    PSCTL_TLS_CERT,
    PSCTL_TLS_KEY,
    PSCTL_TLS_CA,
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
    PSCTL_CLEAR,
    PSCTL_SLOTS,
    PSCTL_SHARD,
    PSCTL_FORCE,
    PSCTL_ONLY,
    PSCTL_PREFIX,
    PSCTL_CREATE,
    PSCTL_SPREAD,
    PSCTL_NO_SAVE,
    PSCTL_DEF,
    PSCTL_FILE,
    PSCTL_OUT,
    PSCTL_ROLE,
    PSCTL_HOSTS,
    PSCTL_UNTIL,
    PSCTL_CLUSTER,
    PSCTL_DIR,
    PSCTL_USER,
    PSCTL_DAYS,
    PSCTL_BY_KEY,
    PSCTL_SHOW,
    PSCTL_FOLLOW,
    PSCTL_JOB_NAME,
#define PSCTL_RESOLVER(name, ...) PSCTL_RESOLVER_##name,
    PSI_RESOLVER_ROWS(PSCTL_RESOLVER) PSCTL_FLAG_COUNT
#undef PSCTL_RESOLVER
};
#define PSCTL_FLAG_BIT(flag) (UINT64_C(1) << (flag))
#define PSCTL_FLAG(name) PSCTL_FLAG_BIT(PSCTL_##name)
_Static_assert(PSCTL_FLAG_COUNT <= 64, "psctl_verb.flags has a bit for each");
/* The flags that every verb takes. */
#define PSCTL_FLAGS_COMMON                                                                                                       \
    (PSCTL_FLAG(TARGET) | PSCTL_FLAG(KEY_FILE) | PSCTL_FLAG(TLS_CERT) | PSCTL_FLAG(TLS_KEY) | PSCTL_FLAG(TLS_CA) |               \
     PSCTL_FLAG(TIMEOUT) | PSCTL_FLAG(JSON) | PSCTL_FLAG(HELP) | PSCTL_FLAG(VERSION))
extern const struct psi_option psctl_flags[PSCTL_FLAG_COUNT];
/** Parse the command line: flags and the verb are taken out of argv, c->argv gets the arguments. c->verbs is set before.
 * PSCTL_OK: c->verb is set, or --help or --version was given. Otherwise the error was printed. */
enum psctl_exit psctl_parse(struct psctl *c, int argc, char **argv);
/* One action of a verb that has several, e.g. checkpoint save. */
struct psctl_action {
    const char *name;      /* first argument of the verb */
    const char *arguments; /* the arguments behind it, as messages show them: "NUMBER" */
    int args_min, args_max;
    enum psctl_exit (*run)(struct psctl *c);
    /* flags that this action takes and some others do not; a flag of the verb that stands in no action's row is for all actions
     */
    uint64_t flags;
};
/** Run the action among actions [count] that c->argv[0] names. Prints an error if there is none, or it takes other arguments or
 * flags. */
enum psctl_exit psctl_act(struct psctl *c, const struct psctl_action *actions, size_t count);
/** The verb of this name; NULL: there is none, and the error was printed. */
const struct psctl_verb *psctl_find_verb(const struct psctl *c, const char *name);
/** Choose the nearest name to text, called for one candidate after the other: near [n] becomes `name` if that is nearer. near is
 * "" before the first call. */
void psctl_nearer(const char *text, const char *name, char *near, size_t n);

/* ---- help.c ---- */
void psctl_usage(const struct psctl *c, FILE *to);
void psctl_verb_usage(const struct psctl_verb *verb);

/* ---- connect.c: the session, and messages ---- */
/** Open the session and learn the tasks of the cluster. Prints what failed. PSCTL_USAGE: the target is no address, or the verb
 * must ask the user and nobody can answer. */
enum psctl_exit psctl_connect(struct psctl *c);
/** Open the session with the first target that answers (target.c). o: all options but the target; borrows. Prints what failed.
 * PSCTL_USAGE: a target is no address. */
enum psctl_exit psctl_first_target(struct psctl *c, const ps_session_options *o);
/** The rest of the command's time; > 0. */
int64_t psctl_left_ms(const struct psctl *c);
/** Count the time until now as taken by earlier requests (c->before_ms). */
void psctl_asked(struct psctl *c);
/** Append the time of all requests to text [n], the error of a request that had no connection. The library's text names the last
 * request's time only. */
void psctl_add_in_all(const struct psctl *c, ps_reason reason, char *text, size_t n);
/** Give the command its whole timeout again, after the user was asked something. */
void psctl_restart_clock(struct psctl *c);
void psctl_disconnect(struct psctl *c);
/** From now on SIGINT and SIGTERM make the session say goodbye and end the process (leave.c). */
void psctl_leave_begin(void);
/** Text that a signal prints before it ends the process; NULL: none; borrowed until the next call. If a signal has come already
 * the call does not return, so call this before a result or an error is printed. */
void psctl_leave_says(const char *text);
/** Make signals wait until psctl_leave_session(). For the time in which a session is opened, when tasks may know it before psctl
 * does, and closed. */
void psctl_leave_hold(void);
/** End psctl_leave_hold(). s: the session that a signal ends from now on; NULL: there is none. */
void psctl_leave_session(ps_session *s);
/** Find the variable that argv[0] names (find.c); connects if that was not done. Prints what failed, and the nearest name. */
enum psctl_exit psctl_find_variable(struct psctl *c, ps_variable **out);
/** As psctl_find_variable(), for a variable or a queue: one of *out and *out_queue is set. */
enum psctl_exit psctl_find(struct psctl *c, ps_variable **out, ps_queue **out_queue);
/** Ask the user the question. True at once with --yes, or where nobody can be asked (psctl_connect() has refused --all there).
 * If the answer is no, prints that nothing was done. */
bool psctl_confirmed(struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Write "/job:ps/task:1" into buf, or "-" for a session that is no task; returns buf. */
const char *psctl_task_text(const char *job, uint32_t task, char *buf, size_t n);
/** "/job:ps/task:1" as JSON; "" for a session that is no task. */
json_t *psctl_task_value(const char *job, uint32_t task);
/** {"status": ..., "reason": ..., "message": ...} */
json_t *psctl_error_value(ps_status st, ps_reason reason, const char *text);
/** Print "psctl: TEXT" on standard error. With --json also {"error": ...} on standard output, at most once. */
void psctl_error(const struct psctl *c, ps_status st, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** psctl_error() for a failed call of the library, with its reason. */
void psctl_failed(const struct psctl *c, ps_status st, ps_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** Print the error of this thread's last call of the library. Returns PSCTL_FAILED. */
enum psctl_exit psctl_last_failed(const struct psctl *c, ps_status st);
/** Write the error of this thread's last call into buf. The call was to change something, so the text says whether the change
 * may have been made. Returns buf. */
const char *psctl_change_error(const struct psctl *c, char *buf, size_t n);
/** Print psctl_change_error(). Returns PSCTL_FAILED. */
enum psctl_exit psctl_change_failed(const struct psctl *c, ps_status st);
enum psctl_exit psctl_misused(const struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Print a line beside the answer: on standard error; in a round of --watch on standard output, but not within JSON. */
void psctl_note(const struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- tasks.c: all tasks, and which of them are up ---- */
/** Ask all tasks for their state, at the same time, into c->infos. Prints what failed; a task that is down is no failure. */
enum psctl_exit psctl_ask(struct psctl *c, int64_t timeout_ms);
/** psctl_connect() and psctl_ask(), for verbs that ask the tasks for more: a silent task takes at most half of the time. */
enum psctl_exit psctl_begin(struct psctl *c);
/** Index of the task that text (c->task or c->argv[0]) names; NULL: -1, all tasks. False: no such task, which was printed. */
bool psctl_only_task(const struct psctl *c, const char *text, int *out_task);
/** True if task i is meant. only: index of one task, or -1 for all. */
bool psctl_is_meant(int only, int i);
/** Index of the directory task; -1: it is down, or no task says that it is the directory. */
int psctl_directory(const struct psctl *c);
/** Iterate over the tasks that are meant and up: for (int i = -1; psctl_next(c, only, &i);) */
bool psctl_next(const struct psctl *c, int only, int *i);
/** Take note of the status with which a request to task i ended. Not PS_OK: the task is down from now on, with ps_last_error().
 * True if the task answered. */
bool psctl_heard(const struct psctl *c, int i, ps_status st);
/** Print a note for each task that is down. True: all are up. */
bool psctl_all_up(const struct psctl *c, int only);
/** Print a note for each task that came back without variables that it had. True: there is none. */
bool psctl_none_lost(const struct psctl *c, int only);
/** The text of info->waiting_for; a text that the answer had no room for is cut behind a whole word, and ends with "...".
 * Returns buf. */
const char *psctl_waiting_for(const ps_task_info *info, char buf[sizeof(info->waiting_for) + sizeof("...")]);
/** --json: print "down", a list of the tasks that are down with address and reason. */
void psctl_down(const struct psctl *c, int only);

/* A list of something that each task has: psctl_list_begin(), while psctl_list_next() ask list.task and add rows,
 * psctl_list_end(). */
struct psctl_list {
    struct psctl *c;
    int only;             /* index of the task that is meant; -1: all */
    int task;             /* index of the task that is to be asked now */
    const char *at;       /* name of that task */
    const char *none;     /* printed in place of a table without rows; NULL: nothing */
    struct cli_list rows; /* rows are added by cli_list_add() */
};
/** text as in psctl_only_task(), key and columns as in cli_list_begin(). False: no such task, PSCTL_USAGE. */
bool psctl_list_begin(struct psctl_list *l, struct psctl *c, const char *text, const char *key, const struct cli_column *columns,
                      size_t column_count);
bool psctl_list_next(struct psctl_list *l);
/** Print the end of the list and the tasks that are down. */
enum psctl_exit psctl_list_end(struct psctl_list *l);

/* ---- cmd_files.c: copies of values, and their progress ---- */
struct psctl_copy {
    bool bar;   /* progress is shown: standard error is a terminal */
    bool drawn; /* the bar is on the terminal now */
    int64_t started_ms, drawn_ms;
    uint64_t bytes;                  /* copied so far */
    json_t *taken, *left_out, *kept; /* lists of names, for an import of a part; else NULL */
    bool full;                       /* the lists lack names, because there are too many */
    /* import: number of the checkpoint that has the imported values; 0: the cluster makes none */
    uint64_t saved;
};
struct psctl_copy psctl_copy_begin(const struct psctl *c);
/** ps_copied_fn: ctx is a struct psctl_copy. */
void psctl_copied(void *copy, const char *name, uint64_t done_bytes, uint64_t total_bytes);
/** Draw the bar for work of others: `part` (0 .. 1) is done. */
void psctl_copy_share(struct psctl_copy *copy, double part, const char *what);
/** Remove the bar, because something else is to be printed. */
void psctl_copy_wipe(const struct psctl_copy *copy);
/** Print what was copied. left_out < 0: how many were left out is not printed. */
void psctl_copy_report(const struct psctl *c, const struct psctl_copy *copy, const char *path, const char *past, int variables,
                       int64_t left_out);
/** True if path, of an export, can be a file. False: it is "-", and the error was printed. */
bool psctl_is_file(const struct psctl *c, const char *path);
/** Import the values of a file, of the files of an index, or of a .npy file into variables; asks the user first. */
enum psctl_exit psctl_import(struct psctl *c, const char *path);
/** Save all values as one checkpoint, if no task was restarted since psctl_ask() and the directory makes checkpoints. Without
 * that checkpoint a lost task would come back with older values than the imported ones on other tasks. *out_number 0: the
 * directory makes no checkpoints. PSCTL_FAILED: the reason was printed. */
enum psctl_exit psctl_save_imported(struct psctl *c, uint64_t *out_number);

/* ---- saves.c ---- */
/** The progress of checkpoints as JSON; NULL: the task does not give it. */
json_t *psctl_saves_value(const ps_saves_info *saves);

/* ---- cmd_workers.c ---- */
/* psctl workers without --all shows a session for this long after it went away. The task remembers it for session_keep. */
enum { PSCTL_GONE_SHOWN_MS = 60000 };
/** True if psctl workers shows session i of sessions [count]. A session that is gone is hidden if it went away long ago, or if
 * its process has a newer session, made by a recovery. all: --all was given, every session is shown. */
bool psctl_shows_session(const ps_session_info *sessions, size_t count, size_t i, bool all);

/* ---- checkpoint_list.c ---- */
enum psctl_exit psctl_checkpoint_list(struct psctl *c);
typedef char psctl_waiting_text[sizeof(((ps_task_info *)NULL)->waiting_for) + sizeof("...")];
/** The tasks from which the directory has not heard which checkpoints they have, written into text; NULL: it has heard from all.
 */
const char *psctl_not_heard(const struct psctl *c, int directory, psctl_waiting_text text);

/* ---- watch.c ---- */
/** Connect, ask the tasks and call show(); with --watch in rounds until interrupted. show() prints one answer, with the time
 * c->when if that is not NULL. */
enum psctl_exit psctl_rounds(struct psctl *c, enum psctl_exit (*show)(struct psctl *c));
/** --json: begin the outer object of an answer, with the time of its round. */
void psctl_answer(const struct psctl *c);
/** End the answer. What was printed is flushed, so that notes and errors come behind it. */
void psctl_answer_end(const struct psctl *c);

#endif
