/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a model know about each other, from four variables (signs) that chiefs write, and from the sessions that
 * the directory (first ps task) lists. The variables are in containers of their own, so that an export of the model lacks them:
 *   - `pstrain/chief`: session id of the present chief.
 *   - `pstrain/run`: session id of the chief that began the run.
 *   - `pstrain/goal`: the global step that ends a run in rounds.
 *   - `pstrain/fresh`: session id of the last chief that began a run with --fresh. A reset does not empty its container.
 *
 * With --fresh the chief empties the model's container and that of the first three signs, then creates the model. The other
 * workers must not use the old model: they wait until the session in `pstrain/chief` is connected, for --timeout at most.
 *
 * The end: the chief waits until the global step has the steps of all workers' epochs, or until no other worker is left. For that
 * the chief enters a barrier of all sessions of job worker that hold a lease; an ended session holds none. Failure mode: a worker
 * was stopped, or has never begun. Then the chief goes on after STILL_MS without a step, and prints that. If --steps is reached,
 * the chief goes on after STILL_BY_STEP_MS, and prints nothing. */
#include "team.h"

#include "session.h"
#include "say.h"
#include "shards.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_NAME "pstrain/end"
#define CHIEF_NAME "pstrain/chief"
#define GOAL_NAME "pstrain/goal"
#define RUN_NAME "pstrain/run"
#define FRESH_NAME "pstrain/fresh"
#define SIGNS_SUFFIX ".pstrain"
#define FRESH_SUFFIX ".pstrain.fresh"

enum {
    CONTAINER_BYTES = 64,
    LOOK_MS = 100,
    LOOK_TRAINING_MS = 200,
    END_SLICE_MS = 500, /* longest wait between two checks for a signal */
    NOTE_FIRST_MS = 5000,
    NOTE_EVERY_MS = 60000,
    LEASE_MS = 10000 /* how long a session's lease is taken to last: the ps tasks' setting is not asked for */
};
enum {
    STILL_MS = 10000,
    STILL_BY_STEP_MS = 3000,
    ALONE_LOOKS = 3 /* the chief must find no other worker so often in a row: after a reset workers lack a session for a moment */
};

static const char *container_of(const struct flags *f)
{
    return f->container[0] != '\0' ? f->container : "localhost";
}

void team_init(struct team *t, ps_session *s, const struct flags *f, const struct cluster *c)
{
    *t = (struct team){.f = f, .c = c, .session = s, .container = container_of(f)};
}

struct sight {
    const char *job;
    uint32_t task;
    int64_t wanted; /* id of a session to look for */
    int64_t newest; /* id of the newest connected session of job and task; 0: no such session, or job is NULL */
    uint64_t age_ms;
    bool there;  /* the session `wanted` is connected */
    int workers; /* connected sessions of job worker */
};

static void on_session(void *ctx, const ps_session_info *info)
{
    struct sight *seen = ctx;
    int64_t id = (int64_t)strtoull(info->id, NULL, 16);
    if (!info->connected) {
        return;
    }
    seen->there = seen->there || id == seen->wanted;
    seen->workers += strcmp(info->job, "worker") == 0;
    if (seen->job != NULL && strcmp(info->job, seen->job) == 0 && info->task == seen->task &&
        (seen->newest == 0 || info->age_ms < seen->age_ms)) {
        seen->newest = id;
        seen->age_ms = info->age_ms;
    }
}

/* Fill *seen from the sessions that the directory (the first ps task) lists: it knows all sessions of the cluster. */
static ps_status ask_sessions(const struct team *t, struct sight *seen)
{
    int directory = session_directory(t->session);
    return directory >= 0 ? ps_task_sessions(t->session, directory, 0, on_session, seen) : PS_UNAVAILABLE;
}

/* Write into name the container of `pstrain/fresh` (fresh) or of the other signs, as "localhost.pstrain". Returns name. */
static const char *signs_container(const struct team *t, bool fresh, char name[CONTAINER_BYTES])
{
    (void)snprintf(name, CONTAINER_BYTES, "%.*s%s", CONTAINER_BYTES - (int)sizeof(FRESH_SUFFIX), t->container,
                   fresh ? FRESH_SUFFIX : SIGNS_SUFFIX);
    return name;
}

/* Get the variable `name`, such as pstrain/chief, in a session beside the training session. make: create it if it is missing. */
static ps_status sign(const struct team *t, ps_session *aside, const char *name, bool make, ps_variable **out)
{
    ps_variable_spec spec;
    char container[CONTAINER_BYTES];
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_I64;
    spec.shape = PS_SCALAR;
    ps_status st = ps_container_push(aside, signs_container(t, strcmp(name, FRESH_NAME) == 0, container));
    if (st != PS_OK) {
        return st;
    }
    st = make ? ps_variable_get(aside, &spec, out) : ps_variable_find(aside, name, out);
    ps_status popped = ps_container_pop(aside);
    return st == PS_OK ? popped : st;
}

/* Read the variable `name`, such as pstrain/chief. NOT_FOUND: it does not exist; FAILED_PRECONDITION: it has no value yet. */
static ps_status sign_read(const struct team *t, ps_session *aside, const char *name, int64_t *out)
{
    ps_variable *v = NULL;
    ps_status st = sign(t, aside, name, false, &v);
    return st == PS_OK ? ps_variable_read(v, out, sizeof(*out)) : st;
}

static ps_status sign_write(const struct team *t, ps_session *aside, const char *name, int64_t value)
{
    ps_variable *v = NULL;
    ps_status st = sign(t, aside, name, true, &v);
    return st == PS_OK ? ps_variable_assign(v, &value, sizeof(value)) : st;
}

static bool is_unsigned(ps_status st)
{
    return st == PS_NOT_FOUND || st == PS_FAILED_PRECONDITION;
}

ps_status team_reset(const struct team *t)
{
    char signs[CONTAINER_BYTES];
    const char *const both[] = {t->container, signs_container(t, false, signs)};
    return ps_reset_containers(t->session, both, 2);
}

int team_note_fresh(struct team *t, bool begins)
{
    struct sight own = {.job = t->c->job, .task = t->c->task};
    ps_session *aside = session_open_aside(t->f, t->c);
    if (aside == NULL) {
        return -1;
    }
    ps_status st = begins ? ask_sessions(t, &own) : PS_OK;
    st = begins && st == PS_OK ? sign_write(t, aside, FRESH_NAME, own.newest) : st;
    t->fresh = own.newest;
    st = begins ? st : sign_read(t, aside, FRESH_NAME, &t->fresh);
    int result = st == PS_OK || is_unsigned(st) ? 0 : session_call_failed(st, "the last run with --fresh (" FRESH_NAME ")");
    session_close_aside(aside);
    return result;
}

/* True if the variable `name` (pstrain/...) has another value than own. False also if it is lost with its ps task. */
static bool differs(const struct team *t, const char *name, int64_t own)
{
    int64_t now = own;
    ps_session *aside = session_open_aside(t->f, t->c);
    bool known = aside != NULL && sign_read(t, aside, name, &now) == PS_OK;
    session_close_aside(aside);
    return known && now != own;
}

bool team_is_replaced(const struct team *t)
{
    return differs(t, FRESH_NAME, t->fresh);
}

bool team_is_over(const struct team *t)
{
    return t->run != 0 && differs(t, RUN_NAME, t->run);
}

/* True if the global step has reached --steps: then no worker needs a chief any more. */
static bool is_reached(const struct team *t, ps_session *aside)
{
    ps_variable *step = NULL;
    int64_t now = -1;
    return t->f->steps > 0 && ps_variable_find(aside, "global_step", &step) == PS_OK &&
           ps_variable_read(step, &now, sizeof(now)) == PS_OK && now >= t->f->steps;
}

/* True if the last run has ended: all its shards are done, and a worker has reported the end of the job. */
static bool has_ended(const struct team *t, ps_session *aside)
{
    int64_t run = 0;
    if (sign_read(t, aside, RUN_NAME, &run) != PS_OK || !shards_are_over(aside, run)) {
        return false;
    }
    int directory = session_directory(aside);
    ps_task_info *infos = directory >= 0 ? calloc((size_t)directory + 1, sizeof(*infos)) : NULL;
    bool ended = infos != NULL && ps_cluster_info(aside, infos, sizeof(*infos), directory + 1, t->f->timeout_s * 1000) == PS_OK &&
                 infos[directory].done > 0;
    free(infos);
    return ended;
}

ps_status team_wait_for_chief(struct team *t, bool fresh, int64_t deadline_ms, int64_t timeout_s)
{
    const char *what = fresh ? "--fresh" : "--work shards", *over = fresh ? " over" : "";
    int64_t first = 0;
    bool looked = false, reached = false;
    int64_t note_ms = cli_clock_ms() + NOTE_FIRST_MS;
    ps_session *aside = session_open_aside(t->f, t->c);
    if (aside == NULL) {
        return PS_UNAVAILABLE;
    }
    while (cli_clock_ms() < deadline_ms) {
        struct sight seen = {.wanted = 0};
        if (!fresh && ps_is_chief(t->session)) { /* the former chief is gone, and this session has become chief */
            session_close_aside(aside);
            return PS_OK;
        }
        ps_status st = sign_read(t, aside, CHIEF_NAME, &seen.wanted);
        bool found = st == PS_OK;
        st = found ? ask_sessions(t, &seen) : st;
        /* pstrain/chief has changed during this wait: another chief has come, so its shards exist */
        bool came = looked && found && seen.wanted != first && !fresh;
        reached = looked ? reached : !fresh && found && is_reached(t, aside);
        first = looked ? first : seen.wanted;
        looked = true;
        if (found && st == PS_OK && (seen.there || came || reached)) {
            t->chief = seen.wanted;
            st = sign_read(t, aside, RUN_NAME, &t->run);
            if (!is_unsigned(st)) {
                session_close_aside(aside);
                return st;
            }
        }
        if (st == PS_ABORTED) {
            session_close_aside(aside);
            return st;
        }
        if (st != PS_OK && !is_unsigned(st)) {
            (void)session_call_failed(st, "waiting for the chief");
            session_close_aside(aside);
            return st;
        }
        if (cli_clock_ms() >= note_ms) {
            say_note("%s: waiting for the chief to start%s; %s", what, over,
                     found ? "the model on the ps tasks was left by a chief that is gone" : "there is no model yet");
            note_ms = cli_clock_ms() + NOTE_EVERY_MS;
        }
        clock_wait(LOOK_MS);
    }
    bool ended = !fresh && has_ended(t, aside);
    session_close_aside(aside);
    if (ended) {
        say_note("%s: all shards of the last run are done, and no chief has begun another one within %" PRId64
                 " s (--timeout): nothing is left to do",
                 what, timeout_s);
        return PS_OUT_OF_RANGE;
    }
    (void)say_error("%s: no chief has started%s within %" PRId64 " s (--timeout): start the chief with %s too", what, over,
                    timeout_s, what);
    return PS_DEADLINE_EXCEEDED;
}

int team_begin(struct team *t, int others)
{
    struct sight own = {.job = t->c->job, .task = t->c->task};
    ps_status st = ask_sessions(t, &own);
    if (st != PS_OK) {
        return session_call_failed(st, "the sessions that there are");
    }
    t->chief = own.newest;
    t->others = others;
    t->self = strcmp(t->c->job, "worker") == 0 ? 1 : 0;
    t->seen = t->seen || own.workers > t->self; /* workers may have sessions already, while they wait for the chief */
    return 0;
}

int team_sign(struct team *t, bool begins, int64_t goal, int64_t *out_before)
{
    ps_session *aside = session_open_aside(t->f, t->c);
    int64_t run = 0;
    if (aside == NULL) {
        return -1;
    }
    ps_status st = sign_read(t, aside, RUN_NAME, &run);
    st = is_unsigned(st) ? PS_OK : st;
    *out_before = run;
    const int64_t own = t->run != 0 ? t->run : run; /* pstrain/run may be lost with a ps task, so t->run counts first */
    t->run = begins || own == 0 ? t->chief : own;
    if (begins || run == 0) { /* keep an existing pstrain/run: it may be a later run's, which team_is_over() must find */
        st = st == PS_OK ? sign_write(t, aside, RUN_NAME, t->run) : st;
    }
    st = st == PS_OK && goal > 0 ? sign_write(t, aside, GOAL_NAME, goal) : st;
    st = st == PS_OK ? sign_write(t, aside, CHIEF_NAME, t->chief) : st; /* written last: who reads it finds the others too */
    int result = st == PS_OK ? 0 : session_call_failed(st, "the chief's signs (" CHIEF_NAME ")");
    session_close_aside(aside);
    return result;
}

struct going {
    const char *container;
    bool on;
};

static void on_round(void *ctx, const ps_round_info *info)
{
    struct going *g = ctx;
    /* round 1 does not show that training is under way: each new group of workers begins with it */
    g->on = g->on || (strcmp(info->container, g->container) == 0 && info->round > 1);
}

int team_goal(const struct team *t, enum team_goal how, int64_t *goal)
{
    struct sight seen = {.wanted = 0};
    struct going going = {.container = t->container};
    int64_t there = 0;
    ps_session *aside = session_open_aside(t->f, t->c);
    if (aside == NULL) {
        return -1;
    }
    ps_status st = sign_read(t, aside, CHIEF_NAME, &seen.wanted);
    st = st == PS_OK ? ask_sessions(t, &seen) : st;
    st = st == PS_OK && how == TEAM_COMES ? ps_rounds(t->session, 0, on_round, NULL, &going) : st;
    const bool known = st == PS_OK && (seen.there || going.on); /* without chief and rounds the goal is an older run's */
    st = known ? sign_read(t, aside, GOAL_NAME, &there) : st;
    if (known && st == PS_OK && how == TEAM_TELLS) {
        st = there != *goal ? sign_write(t, aside, GOAL_NAME, *goal) : PS_OK;
    } else {
        *goal = st == PS_OK && there > ps_global_step(t->session) ? there : *goal;
    }
    int result = st == PS_OK || is_unsigned(st) ? known : session_call_failed(st, "the goal of the run (" GOAL_NAME ")");
    session_close_aside(aside);
    return result;
}

bool team_succeeds(const struct team *t)
{
    struct sight seen = {.wanted = 0};
    ps_session *aside = session_open_aside(t->f, t->c);
    int64_t end_ms = cli_clock_ms() + 2 * LEASE_MS, read_ms = 0;
    bool chief = false, there = aside == NULL;
    while (!there && !chief && stop_signal() == 0 && cli_clock_ms() < end_ms) {
        if (cli_clock_ms() >= read_ms) { /* read pstrain/chief again: a recovered chief writes its new session's id */
            there = sign_read(t, aside, CHIEF_NAME, &seen.wanted) != PS_OK;
            read_ms = cli_clock_ms() + NOTE_FIRST_MS / 5;
        }
        seen.there = false;
        there = there || ask_sessions(t, &seen) != PS_OK || seen.there;
        chief = ps_is_chief(t->session);
        clock_wait(there || chief ? 0 : LOOK_MS);
    }
    session_close_aside(aside);
    return chief;
}

void team_step(struct team *t)
{
    if (t->others > 0 && !t->seen && cli_clock_ms() >= t->next_ms) {
        struct sight now = {.workers = 0};
        t->seen = ask_sessions(t, &now) == PS_OK && now.workers > t->self;
        t->next_ms = cli_clock_ms() + LOOK_TRAINING_MS;
    }
}

static ps_status read_step(const struct team *t, int64_t *out_step)
{
    ps_variable *step = NULL;
    ps_status st = ps_global_step_get(t->session, &step);
    return st == PS_OK ? ps_variable_read(step, out_step, sizeof(*out_step)) : st;
}

int team_wait(struct team *t, int64_t goal, bool by_step)
{
    int64_t last = -1;
    int64_t moved_ms = cli_clock_ms();
    int alone = 0;
    while (stop_signal() == 0) {
        int64_t step = 0;
        ps_status st = read_step(t, &step);
        ps_status end = st == PS_OK ? ps_barrier_within(t->session, END_NAME, 0, END_SLICE_MS) : st;
        if (end != PS_OK && end != PS_DEADLINE_EXCEEDED && !session_is_whole(t->session, end)) {
            return -1;
        }
        team_step(t);
        alone = end == PS_OK && t->seen ? alone + 1 : 0;
        if ((!by_step && step >= goal) || alone >= ALONE_LOOKS) {
            return 0;
        }
        moved_ms = step != last ? cli_clock_ms() : moved_ms;
        last = step;
        if (cli_clock_ms() - moved_ms >= (by_step ? STILL_BY_STEP_MS : STILL_MS)) {
            if (!by_step) {
                say_note("global_step is %" PRId64 " of %" PRId64
                         " and has not moved for %d s: not all workers have finished; going on without them",
                         step, goal, STILL_MS / 1000);
            }
            return 0;
        }
        clock_wait(end == PS_DEADLINE_EXCEEDED ? 0 : LOOK_MS);
    }
    return 0;
}
