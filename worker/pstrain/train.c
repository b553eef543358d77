/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: between-graph, asynchronous.
 *
 * Happy path: data -> session, variables, ready (start.c) -> for each epoch its share of the examples, batch by batch -> as the
 * chief: wait for the others -> test, report (finish.c). In --local the process that started us does that last part. Failure
 * modes: an error of the session ends it with the task named; a signal lets it finish the step.
 */
#include "train.h"

#include "finish.h"
#include "model.h"
#include "others.h"
#include "progress.h"
#include "say.h"
#include "start.h"
#include "stop.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct trainer {
    const struct flags *f;
    const struct cluster *c;
    const struct link *link;
    struct dataset data;
    struct model model;
    struct start start;
    int64_t *order; /* [train_count] */
    ps_tensor *x;   /* (batch, features) */
    int32_t *y;     /* [batch] */
    struct work work;
    struct others others; /* the chief's, in a cluster */
};

/* Steps that worker `trainer` makes in one epoch. */
static int64_t epoch_steps(const struct trainer *t, int trainer)
{
    int64_t share = t->data.train_count / t->c->trainer_count + (trainer < t->data.train_count % t->c->trainer_count ? 1 : 0);
    return (share + t->f->batch_size - 1) / t->f->batch_size;
}

static int prepare(struct trainer *t)
{
    char err[DATA_ERR_BYTES];
    struct model_spec spec;
    int64_t batch = t->f->batch_size;
    if (data_load(t->f->data, &t->data, err) != 0) {
        return say_error("--data: %s", err);
    }
    if (t->data.note[0] != '\0' && t->c->chief && !t->link->child) {
        (void)printf("%s\n", t->data.note);
    }
    if (t->data.train_count < t->c->trainer_count) {
        return say_error("--worker_hosts: %d workers for %" PRId64 " examples", t->c->trainer_count, t->data.train_count);
    }
    if (model_spec_parse(t->f->model, t->data.features, t->data.classes, &spec) != 0) {
        return say_error("--model %s is not understood", t->f->model);
    }
    batch = batch < t->data.train_count ? batch : t->data.train_count;
    t->order = malloc((size_t)t->data.train_count * sizeof(*t->order));
    t->x = ps_tensor_new(batch, t->data.features);
    t->y = malloc((size_t)batch * sizeof(*t->y));
    if (model_init(&t->model, &spec, batch) != 0 || t->order == NULL || t->x == NULL || t->y == NULL) {
        return say_error("no memory for batches of %" PRId64 " examples", batch);
    }
    if (ps_nn_open() != PS_OK) {
        return say_error("%s", ps_nn_error());
    }
    return EXIT_DONE;
}

/* ---- the loop ---- */

struct epoch {
    int64_t steps, samples, correct;
    double loss_sum; /* times examples */
};

static double loss_of(const struct epoch *e)
{
    return e->samples > 0 ? e->loss_sum / (double)e->samples : NAN;
}

static void look(const struct trainer *t, const struct epoch *e, int64_t epoch, struct progress_now *now)
{
    bool by_step = t->f->steps > 0;
    now->global_step = ps_global_step(t->start.session);
    int64_t others = now->global_step - t->start.global_step - t->work.steps;
    now->others_samples = others > 0 ? others * t->f->batch_size : 0;
    now->done = by_step ? now->global_step - t->start.global_step : t->work.steps;
    now->goal = by_step ? t->f->steps - t->start.global_step : t->f->epochs * epoch_steps(t, t->c->trainer);
    now->epoch = epoch + 1;
    now->epochs = by_step ? 0 : t->f->epochs;
    now->loss = loss_of(e);
    now->accuracy = e->samples > 0 ? (double)e->correct / (double)e->samples : 0;
}

/* One batch; true when there is a reason to end. */
static bool step(struct trainer *t, const int64_t *indices, int64_t rows, struct epoch *e)
{
    int64_t correct = 0;
    data_gather(&t->data, indices, rows, t->x->data, t->y);
    (void)ps_tensor_set_rows(t->x, rows); /* fits: it was made for a whole batch */
    double loss = model_step(&t->model, t->start.session, t->x, t->y, &correct);
    if (ps_session_status(t->start.session) != PS_OK) {
        return true;
    }
    e->steps++;
    e->samples += rows;
    e->correct += correct;
    e->loss_sum += loss * (double)rows;
    t->work.steps++;
    t->work.samples += rows;
    if (start_alive(&t->start) != 0) {
        (void)ps_session_fail(t->start.session, PS_ABORTED, ps_last_error());
    }
    others_look(&t->others);
    return stop_signal() != 0 || ps_should_stop(t->start.session);
}

static void train(struct trainer *t)
{
    struct progress progress;
    struct progress_now now = {.goal = 0};
    int64_t started_ms = cli_clock_ms();
    bool over = t->start.reached;
    progress_start(&progress, t->link->child ? t->link->bar : isatty(STDOUT_FILENO) == 1, t->link->quiet);
    t->work.loss = NAN;
    for (int64_t epoch = 0; !over; epoch++) {
        struct epoch e = {.steps = 0};
        int64_t first = 0;
        int64_t count = 0;
        data_share(t->data.train_count, (uint64_t)t->f->seed, (uint64_t)epoch, t->c->trainer, t->c->trainer_count, t->order,
                   &first, &count);
        for (int64_t at = 0; at < count && !over; at += t->f->batch_size) {
            int64_t rows = count - at < t->f->batch_size ? count - at : t->f->batch_size;
            over = step(t, &t->order[first + at], rows, &e);
            look(t, &e, epoch, &now);
            progress_step(&progress, &now, rows);
        }
        t->work.loss = e.samples > 0 ? loss_of(&e) : t->work.loss;
        over = over || (t->f->steps == 0 && epoch + 1 == t->f->epochs);
    }
    progress_end(&progress, &now);
    t->work.seconds = (double)(cli_clock_ms() - started_ms) / 1000;
    t->work.epochs = (double)t->work.steps / (double)epoch_steps(t, t->c->trainer);
}

/* ---- the end ---- */

static int session_error(const struct trainer *t)
{
    ps_session *s = t->start.session;
    ps_status st = ps_session_status(s);
    return say_error("/job:%s/task:%u stopped at global_step %" PRId64 ": %s: %s%s", t->c->job, (unsigned)t->c->task,
                     ps_global_step(s), ps_status_name(st), ps_session_error(s), say_remedy(st, ps_session_reason(s)));
}

static int chief_end(struct trainer *t)
{
    bool by_step = t->f->steps > 0;
    int64_t goal = by_step ? t->f->steps : t->start.global_step;
    for (int i = 0; !by_step && i < t->c->trainer_count; i++) {
        goal += t->f->epochs * epoch_steps(t, i);
    }
    if (t->c->trainer_count > 1 && !t->start.reached && others_wait(&t->others, goal, by_step) != 0) {
        return session_error(t);
    }
    if (stop_signal() != 0) {
        return EXIT_SIGNAL + stop_signal();
    }
    struct totals totals = {.work = t->work, .first_step = t->start.global_step, .batch = t->f->batch_size};
    return finish_run(t->f, t->c, &t->model.spec, &t->data, &totals);
}

static int run(struct trainer *t)
{
    int status = prepare(t);
    if (status != EXIT_DONE) {
        return status;
    }
    if (start_run(t->f, t->c, t->link->child, &t->model, &t->start) != 0) {
        return EXIT_FAILED;
    }
    link_tell(t->link, LINK_READY, NULL);
    others_init(&t->others, &t->start, t->c->chief && !t->link->child ? t->c->trainer_count : 1);
    train(t);
    if (ps_session_status(t->start.session) != PS_OK) {
        return session_error(t);
    }
    if (!t->c->chief && !t->link->child) {
        others_leave(&t->start);
    }
    if (stop_signal() != 0) {
        say_note("/job:%s/task:%u: stopped by signal %d after %" PRId64 " steps of its own", t->c->job, (unsigned)t->c->task,
                 stop_signal(), t->work.steps);
        return EXIT_SIGNAL + stop_signal();
    }
    link_tell(t->link, LINK_DONE, &t->work);
    return t->c->chief && !t->link->child ? chief_end(t) : EXIT_DONE;
}

int train_run(const struct flags *f, const struct cluster *c, const struct link *link)
{
    struct trainer t = {.f = f, .c = c, .link = link};
    stop_watch();
    int status = run(&t);
    stop_gently(false); /* nothing is left that a signal could cut */
    stop_session(NULL);
    int code = ps_session_close(t.start.session);
    others_fini(&t.others);
    model_fini(&t.model);
    ps_tensor_free(t.x);
    free(t.y);
    free(t.order);
    data_free(&t.data);
    return status == EXIT_DONE && code != 0 ? EXIT_FAILED : status;
}
