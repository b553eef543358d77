/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From nothing to a model that is ready.
 *
 * Happy path: session -> ps tasks are up -> variables -> ps_session_ready() -> the first line.
 * --fresh: the chief empties the container before it creates variables. The others must not take the old model for the new one,
 * and must take a new one that is there already: they look at the chief's sign of life, a variable `pstrain/alive` outside the
 * model that the chief counts up twice a second from its ready on. A model is taken when this counter is seen to rise, because
 * then the chief that made it ready lives; a count that stands still was left by a chief that is gone, and the reset that the
 * next one makes is waited for, for --timeout at most. The signs lie in a container of their own beside the model's, so that an
 * export of the model does not have them. A reset that hits a worker before it has begun is no failure: it starts over. Failure
 * modes: errors of the session, each said with its remedy; nobody comes within the ready timeout.
 */
#include "start.h"

#include "say.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ALIVE_NAME "pstrain/alive"

enum { CONTAINER_BYTES = 64 };
enum { ALIVE_EVERY_MS = 500, LOOK_EVERY_MS = 100, READY_TIMEOUT_MS = 600000, NOTE_FIRST_MS = 5000, NOTE_EVERY_MS = 60000 };

/* The library's lines; what it says about the end of the session is said by this program with a remedy. */
static void on_log(void *ctx, ps_log_level level, const char *line)
{
    char text[4096];
    (void)ctx;
    if (level == PS_LOG_ERROR) {
        return;
    }
    int n = snprintf(text, sizeof(text), "%s\n", line);
    size_t bytes = n > 0 && (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    if (write(STDERR_FILENO, text, bytes) < 0) {
        return; /* nobody reads it */
    }
}

ps_session *start_session(const struct flags *f, const struct cluster *c, const char *job, int64_t timeout_ms, bool quiet)
{
    char error[1024] = "";
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.cluster_spec = c->spec;
    o.target = c->spec == NULL ? c->target : NULL;
    o.job = job;
    o.task_index = job != NULL ? c->task : 0;
    o.operation_timeout_ms = timeout_ms;
    o.ready_timeout_ms = READY_TIMEOUT_MS;
    o.log_level = quiet ? PS_LOG_WARN : PS_LOG_INFO;
    o.log = on_log;
    o.program = "pstrain";
    o.seed = (uint64_t)f->seed;
    o.container = f->container[0] != '\0' ? f->container : NULL;
    o.cluster_name = f->cluster_name[0] != '\0' ? f->cluster_name : o.cluster_name;
    o.allow_soft_placement = f->allow_soft_placement;
    o.log_device_placement = f->log_device_placement && job != NULL; /* not again at the end */
    ps_status st = ps_session_open(&o, &s, error, sizeof(error));
    if (st != PS_OK) {
        (void)say_error("cannot open a session: %s", error);
        return NULL;
    }
    stop_session(s);
    return s;
}

/* An error of a call whose text is in ps_last_error(). */
static int failed(ps_status st, const char *what)
{
    (void)say_error("%s: %s: %s%s", what, ps_status_name(st), ps_last_error(), say_remedy(st, ps_last_reason()));
    return -1;
}

static int session_failed(ps_session *s, const char *what)
{
    ps_status st = ps_session_status(s);
    (void)say_error("%s: %s: %s%s", what, ps_status_name(st), ps_session_error(s), say_remedy(st, ps_session_reason(s)));
    return -1;
}

/* ---- the sign of life ---- */

#define SIGNS_SUFFIX ".pstrain"

/* "localhost.pstrain"; [PS_CONTAINER_BYTES_MAX + 1] is enough for name. */
static void signs_container(const char *container, char *name, size_t n)
{
    int kept = (int)(n - sizeof(SIGNS_SUFFIX));
    (void)snprintf(name, n, "%.*s" SIGNS_SUFFIX, kept, container);
}

ps_status start_sign(const struct start *s, const char *name, bool make, ps_variable **out)
{
    ps_variable_spec spec;
    char container[CONTAINER_BYTES];
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_I64;
    spec.shape = PS_SCALAR;
    signs_container(s->container, container, sizeof(container));
    ps_status st = ps_container_push(s->session, container);
    if (st != PS_OK) {
        return st;
    }
    st = make ? ps_variable_get(s->session, &spec, out) : ps_variable_find(s->session, name, out);
    ps_status popped = ps_container_pop(s->session);
    if (st == PS_OK && make) {
        st = ps_variable_init(*out, false);
    }
    return st == PS_OK ? popped : st;
}

static int alive_begin(struct start *s)
{
    ps_status st = start_sign(s, ALIVE_NAME, true, &s->alive);
    if (st != PS_OK) {
        return failed(st, "the chief's sign of life (" ALIVE_NAME ")");
    }
    return 0;
}

int start_alive(struct start *s)
{
    const int64_t one = 1;
    if (s->alive == NULL || cli_clock_ms() < s->alive_next_ms) {
        return 0;
    }
    s->alive_next_ms = cli_clock_ms() + ALIVE_EVERY_MS;
    return ps_variable_assign_add(s->alive, &one, sizeof(one), NULL) == PS_OK ? 0 : -1;
}

/* One look at the counter. PS_NOT_FOUND: none yet. */
static ps_status look(const struct start *s, ps_variable **alive, int64_t *out_count)
{
    ps_status st = *alive == NULL ? start_sign(s, ALIVE_NAME, false, alive) : PS_OK;
    if (st == PS_OK) {
        st = ps_variable_read(*alive, out_count, sizeof(*out_count));
    }
    return st == PS_FAILED_PRECONDITION ? PS_NOT_FOUND : st; /* created, not yet initialised */
}

/* PS_OK: a chief lives. PS_ABORTED: there was a reset, look again with a new session. Anything else was said. */
static ps_status wait_for_chief(const struct flags *f, const struct start *s, int64_t deadline_ms)
{
    ps_variable *alive = NULL;
    int64_t first = 0;
    bool seen = false;
    int64_t note_ms = cli_clock_ms() + NOTE_FIRST_MS;
    while (cli_clock_ms() < deadline_ms) {
        int64_t count = 0;
        ps_status st = look(s, &alive, &count);
        if (st == PS_ABORTED || (st == PS_OK && seen && count != first)) {
            return st;
        }
        if (st != PS_OK && st != PS_NOT_FOUND) {
            (void)failed(st, "waiting for the chief to start over");
            return st;
        }
        if (st == PS_OK && !seen) {
            first = count;
            seen = true;
        }
        if (cli_clock_ms() >= note_ms) {
            say_note("--fresh: waiting for the chief to start over; %s",
                     seen ? "the model on the ps tasks was left by a chief that is gone" : "there is no model yet");
            note_ms = cli_clock_ms() + NOTE_EVERY_MS;
        }
        clock_wait(LOOK_EVERY_MS);
    }
    (void)say_error("--fresh: no chief has started over within %" PRId64 " s (--timeout): start the chief with --fresh too",
                    f->timeout_s);
    return PS_DEADLINE_EXCEEDED;
}

/* ---- the first line ---- */

static void say_found(const struct flags *f, const struct cluster *c, bool local, int variables, int found, const struct start *s)
{
    char text[160];
    if (s->reached) {
        (void)snprintf(text, sizeof(text),
                       "%d variables, global_step %" PRId64 ": the goal of --steps %" PRId64
                       " is already reached; --fresh starts over",
                       variables, s->global_step, f->steps);
    } else if (found == variables && (c->chief || (s->global_step > 0 && !local))) { /* --local: the chief was only faster */
        (void)snprintf(text, sizeof(text), "%d variables, global_step %" PRId64 ": continuing", variables, s->global_step);
    } else if (!c->chief) {
        (void)snprintf(text, sizeof(text), "%d variables, made ready by the chief", variables);
    } else if (found > 0) {
        (void)snprintf(text, sizeof(text), "%d variables created, %d more were there: an earlier chief had begun",
                       variables - found, found);
    } else {
        (void)snprintf(text, sizeof(text), "%d variables created%s", variables, f->fresh ? ": starting over" : "");
    }
    (void)printf("%s\n", text);
    (void)fflush(stdout);
}

/* ---- one attempt ---- */

/* --placement balanced: variables go where the fewest bytes are. */
static int balance(ps_session *s, const struct cluster *c)
{
    ps_setter_options o;
    ps_cluster_spec *spec = NULL;
    ps_setter_options_init(&o);
    ps_status st = ps_cluster_spec_new(c->spec, &spec);
    o.cluster = spec;
    o.strategy = PS_GREEDY_BYTES;
    st = st == PS_OK ? ps_device_push_setter(s, &o) : st;
    ps_cluster_spec_free(spec);
    return st == PS_OK ? 0 : failed(st, "--placement balanced");
}

enum attempt { READY, FAILED, AGAIN };

static enum attempt attempt(const struct flags *f, const struct cluster *c, bool local, int64_t deadline_ms, struct model *m,
                            struct start *out)
{
    bool fresh = f->fresh && !local; /* --local has new ps tasks */
    ps_session *s = start_session(f, c, c->job, f->timeout_s * 1000, local);
    out->session = s;
    if (s == NULL) {
        return FAILED;
    }
    ps_status st = ps_session_wait_cluster(s, "ps", READY_TIMEOUT_MS);
    if (st != PS_OK) {
        (void)failed(st, "waiting for the ps tasks");
        return FAILED;
    }
    if (fresh && c->chief) {
        char signs[CONTAINER_BYTES];
        const char *const both[] = {out->container, signs};
        signs_container(out->container, signs, sizeof(signs));
        st = ps_reset_containers(s, both, 2);
        if (st != PS_OK) {
            (void)failed(st, "--fresh: cannot empty the ps tasks");
            return FAILED;
        }
    } else if (fresh) {
        st = wait_for_chief(f, out, deadline_ms);
        if (st != PS_OK) {
            return st == PS_ABORTED ? AGAIN : FAILED;
        }
    }
    if (strcmp(f->placement, "balanced") == 0 && balance(s, c) != 0) {
        return FAILED;
    }
    model_params(m, s, flags_optimizer(f));
    st = ps_session_ready(s);
    if (st == PS_ABORTED && fresh && !c->chief) {
        return AGAIN;
    }
    if (st != PS_OK) {
        (void)session_failed(s, "the model is not ready");
        return FAILED;
    }
    return READY;
}

int start_run(const struct flags *f, const struct cluster *c, bool local, struct model *m, struct start *out)
{
    int64_t deadline_ms = cli_clock_ms() + f->timeout_s * 1000;
    enum attempt a = AGAIN;
    memset(out, 0, sizeof(*out));
    out->container = f->container[0] != '\0' ? f->container : "localhost";
    while (a == AGAIN) {
        a = attempt(f, c, local, deadline_ms, m, out);
        if (a == AGAIN) {
            stop_session(NULL);
            (void)ps_session_close(out->session);
            out->session = NULL;
            if (cli_clock_ms() >= deadline_ms) {
                (void)say_error("--fresh: the model was reset again and again");
                a = FAILED;
            }
        }
    }
    if (a == FAILED) {
        return -1;
    }
    int found = ps_session_found(out->session, &out->global_step);
    out->reached = f->steps > 0 && out->global_step >= f->steps;
    ps_set_steps(out->session, f->steps);
    if (c->chief && !local && alive_begin(out) != 0) {
        return -1;
    }
    stop_gently(true); /* whoever has read the first line may end this worker gently */
    say_found(f, c, local, model_variable_count(&m->spec), found, out);
    return 0;
}
