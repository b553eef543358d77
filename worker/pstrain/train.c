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

#include "data/data.h"
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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is in x and y. */
struct batch {
    int64_t epoch;
    int64_t first, count; /* of the epoch: this worker's share, or shard, is order[first] to order[first + count - 1] */
    int64_t at;           /* of that: what comes after this batch */
    int64_t rows;         /* 0: all epochs are done */
};

struct trainer {
    const struct flags *f;
    const struct cluster *c;
    const struct link *link;
    bool alone; /* a child of --local: nobody else uses these ps tasks, and the parent does what comes after training */
    struct dataset data;
    struct model model;
    int64_t *order; /* [train_count] */
    ps_tensor *x;   /* (batch, features) */
    ps_tensor y;    /* (batch, 1), labels */
    struct batch batch;
    ps_session *session;
    struct team team;
    struct shards shards;
    char who[CLUSTER_JOB_BYTES + 32]; /* for messages */
    int64_t first_step;               /* the global step that was found */
    bool reached;                     /* --steps is reached already */
    struct work work;
};

/* Steps that worker `trainer` makes in one epoch; by shards, those of all workers. */
static int64_t epoch_steps(const struct trainer *t, int trainer)
{
    if (t->f->by_shards) {
        return shards_epoch_steps(t->data.train_count, t->f->batch_size);
    }
    int64_t share = data_share_count(t->data.train_count, trainer, t->c->trainer_count);
    return (share + t->f->batch_size - 1) / t->f->batch_size;
}

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
        return say_error("--worker_hosts: %d workers for %" PRId64 " examples", t->c->trainer_count, t->data.train_count);
    }
    if (model_spec_parse(t->f->model, t->data.features, t->data.classes, &spec) != 0) {
        return say_error("--model %s is not understood", t->f->model);
    }
    batch = batch < t->data.train_count ? batch : t->data.train_count;
    t->order = malloc((size_t)t->data.train_count * sizeof(*t->order));
    t->x = ps_tensor_new(batch, t->data.features);
    if (model_init(&t->model, &spec, batch) != 0 || t->order == NULL || t->x == NULL ||
        ps_tensor_init(&t->y, PS_I32, batch, 1) != PS_OK) {
        return say_error("no memory for batches of %" PRId64 " examples", batch);
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
    ps_session *s = session_open(t->f, t->c, t->c->job, t->f->timeout_s * 1000, t->alone);
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
        team_sign(&t->team, &before) != 0) {
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
    ps_set_steps(t->session, t->f->steps);
    (void)snprintf(t->who, sizeof(t->who), "/job:%s/task:%u", t->c->job, (unsigned)t->c->task);
    if (t->c->chief && !t->alone) {
        result = lead(t);
    } else if (t->f->by_shards) {
        result = shards_open(&t->shards, t->session, t->f, t->who, t->alone ? 0 : t->team.chief, t->data.train_count, t->alone);
    }
    if (result != 0) {
        return -1;
    }
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

static void look(const struct trainer *t, const struct epoch *e, int64_t epoch, struct progress_now *now)
{
    bool by_step = t->f->steps > 0;
    now->global_step = ps_global_step(t->session);
    int64_t others = now->global_step - t->first_step - t->work.steps;
    now->others_samples = others > 0 ? others * t->f->batch_size : 0;
    now->done = by_step || t->f->by_shards ? now->global_step - t->first_step : t->work.steps;
    now->goal = by_step ? t->f->steps - t->first_step : t->f->epochs * epoch_steps(t, t->c->trainer);
    now->epoch = epoch + 1;
    now->epochs = by_step ? 0 : t->f->epochs;
    now->loss = loss_of(e);
    now->accuracy = e->samples > 0 ? (double)e->correct / (double)e->samples : 0;
}

/* Gather the batch after b. */
static void batch_next(struct trainer *t)
{
    struct batch *b = &t->batch;
    b->rows = 0;
    if (b->at == b->count) {
        if (t->f->by_shards || (t->f->steps == 0 && b->epoch + 1 == t->f->epochs)) {
            return;
        }
        b->epoch++;
        b->at = 0;
        data_share(t->data.train_count, (uint64_t)t->f->seed, (uint64_t)b->epoch, t->c->trainer, t->c->trainer_count, t->order,
                   &b->first, &b->count);
    }
    b->rows = b->count - b->at < t->f->batch_size ? b->count - b->at : t->f->batch_size;
    (void)ps_tensor_set_rows(t->x, b->rows); /* fits: they were made for a whole batch */
    (void)ps_tensor_set_rows(&t->y, b->rows);
    float *x = ps_tensor_write(t->x);
    int32_t *y = ps_tensor_write(&t->y);
    if (x == NULL || y == NULL) {
        (void)ps_session_fail(t->session, PS_RESOURCE_EXHAUSTED, ps_nn_error());
        b->rows = 0;
        return;
    }
    data_gather(&t->data, &t->order[b->first + b->at], b->rows, x, y);
    b->at += b->rows;
}

/* There is one; the first of the next shard where the last is done. */
static bool has_batch(struct trainer *t)
{
    struct batch *b = &t->batch;
    if (b->rows > 0 || !t->f->by_shards || ps_session_status(t->session) != PS_OK) {
        return b->rows > 0;
    }
    if (t->shards.has) {
        shards_done(&t->shards);
    }
    if (!shards_next(&t->shards)) {
        return false;
    }
    const struct shard *s = &t->shards.shard;
    if (s->epoch != b->epoch) {
        data_shuffle(t->data.train_count, (uint64_t)t->f->seed, (uint64_t)s->epoch, t->order);
    }
    *b = (struct batch){.epoch = s->epoch, .first = s->first, .count = s->count};
    batch_next(t);
    return b->rows > 0;
}

/* The batch that is there, of b->rows; the next one is there afterwards. True when there is a reason to end. */
static bool step(struct trainer *t, const struct batch *b, struct epoch *e)
{
    model_step(&t->model, t->session, t->x, &t->y);
    batch_next(t); /* while the last gradients travel */
    (void)ps_step_done(t->session);
    double loss = ps_tensor_scalar(&t->model.loss); /* computed by now: reading does not wait */
    double correct = ps_tensor_scalar(&t->model.correct);
    if (ps_session_status(t->session) != PS_OK) {
        return true;
    }
    e->samples += b->rows;
    e->correct += (int64_t)correct;
    e->loss_sum += loss * (double)b->rows;
    t->work.steps++;
    t->work.samples += b->rows;
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
    t->batch.epoch = -1;
    batch_next(t);
    while (!over && has_batch(t)) {
        const struct batch b = t->batch;
        e = b.epoch == e.epoch ? e : (struct epoch){.epoch = b.epoch};
        over = step(t, &b, &e);
        look(t, &e, b.epoch, &now);
        progress_step(&progress, &now, b.rows);
        t->work.loss = e.samples > 0 ? loss_of(&e) : t->work.loss;
    }
    if (t->shards.has && t->batch.rows == 0 && ps_session_status(t->session) == PS_OK) {
        shards_done(&t->shards);
    } else {
        shards_return(&t->shards);
    }
    progress_end(&progress, &now);
    t->work.seconds = (double)(cli_clock_ms() - started_ms) / 1000;
    t->work.epochs = t->f->by_shards ? (double)t->work.samples / (double)t->data.train_count
                                     : (double)t->work.steps / (double)epoch_steps(t, t->c->trainer);
}

/* ---- the end ---- */

static int stopped(const struct trainer *t)
{
    char what[128];
    (void)snprintf(what, sizeof(what), "/job:%s/task:%u stopped at global_step %" PRId64, t->c->job, (unsigned)t->c->task,
                   ps_global_step(t->session));
    (void)session_failed(t->session, what);
    return EXIT_FAILED;
}

static int chief_end(struct trainer *t)
{
    bool by_step = t->f->steps > 0;
    int64_t goal = by_step ? t->f->steps : t->first_step;
    for (int i = 0; !by_step && i < t->c->trainer_count; i++) {
        goal += t->f->epochs * epoch_steps(t, i);
    }
    /* by shards all are done by now, but where a global step ends the run */
    bool others = t->f->by_shards ? by_step && t->team.seen : t->c->trainer_count > 1;
    if (others && !t->reached && team_wait(&t->team, goal, by_step) != 0) {
        return stopped(t);
    }
    if (stop_signal() != 0) {
        return EXIT_SIGNAL + stop_signal();
    }
    struct totals totals = {.work = t->work, .first_step = t->first_step, .batch = t->f->batch_size};
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
        say_note("/job:%s/task:%u: stopped by signal %d after %" PRId64 " steps of its own", t->c->job, (unsigned)t->c->task,
                 stop_signal(), t->work.steps);
        return EXIT_SIGNAL + stop_signal();
    }
    link_tell(t->link, LINK_DONE, &t->work);
    return t->c->chief && !t->alone ? chief_end(t) : EXIT_DONE;
}

int train_run(const struct flags *f, const struct cluster *c, const struct link *link)
{
    struct trainer t = {.f = f, .c = c, .link = link, .alone = link->child};
    stop_watch();
    int status = run(&t);
    stop_gently(false); /* nothing is left that a signal could cut */
    model_fini(&t.model);
    ps_tensor_free(t.x);
    ps_tensor_free(&t.y);
    int code = session_close(t.session);
    free(t.order);
    data_free(&t.data);
    return status == EXIT_DONE && code != 0 ? EXIT_FAILED : status;
}
