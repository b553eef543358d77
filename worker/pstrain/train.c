/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: between-graph, asynchronous. From top to bottom: data and buffers -> session, variables, ready -> for each epoch
 * its share of the examples, batch by batch (model_step() is one step, and the next batch is gathered while its gradients are on
 * their way) -> as the chief: wait for the others, test, report.
 *
 * --fresh: the chief empties the container before it creates variables; the others wait for that (team.c). A reset that hits a
 * worker before it has begun is no failure: it starts over. In --local the process that started us does what comes after
 * training. Failure modes: an error of the session ends it with the task named and a remedy; a signal lets it finish the step.
 */
#include "train.h"

#include "average.h"
#include "batches.h"
#include "evaluate.h"
#include "progress.h"
#include "say.h"
#include "session.h"
#include "shards.h"
#include "stop.h"
#include "team.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEP_END_MS = 1000 /* in rounds, after a signal: to finish a step for which others may be missing */ };

struct trainer {
    const struct flags *f;
    const struct cluster *c;
    const struct link *link;
    bool alone; /* a child of --local: nobody else uses these ps tasks, and the parent does what comes after training */
    struct dataset data;
    struct model model;
    struct batches batch;
    struct average average; /* --serial */
    ps_session *session;
    struct team team;
    struct shards shards;
    char who[CLUSTER_JOB_BYTES + 32]; /* for messages */
    int64_t first_step;               /* the global step that was found */
    int64_t goal;                     /* in rounds: the one that ends this run */
    bool reached;                     /* --steps is reached already */
    struct work work;
};

/* ---- data and buffers ---- */

static int prepare(struct trainer *t)
{
    char err[CLI_ERR_BYTES];
    struct model_spec spec;
    int64_t batch = t->f->batch_size;
    if (data_load(t->f->data, &t->data, err) != 0) {
        return say_error("--data: %s", err);
    }
    if (t->data.note[0] != '\0' && t->c->chief && !t->alone) {
        (void)printf("%s\n", t->data.note);
    }
    if (t->data.train_count < t->c->trainer_count) {
        return say_error("--%s: %d workers for %" PRId64 " examples", t->f->serial > 0 ? "serial" : "worker_hosts",
                         t->c->trainer_count, t->data.train_count);
    }
    if (model_spec_parse(t->f->model, t->data.features, t->data.classes, &spec) != 0) {
        return say_error("--model %s is not understood", t->f->model);
    }
    batch = batch < t->data.train_count ? batch : t->data.train_count;
    if (model_init(&t->model, &spec, batch) != 0 || batches_init(&t->batch, t->f, t->c, &t->data) != 0) {
        return say_error("no memory for batches of %" PRId64 " examples", batch);
    }
    if (batches_epoch_steps(&t->batch, t->c->trainer) == 0) {
        return say_error("--batch_size %" PRId64 ": the smallest of %d shares of %" PRId64 " examples has not one such batch",
                         t->f->batch_size, t->c->trainer_count, t->data.train_count);
    }
    return ps_nn_open(NULL) == PS_OK ? EXIT_DONE : say_error("%s", ps_nn_error());
}

/* ---- session, variables, ready ---- */

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
    return st == PS_OK ? 0 : session_call_failed(st, "--placement balanced");
}

/* 0; 1: the model was reset meanwhile, try again with a new session; -1: said. */
static int attempt(struct trainer *t, int64_t deadline_ms)
{
    bool fresh = t->f->fresh && !t->alone; /* --local has new ps tasks */
    ps_session *s = session_open(t->f, t->c, true, t->f->timeout_s * 1000, t->alone);
    t->session = s;
    team_init(&t->team, s, t->f->container[0] != '\0' ? t->f->container : "localhost");
    if (s == NULL) {
        return -1;
    }
    ps_status st = ps_session_wait_cluster(s, "ps", SESSION_READY_TIMEOUT_MS);
    if (st != PS_OK) {
        return session_call_failed(st, "waiting for the ps tasks");
    }
    if (fresh && t->c->chief) {
        st = team_reset(&t->team);
        if (st != PS_OK) {
            return session_call_failed(st, "--fresh: cannot empty the ps tasks");
        }
    } else if (fresh || (t->f->by_shards && !t->c->chief && !t->alone)) {
        st = team_wait_for_chief(&t->team, fresh, deadline_ms, t->f->timeout_s);
        if (st != PS_OK) {
            return st == PS_ABORTED ? 1 : -1;
        }
    }
    if (strcmp(t->f->placement, "balanced") == 0 && balance(s, t->c) != 0) {
        return -1;
    }
    model_params(&t->model, s, flags_optimizer(t->f));
    st = ps_session_ready(s); /* the chief initialises, the others wait */
    if (st == PS_ABORTED && fresh && !t->c->chief) {
        return 1;
    }
    return st == PS_OK ? 0 : session_failed(s, "the model is not ready");
}

/* The first line. */
static void say_found(const struct trainer *t, int found)
{
    int variables = model_variable_count(&t->model.spec);
    if (t->reached) {
        say_result("%d variables, global_step %" PRId64 ": the goal of --steps %" PRId64
                   " is already reached; --fresh starts over\n",
                   variables, t->first_step, t->f->steps);
    } else if (found == variables && (t->c->chief || (t->first_step > 0 && !t->alone))) { /* alone: the chief was only faster */
        say_result("%d variables, global_step %" PRId64 ": continuing\n", variables, t->first_step);
    } else if (!t->c->chief) {
        say_result("%d variables, made ready by the chief\n", variables);
    } else if (found > 0) {
        say_result("%d variables created, %d more were there: an earlier chief had begun\n", variables - found, found);
    } else {
        say_result("%d variables created%s\n", variables, t->f->fresh ? ": starting over" : "");
    }
}

/* The chief tells the others of the model and, before that, of the shards. */
static int lead(struct trainer *t)
{
    int64_t before = 0;
    int others = t->f->by_shards ? 1 : t->c->trainer_count - 1; /* by shards any number may come */
    if (team_begin(&t->team, others, t->c->job, t->c->task) != 0 ||
        (t->f->by_shards && shards_open(&t->shards, t->session, t->f, t->who, t->team.chief, t->data.train_count, true) != 0) ||
        (t->f->sync && team_set_goal(&t->team, t->goal) != 0) || team_sign(&t->team, &before) != 0) {
        return -1;
    }
    if (t->f->by_shards && before != 0) {
        shards_forget(t->session, before);
    }
    return 0;
}

/* Open a session, wait for the ps tasks, get the variables, wait until they are ready; print what was found. From then on a
 * signal is only noted (stop.h). */
static int begin(struct trainer *t)
{
    int64_t deadline_ms = cli_clock_ms() + t->f->timeout_s * 1000;
    int result = attempt(t, deadline_ms);
    while (result > 0) {
        (void)session_close(t->session);
        t->session = NULL;
        if (cli_clock_ms() >= deadline_ms) {
            (void)say_error("--fresh: the model was reset again and again");
            return -1;
        }
        result = attempt(t, deadline_ms);
    }
    if (result < 0) {
        return -1;
    }
    int found = ps_session_found(t->session, &t->first_step);
    t->reached = t->f->steps > 0 && t->first_step >= t->f->steps;
    int64_t from = t->alone ? 0 : t->first_step; /* who enters late finds more steps */
    t->goal = t->f->steps > 0 ? t->f->steps : from + t->f->epochs * batches_epoch_steps(&t->batch, t->c->trainer);
    if (t->f->sync && t->f->steps == 0 && !t->alone && t->f->serial == 0) {
        result = team_goal(&t->team, &t->goal); /* that of those who train already, also for a chief that comes back */
    }
    ps_set_steps(t->session, t->f->in_rounds ? t->goal : t->f->steps);
    if (result != 0) {
        return -1;
    }
    if (t->f->serial > 0) {
        result = average_init(&t->average, &t->model) == 0 ? 0 : say_error("--serial: no memory for the sums of gradients");
    } else if (t->c->chief && !t->alone) {
        result = lead(t);
    } else if (t->f->by_shards) {
        result = shards_open(&t->shards, t->session, t->f, t->who, t->alone ? 0 : t->team.chief, t->data.train_count, t->alone);
    }
    if (result != 0) {
        return -1;
    }
    stop_within(t->f->with.mode != PS_SYNC_NONE ? STEP_END_MS : 0);
    stop_gently(true); /* whoever has read the first line may end this worker gently */
    say_found(t, found);
    return 0;
}

/* ---- the loop ---- */

struct epoch {
    int64_t epoch;
    int64_t samples, correct;
    double loss_sum; /* times examples */
};

static double loss_of(const struct epoch *e)
{
    return e->samples > 0 ? e->loss_sum / (double)e->samples : NAN;
}

static void look(const struct trainer *t, const struct epoch *e, struct progress_now *now)
{
    bool by_step = t->f->steps > 0;
    now->global_step = ps_global_step(t->session);
    int64_t others = samples_of_others(t->f, t->c, now->global_step - t->first_step, &t->work);
    now->others_samples = others > 0 ? others : 0;
    now->done = by_step || t->f->by_shards || t->f->in_rounds ? now->global_step - t->first_step : t->work.steps;
    now->goal = by_step ? t->f->steps - t->first_step : t->f->epochs * batches_epoch_steps(&t->batch, t->c->trainer);
    now->dropped = ps_dropped(t->session);
    now->epoch = e->epoch + 1;
    now->epochs = by_step ? 0 : t->f->epochs;
    now->loss = loss_of(e);
    now->accuracy = e->samples > 0 ? (double)e->correct / (double)e->samples : 0;
}

/* Gather the next batch; in rounds that of this global step. */
static void gather(struct trainer *t, int64_t step)
{
    int result = 0;
    t->batch.rows = 0;
    if (!t->f->in_rounds) {
        result = batches_next(&t->batch);
    } else if (step < t->goal) {
        result = batches_round(&t->batch, step, t->c->trainer);
    }
    if (result != 0) {
        (void)ps_session_fail(t->session, PS_RESOURCE_EXHAUSTED, ps_nn_error());
    }
}

/* There is one; the first of the next shard where the last is done. */
static bool has_batch(struct trainer *t)
{
    struct batches *b = &t->batch;
    if (b->rows > 0 || !t->f->by_shards || ps_session_status(t->session) != PS_OK) {
        return b->rows > 0;
    }
    if (t->shards.has) {
        shards_done(&t->shards);
    }
    if (!shards_next(&t->shards)) {
        return false;
    }
    batches_shard(b, t->shards.shard.epoch, t->shards.shard.first, t->shards.shard.count);
    gather(t, 0);
    return b->rows > 0;
}

/* What model_step() has computed with `rows` examples. */
static void count(struct trainer *t, struct epoch *e, int64_t rows)
{
    double loss = ps_tensor_scalar(&t->model.loss); /* computed by now: reading does not wait */
    e->samples += rows;
    e->correct += (int64_t)ps_tensor_scalar(&t->model.correct);
    e->loss_sum += loss * (double)rows;
    t->work.samples += rows;
}

/* --serial: the batches of all workers of the round, the first of which is there, with the same values. */
static void round_of_all(struct trainer *t, struct epoch *e)
{
    struct batches *b = &t->batch;
    (void)ps_pull(t->session);
    for (int w = 0; w < t->c->trainer_count && ps_session_status(t->session) == PS_OK; w++) {
        if (w > 0 && batches_round(b, b->step, w) != 0) {
            (void)ps_session_fail(t->session, PS_RESOURCE_EXHAUSTED, ps_nn_error());
            return;
        }
        model_step(&t->model, NULL, b->x, &b->y);
        average_add(&t->average, &t->model);
        count(t, e, b->rows);
    }
    average_push(&t->average, &t->model, t->session);
}

/* The batch that is there; the next one is there afterwards. True when there is a reason to end. */
static bool step(struct trainer *t, struct epoch *e)
{
    struct batches *b = &t->batch;
    int64_t rows = b->rows;
    if (t->f->serial > 0) {
        round_of_all(t, e);
    } else {
        model_step(&t->model, t->session, b->x, &b->y);
    }
    gather(t, b->step + 1); /* while the last gradients travel */
    (void)ps_step_done(t->session);
    if (ps_session_status(t->session) != PS_OK) {
        return true;
    }
    if (t->f->serial == 0) {
        count(t, e, rows);
    }
    t->work.steps++;
    if (t->f->in_rounds && (b->rows == 0 || b->step != ps_global_step(t->session))) {
        gather(t, ps_global_step(t->session)); /* others have gone on, or this one was dropped */
    }
    team_step(&t->team);
    return stop_signal() != 0 || ps_should_stop(t->session);
}

static void train(struct trainer *t)
{
    struct progress progress;
    struct progress_now now = {.goal = 0};
    int64_t started_ms = cli_clock_ms();
    struct epoch e = {.samples = 0};
    bool over = t->reached;
    progress_start(&progress, t->link->child ? t->link->bar : isatty(STDOUT_FILENO) == 1, t->link->quiet);
    t->work.loss = NAN;
    gather(t, ps_global_step(t->session));
    while (!over && has_batch(t)) {
        int64_t samples = t->work.samples;
        e = t->batch.epoch == e.epoch ? e : (struct epoch){.epoch = t->batch.epoch};
        over = step(t, &e);
        look(t, &e, &now);
        progress_step(&progress, &now, t->work.samples - samples);
        t->work.loss = e.samples > 0 ? loss_of(&e) : t->work.loss;
    }
    if (t->shards.has && t->batch.rows == 0 && ps_session_status(t->session) == PS_OK) {
        shards_done(&t->shards);
    } else {
        shards_return(&t->shards);
    }
    progress_end(&progress, &now);
    t->work.dropped = ps_dropped(t->session);
    if (t->work.dropped > 0) {
        say_note("%s: %" PRId64 " of its %" PRId64 " steps were dropped: they came when their rounds were over", t->who,
                 t->work.dropped, t->work.steps);
    }
    t->work.seconds = (double)(cli_clock_ms() - started_ms) / 1000;
    t->work.epochs = t->f->by_shards ? (double)t->work.samples / (double)t->data.train_count
                                     : (double)t->work.steps / (double)batches_epoch_steps(&t->batch, t->c->trainer);
}

/* ---- the end ---- */

static int stopped(const struct trainer *t)
{
    char what[sizeof(t->who) + 64];
    (void)snprintf(what, sizeof(what), "%s stopped at global_step %" PRId64, t->who, ps_global_step(t->session));
    (void)session_failed(t->session, what);
    return EXIT_FAILED;
}

/* So that nobody waits for the chief while it waits for the others: its session ends as that of a member that has finished, and
 * one that is no member takes over. 0, or -1: said. */
static int leave(struct trainer *t)
{
    struct flags alone = *t->f;
    alone.with.mode = PS_SYNC_NONE;
    int code = session_close(t->session);
    t->session = NULL;
    if (code != 0) {
        (void)say_error("%s: cannot leave the others: %s", t->who, ps_status_name((ps_status)code));
        return -1;
    }
    t->session = session_open(&alone, t->c, true, t->f->timeout_s * 1000, true);
    t->team.session = t->session;
    return t->session != NULL ? 0 : -1;
}

static int chief_end(struct trainer *t)
{
    bool by_step = t->f->steps > 0;
    int64_t goal = by_step ? t->f->steps : t->first_step;
    for (int i = 0; !by_step && i < t->c->trainer_count; i++) {
        goal += t->f->epochs * batches_epoch_steps(&t->batch, i);
    }
    /* by shards all are done by now, but where a global step ends the run */
    bool others = t->f->by_shards ? by_step && t->team.seen : t->c->trainer_count > 1;
    others = others && !t->f->in_rounds; /* all are done with the last round */
    if (t->f->with.mode == PS_SYNC_STALENESS && others && leave(t) != 0) {
        return EXIT_FAILED;
    }
    if (others && !t->reached && team_wait(&t->team, goal, by_step) != 0) {
        return stopped(t);
    }
    if (stop_signal() != 0) {
        return EXIT_SIGNAL + stop_signal();
    }
    struct totals totals = {.work = t->work, .first_step = t->first_step};
    return evaluate_after(t->f, t->c, &t->model.spec, &t->data, &totals);
}

static int run(struct trainer *t)
{
    int status = prepare(t);
    if (status != EXIT_DONE) {
        return status;
    }
    if (begin(t) != 0) {
        return EXIT_FAILED;
    }
    link_tell(t->link, LINK_READY, NULL);
    train(t);
    if (ps_session_status(t->session) != PS_OK) {
        return stopped(t);
    }
    if (stop_signal() != 0) {
        say_note("%s: stopped by signal %d after %" PRId64 " steps of its own", t->who, stop_signal(), t->work.steps);
        if (t->f->with.mode != PS_SYNC_NONE) {
            ps_session_leave(t->session); /* it has not finished: --on_worker_loss says what the others do */
        }
        return EXIT_SIGNAL + stop_signal();
    }
    link_tell(t->link, LINK_DONE, &t->work);
    return t->c->chief && !t->alone ? chief_end(t) : EXIT_DONE;
}

int train_run(const struct flags *f, const struct cluster *c, const struct link *link)
{
    struct trainer t = {.f = f, .c = c, .link = link, .alone = link->child};
    if (f->serial > 0) {
        (void)snprintf(t.who, sizeof(t.who), "--serial");
    } else {
        (void)snprintf(t.who, sizeof(t.who), "/job:%s/task:%u", c->job, (unsigned)c->task);
    }
    stop_watch();
    int status = run(&t);
    stop_gently(false); /* nothing is left that a signal could cut */
    model_fini(&t.model);
    batches_fini(&t.batch);
    average_fini(&t.average);
    int code = session_close(t.session);
    data_free(&t.data);
    return status == EXIT_DONE && code != 0 ? EXIT_FAILED : status;
}
