/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator, a process beside the workers, tests the model and never pushes. It waits for the model, pulls and tests it, and
 * prints a line, each time that the global step is --eval_every higher. When the job is done, or a signal asks for the end, it
 * tests the last steps, and does --export and --report. Failure modes: no trainer makes the model ready within the session's
 * timeout; a ps task is lost: the session recovers, or its error is printed. */
#include "follow.h"

#include "evaluate.h"
#include "say.h"
#include "session.h"
#include "source.h"
#include "stop.h"

#include <ps_nn.h>
#include <string.h>

enum {
    WAIT_SLICE_MS = 500, /* longest wait between two checks for a signal */
    LOOK_MS = 200,
    NOTE_FIRST_MS = 5000,
    NOTE_EVERY_MS = 60000
};

struct follower {
    const struct flags *f;
    ps_session *session;
    struct dataset data;
    struct model model;
    struct report report;
    int64_t tested; /* global step of the last test; -1: none yet */
};

static int prepare(struct follower *w, const struct cluster *c)
{
    int status = source_load(w->f, false, &w->data);
    status = status == EXIT_DONE ? source_model(w->f, &w->data, &w->model.spec) : status;
    if (status != EXIT_DONE) {
        return status;
    }
    if (ps_nn_open(NULL) != PS_OK) {
        return say_error("%s", ps_nn_error());
    }
    w->session = session_open(w->f, c, true, w->f->timeout_s * 1000, false);
    return w->session != NULL ? EXIT_DONE : EXIT_FAILED;
}

static int adapt_data(struct follower *w, ps_session *aside)
{
    struct model_spec spec;
    struct source_match match;
    int status = source_adopt(w->f, aside, &w->data, &match);
    status = status == EXIT_DONE ? source_model(w->f, &w->data, &spec) : status;
    if (status != EXIT_DONE) {
        return status;
    }
    source_say(&w->data);
    return evaluate_init(&w->model, &spec) == 0 ? EXIT_DONE : say_error("test: no memory");
}

/* Find the model's variables. NOT_FOUND: *out_wait says what to wait for; NULL: no wait helps, another model is there. */
static ps_status find_model(const struct follower *w, ps_session *aside, const char **out_wait)
{
    static const char lost[] = "part of the model is lost with a ps task", none[] = "there is no model yet";
    char name[MODEL_NAME_BYTES];
    ps_variable *v = NULL;
    ps_status st = ps_variable_find(aside, "global_step", &v); /* global_step is created last */
    *out_wait = st != PS_NOT_FOUND ? NULL : ps_last_reason() == PS_REASON_LOST ? lost : none;
    for (int i = 0; st == PS_OK && i < model_variable_count(&w->model.spec); i++) {
        st = ps_variable_find(aside, model_variable_name(&w->model.spec, i / 2, i % 2 != 0, name), &v);
        if (st == PS_NOT_FOUND && ps_last_reason() == PS_REASON_LOST) {
            *out_wait = lost;
            st = PS_OK;
        } else if (st == PS_NOT_FOUND) {
            bool reset = ps_variable_find(aside, "global_step", &v) != PS_OK;
            *out_wait = reset ? none : NULL;
            /* repeat the look-up of `name`, so that ps_last_error() is about that variable, not about global_step */
            return reset ? st : ps_variable_find(aside, name, &v);
        }
    }
    return st == PS_OK && *out_wait != NULL ? PS_NOT_FOUND : st;
}

/* Wait until there is a model. Uses a session just for this wait, in which a signal ends the process. */
static int await_model(struct follower *w, const struct cluster *c)
{
    const char *wait = "";
    int64_t end_ms = cli_clock_ms() + SESSION_READY_TIMEOUT_MS, note_ms = cli_clock_ms() + NOTE_FIRST_MS;
    ps_session *aside = session_open_aside(w->f, c);
    ps_status st = aside != NULL ? PS_NOT_FOUND : PS_UNAVAILABLE;
    while (st == PS_NOT_FOUND && wait != NULL && cli_clock_ms() < end_ms) {
        st = find_model(w, aside, &wait);
        if (wait != NULL && cli_clock_ms() >= note_ms) {
            say_note("evaluator: waiting for trainers; %s", wait);
            note_ms = cli_clock_ms() + NOTE_EVERY_MS;
        }
        clock_wait(wait != NULL ? LOOK_MS : 0);
    }
    if (st != PS_OK && aside != NULL) {
        (void)session_call_failed(st, st != PS_NOT_FOUND ? "looking for the model"
                                      : wait == NULL     ? "this model is not there; the workers make it, with the same --model"
                                                         : "no trainer has made a model");
    }
    int status = st == PS_OK ? adapt_data(w, aside) : EXIT_FAILED;
    session_close_aside(aside);
    return status;
}

static int begin_following(struct follower *w, const struct cluster *c)
{
    if (await_model(w, c) != EXIT_DONE) {
        return EXIT_FAILED;
    }
    (void)ps_variable_scope_push(w->session, NULL, PS_REUSE_ALWAYS); /* find only: an evaluator must not create variables */
    model_params(&w->model, w->session, &w->f->rule);
    (void)ps_variable_scope_pop(w->session);
    if (ps_session_ready(w->session) != PS_OK) {
        (void)session_failed(w->session, "no model is ready");
        return EXIT_FAILED;
    }
    stop_gently(true);
    return EXIT_DONE;
}

/* Test the model, unless it was tested at this global step. If a pull fails, the session recovers or ends. */
static int test_now(struct follower *w)
{
    int64_t step = 0;
    ps_variable *variable = NULL;
    ps_status st = PS_OK;
    do {
        st = ps_pull(w->session);
        st = st == PS_OK ? ps_global_step_get(w->session, &variable) : st;
        st = st == PS_OK ? ps_variable_read(variable, &step, sizeof(step)) : st;
    } while (st != PS_OK && session_is_whole(w->session, st));
    if (st != PS_OK || step == w->tested) {
        return EXIT_DONE;
    }
    w->tested = step;
    w->report.global_step = step;
    return evaluate_params(w->session, w->f, &w->model, &w->data, &w->report);
}

static int follow(struct follower *w)
{
    for (;;) {
        /* ask before the values are read: when all workers are done, the values read are the final ones */
        bool last = ps_should_stop(w->session) || stop_signal() != 0;
        int status = ps_session_status(w->session) == PS_OK ? test_now(w) : EXIT_DONE;
        if (status != EXIT_DONE || last) {
            return status;
        }
        ps_status st = PS_DEADLINE_EXCEEDED;
        while (st == PS_DEADLINE_EXCEEDED && stop_signal() == 0) {
            st = ps_wait_step(w->session, w->tested + w->f->eval_every, WAIT_SLICE_MS);
        }
    }
}

int follow_run(const struct flags *f, const struct cluster *c)
{
    struct follower w = {.f = f, .tested = -1};
    int status = report_check(f);
    if (status != EXIT_DONE) {
        return status;
    }
    stop_watch();
    status = prepare(&w, c);
    status = status == EXIT_DONE ? begin_following(&w, c) : status;
    status = status == EXIT_DONE ? follow(&w) : status;
    if (status == EXIT_DONE && ps_session_status(w.session) != PS_OK) {
        (void)session_failed(w.session, "the evaluator stopped");
        status = EXIT_FAILED;
    }
    if (status == EXIT_DONE && stop_signal() != 0) {
        status = EXIT_SIGNAL + stop_signal();
    }
    if (status == EXIT_DONE) {
        status = evaluate_report(w.session, f, &w.model.spec, &w.report);
    }
    stop_gently(false);
    model_fini(&w.model);
    (void)session_close(w.session);
    data_free(&w.data);
    return status;
}
