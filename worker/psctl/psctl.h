/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what its verbs share. The program is a user of <ps.h> and of nothing else. */
#ifndef PSCTL_H
#define PSCTL_H

#include "common/cli/list.h"
#include "common/cli/text.h"
#include "common/options.h"

#include <ps.h>
#include <stddef.h>
#include <stdio.h>

#define PSCTL_CONTAINER_DEFAULT "localhost" /* ps_session_options.container */

enum { PSCTL_TEXTS_MAX = 64 }; /* as ps_file_options has them */
enum psctl_exit { PSCTL_OK = 0, PSCTL_FAILED = 1, PSCTL_USAGE = 2 };

/* The command line, and the session once psctl_connect() has made it. */
struct psctl {
    /* flags; what is not given is NULL, 0 or false */
    const char *target;    /* -t, one or a list; NULL: PSD_TARGET, then the default */
    const char *npy;       /* --npy FILE */
    bool imports;          /* no flag: the verb set is part of an import, whose values are saved as a checkpoint */
    const char *container; /* --container NAME, the first one; NULL: the default one */
    const char *task;      /* --task TASK */
    int64_t timeout_ms;
    int64_t watch_ms;    /* --watch: time between rounds; 0: once */
    int64_t shard_bytes; /* --shard; 0: not given */
    bool json, all, yes, fill, clear, slots, force, create, spread, no_save, help, version;
    const char *containers[PSCTL_TEXTS_MAX + 1]; /* each --container, then NULL: container is the first one */
    const char *only[PSCTL_TEXTS_MAX + 1];       /* --only, then NULL */
    const char *prefix[PSCTL_TEXTS_MAX + 1];     /* --prefix */
    const struct psctl_verb *const *verbs;       /* all of them, then NULL */
    const struct psctl_verb *verb;
    /* what is left, behind the verb */
    int argc;
    char **argv;
    /* made by psctl_connect() */
    ps_session *session;
    int task_count;
    ps_task_info *infos; /* by psctl_ask() */
    int64_t deadline_ms; /* of the whole command, monotonic clock */
    int64_t before_ms;   /* of its time, taken by requests that were over before this one began */
    /* made by psctl_rounds() */
    const char *when;     /* --watch: time of this round; NULL: it is the only one */
    struct cli_room room; /* on the terminal */
};

/* ---- what psctl can do; help, completion and the check of a command line come from these rows ---- */
struct psctl_verb {
    const char *name;
    const char *arguments; /* as the usage line shows them, flags apart: "NAME" */
    const char *summary;   /* half a line */
    const char *help;      /* further lines, each with its newline */
    int args_min, args_max;
    bool each;         /* --timeout is for each request, or step, instead of for the whole command */
    const char *look;  /* what shows whether a change was made: another verb; NULL: it changes nothing */
    uint32_t flags;    /* PSCTL_FLAG(...) | ...; those that every verb has need not be here */
    const char *words; /* for completion: what its arguments are, of "variable", "queue_name", "container", "task", "verb", or
                          words; "": files */
    /* one of them: with the command line alone; or once the tasks were asked for their state, with --watch again and again
     * (psctl_rounds()) */
    enum psctl_exit (*run)(struct psctl *c);
    enum psctl_exit (*show)(struct psctl *c);
};
/* In the order of `psctl --help`: first what looks, then what changes. VERB(name) is the row psctl_verb_name of its file. */
/* clang-format off */
#define PSCTL_VERBS(VERB) \
    VERB(status) VERB(vars) VERB(queues) VERB(work) VERB(workers) VERB(rounds) VERB(waits) VERB(get) \
    VERB(export) VERB(containers) VERB(devices) VERB(ping) VERB(config) VERB(set) VERB(set_lr) VERB(queue) \
    VERB(checkpoint) VERB(import) VERB(delete) VERB(reset) VERB(stop) VERB(shutdown) VERB(help) VERB(completion)
/* clang-format on */
#define PSCTL_VERB_ROW(name) extern const struct psctl_verb psctl_verb_##name;
PSCTL_VERBS(PSCTL_VERB_ROW)
#undef PSCTL_VERB_ROW
extern const struct psctl_verb *const psctl_verbs[]; /* verbs.c: all of them, then NULL; for main() */
enum { PSCTL_ARGS_MANY = 1000 };                     /* args_max: no bound */

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
    PSCTL_CLEAR,
    PSCTL_SLOTS,
    PSCTL_SHARD,
    PSCTL_FORCE,
    PSCTL_ONLY,
    PSCTL_PREFIX,
    PSCTL_CREATE,
    PSCTL_SPREAD,
    PSCTL_NO_SAVE,
    PSCTL_FLAG_COUNT
};
#define PSCTL_FLAG(name) (1u << (PSCTL_##name))
/* Those of every verb. */
#define PSCTL_FLAGS_COMMON (PSCTL_FLAG(TARGET) | PSCTL_FLAG(TIMEOUT) | PSCTL_FLAG(JSON) | PSCTL_FLAG(HELP) | PSCTL_FLAG(VERSION))
extern const struct psi_option psctl_flags[PSCTL_FLAG_COUNT];
/** Take the flags and the verb out of argv; c, which knows its verbs, gets the arguments. Says what is wrong; PSCTL_OK: c->verb
 * is set, or --help or --version was given. */
enum psctl_exit psctl_parse(struct psctl *c, int argc, char **argv);
/** NULL: there is none of that name, which was said. */
const struct psctl_verb *psctl_find_verb(const struct psctl *c, const char *name);
/** Which of names that come one by one was likely meant: near [n], "" before the first, becomes name where that is nearer. */
void psctl_nearer(const char *text, const char *name, char *near, size_t n);

/* ---- help.c ---- */
void psctl_usage(const struct psctl *c, FILE *to);
void psctl_verb_usage(const struct psctl_verb *verb);

/* ---- connect.c: the session, and what is said of it ---- */
/** Open the session and know the cluster. Says what failed; PSCTL_USAGE: the target is no address, or the verb asks and nobody is
 *  there to answer. */
enum psctl_exit psctl_connect(struct psctl *c);
/** The session with the first target that answers, and the cluster from it; o has all but the target, borrows. Says what failed:
 *  PSCTL_USAGE where a target is no address. target.c */
enum psctl_exit psctl_first_target(struct psctl *c, const ps_session_options *o);
/** What is left of the command's time; > 0. */
int64_t psctl_left_ms(const struct psctl *c);
/** What was asked for until now is over. */
void psctl_asked(struct psctl *c);
/** text [n] is the error of a request that had no connection, and names its own time only: that of those before it too. */
void psctl_add_in_all(const struct psctl *c, ps_reason reason, char *text, size_t n);
/** The whole timeout again: the user was asked something. */
void psctl_restart_clock(struct psctl *c);
void psctl_disconnect(struct psctl *c);
/** From now on SIGINT and SIGTERM let the session say goodbye and end the process (leave.c). */
void psctl_leave_begin(void);
/** They say this before the process ends, from now on; NULL: nothing. Borrowed. Does not return where one has come: to be called
 *  before a result or an error is said. */
void psctl_leave_says(const char *text);
/** They wait until psctl_leave_session(): a session is being opened, which tasks may know before it is here, or is about to
 *  close. */
void psctl_leave_hold(void);
/** Behind psctl_leave_hold(): which session; NULL: none any more. */
void psctl_leave_session(ps_session *s);
/** psctl_connect() where that was not done, and the variable that argv[0] names; says what failed, and what was likely meant.
 * find.c */
enum psctl_exit psctl_find_variable(struct psctl *c, ps_variable **out);
/** The same, or the queue of that name: of its kind one is written. */
enum psctl_exit psctl_find(struct psctl *c, ps_variable **out, ps_queue **out_queue);
/** The question, unless --yes or where nobody can be asked (there psctl_connect() has refused --all). Says that nothing was done
 *  when the answer is no. */
bool psctl_confirmed(struct psctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** "/job:ps/task:1", or "-" for a session that is no task. Returns buf. */
const char *psctl_task_text(const char *job, uint32_t task, char *buf, size_t n);
/** The same in JSON: "" for a session that is no task. */
json_t *psctl_task_value(const char *job, uint32_t task);
/** {"status": ..., "reason": ..., "message": ...} */
json_t *psctl_error_value(ps_status st, ps_reason reason, const char *text);
/** "psctl: TEXT" on standard error; with --json also {"error": ...} on standard output, once. */
void psctl_error(const struct psctl *c, ps_status st, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** The same of what a call of the library has failed with. */
void psctl_failed(const struct psctl *c, ps_status st, ps_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** The same of what this thread's last call has failed with: PSCTL_FAILED. */
enum psctl_exit psctl_last_failed(const struct psctl *c, ps_status st);
/** The error of this thread's last call, which was to change something: whether that may have been done is said. Returns buf. */
const char *psctl_change_error(const struct psctl *c, char *buf, size_t n);
/** psctl_last_failed() of such a call. */
enum psctl_exit psctl_change_failed(const struct psctl *c, ps_status st);
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
/** for (int i = -1; psctl_next(c, only, &i);): the tasks that are meant and up. */
bool psctl_next(const struct psctl *c, int only, int *i);
/** What asking task i gave. Not PS_OK: it is down from now on, with ps_last_error(). Returns whether it answered. */
bool psctl_heard(const struct psctl *c, int i, ps_status st);
/** Notes about the tasks that are down; true when all are up. */
bool psctl_all_up(const struct psctl *c, int only);
/** Notes about tasks that came back without what they had; true when none has. */
bool psctl_none_lost(const struct psctl *c, int only);
/** What a task says that it waits for; one that had no room for all of it ends with a whole word and "...". Returns buf. */
const char *psctl_waiting_for(const ps_task_info *info, char buf[sizeof(info->waiting_for) + sizeof("...")]);
/** --json: "down": those tasks, with address and reason. */
void psctl_down(const struct psctl *c, int only);

/* A verb that lists something of the tasks: begin, while next() ask list.task and add rows, end. */
struct psctl_list {
    struct psctl *c;
    int only;             /* the task that is meant; -1: all */
    int task;             /* whose turn it is */
    const char *at;       /* its name */
    const char *none;     /* what a table without rows says; NULL: nothing */
    struct cli_list rows; /* cli_list_add() */
};
/** text as in psctl_only_task(), key and columns as in cli_list_begin(). false: PSCTL_USAGE. */
bool psctl_list_begin(struct psctl_list *l, struct psctl *c, const char *text, const char *key, const struct cli_column *columns,
                      size_t column_count);
bool psctl_list_next(struct psctl_list *l);
/** The answer's end, and who is down. */
enum psctl_exit psctl_list_end(struct psctl_list *l);

/* ---- cmd_files.c: values that are copied, and how far that is ---- */
struct psctl_copy {
    bool bar;   /* standard error is a terminal */
    bool drawn; /* the bar is on it */
    int64_t started_ms, drawn_ms;
    uint64_t bytes;                  /* so far */
    json_t *taken, *left_out, *kept; /* by an import of a part; else NULL */
    bool full;                       /* not all names are in them */
    /* an import: number of the checkpoint that has the imported values; 0: the cluster saves none */
    uint64_t saved;
};
struct psctl_copy psctl_copy_begin(const struct psctl *c);
/** ps_copied_fn of a struct psctl_copy. */
void psctl_copied(void *copy, const char *name, uint64_t done_bytes, uint64_t total_bytes);
/** The bar of something that others do. */
void psctl_copy_share(struct psctl_copy *copy, double part, const char *what);
/** The bar goes: something else is printed. */
void psctl_copy_wipe(const struct psctl_copy *copy);
/** The line, or the object, that says what was done; left_out < 0: that is not said. */
void psctl_copy_report(const struct psctl *c, const struct psctl_copy *copy, const char *path, const char *past, int variables,
                       int64_t left_out);
/** Of an export; false: "-", which was said to be none. */
bool psctl_is_file(const struct psctl *c, const char *path);
/** Values of a file, of the files of an index, or of a .npy file into live variables; asks first. */
enum psctl_exit psctl_import(struct psctl *c, const char *path);
/** Save the values that were imported since all tasks were asked (psctl_ask()) as one checkpoint, where the directory makes
 * any. Without it a lost task would come back with older values beside the imported ones of others. *out_number 0: the
 * directory makes none. FAILED: said why. */
enum psctl_exit psctl_save_imported(struct psctl *c, uint64_t *out_number);

/* ---- saves.c ---- */
/** JSON of how far checkpoints are; NULL: the task does not say. */
json_t *psctl_saves_value(const ps_saves_info *saves);

/* ---- cmd_workers.c ---- */
/* How long psctl workers shows a session that went away, without --all. The task remembers it for session_keep. */
enum { PSCTL_GONE_SHOWN_MS = 60000 };
/** Is session i of these [count] shown? One that is gone is not where it went away long ago, or where its process has a session
 *  that was heard later: the one that a recovery has made. all: --all, each is. */
bool psctl_shows_session(const ps_session_info *sessions, size_t count, size_t i, bool all);

/* ---- checkpoint_list.c ---- */
enum psctl_exit psctl_checkpoint_list(struct psctl *c);
typedef char psctl_waiting_text[sizeof(((ps_task_info *)NULL)->waiting_for) + sizeof("...")];
/** The tasks that the directory has not heard of what they have, in text; NULL: it has heard all. */
const char *psctl_not_heard(const struct psctl *c, int directory, psctl_waiting_text text);

/* ---- watch.c ---- */
/** Connect, ask the tasks and show what they say; with --watch again and again until interrupted. show prints one answer, with
 *  c->when in it where that is not NULL. */
enum psctl_exit psctl_rounds(struct psctl *c, enum psctl_exit (*show)(struct psctl *c));
/** --json: the outer object of an answer, with the time of its round. */
void psctl_answer(const struct psctl *c);
/** Its end; what was printed is out before notes and errors. */
void psctl_answer_end(const struct psctl *c);

#endif
