/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs: variables in a container of their own beside the model's, so that an export of the model does not have them.
 *
 * `pstrain/alive`: the chief counts it up twice a second from its ready on. With --fresh the chief empties the container before
 * it creates variables, and the others must not take the old model for the new one, and must take a new one that is there
 * already: a model is taken when this counter is seen to rise, because then the chief that made it ready lives; a count that
 * stands still was left by a chief that is gone, and the reset that the next one makes is waited for, for --timeout at most.
 *
 * Waiting for the other workers has three signs: the global step that all epochs of all workers add up to; the connections of the
 * directory task, which end with a worker however it ends; and `pstrain/finished`, which a worker that ends counts up and the
 * chief sets back, so that a worker that was done before the chief looked is not waited for. Failure modes: no sign comes (a
 * stopped worker, one that never began): after STILL_MS without a step the chief goes on without them and says so.
 */
#include "team.h"

#include "session.h"
#include "say.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ALIVE_NAME "pstrain/alive"
#define FINISHED_NAME "pstrain/finished"
#define SIGNS_SUFFIX ".pstrain"

enum {
    CONTAINER_BYTES = 64,
    ALIVE_EVERY_MS = 500,
    LOOK_MS = 100,
    LOOK_TRAINING_MS = 200,
    NOTE_FIRST_MS = 5000,
    NOTE_EVERY_MS = 60000
};
enum { STILL_MS = 10000, STILL_BY_STEP_MS = 3000, GONE_LOOKS = 3 };

void team_init(struct team *t, ps_session *s, const char *container)
{
    *t = (struct team){.session = s, .container = container};
}

void team_fini(struct team *t)
{
    free(t->infos);
    *t = (struct team){.session = NULL};
}

/* ---- signs ---- */

/* "localhost.pstrain". Returns name. */
static const char *signs_container(const struct team *t, char name[CONTAINER_BYTES])
{
    (void)snprintf(name, CONTAINER_BYTES, "%.*s" SIGNS_SUFFIX, CONTAINER_BYTES - (int)sizeof(SIGNS_SUFFIX), t->container);
    return name;
}

/* An int64 scalar of that name: got and initialised (make), or only found. */
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
    if (st == PS_OK && make) {
        st = ps_variable_init(*out, false);
    }
    return st == PS_OK ? popped : st;
}

static ps_status count_up(ps_variable *v)
{
    const int64_t one = 1;
    return ps_variable_assign_add(v, &one, sizeof(one), NULL);
}

/* A sign's count; it is looked for where *v is NULL. PS_NOT_FOUND: there is none yet. */
static ps_status count_of(const struct team *t, const char *name, ps_variable **v, int64_t *out)
{
    ps_status st = *v == NULL ? sign(t, name, false, v) : PS_OK;
    st = st == PS_OK ? ps_variable_read(*v, out, sizeof(*out)) : st;
    return st == PS_FAILED_PRECONDITION ? PS_NOT_FOUND : st; /* created, not yet initialised */
}

/* ---- the chief's sign of life ---- */

ps_status team_reset(const struct team *t)
{
    char signs[CONTAINER_BYTES];
    const char *const both[] = {t->container, signs_container(t, signs)};
    return ps_reset_containers(t->session, both, 2);
}

ps_status team_wait_for_chief(const struct team *t, int64_t deadline_ms, int64_t timeout_s)
{
    ps_variable *alive = NULL;
    int64_t first = 0;
    bool seen = false;
    int64_t note_ms = cli_clock_ms() + NOTE_FIRST_MS;
    while (cli_clock_ms() < deadline_ms) {
        int64_t count = 0;
        ps_status st = count_of(t, ALIVE_NAME, &alive, &count);
        if (st == PS_ABORTED || (st == PS_OK && seen && count != first)) {
            return st;
        }
        if (st != PS_OK && st != PS_NOT_FOUND) {
            (void)session_call_failed(st, "waiting for the chief to start over");
            return st;
        }
        first = seen ? first : count;
        seen = seen || st == PS_OK;
        if (cli_clock_ms() >= note_ms) {
            say_note("--fresh: waiting for the chief to start over; %s",
                     seen ? "the model on the ps tasks was left by a chief that is gone" : "there is no model yet");
            note_ms = cli_clock_ms() + NOTE_EVERY_MS;
        }
        clock_wait(LOOK_MS);
    }
    (void)say_error("--fresh: no chief has started over within %" PRId64 " s (--timeout): start the chief with --fresh too",
                    timeout_s);
    return PS_DEADLINE_EXCEEDED;
}

static ps_status give_sign(struct team *t)
{
    if (t->alive == NULL || cli_clock_ms() < t->alive_next_ms) {
        return PS_OK;
    }
    t->alive_next_ms = cli_clock_ms() + ALIVE_EVERY_MS;
    return count_up(t->alive) == PS_OK ? PS_OK : PS_ABORTED;
}

/* ---- the others ---- */

/* Other sessions at the directory: its connections but ours and those of the other ps tasks. -1: unknown. */
static int sessions(struct team *t)
{
    if (t->count == 0 || ps_cluster_info(t->session, t->infos, sizeof(*t->infos), t->count, 0) != PS_OK) {
        return -1;
    }
    for (int i = 0; i < t->count; i++) {
        const ps_task_info *info = &t->infos[i];
        if (info->up && info->directory && info->waiting_for[0] == '\0') {
            int others = (int)info->connections - t->count;
            return others > 0 ? others : 0;
        }
    }
    return -1;
}

static void look(struct team *t)
{
    if (t->count > 0 && !t->seen && cli_clock_ms() >= t->next_ms) {
        t->seen = sessions(t) > 0;
        t->next_ms = cli_clock_ms() + LOOK_TRAINING_MS;
    }
}

int team_begin(struct team *t, int workers)
{
    ps_status st = sign(t, ALIVE_NAME, true, &t->alive);
    if (st != PS_OK) {
        return session_call_failed(st, "the chief's sign of life (" ALIVE_NAME ")");
    }
    int count = workers > 1 ? ps_cluster_tasks(t->session) : 0;
    t->workers = workers;
    t->infos = count > 0 ? calloc((size_t)count, sizeof(*t->infos)) : NULL;
    t->count = t->infos != NULL ? count : 0;
    look(t); /* who waited for the chief is here already */
    return 0;
}

void team_step(struct team *t)
{
    ps_status st = give_sign(t);
    if (st != PS_OK) {
        (void)ps_session_fail(t->session, st, ps_last_error());
    }
    look(t);
}

void team_leave(struct team *t)
{
    ps_status st = sign(t, FINISHED_NAME, true, &t->finished);
    st = st == PS_OK ? count_up(t->finished) : st;
    if (st != PS_OK) {
        say_note("the chief may wait some seconds longer than it needs to: %s: %s", ps_status_name(st), ps_last_error());
    }
}

/* Workers that have left since a chief last waited; 0 also when that cannot be told. */
static int64_t finished_count(struct team *t)
{
    int64_t count = 0;
    return count_of(t, FINISHED_NAME, &t->finished, &count) == PS_OK ? count : 0;
}

static ps_status read_step(struct team *t, int64_t *out_step)
{
    ps_variable *step = NULL;
    ps_status st = ps_global_step_get(t->session, &step);
    st = st == PS_OK ? ps_variable_read(step, out_step, sizeof(*out_step)) : st;
    return st == PS_OK ? give_sign(t) : st;
}

static int wait_for_them(struct team *t, int64_t goal, bool by_step)
{
    int64_t last = -1;
    int64_t moved_ms = cli_clock_ms();
    int gone = 0;
    while (stop_signal() == 0) {
        int64_t step = 0;
        ps_status st = read_step(t, &step);
        if (st != PS_OK) {
            (void)ps_session_fail(t->session, st, ps_last_error());
            return -1;
        }
        int there = sessions(t);
        t->seen = t->seen || there > 0 || finished_count(t) >= t->workers - 1;
        gone = t->seen && there == 0 ? gone + 1 : 0;
        if ((!by_step && step >= goal) || gone >= GONE_LOOKS) {
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
        clock_wait(LOOK_MS);
    }
    return 0;
}

int team_wait(struct team *t, int64_t goal, bool by_step)
{
    const int64_t none = 0;
    int result = wait_for_them(t, goal, by_step);
    if (result == 0 && finished_count(t) > 0 && ps_variable_assign(t->finished, &none, sizeof(none)) != PS_OK) {
        say_note(FINISHED_NAME " is not set back: %s", ps_last_error()); /* the next chief may wait less for its workers */
    }
    return result;
}
