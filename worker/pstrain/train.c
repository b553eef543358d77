/* SPDX-License-Identifier: Apache-2.0 */
/* The run of one worker. Happy path: load data, allocate buffers; open a session, get the model's variables, wait until the chief
 * has made them ready; train with one batch after the other, and gather the next one while gradients travel. At the end the chief
 * waits for the others, tests and reports (with --local the parent process does that).
 *
 * The chief is the worker that initialises the model and tests it. If it dies, another worker becomes chief, and writes its
 * session's id into pstrain/chief (team.c). When a ps task is restarted, the library recovers the session; the present step fails
 * and is not counted. By epochs the worker repeats the batch of that step, and the batches of its steps that the model has lost
 * (repeat()). In rounds the global step says which batch comes next. With --steps or --work shards no step is repeated.
 *
 * --fresh: the chief empties the container before it creates variables, and the others wait for that (team.c). A worker that
 * meets a reset before it has begun starts over. Failure modes: an error of the session ends the worker, and is printed with task
 * and remedy; after a signal the step is finished. */
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
    STEP_END_MS = 1000, /* for --sync, --staleness: how long a step may go on after a signal; it may wait for workers */
    LEAD_AGAIN_MS = 1000,
    GOAL_AGAIN_MS = 200,
    LABELS_MS = 5000,
    LABELS_AGAIN_MS = 100,
    SUMMARY_STEPS = 10
};

enum { LOSS, ACCURACY, PANELS, TRAINING = 0, VALIDATION }; /* for --plot: the panels of the picture, the curves of a panel */

struct trainer {
    const struct flags *f;
    const struct cluster *c;
    const struct link *link;
    bool alone; /* a child of --local: no other program uses its ps tasks, and its parent does what follows the training */
    struct dataset data;
    struct model model;
    struct batches batch;
    struct average average;
    struct best best;
    ps_session *session;
    bool chief;         /* this worker is chief, as far as its session knows */
    bool leads;         /* this worker is chief, and its session's id is in the variable pstrain/chief */
    int64_t lead_at_ms; /* when to write the variables of team.h again after a failure, in ms */
    bool finished;      /* this worker has done all its steps; false: not yet, or a signal or an error ended it */
    struct team team;
    struct shards shards;
    char who[CLUSTER_JOB_BYTES + 32];
    int64_t first_step;    /* global step at the start */
    int64_t known_step;    /* global step after this worker's last step, or of the model that a recovery has made since */
    uint32_t replacements; /* how often recoveries have made the model anew (ps_recovery.replacements), as last read */
    int64_t goal;          /* in rounds (--sync): global step at which this run ends */
    /* this worker began after step 0 and found no goal published by a chief (team.h), so `goal` is its own guess */
    bool asks_goal;
    bool knows_goal;             /* `goal` is that of all workers: computed at step 0, or published */
    bool tells_goal;             /* this worker will publish `goal`, because a new chief may not know it */
    int64_t goal_at_ms, goal_ms; /* when to read the published goal next, in ms; time between two reads */
    bool reached;                /* the global step was --steps or more when this worker began */
    bool traced;                 /* --trace_step was begun, or cannot be traced because another process traces */
    struct plot_panel panels[PANELS];
    struct work work;
};

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
    /* check the file now: else a bad file would be noticed only at a later recovery */
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

/* --placement balanced: place each new variable on the ps task with the fewest bytes so far. */
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

/* When the model is ready: number classes and columns as the facts stored beside the model say, and check the number of classes.
 * These facts may be missing while a chief makes a lost model anew; models of older pstrains never have them. */
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

/* Convert the result st of team_wait_for_chief() into what attempt() returns. */
static int waited(ps_status st)
{
    if (st == PS_OK) {
        return BEGUN;
    }
    return st == PS_ABORTED ? AGAIN : st == PS_OUT_OF_RANGE ? NOTHING_LEFT : -1;
}

/* Call after an error of ps_session_ready(): prints it and returns -1. If the shapes differ, another worker has created the model
 * for other files: the data are renumbered for that model, and AGAIN is returned if they fit. */
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

/* Open a session and make the model ready. Returns BEGUN; AGAIN: call again with a new session, because the model was reset, or
 * the data were renumbered for its shapes; NOTHING_LEFT: all work is done, printed; -1: an error, printed. */
static int attempt(struct trainer *t, int64_t deadline_ms)
{
    bool fresh = t->f->fresh && !t->alone; /* --local needs no reset: its ps tasks are new, or its parent has reset them */
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
    rows_sync(s, t->f, &t->data, t->model.spec.by_rows);
    model_params(&t->model, s, &t->f->rule);
    if (t->c->chief && ps_session_status(s) == PS_OK && source_keep(t->f, t->c, &t->data) != EXIT_DONE) {
        return -1;
    }
    if (t->f->summaries[0] != '\0' && ps_add_summary_hook(s, t->f->summaries, SUMMARY_STEPS) != PS_OK) {
        return session_failed(s, "--summaries");
    }
    st = ps_session_ready(s); /* the chief initialises the variables, other workers wait for it */
    bool behind = t->c->chief ? session_met_other_model(s) : st == PS_ABORTED;
    if (fresh && behind) {
        return AGAIN; /* chief: a worker of the previous run has created the old model again; other worker: the model was reset */
    }
    if (st != PS_OK) {
        return not_ready(t);
    }
    /* true: the cluster spec names another task as chief, but it is not there, so this worker is chief */
    const bool stands_in = !t->c->chief && !t->alone && ps_is_chief(s);
    if ((stands_in && source_keep(t->f, t->c, &t->data) != EXIT_DONE) || compare(t) != EXIT_DONE) {
        return -1;
    }
    t->chief = t->alone || t->f->serial > 0 ? t->c->chief : ps_is_chief(s);
    /* another session is chief, and this worker does not know the run's shards: wait until the chief has written pstrain/run */
    if (t->f->by_shards && !t->alone && !t->chief && t->team.run == 0) {
        st = team_wait_for_chief(&t->team, false, deadline_ms, t->f->timeout_s);
        t->chief = st == PS_OK && ps_is_chief(s);
    }
    return waited(st);
}

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
    } else if (found == variables && (t->chief || (t->first_step > 0 && !t->alone))) {
        /* not for other workers of --local: there a quick chief has just created what this worker found */
        say_result("%d variables, global_step %" PRId64 ": continuing\n", variables, t->first_step);
    } else if (!t->chief) {
        say_result("%d variables, made ready by the chief\n", variables);
    } else if (found > 0) {
        say_result("%d variables created, %d more were there: an earlier chief had begun\n", variables - found, found);
    } else {
        say_result("%d variables created%s\n", variables, t->f->fresh ? ": starting over" : "");
    }
}

static void say_rate(const struct trainer *t)
{
    char name[MODEL_NAME_BYTES];
    session_say_rate(t->session, t->f, model_variable_name(&t->model.spec, t->model.spec.layers - 1, true, name));
}

/* For the chief: write pstrain/chief and so on (team.h). begins: a run begins, so first publish its shards (--work shards). */
static int lead(struct trainer *t, bool begins)
{
    int64_t before = 0;
    int others = t->f->by_shards ? 1 : t->c->trainer_count - 1; /* with shards 1 means: there may be other workers */
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

/* session_gate_fn, asked before a chief makes a lost model again: false if another run with --fresh has begun. */
static bool may_make(void *trainer)
{
    const struct trainer *t = trainer;
    return t->alone || !team_is_replaced(&t->team);
}

/* How many of this worker's own steps are missing in a model that was made anew. If the model is from a checkpoint of this run,
 * each worker is taken to have lost the same fraction of its steps. Any other model has no step of this run. */
static int64_t lost_steps(const struct trainer *t, const ps_recovery *last)
{
    int64_t made = t->known_step - t->first_step;
    int64_t kept = last->model_step - t->first_step;
    if (kept <= 0 || made <= 0) {
        return t->work.steps;
    }
    return kept < made ? (t->work.steps * (made - kept) + made - 1) / made : 0;
}

/* After a step: notice a recovery, or that this worker is chief now. Returns how many of its own steps the model has lost. */
static int64_t watch(struct trainer *t)
{
    ps_recovery last = {.struct_bytes = sizeof(last)};
    int64_t lost = 0;
    bool recovered = false;
    if (t->f->serial > 0) {
        return 0;
    }
    if (ps_monitored_last_recovery(t->session, &last) == PS_OK && last.count != (uint32_t)t->work.recoveries) {
        const bool another = last.replacements != t->replacements; /* since the last call of watch() the model was made anew */
        recovered = true;
        t->work.recoveries = last.count;
        t->work.lost_steps = last.lost_steps_total;
        t->leads = false; /* pstrain/chief has the old session's id: a chief must write it again */
        t->tells_goal = t->knows_goal;
        t->asks_goal = t->asks_goal && !t->tells_goal;
        t->goal_at_ms = 0;
        t->goal_ms = GOAL_AGAIN_MS;
        if (!may_make(t)) {
            (void)ps_session_fail(t->session, PS_ABORTED, "the model was reset: another run has begun");
            return 0;
        }
        bool gone = !another && t->f->by_shards && last.status == PS_ABORTED && last.reason == PS_REASON_LOST;
        if (gone && team_is_over(&t->team)) { /* the shards are lost because another run's chief has deleted them */
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
        /* store the labels again; an error is printed and ignored: later workers then use the labels of their own files */
        (void)source_keep(t->f, t->c, &t->data);
    }
    if (chief && !t->leads && cli_clock_ms() >= t->lead_at_ms && lead(t, false) != 0) {
        t->lead_at_ms = cli_clock_ms() + LEAD_AGAIN_MS;
    }
    return lost;
}

/* Open a session, wait for ps tasks and model, and print what was found. From then on a signal does not interrupt the present
 * step (stop.h). Returns BEGUN; NOTHING_LEFT or -1 (an error), both printed. */
static int begin_training(struct trainer *t)
{
    int64_t deadline_ms = cli_clock_ms() + t->f->timeout_s * 1000;
    int result = attempt(t, deadline_ms);
    while (result == AGAIN) {
        (void)session_close(t->session);
        t->session = NULL;
        data_free(&t->data); /* attempt() may have renumbered the data for the model that was reset */
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
    int64_t from = t->alone ? 0 : t->first_step; /* --local counts from 0: the steps found may be other workers' */
    t->goal = t->f->steps > 0 ? t->f->steps : from + t->f->epochs * batches_epoch_steps(&t->batch, t->c->trainer);
    if (t->f->sync && t->f->steps == 0 && !t->alone && t->f->serial == 0) {
        /* ask for the goal of workers that train already; a chief that comes back asks too */
        int known = team_goal(&t->team, TEAM_COMES, &t->goal);
        /* At step 0 this worker's own goal is right, and it does not ask again. A chief that comes back later, while no goal is
         * published, may publish a wrong one; the other workers correct it (TEAM_TELLS). */
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
    stop_gently(true); /* from now on a signal lets the step end; set before printing, which may make a reader send one */
    say_found(t, found);
    if (t->chief && !t->reached && t->f->serial == 0) {
        say_rate(t);
    }
    return BEGUN;
}

struct epoch {
    int64_t epoch;
    int64_t samples, correct;
    double loss_sum;
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
    /* in rounds all workers together make an epoch, so epochs are counted by global steps */
    now->epochs = by_step ? 0 : t->f->in_rounds ? (t->goal + each - 1) / each : t->f->epochs;
    now->loss = loss_of(e);
    now->accuracy = t->data.predicts ? NAN : e->samples > 0 ? (double)e->correct / (double)e->samples : 0;
}

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

/* True if a batch is in memory. By shards: a used-up shard is first replaced by the next one, whose first batch is gathered. */
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

struct measured {
    int64_t rows, correct;
    double loss;
};

static struct measured measure(struct trainer *t, int64_t rows)
{
    return (struct measured){.rows = rows,
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

/* --serial: compute all workers' batches of a round with equal parameter values; the first batch is in memory already. */
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
    average_push(&t->average, &t->model, t->session, t->f->clip_norm);
}

/* By epochs: go back to the batches of this worker's steps that were lost, and of the step that has just failed (`broken`). */
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

/* In rounds: true if the batch in memory is not the one for the present global step. */
static bool is_elsewhere(const struct trainer *t)
{
    return t->f->in_rounds && (t->batch.rows == 0 || t->batch.step != ps_global_step(t->session));
}

/* Every goal_ms: read the published goal, or publish `goal` (tells_goal). A worker that comes back finds no chief while the
 * others recover from the loss of a ps task: so it asks again. If it is chief itself, the others correct its guess. */
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
        gather(t, t->batch.step); /* gathers nothing, and sets rows to 0: the run has ended */
    }
}

/* Begin the trace if the next step is --trace_step. If it cannot begin, training goes on. True: the step is traced. */
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

/* At the end of the run: print a note if the run had fewer steps than --trace_step. */
static void trace_missed(const struct trainer *t)
{
    if (t->f->trace[0] != '\0' && !t->traced) {
        say_note("--trace_step %" PRId64 " was not reached, nothing is in %s: %s made %" PRId64 " steps", t->f->trace_step,
                 t->f->trace, t->who, t->work.steps);
    }
}

static void draw(struct trainer *t, int which, double loss, double accuracy)
{
    if (t->f->plot[0] != '\0') {
        plot_add(&t->panels[LOSS].curves[which], (double)t->known_step, loss);
        plot_add(&t->panels[ACCURACY].curves[which], (double)t->known_step, t->data.predicts ? NAN : 100 * accuracy);
    }
}

/* In the chief: draw the curves of --plot into its file. */
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

/* One step: train with the batch in memory, and gather the next one. True: training is over. */
static bool train_step(struct trainer *t, struct epoch *e)
{
    struct batches *b = &t->batch;
    const bool traced = trace_begin(t);
    (void)ps_pull(t->session);
    if (is_elsewhere(t)) { /* a recovery within ps_pull(), or other workers, have changed the global step */
        gather(t, ps_global_step(t->session));
    }
    if (b->rows == 0) { /* no batch is left: the other workers have reached the goal */
        return true;
    }
    int64_t rows = b->rows;
    if (t->f->serial > 0) {
        round_of_all(t, e);
    } else if (t->f->clip_norm > 0 && !t->f->sync) { /* the norm is over all gradients: push none before the last is computed */
        model_step(&t->model, &b->x, &b->y, NULL, NULL);
        model_clip(&t->model, t->f->clip_norm);
        model_push_pull_all(&t->model, t->session);
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
        gather(t, ps_global_step(t->session)); /* this step came too late for its round or has failed, or others are ahead */
    }
    look_at_goal(t);
    team_step(&t->team);
    return stop_signal() != 0 || over;
}

/* --patience, before each epoch and at the end: the chief tests and decides, other workers read its decision. True: stop. */
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
        (void)ends_early(t); /* test after the last epoch: the loop above tests only when another epoch begins */
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

/* Tell the directory (first ps task) that this worker is done. After the last worker has, ps tasks with --exit_when_done end. */
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
    /* with shards no work is left for others, unless a global step ends the run */
    bool others = t->f->by_shards ? by_step && t->team.seen : t->c->trainer_count > 1;
    others = others && !t->f->in_rounds; /* in rounds all workers end with the last round */
    /* with --staleness the other workers would wait for steps of this one: release them */
    if (t->f->with.mode == PS_SYNC_STALENESS && others && ps_sync_finish(t->session) != PS_OK) {
        (void)say_error("%s: cannot leave the others: %s", t->who, ps_last_error());
        return EXIT_FAILED;
    }
    by_step = by_step || (t->f->patience > 0 && t->best.end != INT64_MAX); /* --patience: wait only for steps under way */
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
            /* the closing session writes these values to the summaries file */
            (void)ps_step_value(t->session, "test_accuracy", totals.test_accuracy);
        }
        (void)ps_step_value(t->session, "test_loss", totals.test_loss);
    }
    return status;
}

/* What a worker does after training. A worker that is not chief becomes chief if the chief is gone, and then tests. */
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
            ps_session_leave(t->session); /* this worker's steps are not finished: --on_worker_loss decides what the others do */
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
    stop_gently(false); /* training is over: from now on a signal ends the process at once */
    model_fini(&t.model);
    batches_fini(&t.batch);
    average_fini(&t.average);
    best_fini(&t.best);
    int code = session_close(t.session);
    serve_beside_end();
    data_free(&t.data);
    return status == EXIT_DONE && code != 0 ? EXIT_FAILED : status;
}
