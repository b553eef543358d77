/* SPDX-License-Identifier: Apache-2.0 */
/* Open, watch and close pstrain's sessions with the cluster. An error is printed together with a remedy. */
#include "session.h"

#include "say.h"
#include "stop.h"

#include "common/schedule.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Print the library's warnings and notes. Not its errors: this program prints each of them itself, with a remedy. */
static void on_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    if (level != PS_LOG_ERROR) {
        say_line(line);
    }
}

static bool evaluates;
static session_gate_fn gate;
static void *gate_ctx;

void session_gate(session_gate_fn ask, void *ctx)
{
    gate = ask;
    gate_ctx = ctx;
}

/* A ps_restore_fn, called in the chief if there is no model: imports the file of --restore. ctx is struct flags. */
static ps_status restore(void *ctx, ps_session *s)
{
    const struct flags *f = ctx;
    int count = 0;
    if (gate != NULL && !gate(gate_ctx)) {
        return ps_session_fail(s, PS_ABORTED, "the model was reset: another run has begun");
    }
    ps_status st = ps_import(s, f->restore, NULL, &count);
    if (st == PS_OK) {
        say_note("--restore: %d variables of %s", count, f->restore);
    }
    return st;
}

enum { RATE_MS = 5000, TEXTS_MAX = 64 }; /* TEXTS_MAX: most texts in a list of ps_file_options */

/* Split text at commas into out, which ends with NULL. The caller frees *out_copy. False: no memory, or more than TEXTS_MAX. */
static bool split(const char *text, const char *out[TEXTS_MAX + 1], char **out_copy)
{
    int count = 0;
    char *rest = NULL;
    *out_copy = strdup(text);
    char *one = *out_copy == NULL ? NULL : strtok_r(*out_copy, ",", &rest);
    for (; one != NULL && count < TEXTS_MAX; one = strtok_r(NULL, ",", &rest)) {
        out[count++] = one;
    }
    out[count] = NULL;
    return *out_copy != NULL && one == NULL;
}

struct warm {
    const struct flags *f;
    int count;
    bool step;
};

static void on_taken(void *ctx, const char *tensor, const char *variable)
{
    struct warm *w = ctx;
    if (tensor != NULL && variable != NULL) {
        bool step = strcmp(variable, "global_step") == 0;
        w->step = w->step || step;
        w->count += !step;
    }
}

static ps_status begin_at_0(ps_session *s)
{
    const int64_t zero = 0;
    ps_variable *step = NULL;
    ps_status st = ps_global_step_get(s, &step);
    return st == PS_OK ? ps_variable_assign(step, &zero, sizeof(zero)) : st;
}

static int warmed = -1;

/* The values of --warm_start_only and --warm_start_prefix, split at their commas. */
struct choice {
    const char *only[TEXTS_MAX + 1], *prefixes[TEXTS_MAX + 1];
    char *only_text, *prefix_text;
};

static void choice_fini(struct choice *c)
{
    free(c->only_text);
    free(c->prefix_text);
}

/* Let o's lists of texts point into c. False: no memory, or more than TEXTS_MAX texts. choice_fini() in both cases. */
static bool choice_init(struct choice *c, const struct flags *f, ps_file_options *o)
{
    bool fits = split(f->warm_start_only, c->only, &c->only_text);
    fits = split(f->warm_start_prefix, c->prefixes, &c->prefix_text) && fits;
    o->only = fits && c->only[0] != NULL ? c->only : NULL;
    o->prefixes = fits && c->prefixes[0] != NULL ? c->prefixes : NULL;
    return fits;
}

ps_status session_warm_start_check(const struct flags *f)
{
    struct choice choice;
    ps_file_options o;
    ps_file_options_init(&o);
    bool fits = choice_init(&choice, f, &o);
    /* if the flags have more than TEXTS_MAX texts, nothing is checked here: the later import reports that error */
    ps_status st = fits ? ps_file_check(f->warm_start, &o, NULL) : PS_OK;
    choice_fini(&choice);
    return st;
}

/* A ps_restore_fn: imports the variables of --warm_start's file that flags select. ctx is struct flags. */
static ps_status warm_start(void *ctx, ps_session *s)
{
    const struct flags *f = ctx;
    struct warm w = {.f = f};
    struct choice choice;
    ps_file_options o;
    if (gate != NULL && !gate(gate_ctx)) {
        return ps_session_fail(s, PS_ABORTED, "the model was reset: another run has begun");
    }
    ps_file_options_init(&o);
    o.existing = true;
    o.taken = on_taken;
    o.ctx = &w;
    bool fits = choice_init(&choice, f, &o);
    ps_status st =
        fits ? ps_import(s, f->warm_start, &o, NULL)
             : ps_session_fail(s, PS_RESOURCE_EXHAUSTED, "--warm_start: more than 64 patterns or prefixes, or no memory");
    choice_fini(&choice);
    st = st == PS_OK && w.step ? begin_at_0(s) : st;
    if (st == PS_OK) {
        warmed = w.count;
        say_note("--warm_start: %d variable%s of %s", w.count, w.count == 1 ? "" : "s", f->warm_start);
    }
    return st;
}

int session_warmed(void)
{
    return warmed;
}

/* Open a session for a worker or evaluator; it recovers by itself when ps tasks are restarted. */
static ps_status open_monitored(const struct flags *f, const ps_session_options *o, ps_session **out_session, char *error,
                                size_t error_bytes)
{
    ps_monitored_options m;
    ps_monitored_options_init(&m);
    m.max_recoveries = (uint32_t)f->max_recoveries;
    m.max_recovery_ms = o->operation_timeout_ms;
    m.restore_part = f->warm_start[0] != '\0';
    m.restore = m.restore_part ? warm_start : f->restore[0] != '\0' ? restore : NULL;
    m.restore_ctx = (void *)(uintptr_t)f; /* the cast drops const; the flags are only read */
    m.start_over = f->start_over;
    m.checkpoint_dir = f->checkpoint_dir;
    return ps_monitored_open(o, &m, out_session, error, error_bytes);
}

int64_t session_start_ms(const struct flags *f)
{
    const int64_t ms = f->timeout_s * 1000;
    return flags_given(f, "timeout") && ms < SESSION_READY_TIMEOUT_MS ? ms : SESSION_READY_TIMEOUT_MS;
}

void session_who(const struct flags *f, ps_session_options *o)
{
    o->key_file = f->key_file;
    o->tls_cert = f->tls_cert;
    o->tls_key = f->tls_key;
    o->tls_ca = f->tls_ca;
}

static ps_session *open_any(const struct flags *f, const struct cluster *c, bool trains, int64_t timeout_ms, bool quiet)
{
    const char *job = trains && c->job[0] != '\0' ? c->job : NULL;
    char error[1024] = "";
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.cluster_spec = c->spec;
    o.target = c->spec == NULL ? c->target : NULL;
    o.job = job;
    o.task_index = job != NULL ? c->task : 0;
    o.operation_timeout_ms = timeout_ms;
    o.ready_timeout_ms = SESSION_READY_TIMEOUT_MS;
    o.start_timeout_ms = (uint32_t)session_start_ms(f);
    o.log_level = quiet ? PS_LOG_WARN : PS_LOG_INFO;
    o.log = on_log;
    o.program = "pstrain";
    o.seed = (uint64_t)f->seed;
    o.container = f->container[0] != '\0' ? f->container : NULL;
    o.cluster_name = f->cluster_name[0] != '\0' ? f->cluster_name : o.cluster_name;
    session_who(f, &o);
    o.allow_soft_placement = f->allow_soft_placement;
    o.log_device_placement = f->log_device_placement && trains; /* only once: the session for the test at the end logs none */
    o.compute_device = trains ? f->device : NULL;               /* the test at the end runs on the CPU */
    o.compute_threads = flags_given(f, "threads") || f->in_rounds ? (uint32_t)f->threads : 0;
    o.prefetch = f->prefetch && trains && !c->evaluator; /* an evaluator needs the present values, not prefetched ones */
    ps_status st = job != NULL ? open_monitored(f, &o, &s, error, sizeof(error)) : ps_session_open(&o, &s, error, sizeof(error));
    if (st != PS_OK) {
        (void)say_error("cannot open a session: %s", error);
        return NULL;
    }
    return s;
}

ps_session *session_open(const struct flags *f, const struct cluster *c, bool trains, int64_t timeout_ms, bool quiet)
{
    stop_hold();
    ps_session *s = open_any(f, c, trains, timeout_ms, quiet);
    stop_session(s);
    evaluates = c->evaluator;
    bool in_step = s != NULL && trains && !c->evaluator && f->with.mode != PS_SYNC_NONE;
    if (in_step && ps_session_sync(s, &f->with) != PS_OK) {
        (void)session_failed(s, f->sync ? "--sync" : "--staleness");
        (void)session_close(s);
        return NULL;
    }
    if (in_step && f->sync && ps_session_clip_norm(s, f->clip_norm, PS_NORM_OF_ALL) != PS_OK) {
        (void)session_failed(s, "--clip_norm");
        (void)session_close(s);
        return NULL;
    }
    return s;
}

ps_session *session_open_aside(const struct flags *f, const struct cluster *c)
{
    stop_hold();
    ps_session *s = open_any(f, c, false, f->timeout_s * 1000, true);
    stop_aside(s, NULL);
    return s;
}

void session_close_aside(ps_session *s)
{
    stop_hold(); /* hold signals: one that ends the process now would prevent the session's goodbye to the tasks */
    (void)ps_session_close(s);
    stop_aside(NULL, s);
}

int session_close(ps_session *s)
{
    stop_hold();
    stop_session(NULL);
    return ps_session_close(s);
}

bool session_is_whole(ps_session *s, ps_status st)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "%s", ps_last_error());
    const bool mends = st == PS_ABORTED || st == PS_UNAVAILABLE || st == PS_DATA_LOSS || st == PS_DEADLINE_EXCEEDED ||
                       st == PS_CANCELLED; /* the status of calls on a reset queue */
    if (ps_pull(s) == PS_OK && mends) {
        return true;
    }
    (void)ps_session_fail(s, st, text); /* an earlier error of the session stays */
    return false;
}

static bool is_other_model(ps_reason reason)
{
    return reason == PS_REASON_SHAPE_MISMATCH || reason == PS_REASON_OPTIMIZER_MISMATCH || reason == PS_REASON_ATOMIC_MISMATCH;
}

bool session_met_other_model(ps_session *s)
{
    return ps_session_status(s) == PS_INVALID_ARGUMENT && is_other_model(ps_session_reason(s));
}

/* What the user can do about an error of a worker's session; "": the error's own text tells it. */
static const char *remedy(ps_status st, ps_reason reason)
{
    static const char other_model[] = "; or use the flags of the run that made the model; --fresh on all trainers starts over";
    static const char other_cluster[] =
        "; --ps_hosts must be the same list, in the same order, and --cluster_name the same, for every task and trainer";
    static const char no_checkpoint[] =
        "; psctl config set restore auto at the first ps (--restore_checkpoint where pstrain runs it) has the newest checkpoint "
        "loaded that is good, a number that one of psctl checkpoint list, none begins with an empty model";
    static const char budget[] = "; psctl config set memory_budget raises it while the task runs";
    if (evaluates && (st == PS_ABORTED || st == PS_DATA_LOSS || reason == PS_REASON_LOST)) {
        return "; start the evaluator again: it waits for the model, if that is lost until trainers have made it anew";
    }
    switch (st) {
    case PS_ABORTED:
        return "; the model was reset (by a trainer with --fresh) or its ps task restarted: start this trainer again, all "
               "trainers with --fresh if part of the model is lost";
    case PS_DATA_LOSS:
        return "; --fresh on all trainers starts over, --container NAME keeps another model apart";
    case PS_FAILED_PRECONDITION:
        return reason == PS_REASON_OTHER_CLUSTER ? other_cluster
               : reason == PS_REASON_NOT_READY   ? no_checkpoint
               : reason == PS_REASON_TOO_LARGE   ? budget
               : reason == PS_REASON_CONFLICT    ? ""
                                                 : other_model;
    case PS_UNAVAILABLE:
        return "; is that ps task running and its address right?";
    case PS_INVALID_ARGUMENT:
        return reason == PS_REASON_NOT_FINITE ? "; a smaller --learning_rate may help"
               : is_other_model(reason)       ? other_model
                                              : "";
    default:
        return "";
    }
}

int session_directory(ps_session *s)
{
    static const char home[] = "/job:ps/";
    int count = ps_cluster_tasks(s);
    for (int i = 0; i < count; i++) {
        if (strncmp(ps_cluster_task_name(s, i), home, sizeof(home) - 1) == 0) {
            return i; /* the directory is the first ps task, and a job's tasks are listed by rising index */
        }
    }
    return count > 0 ? 0 : -1;
}

struct rate_of {
    const char *container, *name;
    bool found; /* a ps task has the variable, and its rate was read */
    bool set;   /* psctl set-lr has set the rate */
    double rate;
    uint64_t step; /* highest global step in a push of the variable */
};

static void on_variable(void *ctx, const ps_variable_info *info)
{
    struct rate_of *of = ctx;
    if (strcmp(info->container, of->container) == 0 && strcmp(info->name, of->name) == 0) {
        of->found = true;
        of->set = info->rate > 0;
        of->rate = info->rate_in_force;
        of->step = info->step;
    }
}

void session_say_rate(ps_session *s, const struct flags *f, const char *name)
{
    struct rate_of of = {.container = f->container[0] != '\0' ? f->container : "localhost", .name = name};
    char schedule[PSI_SCHEDULE_TEXT_MAX];
    const int tasks = ps_cluster_tasks(s);
    for (int i = 0; i < tasks && !of.found; i++) {
        if (strncmp(ps_cluster_task_name(s, i), "/job:ps/", 8) == 0) {
            (void)ps_task_variables(s, i, RATE_MS, on_variable, &of); /* no check: without an answer no rate is printed */
        }
    }
    if (of.found && of.set) {
        say_result("learning rate %.15g in force, by psctl set-lr; --learning_rate is %.15g\n", of.rate, f->rule.learning_rate);
    } else if (of.found && f->rule.schedule != PS_SCHEDULE_NONE) {
        say_result("learning rate %.15g at step %" PRIu64 ", by %s\n", of.rate, of.step,
                   psi_schedule_format(&f->rule, schedule, sizeof(schedule)));
    } else if (of.found) {
        say_result("learning rate %.15g\n", of.rate);
    }
}

int session_call_failed(ps_status st, const char *what)
{
    (void)say_error("%s: %s: %s%s", what, ps_status_name(st), ps_last_error(), remedy(st, ps_last_reason()));
    return -1;
}

int session_failed(ps_session *s, const char *what)
{
    ps_status st = ps_session_status(s);
    if (stop_is_ending()) {
        return -1;
    }
    (void)say_error("%s: %s: %s%s", what, ps_status_name(st), ps_session_error(s), remedy(st, ps_session_reason(s)));
    return -1;
}
