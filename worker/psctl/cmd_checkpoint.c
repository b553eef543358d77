/* SPDX-License-Identifier: Apache-2.0 */
/* psctl checkpoint: save the cluster now; list, verify, restore, export, import and delete checkpoints. save and restore may
 * take longer than --timeout: psctl waits on while the directory task reports progress. While disks sync there is none: psctl
 * prints that it waits, and waits SYNCS_TIMES * --timeout at most. Failure modes, exit 1: the directory task is down; a task has
 * no checkpoint_dir, a disk is full, a file is bad (the library's text). */
#include "goes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PERCENT = 10000,
    LOOK_MS = 250,
    SYNCS_TIMES = 20 /* while disks sync and nothing else moves, psctl waits SYNCS_TIMES * --timeout at most */
};

struct watched {
    struct psctl_copy bar;
    ps_checkpoint_info now; /* checkpoint that the cluster writes or loads now; number 0: no checkpoint */
    uint64_t number;        /* number of the checkpoint that this command makes; 0: not known yet */
    /* when checkpoint `number` began: a restarted directory may give the number to another checkpoint */
    uint64_t time_ms;
    ps_checkpoint_state state; /* state of checkpoint `number` */
    uint64_t highest;          /* highest number of a checkpoint that was listed */
    uint64_t said;             /* number of the last checkpoint for which syncs() has printed its note; 0: no note yet */
    int64_t moved_ms;          /* when a checkpoint last made progress, in ms */
};

static void each_watched(void *ctx, const ps_checkpoint_info *info)
{
    struct watched *w = ctx;
    w->now = info->share >= 0 ? *info : w->now;
    w->state = info->number == w->number && info->time_ms == w->time_ms ? info->state : w->state;
    w->highest = info->number > w->highest ? info->number : w->highest;
}

/* True while a checkpoint may wait for disks to sync, without visible progress. Prints a note once, after --timeout. */
static bool syncs(const struct psctl *c, struct watched *w)
{
    bool writes = w->now.number != 0 && w->now.state == PS_CHECKPOINT_WRITING;
    bool told = w->number != 0 && w->state == PS_CHECKPOINT_IN_PART;
    int64_t stalled_ms = cli_clock_ms() - w->moved_ms;
    if (writes && stalled_ms >= c->timeout_ms && w->said != w->now.number && !c->json) {
        w->said = w->now.number;
        psctl_copy_wipe(&w->bar);
        psctl_note(c, "checkpoint %" PRIu64 " waits for disks, %d %% is written, %" PRIu32 " of %" PRIu32 " tasks are done",
                   w->now.number, w->now.share / PERCENT, w->now.done, w->now.tasks);
    }
    return (writes || told) && stalled_ms < SYNCS_TIMES * c->timeout_ms;
}

/* Ask about checkpoints. True if one made progress since the last call, or may wait for disks; then --timeout begins anew. */
static bool moves(struct psctl *c, struct watched *w)
{
    const ps_checkpoint_info before = w->now;
    int directory = psctl_directory(c);
    w->now = (ps_checkpoint_info){.number = 0};
    w->state = 0;
    if (directory < 0 || ps_checkpoints(c->session, c->timeout_ms, each_watched, w) != PS_OK) {
        return false;
    }
    bool same = before.number == w->now.number && before.share == w->now.share && before.done == w->now.done;
    w->moved_ms = same ? w->moved_ms : cli_clock_ms();
    if ((same || w->now.number == 0) && !syncs(c, w)) {
        return false;
    }
    psctl_restart_clock(c);
    return true;
}

struct failure {
    ps_status status;
    ps_reason reason;
    bool unknown; /* no answer came: the request may or may not have been carried out */
    char text[1024];
};

/* Copy the error of the last library call, which ended with st: it is printed only after further calls. */
static struct failure failure_of(const struct psctl *c, ps_status st)
{
    struct failure f = {.status = st};
    if (st != PS_OK) {
        f.reason = ps_last_reason();
        f.unknown = st != PS_DEADLINE_EXCEEDED && ps_last_applied() != PS_NOTHING_APPLIED;
        (void)psctl_change_error(c, f.text, sizeof(f.text));
    }
    return f;
}

struct newest {
    ps_checkpoint_info whole;   /* newest complete checkpoint; number 0: no checkpoint is complete */
    ps_checkpoint_info in_part; /* newest checkpoint that is complete at some tasks only */
};

static void each_newest(void *ctx, const ps_checkpoint_info *info)
{
    struct newest *n = ctx;
    n->whole = info->state == PS_CHECKPOINT_WHOLE ? *info : n->whole;
    n->in_part = info->state == PS_CHECKPOINT_IN_PART ? *info : n->in_part;
}

/* After a request without an answer: print which checkpoint is the newest. directory: index of the task to ask; < 0: unknown. */
static void say_what_holds(const struct psctl *c, int directory)
{
    struct newest n = {.whole = {.number = 0}};
    ps_status st = directory < 0 ? PS_UNAVAILABLE : ps_checkpoints(c->session, c->timeout_ms, each_newest, &n);
    if (st != PS_OK) {
        psctl_note(c, "the directory does not answer: psctl checkpoint list says later what is saved");
    } else if (n.whole.number == 0 && n.in_part.number != 0) {
        psctl_note(c, "checkpoint %" PRIu64 " is there in part so far: psctl checkpoint list says later what is whole",
                   n.in_part.number);
    } else if (n.whole.number == 0) {
        psctl_note(c, "no checkpoint is whole now");
    } else if (n.whole.step < 0) {
        psctl_note(c, "the newest checkpoint that is whole now is %" PRIu64, n.whole.number);
    } else {
        psctl_note(c, "the newest checkpoint that is whole now is %" PRIu64 ", of step %" PRId64, n.whole.number, n.whole.step);
    }
}

static enum psctl_exit failed(const struct psctl *c, const struct failure *f, int directory)
{
    psctl_failed(c, f->status, f->reason, "%s", f->text);
    if (f->unknown && !c->json) {
        say_what_holds(c, directory);
    }
    return PSCTL_FAILED;
}

/* Ask the directory task for the state of checkpoint w->number, and for its progress (*last; unchanged if not known). True while
 * the checkpoint is being made. In state IN_PART it is written, and the directory task still tells the other tasks. */
static bool goes_on_now(struct psctl *c, struct watched *w, ps_checkpoint_info *last)
{
    *last = moves(c, w) && w->now.number == w->number ? w->now : *last;
    return w->state == PS_CHECKPOINT_WRITING || w->state == PS_CHECKPOINT_IN_PART;
}

static struct failure follow(struct psctl *c, struct watched *w)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    struct failure f = {.status = PS_OK};
    ps_checkpoint_info last = w->now;
    bool goes_on = w->state == PS_CHECKPOINT_WRITING || w->state == PS_CHECKPOINT_IN_PART;
    while (goes_on && cli_clock_ms() < c->deadline_ms) {
        ps_checkpoint_state before = w->state;
        psctl_copy_share(&w->bar, last.share / (100.0 * PERCENT), "is written");
        (void)nanosleep(&pause, NULL); /* sleep: the directory task reports progress only when asked */
        goes_on = goes_on_now(c, w, &last);
        if (!goes_on && w->state != PS_CHECKPOINT_WHOLE) {
            goes_on = goes_on_now(
                c, w, &last); /* ask the directory once more before the wait ends: a single request may fail by chance */
        }
        if (w->state != before) {
            psctl_restart_clock(c);
        }
    }
    psctl_copy_wipe(&w->bar);
    if (goes_on) {
        f.status = PS_DEADLINE_EXCEEDED;
        (void)snprintf(f.text, sizeof(f.text),
                       "checkpoint %" PRIu64 " is not saved yet, and goes on: %d %%, %" PRIu32 " of %" PRIu32
                       " tasks, and no further for %g s (--timeout; psctl status)",
                       w->number, last.share / PERCENT, last.done, last.tasks, (double)(cli_clock_ms() - w->moved_ms) / 1000);
    } else if (w->state != PS_CHECKPOINT_WHOLE) {
        int directory = psctl_ask(c, c->timeout_ms) == PSCTL_OK ? psctl_directory(c) : -1;
        f.status = PS_UNAVAILABLE;
        f.unknown = true;
        (void)snprintf(f.text, sizeof(f.text), "checkpoint %" PRIu64 " is not saved: %s", w->number,
                       directory >= 0 ? c->infos[directory].checkpoints : "the directory does not answer any more");
    }
    f.reason = (ps_reason)f.status;
    return f;
}

/* True if the checkpoint that is being written has a number above `before`: then this command's request has begun it. */
static bool is_ours(const struct watched *w, uint64_t before)
{
    return w->now.number > before && w->now.state == PS_CHECKPOINT_WRITING;
}

static struct failure follow_ours(struct psctl *c, struct watched *w, uint64_t *out_number)
{
    *out_number = w->number = w->now.number;
    w->time_ms = w->now.time_ms;
    w->state = PS_CHECKPOINT_WRITING;
    return follow(c, w);
}

/* Each process of a task has a number of its own (incarnation). Returns the sum of these numbers over all tasks that were up at
 * the last psctl_ask(). Another sum later means that a task was restarted or went down. */
static uint64_t sum_of_lives(const struct psctl *c)
{
    uint64_t sum = 0;
    for (int i = 0; i < c->task_count; i++) {
        sum += c->infos[i].up ? c->infos[i].life : 0;
    }
    return sum;
}

/* Set f->unknown if a task was restarted since sum_of_lives() gave `lives`. The directory task notices a restart only while a
 * request waits there, so it may miss a restart between two requests. */
static void check_lives(struct psctl *c, uint64_t lives, struct failure *f)
{
    bool same = psctl_ask(c, c->timeout_ms) == PSCTL_OK && sum_of_lives(c) == lives;
    f->unknown = f->unknown || !same;
    if (f->status == PS_OK && !same) {
        *f = (struct failure){.status = PS_UNAVAILABLE, .reason = PS_REASON_LOST, .unknown = true};
        (void)snprintf(
            f->text, sizeof(f->text),
            "a task was started again meanwhile: what was to be saved may be lost, and the checkpoint that was made has "
            "what came back");
    }
}

/* Make a checkpoint. keeps: number of a checkpoint to be restored next, which --max_to_keep must not delete; 0: no such one. */
static struct failure save_now(struct psctl *c, uint64_t keeps, uint64_t *out_number)
{
    struct watched w = {.bar = psctl_copy_begin(c)};
    struct failure f;
    uint64_t lives = sum_of_lives(c);
    int calls = 0;
    (void)moves(c, &w);
    uint64_t before = w.now.number; /* number of the checkpoint in progress; 0: none. This command's number is higher */
    do {
        f = failure_of(c, ps_checkpoint_save_before(c->session, keeps, psctl_left_ms(c), out_number));
        calls++;
    } while (f.status == PS_DEADLINE_EXCEEDED && moves(c, &w) && !is_ours(&w, before));
    if (f.status == PS_DEADLINE_EXCEEDED && is_ours(&w, before)) {
        f = follow_ours(c, &w, out_number);
    }
    if (calls > 1) {
        check_lives(c, lives, &f);
    }
    return f;
}

static void each_saved(void *ctx, const ps_checkpoint_info *info)
{
    uint64_t *newest = ctx;
    *newest = info->state == PS_CHECKPOINT_WHOLE ? info->number : *newest;
}

static enum psctl_exit save(struct psctl *c)
{
    uint64_t number = 0, before = 0;
    int directory = psctl_directory(c);
    if (directory >= 0) {
        /* no check: after an error the next call fails too, with the reason */
        (void)ps_checkpoints(c->session, psctl_left_ms(c), each_saved, &before);
    }
    psctl_leave_says("a checkpoint that has begun goes on: psctl checkpoint list says how it ends");
    struct failure f = save_now(c, 0, &number);
    if (f.status != PS_OK) {
        return failed(c, &f, directory);
    }
    psctl_leave_says(NULL);
    if (c->json) {
        cli_json_print(json_pack("{s:I, s:b}", "number", (json_int_t)number, "new", number > before));
    } else if (number > before) {
        (void)printf("checkpoint %" PRIu64 " is saved\n", number);
    } else {
        (void)printf("nothing has changed since checkpoint %" PRIu64 ", which has it all: no other one is made\n", number);
    }
    return PSCTL_OK;
}

enum psctl_exit psctl_save_imported(struct psctl *c, uint64_t *out_number)
{
    int directory = psctl_directory(c);
    uint64_t lives = sum_of_lives(c);
    *out_number = 0;
    if (directory >= 0 && c->infos[directory].checkpoints[0] == '\0') {
        return PSCTL_OK; /* without checkpoint_dir a restarted task is empty in any case */
    }
    psctl_restart_clock(c);
    psctl_leave_says("the values are imported, and not saved yet: psctl checkpoint save");
    struct failure f = save_now(c, 0, out_number);
    check_lives(c, lives, &f);
    psctl_leave_says(NULL);
    if (f.status == PS_OK) {
        return PSCTL_OK;
    }
    psctl_failed(c, f.status, f.reason,
                 f.unknown ? "some of the imported values may be gone: %.900s; import again"
                           : "the values are imported, and not saved: %.900s; a task that is lost now comes back with what was "
                             "saved before: psctl checkpoint save, or import again where one was lost",
                 f.text);
    return PSCTL_FAILED;
}

/* Print that no checkpoint is complete; if tasks are away, also that one may be complete when they are back. */
static void none_is_whole(const struct psctl *c, int directory, const ps_checkpoint_info *in_part)
{
    psctl_waiting_text text;
    const char *away = psctl_not_heard(c, directory, text);
    if (in_part->number == 0 || away == NULL) {
        psctl_error(c, PS_NOT_FOUND, "there is no checkpoint that is whole");
    } else {
        psctl_error(c, PS_UNAVAILABLE,
                    "checkpoint %" PRIu64 " is there in part, %" PRIu32 " of %" PRIu32
                    " tasks, and none is whole; %s waits for %s: try again when all are back, or name a number",
                    in_part->number, in_part->done, in_part->tasks, ps_cluster_task_name(c->session, directory), away);
    }
}

/* Number of the checkpoint that text names, "12" or "latest"; text NULL: the latest. 0: no such checkpoint; the error was
 * printed, and *out_code is psctl's exit status. */
static uint64_t number_of(struct psctl *c, const char *text, enum psctl_exit *out_code)
{
    char *end = NULL;
    struct newest newest = {.whole = {.number = 0}};
    *out_code = PSCTL_FAILED;
    if (text != NULL && strcmp(text, "latest") != 0) {
        bool digit = text[0] >= '0' && text[0] <= '9';
        uint64_t number = digit ? strtoull(text, &end, 10) : 0;
        /* strtoull() gives UINT64_MAX for all numbers that are too large */
        if (number == 0 || number == UINT64_MAX || *end != '\0') {
            *out_code = psctl_misused(c, "'%.100s' is no checkpoint: a number, or latest", text);
            return 0;
        }
        return number;
    }
    int directory = psctl_directory(c);
    if (directory < 0) {
        psctl_error(c, PS_UNAVAILABLE, "the directory does not answer: which one is the latest is not known");
        return 0;
    }
    ps_status st = ps_checkpoints(c->session, psctl_left_ms(c), each_newest, &newest);
    if (st != PS_OK) {
        (void)psctl_last_failed(c, st);
    } else if (newest.whole.number == 0) {
        none_is_whole(c, directory, &newest.in_part);
    }
    return newest.whole.number;
}

struct verifying {
    struct psctl_copy copy; /* must be first: psctl_copied() gets a pointer to it */
    const struct psctl *c;
    uint64_t number;
    bool begun;
    uint32_t away;
    json_t *not_asked;
};

static void verify_begin(struct verifying *v)
{
    if (v->c->json && !v->begun) {
        v->begun = true;
        cli_json_object(NULL);
        cli_json_put("number", json_integer((json_int_t)v->number));
        cli_json_list("bad");
    }
}

static void each_fault(void *ctx, const ps_checkpoint_fault *fault)
{
    struct verifying *v = ctx;
    bool away = fault->status == PS_UNAVAILABLE || fault->status == PS_DEADLINE_EXCEEDED;
    char task[80];
    psctl_copy_wipe(&v->copy);
    verify_begin(v);
    v->away += away;
    if (away && v->c->json) {
        (void)json_array_append_new(
            v->not_asked, json_pack("{s:s, s:s, s:o}", "task", psctl_task_text(fault->job, fault->task, task, sizeof(task)),
                                    "status", ps_status_name(fault->status), "text", cli_json_text(fault->text)));
    } else if (away) {
        (void)printf("/job:%s/task:%u could not be asked: %s\n", fault->job, fault->task, fault->text);
    } else if (v->c->json) {
        cli_json_put(NULL, json_pack("{s:s, s:i, s:s, s:s, s:o}", "job", fault->job, "task", (int)fault->task, "file",
                                     fault->file, "status", ps_status_name(fault->status), "text", cli_json_text(fault->text)));
    } else {
        (void)printf("/job:%s/task:%u %s: %s\n", fault->job, fault->task, fault->file, fault->text);
    }
}

struct sought {
    uint64_t number;
    bool listed;
};

static void each_sought(void *ctx, const ps_checkpoint_info *info)
{
    struct sought *s = ctx;
    s->listed = s->listed || (info->number == s->number && info->state != PS_CHECKPOINT_FAILED);
}

/* True if the directory task lists checkpoint `number` as not failed. known: the result if that task does not answer. */
static bool is_listed(struct psctl *c, uint64_t number, bool known)
{
    struct sought s = {.number = number};
    int directory = psctl_directory(c);
    bool heard = directory >= 0 && ps_checkpoints(c->session, psctl_left_ms(c), each_sought, &s) == PS_OK;
    return heard ? s.listed : known;
}

static enum psctl_exit verify(struct psctl *c)
{
    enum psctl_exit code = PSCTL_FAILED;
    char bytes[32];
    uint32_t faults = 0;
    ps_checkpoint_options o;
    uint64_t number = number_of(c, c->argc > 1 ? c->argv[1] : NULL, &code);
    if (number == 0) {
        return code;
    }
    struct verifying v = {.copy = psctl_copy_begin(c), .c = c, .number = number, .not_asked = json_array()};
    ps_checkpoint_options_init(&o);
    o.copied = psctl_copied;
    o.fault = each_fault;
    o.ctx = &v;
    bool known = is_listed(c, number, false);
    ps_status st = ps_checkpoint_verify(c->session, number, &o, &faults);
    psctl_copy_wipe(&v.copy);
    if (st != PS_OK && faults == 0 && v.away == 0) {
        json_decref(v.not_asked);
        return psctl_last_failed(c, st);
    }
    bool removed = st != PS_OK && known && !is_listed(c, number, true);
    if (c->json) {
        verify_begin(&v);
        cli_json_end();
        if (removed) {
            cli_json_put("removed", json_true());
        }
        cli_json_put("not_asked", v.not_asked);
        cli_json_put("bytes", json_integer((json_int_t)v.copy.bytes));
        cli_json_end();
        return st == PS_OK ? PSCTL_OK : PSCTL_FAILED;
    }
    json_decref(v.not_asked);
    if (removed) {
        (void)printf("checkpoint %" PRIu64 " was removed meanwhile: its files are not there any more\n", number);
        return PSCTL_FAILED;
    }
    (void)printf("checkpoint %" PRIu64 ": %s, ", number, cli_bytes((double)v.copy.bytes, bytes, sizeof(bytes)));
    if (faults > 0) {
        (void)printf("%" PRIu32 " of its files %s bad%s", faults, faults == 1 ? "is" : "are", v.away > 0 ? "; " : "\n");
    } else {
        (void)printf(v.away > 0 ? "no bad file was found; " : "all files are as they were written\n");
    }
    if (v.away > 0) {
        (void)printf("%" PRIu32 " of its tasks could not be asked: verify it again when they answer\n", v.away);
    }
    return st == PS_OK ? PSCTL_OK : PSCTL_FAILED;
}

static struct failure restore_now(struct psctl *c, uint64_t number, uint64_t *out_next)
{
    int64_t left_ms = psctl_left_ms(c);
    size_t count = 0;
    while (c->containers[count] != NULL) {
        count++;
    }
    return failure_of(c, c->spread
                             ? ps_checkpoint_spread(c->session, number, left_ms, out_next)
                             : ps_checkpoint_restore_containers(c->session, number, c->containers, count, left_ms, out_next));
}

/* Before a restore: save the values that it replaces. False: this failed (printed), so nothing may be restored. */
static bool save_first(struct psctl *c, uint64_t number, uint64_t *out_saved)
{
    psctl_leave_says("nothing is restored; a checkpoint that has begun goes on: psctl checkpoint list says how it ends");
    psctl_restart_clock(c);
    struct failure f = save_now(c, number, out_saved);
    psctl_leave_says(NULL);
    if (f.status != PS_OK) {
        psctl_failed(c, f.status, f.reason,
                     "nothing is restored, for what is there now could not be saved first (--no_save restores without that): %s",
                     f.text);
        return false;
    }
    psctl_note(c, "what is there now is saved as checkpoint %" PRIu64, *out_saved);
    return true;
}

/* Restore checkpoint `number`, wait until all tasks have loaded it, and save the result as a new checkpoint, *out_saved. */
static struct failure restore_and_save(struct psctl *c, uint64_t number, uint64_t *out_saved)
{
    struct watched w = {.bar = psctl_copy_begin(c)};
    struct failure f;
    (void)moves(c, &w);
    uint64_t before = w.highest;
    psctl_restart_clock(c);
    f = restore_now(c, number, out_saved);
    /* after DEADLINE_EXCEEDED the cluster goes on restoring: the next call waits for that restore */
    while (f.status == PS_DEADLINE_EXCEEDED && moves(c, &w) && w.now.number == number) {
        psctl_copy_share(&w.bar, w.now.share / (100.0 * PERCENT), "is read");
        f = restore_now(c, number, out_saved);
    }
    if (f.status == PS_DEADLINE_EXCEEDED && is_ours(&w, before)) {
        struct failure saved = follow_ours(c, &w, out_saved);
        f = saved;
        if (saved.status != PS_OK) {
            (void)snprintf(f.text, sizeof(f.text), "checkpoint %" PRIu64 " was restored, and is not saved so: %.900s", number,
                           saved.text);
        }
    }
    psctl_copy_wipe(&w.bar);
    return f;
}

static void say_restored(const struct psctl *c, uint64_t number, const struct goes *goes, size_t left_out, uint64_t saved)
{
    char without[80] = "";
    if (left_out > 0 && goes->known) {
        (void)snprintf(without, sizeof(without), " without %zu of its %zu containers", left_out, goes->count);
    } else if (left_out > 0) {
        (void)snprintf(without, sizeof(without), ", while %zu container%s", left_out, left_out == 1 ? " stays" : "s stay");
    }
    (void)printf("checkpoint %" PRIu64 " is %s%s, and saved so as checkpoint %" PRIu64 "\n", number,
                 c->spread ? "spread over all ps tasks" : "restored", without, saved);
}

static enum psctl_exit restore_confirmed(struct psctl *c, uint64_t number, struct goes *goes)
{
    uint64_t before = 0;
    if (!c->no_save && !save_first(c, number, &before)) {
        return PSCTL_FAILED;
    }
    psctl_goes_mark(c, goes);
    psctl_restart_clock(c);
    psctl_leave_says(
        "a restore that has begun goes on, and is saved then: psctl status and psctl checkpoint list say how it ends");
    uint64_t saved = 0;
    int directory = psctl_directory(c);
    struct failure f = restore_and_save(c, number, &saved);
    if (f.status != PS_OK) {
        return failed(c, &f, directory);
    }
    psctl_leave_says(NULL);
    psctl_restart_clock(c);
    json_t *left = psctl_goes_left_out(c, goes); /* ask before the answer, which has these containers, is printed */
    if (c->json) {
        json_t *answer = json_pack("{s:I, s:I}", "number", (json_int_t)number, "saved", (json_int_t)saved);
        if (!c->no_save) {
            (void)json_object_set_new(answer, "before", json_integer((json_int_t)before));
        }
        if (left != NULL && goes->known) {
            (void)json_object_set(answer, "left_out", left);
        }
        cli_json_print(answer);
    } else {
        say_restored(c, number, goes, json_array_size(left), saved);
    }
    json_decref(left);
    return PSCTL_OK;
}

static enum psctl_exit restore(struct psctl *c)
{
    enum psctl_exit code = PSCTL_FAILED;
    uint64_t number = number_of(c, c->argc > 1 ? c->argv[1] : NULL, &code);
    if (number == 0) {
        return code;
    }
    if (c->spread && c->container != NULL) {
        return psctl_misused(c, "checkpoint restore --spread deals all containers anew: it takes no --container");
    }
    struct goes goes = {.names = NULL};
    code = psctl_restore_confirmed(c, number, &goes);
    code = code == PSCTL_OK ? restore_confirmed(c, number, &goes) : code;
    psctl_goes_free(&goes);
    return code;
}

static enum psctl_exit export_one(struct psctl *c)
{
    static const char ending[] = ".safetensors";
    const char *path = c->argv[2];
    enum psctl_exit code = PSCTL_FAILED;
    char index[4096];
    int variables = 0;
    ps_checkpoint_options o;
    if (!psctl_is_file(c, path)) {
        return PSCTL_USAGE;
    }
    uint64_t number = number_of(c, c->argv[1], &code);
    if (number == 0) {
        return code;
    }
    struct psctl_copy copy = psctl_copy_begin(c);
    ps_checkpoint_options_init(&o);
    o.container = c->container;
    o.slots = c->slots;
    o.only = c->only[0] != NULL ? c->only : NULL;
    o.prefixes = c->prefix[0] != NULL ? c->prefix : NULL;
    o.shard_bytes = (uint64_t)c->shard_bytes;
    o.copied = psctl_copied;
    o.ctx = &copy;
    ps_status st = ps_checkpoint_export(c->session, number, path, &o, &variables);
    psctl_copy_wipe(&copy);
    if (st != PS_OK) {
        return psctl_last_failed(c, st);
    }
    if (o.shard_bytes != 0) {
        size_t n = strlen(path), k = strlen(ending);
        n -= n > k && strcmp(path + n - k, ending) == 0 ? k : 0;
        (void)snprintf(index, sizeof(index), "%.*s%s.index.json", (int)n, path, ending);
        path = index;
    }
    psctl_copy_report(c, &copy, path, "exported", variables, -1);
    return PSCTL_OK;
}

static enum psctl_exit import(struct psctl *c)
{
    psctl_restart_clock(c);
    c->slots = true;
    return psctl_import(c, c->argv[1]);
}

static enum psctl_exit delete_one(struct psctl *c)
{
    enum psctl_exit code = PSCTL_FAILED;
    uint64_t number = number_of(c, c->argv[1], &code);
    if (number == 0) {
        return code;
    }
    psctl_waiting_text text;
    int directory = psctl_directory(c);
    const char *away = directory >= 0 ? psctl_not_heard(c, directory, text) : NULL;
    ps_status st = ps_checkpoint_delete(c->session, number, c->force, psctl_left_ms(c));
    if (st != PS_OK) {
        (void)psctl_change_failed(c, st);
        if (st == PS_NOT_FOUND && away != NULL) {
            psctl_note(c, "%s waits for %s, and has not heard what is there of it", ps_cluster_task_name(c->session, directory),
                       away);
        }
        return PSCTL_FAILED;
    }
    json_t *down = json_array();
    for (int i = 0; directory >= 0 && i < c->task_count; i++) {
        if (!c->infos[i].up && strcmp(c->infos[i].job, c->infos[directory].job) == 0) {
            (void)json_array_append_new(down, json_string(ps_cluster_task_name(c->session, i)));
        }
    }
    code = json_array_size(down) == 0 ? PSCTL_OK : PSCTL_FAILED;
    if (c->json) {
        cli_json_print(json_pack("{s:I, s:o}", "number", (json_int_t)number, "not_asked", down));
        return code;
    }
    (void)printf("checkpoint %" PRIu64 " is deleted\n", number);
    for (size_t i = 0; i < json_array_size(down); i++) {
        psctl_note(c,
                   "%s does not answer, and keeps its part where it has one: when it is back, that goes by itself if the "
                   "directory has lived on and its oldest checkpoint is a newer one; else delete %" PRIu64
                   " again. Where there is no checkpoint %" PRIu64 " then, it has gone",
                   json_string_value(json_array_get(down, i)), number, number);
    }
    json_decref(down);
    return code;
}

static const struct psctl_action actions[] = {
    {"save", "", 0, 0, save, 0},
    {"list", "", 0, 0, psctl_checkpoint_list, 0},
    {"verify", "[NUMBER | latest]", 0, 1, verify, 0},
    {"restore", "[NUMBER | latest]", 0, 1, restore, PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(SPREAD) | PSCTL_FLAG(NO_SAVE)},
    {"export", "NUMBER | latest, FILE", 2, 2, export_one,
     PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(SLOTS) | PSCTL_FLAG(SHARD) | PSCTL_FLAG(ONLY) | PSCTL_FLAG(PREFIX)},
    {"import", "FILE", 1, 1, import, PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(ONLY) | PSCTL_FLAG(PREFIX) | PSCTL_FLAG(CREATE)},
    {"delete", "NUMBER", 1, 1, delete_one, PSCTL_FLAG(FORCE)},
};

static enum psctl_exit show(struct psctl *c)
{
    if (strcmp(c->argv[0], "restore") != 0 && c->container != NULL && c->containers[1] != NULL) {
        return psctl_misused(c, "checkpoint %.100s takes one --container; see psctl checkpoint --help", c->argv[0]);
    }
    return psctl_act(c, actions, CLI_COUNT(actions));
}

const struct psctl_verb psctl_verb_checkpoint = {
    .name = "checkpoint",
    .look = "checkpoint list",
    .each = true,
    .arguments = "save | list | verify [N] | restore [N] | export N FILE | import FILE | delete N",
    .summary = "save all ps tasks now; what is saved, and what to do with it",
    .args_min = 1,
    .args_max = 3,
    .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(YES) | PSCTL_FLAG(SLOTS) | PSCTL_FLAG(SHARD) | PSCTL_FLAG(FORCE) |
             PSCTL_FLAG(ONLY) | PSCTL_FLAG(PREFIX) | PSCTL_FLAG(CREATE) | PSCTL_FLAG(SPREAD) | PSCTL_FLAG(NO_SAVE),
    .words = "save list verify restore export import delete latest",
    .show = show,
    .help =
        "save: what all ps tasks have now, each beneath its own checkpoint_dir; it returns when it is on the disks of all of\n"
        "them, which beside training takes its time: --timeout of it, and of restore, is since it last got further; where that\n"
        "is over it goes on by itself. Disks that sync are waited for 20 times as long. Where nothing differs from the newest "
        "one\n"
        "no other one is made, and that one is named. list: those that the "
        "directory knows,\n"
        "and the one that is being made; STEP is the value of the variable global_step at its cut; why one is unusable is said\n"
        "below. The last attempt, where it has failed, is shown as well, and why, until one is saved; exit status 1. Where it "
        "knows\n"
        "none, and\n"
        "tasks do not begin, it says what they wait for; exit status 1.\n"
        "verify: each file of each task is read and compared with its CRCs; a line for each that is bad, or for a task that\n"
        "could not be asked, of which nothing bad is known then, and exit status 1.\n"
        "N is a number of the list, or latest: the newest one that is saved, which verify and restore take by themselves;\n"
        "UNAVAILABLE where there are only some in part, and the directory waits for tasks.\n"
        "restore: all tasks go back to it while they live, when all have read and verified it; workers get ABORTED, and\n"
        "monitored ones go on from there. --container NAME, which may be given again: these go back, and the others stay;\n"
        "without it all do. Which go, and the step that each has now, is said; then it asks on a terminal, saves what is there\n"
        "(where that fails nothing is restored), restores, and returns when a checkpoint of that is saved. --yes does not ask,\n"
        "and must be given where standard input is no terminal; --no_save leaves the first save out. The checkpoint that is\n"
        "restored is not pushed out by that save (max_to_keep). What was reset since is left out, which is said. --spread: it is "
        "dealt anew over all ps tasks\n"
        "there are, by its size, also onto those that came since, and saved so; queues, work and accumulators stay where they "
        "are.\n"
        "export: the variables of a container as they were saved into one safetensors file, --slots: with those of the\n"
        "optimizers, --shard BYTES: into files of that size, FILE-00001-of-00003.safetensors (FILE without its .safetensors)\n"
        "and an index, FILE.safetensors.index.json, --only: not all of them, --prefix: under other names. What is not\n"
        "exported is not compared with its CRCs. Files of an export with another number of them stay beside; the index names "
        "those that count.\n"
        "import: psctl import, with the slots that export has written; --only, --prefix and --create as there. A checkpoint\n"
        "is made of it, where there is a checkpoint_dir.\n"
        "delete: it goes on all tasks that are up; exit status 1 where one is not, which keeps its part. The newest one\n"
        "that is whole, and one that the directory does not know to be this cluster's, only with --force. --timeout of\n"
        "the others is for each request.\n",
};
