/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: between-graph, asynchronous. From top to bottom: data and buffers -> session, variables, ready -> for each epoch
 * its share of the examples, batch by batch (model_step() is one step; the next batch is gathered while its gradients travel) ->
 * as the chief: wait for the others, test, report.
 *
 * The chief is the worker that holds the lease. If it dies another worker takes over, tells the others (pstrain/chief, team.c)
 * and tests at the end. When a ps task is restarted, the present step fails and is not counted; the library recovers the session.
 * By epochs that batch is computed again, and those of this worker's steps that the model has lost (repeat()); otherwise the
 * global step determines the next batch.
 *
 * --fresh: the chief empties the container before it creates variables; the others wait for that (team.c). A worker that meets a
 * reset before it has begun starts over. In --local the parent process does what comes after training. Failure modes: an error of
 * the session ends it, and is printed with task and remedy; after a signal the step is finished.
 */
#include "train.h"

#include "average.h"
#include "batches.h"
#include "best.h"
#include "evaluate.h"
#include "plot.h"
#include "progress.h"
#include "say.h"
#include "serve.h"
#include "session.h"
#include "shards.h"
#include "source.h"
#include "stop.h"
#include "team.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    STEP_END_MS = 1000, /* in rounds, after a signal: time to finish a step for which others may be missing */
    LEAD_AGAIN_MS = 1000,
    GOAL_AGAIN_MS = 200,
    LABELS_MS = 5000,
    LABELS_AGAIN_MS = 100,
    SUMMARY_STEPS = 10
};

enum { LOSS, ACCURACY, PANELS }; /* of --plot */
enum { TRAINING, VALIDATION };   /* curves of a panel */

struct trainer {
    const struct flags *f;
    const struct cluster *c;
    const struct link *link;
    bool alone; /* a child of --local: nobody else uses these ps tasks, and the parent does what comes after training */
    struct dataset data;
    struct model model;
    struct batches batch;
    struct average average; /* --serial */
    struct best best;       /* --patience */
    ps_session *session;
    bool chief;         /* this session is chief, as far as it knows */
    bool leads;         /* with `chief`: the other workers know */
    int64_t lead_at_ms; /* time to tell them again */
    bool finished;      /* its work is done, and nobody told it to stop before */
    struct team team;
    struct shards shards;
    char who[CLUSTER_JOB_BYTES + 32]; /* name in messages */
    int64_t first_step;               /* global step at the start */
    int64_t known_step;               /* global step after the last completed step */
    uint32_t replacements;            /* value of ps_recovery.replacements at the last look */
    int64_t goal;                     /* in rounds: the global step that ends this run */
    bool asks_goal;                   /* goal is only this worker's own: nobody who has signed another one was found */
    bool knows_goal;                  /* asks_goal, and a signed goal was found since */
    bool tells_goal;                  /* goal must be told to a new chief */
    int64_t goal_at_ms, goal_ms;      /* time of the next look at the signed goal; interval of looks */
    bool reached;                     /* --steps was reached before */
    bool traced;                      /* the step of --trace was begun, or belongs to another process */
    struct plot_panel panels[PANELS]; /* --plot */
    struct work work;
};

/* Allocate the buffers of a model for the present data. */
static int make_buffers(struct trainer *t)
{
    char err[CLI_ERR_BYTES];
    struct model_spec spec;
    int64_t batch = t->f->batch_size;
    if (source_model(t->f, &t->data, &spec) != EXIT_DONE) {
        return EXIT_FAILED;
    }
    batch = batch < t->data.train_count ? batch : t->data.train_count;
    model_fini(&t->model);
    batches_fini(&t->batch);
    if (model_init(&t->model, &spec, batch) != 0) {
        return say_error("no memory for batches of %" PRId64 " examples", batch);
    }
    return batches_init(&t->batch, t->f, t->c, &t->data, err) == 0 ? EXIT_DONE : say_error("%s", err);
}

static int prepare(struct trainer *t)
{
    /* checked now, not when the restore is needed */
    if (t->f->restore[0] != '\0' && ps_file_check(t->f->restore, NULL, NULL) != PS_OK) {
        return say_error("--restore: %s", ps_last_error());
    }
    if (t->f->warm_start[0] != '\0' && session_warm_start_check(t->f) != PS_OK) {
        return say_error("--warm_start: %s", ps_last_error());
    }
    if (source_load(t->f, t->alone, &t->data) != EXIT_DONE) {
        return EXIT_FAILED;
    }
    if (t->data.train_count < t->c->trainer_count) {
        return say_error("--%s: %d workers for %" PRId64 " examples", t->f->serial > 0 ? "serial" : "worker_hosts",
                         t->c->trainer_count, t->data.train_count);
    }
    if (make_buffers(t) != EXIT_DONE) {
        return EXIT_FAILED;
    }
    if (batches_epoch_steps(&t->batch, t->c->trainer) == 0) {
        return say_error("--batch_size %" PRId64 ": the smallest of %d shares of %" PRId64 " examples has not one such batch",
                         t->f->batch_size, t->c->trainer_count, t->data.train_count);
    }
    return ps_nn_open(NULL) == PS_OK ? EXIT_DONE : say_error("%s", ps_nn_error());
}

/* --placement balanced: place variables on the task with the fewest bytes. */
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

/* Adapt the data to an existing model. */
static int take_over(struct trainer *t)
{
    struct source_match match;
    int status = source_adopt_aside(t->f, t->c, &t->data, &match);
    status = status == EXIT_DONE && match.changed ? make_buffers(t) : status;
    if (status == EXIT_DONE && t->c->chief && !t->alone) {
        source_say(&t->data);
    }
    return status;
}

/* The model is ready: check the data against the labels and base that the model was made with. A chief that has made it anew
 * after a loss writes them a moment later; a chief of an older version never does. */
static int compare(struct trainer *t)
{
    struct source_match match;
    const int64_t end_ms = cli_clock_ms() + LABELS_MS;
    int status = source_adopt_aside(t->f, t->c, &t->data, &match);
    while (status == EXIT_DONE && !match.known && data_keeps(&t->data) && cli_clock_ms() < end_ms) {
        clock_wait(LABELS_AGAIN_MS);
        status = source_adopt_aside(t->f, t->c, &t->data, &match);
    }
    if (status == EXIT_DONE && t->data.classes != t->model.spec.units[t->model.spec.layers]) {
        return say_error("--data %s: the model has %" PRId64 " classes and labels of %" PRId64, t->f->data,
                         t->model.spec.units[t->model.spec.layers], t->data.classes);
    }
    if (status == EXIT_DONE && !match.known && data_keeps(&t->data)) {
        say_note("%s: the chief keeps no labels with the model: classes and indices are those of this worker's file", t->who);
    }
    if (status == EXIT_DONE && match.changed) {
        source_say(&t->data);
    }
    return status;
}

enum { BEGUN = 0, AGAIN = 1, NOTHING_LEFT = 2 };

/* Result of attempt() for a status of waiting for the chief. */
static int waited(ps_status st)
{
    if (st == PS_OK) {
        return BEGUN;
    }
    return st == PS_ABORTED ? AGAIN : st == PS_OUT_OF_RANGE ? NOTHING_LEFT : -1;
}

/* ps_session_ready() has failed. Of trainers with different files the first creates the variables: another one adopts their
 * width (AGAIN), or prints why its file does not fit. */
static int not_ready(struct trainer *t)
{
    const bool other_file = data_keeps(&t->data) && ps_session_reason(t->session) == PS_REASON_SHAPE_MISMATCH;
    struct source_match match = {.known = false};
    if (other_file && source_adopt_aside(t->f, t->c, &t->data, &match) != EXIT_DONE) {
        return -1;
    }
    if (match.changed) {
        return AGAIN;
    }
    (void)session_failed(t->session, "the model is not ready");
    if (other_file) {
        say_note("--data %s: the labels of this file are %" PRId64
                 " classes; where the files of the trainers have different labels, "
                 "start the chief first, with a file that has all of them",
                 t->f->data, t->data.classes);
    }
    return -1;
}

/* Open a session and make the model ready. Returns BEGUN; AGAIN: the model was reset meanwhile, or has another width, try again
 * with a new session; NOTHING_LEFT: nothing to do, printed; -1: the error was printed. */
static int attempt(struct trainer *t, int64_t deadline_ms)
{
    bool fresh = t->f->fresh && !t->alone; /* --local has new ps tasks, or has emptied them */
    ps_session *s = session_open(t->f, t->c, true, t->f->timeout_s * 1000, t->alone);
    t->session = s;
    team_init(&t->team, s, t->f, t->c);
    if (s == NULL) {
        return -1;
    }
    ps_status st = ps_session_wait_cluster(s, "ps", session_start_ms(t->f));
    if (st != PS_OK) {
        return session_call_failed(st, "waiting for the ps tasks");
    }
    if (!t->alone && team_note_fresh(&t->team, fresh && t->c->chief) != 0) {
        return -1;
    }
    if (fresh && t->c->chief) {
        st = team_reset(&t->team);
        if (st != PS_OK) {
            return session_call_failed(st, "--fresh: cannot empty the ps tasks");
        }
    } else if (fresh || (t->f->by_shards && !t->c->chief && !t->alone)) {
        st = team_wait_for_chief(&t->team, fresh, deadline_ms, t->f->timeout_s);
        if (st != PS_OK) {
            return waited(st);
        }
    }
    if (strcmp(t->f->placement, "balanced") == 0 && balance(s, t->c) != 0) {
        return -1;
    }
    if (take_over(t) != EXIT_DONE) {
        return -1;
    }
    model_params(&t->model, s, &t->f->rule);
    if (t->c->chief && ps_session_status(s) == PS_OK && source_keep(t->f, t->c, &t->data) != EXIT_DONE) {
        return -1;
    }
    if (t->f->summaries[0] != '\0' && ps_add_summary_hook(s, t->f->summaries, SUMMARY_STEPS) != PS_OK) {
        return session_failed(s, "--summaries");
    }
    st = ps_session_ready(s); /* the chief initialises, the others wait */
    bool behind = t->c->chief ? session_met_other_model(s) : st == PS_ABORTED;
    if (fresh && behind) {
        return AGAIN; /* for the chief: a trainer of the older run has made its model again, and ends now */
    }
    if (st != PS_OK) {
        return not_ready(t);
    }
    /* this worker is chief in place of the task that the cluster spec names, which is not there */
    const bool stands_in = !t->c->chief && !t->alone && ps_is_chief(s);
    if ((stands_in && source_keep(t->f, t->c, &t->data) != EXIT_DONE) || compare(t) != EXIT_DONE) {
        return -1;
    }
    t->chief = t->alone || t->f->serial > 0 ? t->c->chief : ps_is_chief(s);
    if (t->f->by_shards && !t->alone && !t->chief && t->team.run == 0) { /* the session that was to be chief has lost the lease */
        st = team_wait_for_chief(&t->team, false, deadline_ms, t->f->timeout_s);
        t->chief = st == PS_OK && ps_is_chief(s);
    }
    return waited(st);
}

/* Print the first line. */
static void say_found(const struct trainer *t, int found)
{
    int variables = model_part_count(&t->model.spec);
    if (t->f->warm_start[0] != '\0' && t->chief && session_warmed() < 0) {
        say_note("--warm_start: nothing is taken of %s: the model is there already; --fresh starts over", t->f->warm_start);
    }
    if (t->reached) {
        say_result("%d variables, global_step %" PRId64 ": the goal of --steps %" PRId64
                   " is already reached; --fresh starts over\n",
                   variables, t->first_step, t->f->steps);
    } else if (t->chief && session_warmed() >= 0) {
        say_result("%d variables created, %d of them with values of %s\n", variables, session_warmed(), t->f->warm_start);
    } else if (found == variables && (t->chief || (t->first_step > 0 && !t->alone))) { /* alone: the chief was only faster */
        say_result("%d variables, global_step %" PRId64 ": continuing\n", variables, t->first_step);
    } else if (!t->chief) {
        say_result("%d variables, made ready by the chief\n", variables);
    } else if (found > 0) {
        say_result("%d variables created, %d more were there: an earlier chief had begun\n", variables - found, found);
    } else {
        say_result("%d variables created%s\n", variables, t->f->fresh ? ": starting over" : "");
    }
}

/* Print the learning rate in force. */
static void say_rate(const struct trainer *t)
{
    char name[MODEL_NAME_BYTES];
    session_say_rate(t->session, t->f, model_variable_name(&t->model.spec, t->model.spec.layers - 1, true, name));
}

/* As the chief tell the others about the shards and then the model. begins: of a run that it begins. */
static int lead(struct trainer *t, bool begins)
{
    int64_t before = 0;
    int others = t->f->by_shards ? 1 : t->c->trainer_count - 1; /* by shards any number may come */
    if (team_begin(&t->team, others) != 0) {
        return -1;
    }
    if (begins && t->f->by_shards &&
        shards_open(&t->shards, t->session, t->f, t->c, t->who, t->team.chief, t->data.train_count, true) != 0) {
        return -1;
    }
    if (team_sign(&t->team, begins, t->f->sync && (begins || !t->asks_goal) ? t->goal : 0, &before) != 0) {
        return -1;
    }
    if (begins && t->f->by_shards && before != 0) {
        shards_forget(t->f, t->c, before);
    }
    t->leads = true;
    return 0;
}

/* session_gate_fn: true if the model that was lost is this run's. */
static bool may_make(void *trainer)
{
    const struct trainer *t = trainer;
    return t->alone || !team_is_replaced(&t->team);
}

/* Number of this worker's own steps that a model which was made anew lacks: all, unless it was restored from this run. Then the
 * worker keeps its share of the kept steps, in proportion. */
static int64_t lost_steps(const struct trainer *t, const ps_recovery *last)
{
    int64_t made = t->known_step - t->first_step;
    int64_t kept = last->model_step - t->first_step;
    if (kept <= 0 || made <= 0) {
        return t->work.steps;
    }
    return kept < made ? (t->work.steps * (made - kept) + made - 1) / made : 0;
}

/* Look at the session after a step: it may have recovered, and another worker may be chief. Returns the number of this worker's
 * own steps that were lost. */
static int64_t watch(struct trainer *t)
{
    ps_recovery last = {.struct_bytes = sizeof(last)};
    int64_t lost = 0;
    bool recovered = false;
    if (t->f->serial > 0) {
        return 0;
    }
    if (ps_monitored_last_recovery(t->session, &last) == PS_OK && last.count != (uint32_t)t->work.recoveries) {
        const bool another = last.replacements != t->replacements; /* replaced by this recovery or an earlier one */
        recovered = true;
        t->work.recoveries = last.count;
        t->work.lost_steps = last.lost_steps_total;
        t->leads = false; /* its sign names the former session */
        t->tells_goal = t->knows_goal;
        t->asks_goal = t->asks_goal && !t->tells_goal;
        t->goal_at_ms = 0;
        t->goal_ms = GOAL_AGAIN_MS;
        if (!may_make(t)) {
            (void)ps_session_fail(t->session, PS_ABORTED, "the model was reset: another run has begun");
            return 0;
        }
        bool gone = !another && t->f->by_shards && last.status == PS_ABORTED && last.reason == PS_REASON_LOST;
        if (gone && team_is_over(&t->team)) { /* the next run's chief has deleted them */
            (void)ps_session_fail(t->session, PS_ABORTED, "all shards of the run are done, and another run has begun");
            return 0;
        }
        lost = another ? lost_steps(t, &last) : 0;
        if (another) {
            t->replacements = last.replacements;
            t->known_step = last.model_step;
            t->first_step = last.model_step < t->first_step ? last.model_step : t->first_step;
        }
    }
    bool chief = !t->alone && ps_is_chief(t->session);
    if (chief && !t->chief) {
        say_note("%s: chief from now on", t->who);
    }
    t->leads = t->leads && chief;
    t->chief = t->alone ? t->chief : chief;
    if (recovered && t->chief) {
        /* errors were printed; a worker that comes later then uses the labels of its file */
        (void)source_keep(t->f, t->c, &t->data);
    }
    if (chief && !t->leads && cli_clock_ms() >= t->lead_at_ms && lead(t, false) != 0) {
        t->lead_at_ms = cli_clock_ms() + LEAD_AGAIN_MS;
    }
    return lost;
}

/* Open a session, wait for the ps tasks, get the variables, wait until they are ready, print what was found. Signals are only
 * noted from then on (stop.h). Returns BEGUN, NOTHING_LEFT, or -1: the error was printed. */
static int begin_training(struct trainer *t)
{
    int64_t deadline_ms = cli_clock_ms() + t->f->timeout_s * 1000;
    int result = attempt(t, deadline_ms);
    while (result == AGAIN) {
        (void)session_close(t->session);
        t->session = NULL;
        data_free(&t->data); /* the data may have been adapted to the model that was reset */
        if (source_load(t->f, true, &t->data) != EXIT_DONE || make_buffers(t) != EXIT_DONE) {
            return -1;
        }
        if (cli_clock_ms() >= deadline_ms) {
            (void)say_error("--fresh: the model was reset again and again");
            return -1;
        }
        result = attempt(t, deadline_ms);
    }
    if (result != BEGUN) {
        return result;
    }
    int found = ps_session_found(t->session, &t->first_step);
    t->known_step = t->first_step;
    t->reached = t->f->steps > 0 && t->first_step >= t->f->steps;
    int64_t from = t->alone ? 0 : t->first_step; /* late workers find more steps */
    t->goal = t->f->steps > 0 ? t->f->steps : from + t->f->epochs * batches_epoch_steps(&t->batch, t->c->trainer);
    if (t->f->sync && t->f->steps == 0 && !t->alone && t->f->serial == 0) {
        /* the goal of those who train already, also for a chief that comes back */
        int known = team_goal(&t->team, TEAM_COMES, &t->goal);
        /* A worker of step 0 has computed the goal of the run. It asks nobody: a chief that comes back behind a loss may have
         * signed another one before this worker hears of the loss. */
        t->asks_goal = known == 0 && t->first_step > 0;
        t->knows_goal = !t->asks_goal;
        t->goal_ms = GOAL_AGAIN_MS;
        result = known < 0 ? -1 : 0;
    }
    ps_set_steps(t->session, t->f->in_rounds ? t->goal : t->f->steps);
    if (result != 0) {
        return -1;
    }
    if (t->f->serial > 0) {
        result = average_init(&t->average, &t->model) == 0 ? 0 : say_error("--serial: no memory for the sums of gradients");
    } else if (t->chief && !t->alone) {
        result = lead(t, true);
    } else if (t->f->by_shards && !t->reached) {
        result =
            shards_open(&t->shards, t->session, t->f, t->c, t->who, t->alone ? 0 : t->team.run, t->data.train_count, t->alone);
    }
    if (result != 0) {
        return -1;
    }
    stop_within(t->f->with.mode != PS_SYNC_NONE ? STEP_END_MS : 0);
    stop_gently(true); /* the first line is out: its reader may end this worker with a signal */
    say_found(t, found);
    if (t->chief && !t->reached && t->f->serial == 0) {
        say_rate(t);
    }
    return BEGUN;
}

struct epoch {
    int64_t epoch;
    int64_t samples, correct;
    double loss_sum; /* loss times examples */
};

static double loss_of(const struct epoch *e)
{
    return e->samples > 0 ? e->loss_sum / (double)e->samples : NAN;
}

static void fill_progress(const struct trainer *t, const struct epoch *e, struct progress_now *now)
{
    bool by_step = t->f->steps > 0;
    now->global_step = ps_global_step(t->session);
    int64_t others = samples_of_others(t->f, t->c, now->global_step - t->first_step, &t->work);
    now->others_samples = others > 0 ? others : 0;
    now->done = by_step || t->f->by_shards || t->f->in_rounds ? now->global_step - t->first_step : t->work.steps;
    const int64_t each = batches_epoch_steps(&t->batch, t->c->trainer);
    now->goal = by_step ? t->f->steps - t->first_step : t->f->in_rounds ? t->goal - t->first_step : t->f->epochs * each;
    now->dropped = ps_dropped(t->session);
    now->epoch = e->epoch + 1;
    /* in rounds the epochs are the model's */
    now->epochs = by_step ? 0 : t->f->in_rounds ? (t->goal + each - 1) / each : t->f->epochs;
    now->loss = loss_of(e);
    now->accuracy = t->data.predicts ? NAN : e->samples > 0 ? (double)e->correct / (double)e->samples : 0;
}

/* Gather the next batch; in rounds the batch of this global step. */
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
        (void)ps_session_fail(t->session, PS_RESOURCE_EXHAUSTED, t->batch.x.error);
    }
}

/* True if there is a batch; gets the next shard when one is done. */
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

/* Results of model_step(). */
struct measured {
    int64_t rows, correct;
    double loss;
};

static struct measured measure(struct trainer *t, int64_t rows)
{
    return (struct measured){.rows = rows, /* computed by now: reading does not wait */
                             .correct = t->data.predicts ? 0 : (int64_t)ps_tensor_scalar(&t->model.correct),
                             .loss = ps_tensor_scalar(&t->model.loss)};
}

static void count_step(struct trainer *t, struct epoch *e, const struct measured *m)
{
    e->samples += m->rows;
    e->correct += m->correct;
    e->loss_sum += m->loss * (double)m->rows;
    t->work.samples += m->rows;
}

/* --serial: compute the batches of all workers of the round with the same values. The first batch is gathered. */
static void round_of_all(struct trainer *t, struct epoch *e)
{
    struct batches *b = &t->batch;
    for (int w = 0; w < t->c->trainer_count && ps_session_status(t->session) == PS_OK; w++) {
        if (w > 0 && batches_round(b, b->step, w) != 0) {
            (void)ps_session_fail(t->session, PS_RESOURCE_EXHAUSTED, t->batch.x.error);
            return;
        }
        model_step(&t->model, &b->x, &b->y, NULL, NULL);
        average_add(&t->average, &t->model);
        const struct measured m = measure(t, b->rows);
        count_step(t, e, &m);
    }
    average_push(&t->average, &t->model, t->session);
}

/* By epochs a worker repeats its own steps that were lost, and the step that was broken off. */
static void repeat(struct trainer *t, int64_t lost, bool broken)
{
    if (t->f->steps > 0 || t->f->by_shards || t->f->in_rounds || (lost == 0 && !broken)) {
        return;
    }
    int64_t back = batches_back(&t->batch, lost + broken) - broken;
    t->work.steps -= back;
    if (back > 0) {
        say_note("%s: %" PRId64 " of its steps were lost: it makes them again", t->who, back);
    }
    gather(t, 0);
}

/* In rounds: true if the gathered batch is not that of the global step. */
static bool is_elsewhere(const struct trainer *t)
{
    return t->f->in_rounds && (t->batch.rows == 0 || t->batch.step != ps_global_step(t->session));
}

/* A worker that comes back while others recover from the loss of a ps task finds no rounds and no chief: it takes the goal from
 * what is signed later. If it is chief, it has signed a goal of its own, which the recovered workers correct. */
static void look_at_goal(struct trainer *t)
{
    if ((!t->asks_goal && !t->tells_goal) || cli_clock_ms() < t->goal_at_ms) {
        return;
    }
    int known = team_goal(&t->team, t->asks_goal ? TEAM_ASKS : TEAM_TELLS, &t->goal);
    t->knows_goal = t->knows_goal || known == 1;
    t->tells_goal = t->tells_goal && known != 1;
    t->goal_ms = known == 0 ? t->goal_ms : 2 * t->goal_ms;
    t->goal_at_ms = cli_clock_ms() + t->goal_ms;
    ps_set_steps(t->session, t->goal);
    if (t->batch.step >= t->goal) {
        gather(t, t->batch.step); /* no batch: the run is over */
    }
}

/* Begin the trace of --trace_step if it is this step. Failures do not end training. True: this step is traced. */
static bool trace_begin(struct trainer *t)
{
    if (t->f->trace[0] == '\0' || t->traced || t->work.steps + 1 != t->f->trace_step) {
        return false;
    }
    t->traced = true;
    const bool begun = ps_trace_next_step(t->session, t->f->trace) == PS_OK;
    if (!begun) {
        say_note("--trace %s: step %" PRId64 " is not traced: %s", t->f->trace, t->f->trace_step, ps_last_error());
    }
    return begun;
}

static void trace_end(const struct trainer *t)
{
    if (ps_trace_status(t->session) != PS_OK) {
        say_note("--trace %s: it could not be written: %s", t->f->trace, ps_last_error());
    } else {
        say_note("step %" PRId64 " of %s is in %s", t->f->trace_step, t->who, t->f->trace);
    }
}

/* Print that the traced step was not reached, at the end of the run. */
static void trace_missed(const struct trainer *t)
{
    if (t->f->trace[0] != '\0' && !t->traced) {
        say_note("--trace_step %" PRId64 " was not reached, nothing is in %s: %s made %" PRId64 " steps", t->f->trace_step,
                 t->f->trace, t->who, t->work.steps);
    }
}

/* Add a point to the curves of --plot. */
static void draw(struct trainer *t, int which, double loss, double accuracy)
{
    if (t->f->plot[0] != '\0') {
        plot_add(&t->panels[LOSS].curves[which], (double)t->known_step, loss);
        plot_add(&t->panels[ACCURACY].curves[which], (double)t->known_step, t->data.predicts ? NAN : 100 * accuracy);
    }
}

/* --plot: of the process that is chief at the end. */
static void draw_end(struct trainer *t)
{
    t->panels[LOSS].title = "Loss";
    t->panels[LOSS].unit = t->data.predicts ? "mean squared error" : "mean cross-entropy (nats)";
    t->panels[ACCURACY].title = "Accuracy";
    t->panels[ACCURACY].unit = "right (%)";
    for (int i = 0; i < PANELS; i++) {
        t->panels[i].curves[TRAINING].name = "training";
        t->panels[i].curves[VALIDATION].name = "validation";
    }
    if (t->f->plot[0] != '\0' && t->chief && plot_write(t->f->plot, "global step", t->panels, PANELS) != 0) {
        (void)say_error("--plot %s: %s", t->f->plot, strerror(errno));
    }
}

/* Compute the gathered batch and gather the next one. True: there is a reason to end. */
static bool train_step(struct trainer *t, struct epoch *e)
{
    struct batches *b = &t->batch;
    const bool traced = trace_begin(t);
    (void)ps_pull(t->session);
    if (is_elsewhere(t)) { /* ps_pull() has recovered the session */
        gather(t, ps_global_step(t->session));
    }
    if (b->rows == 0) { /* the others have reached the goal */
        return true;
    }
    int64_t rows = b->rows;
    if (t->f->serial > 0) {
        round_of_all(t, e);
    } else {
        model_step(&t->model, &b->x, &b->y, model_push_pull, t->session);
    }
    gather(t, b->step + 1); /* while the last gradients travel */
    if (b->rows > 0) {
        model_ahead(&t->model, &b->x);
    }
    const struct measured m = measure(t, rows);
    if (t->f->serial == 0 && rows > 0) {
        (void)ps_step_value(t->session, "loss", m.loss);
        if (!t->data.predicts) {
            (void)ps_step_value(t->session, "accuracy", (double)m.correct / (double)rows);
        }
    }
    bool done = ps_step_done(t->session) == PS_OK;
    if (traced) {
        trace_end(t);
    }
    if (done) {
        if (t->f->serial == 0) {
            count_step(t, e, &m);
        }
        t->work.steps++;
        t->known_step = ps_global_step(t->session);
        draw(t, TRAINING, m.loss, (double)m.correct / (double)m.rows);
    }
    bool over = ps_should_stop(t->session); /* recovers a lost session */
    if (ps_session_status(t->session) != PS_OK) {
        return true;
    }
    repeat(t, watch(t), !done);
    if (is_elsewhere(t)) {
        gather(t, ps_global_step(t->session)); /* others have gone on, or this step was dropped or broken off */
    }
    look_at_goal(t);
    team_step(&t->team);
    return stop_signal() != 0 || over;
}

/* --patience, before an epoch or at the end of the run: test, or look what the chief has found. True: the run ends here. */
static bool ends_early(struct trainer *t)
{
    double loss = NAN, accuracy = NAN;
    if (t->f->patience == 0 || t->best.f == NULL) {
        return false;
    }
    if (!t->chief) {
        best_look(&t->best);
    } else if (ps_pull(t->session) == PS_OK) {
        if (best_test(&t->best, &t->model, &t->data, ps_global_step(t->session), t->batch.epoch, &loss, &accuracy) != 0) {
            (void)ps_session_fail(t->session, PS_INTERNAL, "--patience: the validation failed");
            return true;
        }
        draw(t, VALIDATION, loss, accuracy);
    }
    return t->batch.epoch >= t->best.end;
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
    t->traced = t->alone && !t->c->chief; /* --local traces one worker */
    gather(t, ps_global_step(t->session));
    while (!over && has_batch(t)) {
        int64_t samples = t->work.samples;
        if (t->batch.epoch != e.epoch && ends_early(t)) {
            break;
        }
        e = t->batch.epoch == e.epoch ? e : (struct epoch){.epoch = t->batch.epoch};
        over = train_step(t, &e);
        fill_progress(t, &e, &now);
        progress_step(&progress, &now, t->work.samples - samples);
        t->work.loss = e.samples > 0 ? loss_of(&e) : t->work.loss;
    }
    if (t->shards.has && t->batch.rows == 0 && ps_session_status(t->session) == PS_OK) {
        shards_done(&t->shards);
    } else {
        shards_return(&t->shards);
    }
    if (t->chief && t->best.end == INT64_MAX && t->work.steps > 0 && stop_signal() == 0) {
        (void)ends_early(t); /* the test of the last epoch */
    }
    progress_end(&progress, &now);
    draw_end(t);
    trace_missed(t);
    int64_t end = t->f->in_rounds ? t->goal : t->f->steps;
    t->finished = stop_signal() == 0 && ps_session_status(t->session) == PS_OK &&
                  (!ps_should_stop(t->session) || (end > 0 && ps_global_step(t->session) >= end));
    t->work.dropped = ps_dropped(t->session);
    if (t->work.dropped > 0) {
        say_note("%s: %" PRId64 " of its %" PRId64 " steps were dropped: they came when their rounds were over", t->who,
                 t->work.dropped, t->work.steps);
    }
    t->work.seconds = (double)(cli_clock_ms() - started_ms) / 1000;
    t->work.epochs = t->f->by_shards ? (double)t->work.samples / (double)t->data.train_count
                                     : (double)t->work.steps / (double)batches_epoch_steps(&t->batch, t->c->trainer);
}

static int stopped(const struct trainer *t)
{
    char what[sizeof(t->who) + 64];
    (void)snprintf(what, sizeof(what), "%s stopped at global_step %" PRId64, t->who, ps_global_step(t->session));
    (void)session_failed(t->session, what);
    return EXIT_FAILED;
}

/* Report that this trainer is done. When all are, ps tasks with --exit_when_done end. */
static void say_done(const struct trainer *t)
{
    serve_beside_over();
    if (t->finished && ps_session_job_done(t->session) != PS_OK) {
        say_note("%s is done, and the directory has not heard it: %s", t->who, ps_last_error());
    }
}

static int chief_end(struct trainer *t)
{
    bool by_step = t->f->steps > 0;
    int64_t goal = by_step ? t->f->steps : t->first_step;
    for (int i = 0; !by_step && i < t->c->trainer_count; i++) {
        goal += t->f->epochs * batches_epoch_steps(&t->batch, i);
    }
    /* by shards all are done by now, unless a global step ends the run */
    bool others = t->f->by_shards ? by_step && t->team.seen : t->c->trainer_count > 1;
    others = others && !t->f->in_rounds; /* all are done with the last round */
    /* the others do not wait for it then */
    if (t->f->with.mode == PS_SYNC_STALENESS && others && ps_sync_finish(t->session) != PS_OK) {
        (void)say_error("%s: cannot leave the others: %s", t->who, ps_last_error());
        return EXIT_FAILED;
    }
    by_step = by_step || (t->f->patience > 0 && t->best.end != INT64_MAX); /* the others end before their goal */
    if (others && !t->reached && team_wait(&t->team, goal, by_step) != 0) {
        return stopped(t);
    }
    if (stop_signal() != 0) {
        return EXIT_SIGNAL + stop_signal();
    }
    (void)watch(t);
    struct totals totals = {.work = t->work, .first_step = t->first_step};
    int status = evaluate_after(t->f, t->c, &t->data, &totals);
    if (t->f->summaries[0] != '\0' && status == EXIT_DONE) {
        if (!t->data.predicts) {
            (void)ps_step_value(t->session, "test_accuracy", totals.test_accuracy); /* written when the session is closed */
        }
        (void)ps_step_value(t->session, "test_loss", totals.test_loss);
    }
    return status;
}

/* The end of a worker that is not chief: it ends at once, unless the chief is gone. */
static int worker_end(struct trainer *t)
{
    if (t->alone || t->f->serial > 0) {
        return t->chief && !t->alone ? chief_end(t) : EXIT_DONE;
    }
    if (!t->chief && t->c->trainer_count > 1 && team_succeeds(&t->team)) {
        (void)watch(t);
    }
    int status = t->chief ? chief_end(t) : EXIT_DONE;
    if (status == EXIT_DONE) {
        say_done(t);
    }
    return status;
}

static int run_training(struct trainer *t)
{
    int status = prepare(t);
    if (status != EXIT_DONE) {
        return status;
    }
    int begun = begin_training(t);
    if (begun == NOTHING_LEFT) {
        t->finished = true;
        say_done(t);
        return EXIT_DONE;
    }
    if (begun != BEGUN) {
        return EXIT_FAILED;
    }
    if (t->f->patience > 0 && best_init(&t->best, t->f, t->c, &t->model.spec) != 0) {
        return EXIT_FAILED;
    }
    link_tell(t->link, LINK_READY, NULL);
    if (t->f->serial == 0 && !t->alone) {
        serve_beside(t->f, t->c);
    }
    train(t);
    if (ps_session_status(t->session) != PS_OK) {
        return stopped(t);
    }
    if (stop_signal() != 0) {
        say_note("%s: stopped by signal %d after %" PRId64 " steps of its own", t->who, stop_signal(), t->work.steps);
        if (t->f->with.mode != PS_SYNC_NONE) {
            ps_session_leave(t->session); /* it has not finished: --on_worker_loss decides what the others do */
        }
        return EXIT_SIGNAL + stop_signal();
    }
    link_tell(t->link, LINK_DONE, &t->work);
    return worker_end(t);
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
    session_gate(f->serial > 0 ? NULL : may_make, &t);
    int status = run_training(&t);
    stop_gently(false); /* nothing is left that a signal could interrupt */
    model_fini(&t.model);
    batches_fini(&t.batch);
    average_fini(&t.average);
    best_fini(&t.best);
    int code = session_close(t.session);
    serve_beside_end();
    data_free(&t.data);
    return status == EXIT_DONE && code != 0 ? EXIT_FAILED : status;
}
