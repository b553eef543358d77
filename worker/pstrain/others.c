/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for the other workers. Three signs: the global step that all epochs of all workers add up to; the connections of the
 * directory task, which end with a worker however it ends; and the variable `pstrain/finished`, which a worker that ends counts
 * up and the chief sets back, so that a worker that was done before the chief looked is not waited for. Failure modes: no sign
 * comes (a stopped worker, one that never began): after STILL_MS without a step the chief goes on without them and says so.
 */
#include "others.h"

#include "say.h"
#include "stop.h"

#include <inttypes.h>
#include <stdlib.h>

#define FINISHED_NAME "pstrain/finished"

enum { LOOK_MS = 100, LOOK_TRAINING_MS = 200, STILL_MS = 10000, STILL_BY_STEP_MS = 3000, GONE_LOOKS = 3 };

void others_fini(struct others *o)
{
    free(o->infos);
    *o = (struct others){.start = NULL};
}

/* Other sessions at the directory: its connections but ours and those of the other ps tasks. -1: unknown. */
static int sessions(struct others *o)
{
    if (o->count == 0 || ps_cluster_info(o->start->session, o->infos, sizeof(*o->infos), o->count, 0) != PS_OK) {
        return -1;
    }
    for (int i = 0; i < o->count; i++) {
        const ps_task_info *t = &o->infos[i];
        if (t->up && t->directory && t->waiting_for[0] == '\0') {
            int others = (int)t->connections - o->count;
            return others > 0 ? others : 0;
        }
    }
    return -1;
}

void others_look(struct others *o)
{
    if (o->count > 0 && !o->seen && cli_clock_ms() >= o->next_ms) {
        o->seen = sessions(o) > 0;
        o->next_ms = cli_clock_ms() + LOOK_TRAINING_MS;
    }
}

void others_init(struct others *o, struct start *start, int workers)
{
    *o = (struct others){.start = start, .workers = workers};
    int count = workers > 1 ? ps_cluster_tasks(start->session) : 0;
    o->infos = count > 0 ? calloc((size_t)count, sizeof(*o->infos)) : NULL;
    o->count = o->infos != NULL ? count : 0;
    others_look(o); /* who waited for the chief is here already */
}

void others_leave(const struct start *s)
{
    const int64_t one = 1;
    ps_variable *finished = NULL;
    ps_status st = start_sign(s, FINISHED_NAME, true, &finished);
    st = st == PS_OK ? ps_variable_assign_add(finished, &one, sizeof(one), NULL) : st;
    if (st != PS_OK) {
        say_note("the chief may wait some seconds longer than it needs to: %s: %s", ps_status_name(st), ps_last_error());
    }
}

/* Workers that have left since a chief last waited; 0 also when that cannot be told. */
static int64_t finished_count(struct others *o)
{
    int64_t count = 0;
    if (o->finished == NULL && start_sign(o->start, FINISHED_NAME, false, &o->finished) != PS_OK) {
        o->finished = NULL;
    }
    return o->finished != NULL && ps_variable_read(o->finished, &count, sizeof(count)) == PS_OK ? count : 0;
}

static void finished_forget(struct others *o)
{
    const int64_t none = 0;
    if (finished_count(o) > 0 && ps_variable_assign(o->finished, &none, sizeof(none)) != PS_OK) {
        say_note(FINISHED_NAME " is not set back: %s", ps_last_error()); /* the next chief may wait less for its workers */
    }
}

static ps_status read_step(struct others *o, int64_t *out_step)
{
    ps_variable *step = NULL;
    ps_status st = ps_global_step_get(o->start->session, &step);
    st = st == PS_OK ? ps_variable_read(step, out_step, sizeof(*out_step)) : st;
    return st == PS_OK && start_alive(o->start) != 0 ? PS_ABORTED : st;
}

static int wait_for_them(struct others *o, int64_t goal, bool by_step)
{
    int64_t last = -1;
    int64_t moved_ms = cli_clock_ms();
    int gone = 0;
    while (stop_signal() == 0) {
        int64_t step = 0;
        ps_status st = read_step(o, &step);
        if (st != PS_OK) {
            (void)ps_session_fail(o->start->session, st, ps_last_error());
            return -1;
        }
        int there = sessions(o);
        o->seen = o->seen || there > 0 || finished_count(o) >= o->workers - 1;
        gone = o->seen && there == 0 ? gone + 1 : 0;
        if ((!by_step && step >= goal) || gone >= GONE_LOOKS) {
            return 0;
        }
        moved_ms = step != last ? cli_clock_ms() : moved_ms;
        last = step;
        if (cli_clock_ms() - moved_ms >= (by_step ? STILL_BY_STEP_MS : STILL_MS)) {
            if (!by_step) {
                say_note("global_step is %" PRId64 " of %" PRId64
                         " and has not moved for %d s: not all workers have finished; going on "
                         "without them",
                         step, goal, STILL_MS / 1000);
            }
            return 0;
        }
        clock_wait(LOOK_MS);
    }
    return 0;
}

int others_wait(struct others *o, int64_t goal, bool by_step)
{
    int result = wait_for_them(o, goal, by_step);
    if (result == 0) {
        finished_forget(o);
    }
    return result;
}
