/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workers of a model know of each other: the sessions that the directory lists, and a barrier at their end.
 *
 * `pstrain/chief`: the session that made the model ready, in a container of its own beside the model's, so that an export of the
 * model does not have it, as does `pstrain/goal`, the global step that ends a run in rounds. With --fresh the chief empties both
 * before it creates variables, and the others must not take the old model for the new one, and must take a new one that is there
 * already: a model is taken when the session that signed it is connected. One that is not was a chief's that is gone: the reset
 * that the next one makes is waited for, for --timeout at most.
 *
 * The end: the chief waits until the global step is what all epochs of all workers add up to, or until it is the last worker: it
 * comes to a barrier for all sessions of job worker that hold a lease, and those that have ended, however they did, do not.
 * Failure modes: neither comes, because a worker was stopped or has never begun: after STILL_MS without a step the chief goes on
 * without them and says so.
 */
#include "team.h"

#include "session.h"
#include "say.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_NAME "pstrain/end"
#define CHIEF_NAME "pstrain/chief"
#define GOAL_NAME "pstrain/goal"
#define SIGNS_SUFFIX ".pstrain"

enum {
    CONTAINER_BYTES = 64,
    LOOK_MS = 100,
    LOOK_TRAINING_MS = 200,
    END_SLICE_MS = 500, /* a signal is looked for in between */
    NOTE_FIRST_MS = 5000,
    NOTE_EVERY_MS = 60000
};
enum {
    STILL_MS = 10000,
    STILL_BY_STEP_MS = 3000,
    ALONE_LOOKS = 3 /* a worker that starts over, after a reset, has no session for a moment */
};

void team_init(struct team *t, ps_session *s, const char *container)
{
    *t = (struct team){.session = s, .container = container};
}

/* ---- who is there ---- */

struct sight {
    const char *job; /* whose newest session is looked for, */
    uint32_t task;
    int64_t wanted;  /* and which one */
    int64_t newest;  /* of that task; 0: none */
    uint64_t age_ms; /* of it */
    bool there;      /* the wanted one */
    int workers;
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

/* The first ps task is the directory, which knows all sessions. */
static ps_status look(const struct team *t, struct sight *seen)
{
    return ps_task_sessions(t->session, 0, 0, on_session, seen);
}

/* ---- --fresh ---- */

/* "localhost.pstrain". Returns name. */
static const char *signs_container(const struct team *t, char name[CONTAINER_BYTES])
{
    (void)snprintf(name, CONTAINER_BYTES, "%.*s" SIGNS_SUFFIX, CONTAINER_BYTES - (int)sizeof(SIGNS_SUFFIX), t->container);
    return name;
}

/* The chief's sign of this name: got (make), or only found. */
static ps_status sign(const struct team *t, const char *name, bool make, ps_variable **out)
{
    ps_variable_spec spec;
    char container[CONTAINER_BYTES];
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_I64;
    spec.shape = PS_SCALAR;
    ps_status st = ps_container_push(t->session, signs_container(t, container));
    if (st != PS_OK) {
        return st;
    }
    st = make ? ps_variable_get(t->session, &spec, out) : ps_variable_find(t->session, name, out);
    ps_status popped = ps_container_pop(t->session);
    return st == PS_OK ? popped : st;
}

ps_status team_reset(const struct team *t)
{
    char signs[CONTAINER_BYTES];
    const char *const both[] = {t->container, signs_container(t, signs)};
    return ps_reset_containers(t->session, both, 2);
}

ps_status team_wait_for_chief(struct team *t, bool fresh, int64_t deadline_ms, int64_t timeout_s)
{
    const char *what = fresh ? "--fresh" : "--work shards", *over = fresh ? " over" : "";
    ps_variable *v = NULL;
    int64_t first = 0;
    bool looked = false;
    int64_t note_ms = cli_clock_ms() + NOTE_FIRST_MS;
    while (cli_clock_ms() < deadline_ms) {
        struct sight seen = {.wanted = 0};
        ps_status st = v == NULL ? sign(t, CHIEF_NAME, false, &v) : PS_OK;
        st = st == PS_OK ? ps_variable_read(v, &seen.wanted, sizeof(seen.wanted)) : st;
        bool found = st == PS_OK;
        st = found ? look(t, &seen) : st;
        bool came = looked && found && seen.wanted != first && !fresh; /* while this worker waited: its shards are there */
        first = looked ? first : seen.wanted;
        looked = true;
        if (st == PS_ABORTED || (found && st == PS_OK && (seen.there || came))) {
            t->chief = seen.wanted;
            return st;
        }
        if (st != PS_OK && st != PS_NOT_FOUND && st != PS_FAILED_PRECONDITION) { /* not yet there, or without a value */
            (void)session_call_failed(st, "waiting for the chief");
            return st;
        }
        if (cli_clock_ms() >= note_ms) {
            say_note("%s: waiting for the chief to start%s; %s", what, over,
                     found ? "the model on the ps tasks was left by a chief that is gone" : "there is no model yet");
            note_ms = cli_clock_ms() + NOTE_EVERY_MS;
        }
        clock_wait(LOOK_MS);
    }
    (void)say_error("%s: no chief has started%s within %" PRId64 " s (--timeout): start the chief with %s too", what, over,
                    timeout_s, what);
    return PS_DEADLINE_EXCEEDED;
}

/* ---- the chief and the others ---- */

int team_begin(struct team *t, int others, const char *job, uint32_t task)
{
    struct sight own = {.job = job, .task = task};
    ps_status st = look(t, &own);
    if (st != PS_OK) {
        return session_call_failed(st, "the sessions that there are");
    }
    t->chief = own.newest;
    t->others = others;
    t->self = strcmp(job, "worker") == 0 ? 1 : 0;
    t->seen = own.workers > t->self; /* who waited for the chief is here already */
    return 0;
}

int team_sign(const struct team *t, int64_t *out_before)
{
    ps_variable *v = NULL;
    ps_status st = sign(t, CHIEF_NAME, true, &v);
    *out_before = 0;
    if (st == PS_OK) {
        ps_status read = ps_variable_read(v, out_before, sizeof(*out_before));
        st = read == PS_FAILED_PRECONDITION ? PS_OK : read; /* nobody */
    }
    st = st == PS_OK ? ps_variable_assign(v, &t->chief, sizeof(t->chief)) : st;
    return st == PS_OK ? 0 : session_call_failed(st, "the chief's sign (" CHIEF_NAME ")");
}

int team_set_goal(const struct team *t, int64_t goal)
{
    ps_variable *v = NULL;
    ps_status st = sign(t, GOAL_NAME, true, &v);
    st = st == PS_OK ? ps_variable_assign(v, &goal, sizeof(goal)) : st;
    return st == PS_OK ? 0 : session_call_failed(st, "the goal of the run (" GOAL_NAME ")");
}

/* Are rounds of the container under way? */
struct going {
    const char *container;
    bool on;
};

static void on_round(void *ctx, const ps_round_info *info)
{
    struct going *g = ctx;
    g->on = g->on || (strcmp(info->container, g->container) == 0 && info->round > 1); /* a new opening begins with 1 */
}

int team_goal(const struct team *t, int64_t *goal)
{
    ps_variable *chief = NULL, *v = NULL;
    struct sight seen = {.wanted = 0};
    struct going going = {.container = t->container};
    int64_t there = 0;
    ps_status st = sign(t, CHIEF_NAME, false, &chief);
    st = st == PS_OK ? ps_variable_read(chief, &seen.wanted, sizeof(seen.wanted)) : st;
    st = st == PS_OK ? look(t, &seen) : st;
    st = st == PS_OK ? ps_task_rounds(t->session, 0, 0, on_round, NULL, &going) : st;
    st = st == PS_OK && (seen.there || going.on) ? sign(t, GOAL_NAME, false, &v) : st; /* otherwise it is of an earlier run */
    st = st == PS_OK && v != NULL ? ps_variable_read(v, &there, sizeof(there)) : st;
    *goal = st == PS_OK && there > ps_global_step(t->session) ? there : *goal;
    return st == PS_OK || st == PS_NOT_FOUND || st == PS_FAILED_PRECONDITION /* without a value yet */
               ? 0
               : session_call_failed(st, "the goal of the run (" GOAL_NAME ")");
}

void team_step(struct team *t)
{
    if (t->others > 0 && !t->seen && cli_clock_ms() >= t->next_ms) {
        struct sight now = {.workers = 0};
        t->seen = look(t, &now) == PS_OK && now.workers > t->self;
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
        if (end != PS_OK && end != PS_DEADLINE_EXCEEDED) {
            (void)ps_session_fail(t->session, end, ps_last_error());
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
        clock_wait(end == PS_OK ? LOOK_MS : 0);
    }
    return 0;
}
