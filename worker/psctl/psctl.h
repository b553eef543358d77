/* SPDX-License-Identifier: Apache-2.0 */
/* psctl, the command-line client: what its verbs (subcommands) share. psctl uses only the library's public header <ps.h>. */
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

enum { PSCTL_TEXTS_MAX = 64 }; /* most texts in a list of ps_file_options */
enum psctl_exit { PSCTL_OK = 0, PSCTL_FAILED = 1, PSCTL_USAGE = 2 };

struct psctl {
    /* the command line's flags; a flag that is not given is NULL, 0 or false */
    const char *target; /* -t, an address or a list of them; NULL: that of PSD_TARGET, else the library's default */
    const char *key_file, *tls_cert, *tls_key, *tls_ca;
    const char *npy;
    bool imports;          /* not a flag; psctl set then does the work of psctl import, and saves a checkpoint afterwards */
    const char *container; /* the first --container; NULL: the default container */
    const char *task;
    int64_t timeout_ms;
    int64_t watch_ms;                                        /* --watch: time between two answers; 0: print one answer and end */
    int64_t shard_bytes;                                     /* 0: not given */
    int64_t days;                                            /* 0: not given */
    const char *file, *out, *role, *hosts, *until, *cluster; /* flags of psctl key; psctl cluster also has --cluster */
    const char *dir, *user;                                  /* flags of psctl tls */
    const char *job_name;                                    /* flag of psctl cluster, as `resolver` is */
    ps_resolver_options resolver;
    bool json, all, by_key, yes, fill, clear, slots, force, create, spread, no_save, def, show, follow, help, version;
    const char *containers[PSCTL_TEXTS_MAX + 1]; /* the value of each --container, then NULL; containers[0] equals `container` */
    const char *only[PSCTL_TEXTS_MAX + 1];
    const char *prefix[PSCTL_TEXTS_MAX + 1];
    const struct psctl_verb *const *verbs; /* all verbs, then NULL */
    const struct psctl_verb *verb;
    bool quiet;     /* not a flag; errors are not printed on standard error (for psd-exporter, whose answers have them) */
    uint64_t given; /* which flags the command line has: PSCTL_FLAG(...) | ... */
    /* the arguments behind the verb */
    int argc;
    char **argv;
    /* set by psctl_connect() */
    ps_session *session;
    int task_count;
    ps_task_info *infos; /* [task_count], set by psctl_ask() */
    int64_t deadline_ms; /* when --timeout is over for the whole command, in ms of the monotonic clock */
    int64_t before_ms;   /* how long earlier requests of this command took, in ms */
    /* set by psctl_rounds() */
    const char *when;     /* clock time of the present answer of --watch, as text; NULL: no --watch */
    struct cli_room room; /* rows and columns of the terminal */
};

/* ---- verbs: parser, help and shell completion read these rows ---- */
struct psctl_verb {
    const char *name;
    const char *arguments; /* as in the usage line, without flags: "NAME" */
    const char *summary;   /* the verb's line in the list of verbs */
    const char *help;      /* further text of the verb's --help; each line ends with a newline */
    int args_min, args_max;
    bool each;        /* true: --timeout limits each request or step of the command; false: it limits the whole command */
    const char *look; /* the verb that shows, after an error, whether the change was made; NULL: nothing changes */
    uint64_t flags;   /* PSCTL_FLAG(...) | ...; without PSCTL_FLAGS_COMMON */
    /* words that bash completion offers as arguments, separated by blanks. "variable", "queue_name", "container" and "task" stand
     * for all names of that kind in the cluster; "verb" alone for all verbs; "" for file names */
    const char *words;
    /* A verb has either run() or show(). run() itself opens the session. show() prints one answer: it is called once, or with
     * --watch again and again, each time after psctl_rounds() has asked all tasks for their state */
    enum psctl_exit (*run)(struct psctl *c);
    enum psctl_exit (*show)(struct psctl *c);
};
/* All verbs, in the order of `psctl --help`. The row of verb NAME is psctl_verb_NAME, in the verb's own file. */
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
extern const struct psctl_verb *const psctl_verbs[]; /* PSCTL_VERBS as a table, then NULL (verbs.c); only main() reads it */
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
#define PSCTL_FLAGS_COMMON                                                                                                       \
    (PSCTL_FLAG(TARGET) | PSCTL_FLAG(KEY_FILE) | PSCTL_FLAG(TLS_CERT) | PSCTL_FLAG(TLS_KEY) | PSCTL_FLAG(TLS_CA) |               \
     PSCTL_FLAG(TIMEOUT) | PSCTL_FLAG(JSON) | PSCTL_FLAG(HELP) | PSCTL_FLAG(VERSION))
extern const struct psi_option psctl_flags[PSCTL_FLAG_COUNT];
/** Parse the command line into c; c->argv gets the arguments without flags and verb. The caller has set c->verbs. PSCTL_OK:
 * c->verb is set, or --help or --version was given. Otherwise the error was printed. */
enum psctl_exit psctl_parse(struct psctl *c, int argc, char **argv);
/* One action of a verb that has several: `psctl checkpoint save`, for example. */
struct psctl_action {
    const char *name;
    const char *arguments;  /* the arguments that follow the action's name, as messages show them: "NUMBER" */
    int args_min, args_max; /* how many arguments are allowed */
    enum psctl_exit (*run)(struct psctl *c);
    /* flags that this action takes, but not every action of the verb; flags in no action's row suit all actions */
    uint64_t flags;
};
/** Run the action that c->argv[0] names, one of actions [count]. Prints an error: no such action, wrong arguments or flags. */
enum psctl_exit psctl_act(struct psctl *c, const struct psctl_action *actions, size_t count);
/** Find the verb with this name in c->verbs; NULL: there is none, and the error was printed. */
const struct psctl_verb *psctl_find_verb(const struct psctl *c, const char *name);
/** For "did you mean": call it once for each existing name; near [n], "" at first, becomes the name that is most like text. */
void psctl_nearer(const char *text, const char *name, char *near, size_t n);

/* ---- help.c ---- */
/** Print all verbs of c->verbs with their summaries, and the flags. */
void psctl_usage(const struct psctl *c, FILE *to);
/** Print the help of one verb on standard output. */
void psctl_verb_usage(const struct psctl_verb *verb);

/* ---- connect.c: the session, and messages ---- */
/** Open the session, which learns the list of tasks. Prints errors. PSCTL_USAGE: a bad address, or no user to confirm --all. */
enum psctl_exit psctl_connect(struct psctl *c);
/** Try -t's addresses until a session opens (target.c). o: other options, borrowed. Prints errors. PSCTL_USAGE: bad address. */
enum psctl_exit psctl_first_target(struct psctl *c, const ps_session_options *o);
/** How many ms of --timeout are left for this command; 50 if less is left. */
int64_t psctl_left_ms(const struct psctl *c);
/** After a request: all time of the command so far counts as taken by earlier requests (c->before_ms). */
void psctl_asked(struct psctl *c);
/** Append to text [n] how long all requests took, if an earlier one has waited and `reason` is that of a missing connection. */
void psctl_add_in_all(const struct psctl *c, ps_reason reason, char *text, size_t n);
/** Give the command its whole --timeout again: after a question to the user, or before a further step of a long command. */
void psctl_restart_clock(struct psctl *c);
void psctl_disconnect(struct psctl *c);
/** From now on SIGINT and SIGTERM end the process; before that the session tells the tasks that it leaves (leave.c). */
void psctl_leave_begin(void);
/** Set the text that is printed when a signal ends the process; NULL: no text. Borrows text until the next call. Once a signal
 * has come the call does not return: so call it before a result is printed, and the text is not printed after a result. */
void psctl_leave_says(const char *text);
/** Delay signals until psctl_leave_session(), while a session is opened or closed: psctl could not say goodbye for it. */
void psctl_leave_hold(void);
/** End psctl_leave_hold(). s: the session that a later signal is to close; NULL: none is open. */
void psctl_leave_session(ps_session *s);
/** Find the variable that argv[0] names (find.c); opens the session if it is not open. Prints an error, with the nearest name. */
enum psctl_exit psctl_find_variable(struct psctl *c, ps_variable **out);
enum { PSCTL_WHERE_MAX = PS_DEVICE_BYTES + 8 };
/** Write into buf at which ps task v is: "on DEVICE", or "in N parts" for a partitioned variable. Returns buf. */
const char *psctl_where(const ps_variable *v, char buf[PSCTL_WHERE_MAX]);
/** The devices (ps tasks) of v's parts as a JSON list; NULL: v is not partitioned. */
json_t *psctl_parts(const ps_variable *v);
/** psctl_find_variable() for a name that may be a variable's or a queue's: sets one of *out and *out_queue. */
enum psctl_exit psctl_find(struct psctl *c, ps_variable **out, ps_queue **out_queue);
/** Ask the user the question. True without asking: --yes was given, or standard input is no terminal (there psctl_connect()
 * refuses --all). If the answer is no, prints that nothing was done. */
bool psctl_confirmed(struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Write a session's task into buf, as "/job:worker/task:1"; "-": the program has no job and task. Returns buf. */
const char *psctl_task_text(const char *job, uint32_t task, char *buf, size_t n);
/** psctl_task_text() as JSON; "" in place of "-". */
json_t *psctl_task_value(const char *job, uint32_t task);
/** An error as JSON: {"status": ..., "reason": ..., "message": ...}. */
json_t *psctl_error_value(ps_status st, ps_reason reason, const char *text);
/** Print "psctl: TEXT" on standard error (unless c->quiet), and with --json also {"error": ...} on standard output. Call it at
 * most once with --json: the output is to be one JSON value. */
void psctl_error(const struct psctl *c, ps_status st, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** psctl_error() for a failed call of the library, with its reason. */
void psctl_failed(const struct psctl *c, ps_status st, ps_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** Print the error of this thread's last call of the library. Returns PSCTL_FAILED. */
enum psctl_exit psctl_last_failed(const struct psctl *c, ps_status st);
/** After a failed library call: write into buf its error, and whether the change may nevertheless have been made. Returns buf. */
const char *psctl_change_error(const struct psctl *c, char *buf, size_t n);
/** Print the text of psctl_change_error(); st is the status of the failed call. Returns PSCTL_FAILED. */
enum psctl_exit psctl_change_failed(const struct psctl *c, ps_status st);
/** Print an error of the command line. Returns PSCTL_USAGE. */
enum psctl_exit psctl_misused(const struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Print a note beside the answer, on standard error. With --watch: on standard output; with --watch --json: not at all. */
void psctl_note(const struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- tasks.c: all tasks, and which of them are up ---- */
/** Ask all tasks for their state at once, and store the answers in c->infos. Prints an error. A task that is down is no error. */
enum psctl_exit psctl_ask(struct psctl *c, int64_t timeout_ms);
/** psctl_connect() and psctl_ask(), for verbs with more requests to come: waits for a silent task at most half of --timeout. */
enum psctl_exit psctl_begin(struct psctl *c);
/** *out_task: index of the task that text (c->task or c->argv[0]) names; -1: text is NULL, all tasks. False: printed error. */
bool psctl_only_task(const struct psctl *c, const char *text, int *out_task);
/** True if the command is about task i. only: index of the single task of the command; -1: the command is about all tasks. */
bool psctl_is_meant(int only, int i);
/** Index of the directory (the first ps task, which lists all tasks); -1: it is down, or not known. */
int psctl_directory(const struct psctl *c);
/** Iterate over the tasks that are up and psctl_is_meant(): for (int i = -1; psctl_next(c, only, &i);) */
bool psctl_next(const struct psctl *c, int only, int *i);
/** Note status st of a request to task i; after an error the task is down, with ps_last_error() as reason. True: st is PS_OK. */
bool psctl_heard(const struct psctl *c, int i, ps_status st);
/** True if the task runs but refuses this psctl (t->up is false): it does not accept psctl's key, or gives it no right. */
bool psctl_refused(const ps_task_info *t);
/** True if the command fails because task i did not answer. A task that refuses this psctl, and is of another job than the
 * directory, counts only if it is task `only`: workers' hosts need not have psctl's key. */
bool psctl_missing(const struct psctl *c, int only, int i);
/** Print a note for each task that is down or refuses this psctl. False: psctl_missing() holds for one of them. */
bool psctl_all_up(const struct psctl *c, int only);
/** Print a note for each task that was restarted and lacks variables that it had before. True: there is no such task. */
bool psctl_none_lost(const struct psctl *c, int only);
/** Write info->waiting_for into buf. If the task had to cut the text, ends with its last whole word and "...". Returns buf. */
const char *psctl_waiting_for(const ps_task_info *info, char buf[sizeof(info->waiting_for) + sizeof("...")]);
/** --json: print the member "down", a list of the tasks that are down, each with address and reason. */
void psctl_down(const struct psctl *c, int only);

/* A table with rows from each task: psctl_list_begin(); while psctl_list_next(): ask list.task, add rows; psctl_list_end(). */
struct psctl_list {
    struct psctl *c;
    int only;         /* index of the only task to be asked; -1: all */
    int task;         /* index of the task to be asked now */
    const char *at;   /* name of that task, such as "/job:ps/task:0" */
    const char *none; /* text printed if the table is empty; NULL: no text */
    struct cli_list rows;
};
/** Begin a table of the task that text names; NULL: of all tasks. False: text names no task, so the verb returns PSCTL_USAGE.
 * key, columns: as in cli_list_begin(). */
bool psctl_list_begin(struct psctl_list *l, struct psctl *c, const char *text, const char *key, const struct cli_column *columns,
                      size_t column_count);
/** Set l->task to the next task to be asked that is up. False: there is no more. */
bool psctl_list_next(struct psctl_list *l);
/** Print the table (with --json the end of the list), and which tasks are down. */
enum psctl_exit psctl_list_end(struct psctl_list *l);

/* ---- cmd_files.c: export and import of values, and the progress bar ---- */
struct psctl_copy {
    bool bar;   /* progress is shown: standard error is a terminal */
    bool drawn; /* the progress bar stands on the terminal now */
    int64_t started_ms, drawn_ms;
    uint64_t bytes;
    json_t *taken, *left_out, *kept; /* names of variables or tensors, for an import of a part of a file; else NULL */
    bool full;                       /* memory ran out: some names are missing in the three lists */
    /* import: number of the checkpoint that was saved afterwards; 0: none, because the cluster makes no checkpoints */
    uint64_t saved;
};
struct psctl_copy psctl_copy_begin(const struct psctl *c);
/** Draw the bar. A ps_copied_fn, whose ctx is the struct psctl_copy. */
void psctl_copied(void *copy, const char *name, uint64_t done_bytes, uint64_t total_bytes);
/** Draw the bar of an operation that the ps tasks do; part: how much is done, 0 to 1; what: the text beside the bar. */
void psctl_copy_share(struct psctl_copy *copy, double part, const char *what);
/** Clear the bar from the terminal, before something else is printed. */
void psctl_copy_wipe(const struct psctl_copy *copy);
/** Print what was copied, with bytes, time and path; with --json as JSON. past: "exported" or "imported". left_out: in JSON, how
 * many variables or tensors were left out; < 0: JSON without this member. */
void psctl_copy_report(const struct psctl *c, const struct psctl_copy *copy, const char *path, const char *past, int variables,
                       int64_t left_out);
/** True if an export can write to path. False: path is "-", by which a user means standard output; the error was printed. */
bool psctl_is_file(const struct psctl *c, const char *path);
/** Set variables to the values in a file, in the files that an index names, or in a .npy file. Asks the user first. */
enum psctl_exit psctl_import(struct psctl *c, const char *path);
/** Save a checkpoint after an import: a task that restarts from an older one would have lost the imported values. *out_number 0:
 * the cluster makes no checkpoints. PSCTL_FAILED: no checkpoint, or a task was restarted since psctl_ask(); printed. */
enum psctl_exit psctl_save_imported(struct psctl *c, uint64_t *out_number);

/* ---- saves.c ---- */
/** A task's progress in saving checkpoints as JSON; NULL: the task does not report it. */
json_t *psctl_saves_value(const ps_saves_info *saves);

/* ---- cmd_workers.c ---- */
/* how long psctl workers without --all shows a session whose connection ended, from when it was last heard */
enum { PSCTL_GONE_SHOWN_MS = 60000 };
/** True if psctl workers shows session i of sessions [count]. Without `all` (--all) it hides a session whose connection ended
 * long ago, or whose process has a newer session. */
bool psctl_shows_session(const ps_session_info *sessions, size_t count, size_t i, bool all);

/* ---- checkpoint_list.c ---- */
/** psctl checkpoint list: print all checkpoints, and the progress of a save or restore. Returns psctl's exit status. */
enum psctl_exit psctl_checkpoint_list(struct psctl *c);
typedef char psctl_waiting_text[sizeof(((ps_task_info *)NULL)->waiting_for) + sizeof("...")];
/** Write into text which tasks have not yet reported their checkpoints to task `directory`. Returns text; NULL: all have. */
const char *psctl_not_heard(const struct psctl *c, int directory, psctl_waiting_text text);

/* ---- watch.c ---- */
/** Open the session, ask all tasks for their state, and show() it; with --watch again and again, then with c->when. */
enum psctl_exit psctl_rounds(struct psctl *c, enum psctl_exit (*show)(struct psctl *c));
/** --json: begin the answer's outer object; with --watch its first member is the time. */
void psctl_answer(const struct psctl *c);
/** End the answer and flush standard output, so that notes and errors follow the answer. */
void psctl_answer_end(const struct psctl *c);

#endif
