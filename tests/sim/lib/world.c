/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run: a world is made from a seed, lives through its faults, heals, must finish, and is compared with the ledger.
 */
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 4000000 };

void sim_fail(struct sim *s, const char *format, ...)
{
    va_list ap;
    int n =
        snprintf(s->why, sizeof(s->why), "at event %llu, %llu ms: ", (unsigned long long)s->event, (unsigned long long)s->now);
    va_start(ap, format);
    (void)vsnprintf(s->why + n, sizeof(s->why) - (size_t)n, format, ap);
    va_end(ap);
    longjmp(s->failed, 1);
}

void sim_trace(struct sim *s, const char *format, ...)
{
    if (!s->verbose) {
        return;
    }
    va_list ap;
    (void)printf("%6llu %6llu ", (unsigned long long)s->event, (unsigned long long)s->now);
    va_start(ap, format);
    (void)vprintf(format, ap);
    va_end(ap);
    (void)printf("\n");
}

uint64_t sim_below(struct sim *s, uint64_t bound)
{
    return psi_random_below(&s->rng, bound);
}

uint64_t sim_range(struct sim *s, uint64_t low, uint64_t high)
{
    return low + psi_random_below(&s->rng, high - low + 1);
}

bool sim_one_in(struct sim *s, uint32_t n)
{
    return n > 0 && psi_random_below(&s->rng, n) == 0;
}

void *sim_alloc(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (p == NULL) {
        abort();
    }
    return p;
}

static void add_task(struct sim *s, const char *job, uint32_t index, char letter)
{
    struct sim_task *t = &s->task[s->task_count++];
    t->sim = s;
    (void)snprintf(t->job, sizeof(t->job), "%s", job);
    (void)snprintf(t->address, sizeof(t->address), "%c%u:1", letter, index);
    t->index = index;
    t->same_job = letter == 't';
    t->up_at = s->now + (s->k.quiet ? 0 : sim_below(s, 400));
}

static void add_program(struct sim *s, enum sim_role role, uint32_t task)
{
    struct sim_program *p = &s->program[s->program_count];
    p->sim = s;
    p->index = s->program_count++;
    p->role = role;
    p->task = task;
    if (s->k.workers_listed && role != SIM_MONITOR) {
        (void)snprintf(p->job, sizeof(p->job), "worker");
    }
    p->start_at = s->now + sim_below(s, 500);
}

void sim_cluster_make(struct sim *s)
{
    char spec[256];
    size_t n = 0;
    struct psi_err err = {.code = PS_OK};
    for (uint32_t i = 0; i < s->k.ps_tasks; i++) {
        bool moves = sim_moves_is(s, &s->task[i]);
        n += (size_t)snprintf(spec + n, sizeof(spec) - n, moves ? ",t:0" : "%st%u:1", i == 0 ? "ps=" : ",", i);
    }
    for (uint32_t i = 0; s->k.workers_listed && i < s->k.programs + 1; i++) {
        n += (size_t)snprintf(spec + n, sizeof(spec) - n, "%sw%u:1", i == 0 ? ";worker=" : ",", i);
    }
    psi_cluster_fini(&s->cluster);
    if (psi_cluster_parse(&s->cluster, spec, &err) != PS_OK) {
        sim_fail(s, "%s: %s", spec, err.text);
    }
}

static void make_world(struct sim *s)
{
    for (uint32_t i = 0; i < s->k.ps_tasks; i++) {
        add_task(s, "ps", i, 't');
    }
    if (s->k.other_tasks > 0) {
        add_task(s, "worker", s->k.programs, 'w');
    }
    if (s->k.twin) {
        add_task(s, "ps", 1, 't');
        s->task[s->task_count - 1].up_at += sim_below(s, 5000);
    }
    sim_cluster_make(s);
    for (uint32_t i = 0; i < s->k.programs; i++) {
        bool chief = i == 0 || !s->k.workers_listed;
        add_program(s, chief ? SIM_CHIEF : SIM_WORKER, chief ? 0 : i);
    }
    if (s->k.second_chief) {
        add_program(s, SIM_CHIEF, 0);
        s->program[s->program_count - 1].start_at += sim_below(s, 4000);
    }
    if (s->k.monitor) {
        add_program(s, SIM_MONITOR, 0);
    }
    if (s->k.profile == SIM_LEASE && s->k.programs > 2) {
        struct sim_program *p = &s->program[s->k.programs - 1];
        p->task = 0;
        (void)snprintf(p->job, sizeof(p->job), "evaluator");
    }
    add_program(s, SIM_FINAL, s->k.profile == SIM_LEASE && s->seed % 3 == 0 ? 1 : 0);
    s->next_fault = s->k.fault_from_ms;
    s->scratch = aligned_alloc(64, SIM_READ_MAX + 64);
    if (s->scratch == NULL) {
        abort();
    }
}

void sim_run_until(struct sim *s, uint64_t time)
{
    while (s->now < time) {
        if (++s->steps > STEPS_MAX) {
            sim_fail(s, "no end after %d steps: something goes round in circles", STEPS_MAX);
        }
        sim_step(s);
    }
}

uint64_t sim_quiet_ms(const struct sim *s)
{
    return 2ull * s->k.lease_ms + 1500;
}

/* Nothing is asked of the tasks any more. */
static void look_quiet(struct sim *s)
{
    bool quiet = s->ending;
    for (uint32_t i = 0; i < s->program_count && quiet; i++) {
        const struct sim_program *p = &s->program[i];
        bool over = p->core == NULL || p->state == SIM_END || p->state == SIM_GOODBYE;
        for (uint32_t j = 0; j < SIM_CALLS_MAX; j++) {
            enum psi_request_kind kind = p->calls[j] != NULL ? p->calls[j]->op->kind : PSI_REQ_VARS;
            over = over && (kind == PSI_REQ_VARS || kind == PSI_REQ_GOODBYE);
        }
        quiet = quiet && (over || p->role == SIM_FINAL);
    }
    s->quiet_since = !quiet ? 0 : s->quiet_since == 0 ? s->now : s->quiet_since;
}

static bool all_off(const struct sim *s)
{
    for (uint32_t i = 0; i < s->program_count; i++) {
        if (s->program[i].core != NULL) {
            return false;
        }
    }
    return true;
}

static void check_dials(struct sim *s)
{
    for (uint32_t i = 0; i < s->program_count && s->k.quiet; i++) {
        for (uint32_t t = 0; t < SIM_TASKS_MAX; t++) {
            if (s->program[i].dials[t] > 2) {
                sim_fail(s, "client%u dialled task %u %u times although nothing breaks connections in this seed", i, t,
                         s->program[i].dials[t]);
            }
        }
    }
}

static uint64_t longest_ms(const struct sim *s)
{
    return s->k.ready_ms > s->k.operation_ms ? s->k.ready_ms : s->k.operation_ms;
}

void sim_final_run(struct sim *s)
{
    struct sim_program *final = &s->program[s->program_count - 1];
    uint64_t bound = s->now + 4 * longest_ms(s) + 30000;
    sim_trace(s, "-- the final program --");
    final->ended_ok = false;
    final->start_at = s->now;
    while (!final->ended_ok || !all_off(s)) {
        if (s->now > bound) {
            sim_fail(s, "a new session cannot work %llu ms after the last fault (state %d)",
                     (unsigned long long)(4 * longest_ms(s) + 30000), (int) final->state);
        }
        sim_run_until(s, s->now + 20);
    }
}

static void life(struct sim *s)
{
    sim_run_until(s, s->k.fault_until_ms);
    sim_heal(s);
    sim_run_until(s, s->now + sim_range(s, 100, 2000));
    s->ending = true;
    sim_trace(s, "-- programs end --");
    struct sim_program *final = &s->program[s->program_count - 1];
    uint64_t bound = s->now + 3 * longest_ms(s) + 2ull * s->k.lease_ms;
    final->start_at = SIM_NEVER;
    while (!all_off(s)) {
        if (s->now > bound) {
            sim_fail(s, "programs have not ended %llu ms after the last fault", (unsigned long long)(3 * longest_ms(s)));
        }
        sim_run_until(s, s->now + 20);
        look_quiet(s);
    }
    check_dials(s);
    sim_chief_last(s);
    sim_final_run(s);
    sim_fewer(s);
    if (s->k.profile == SIM_QUEUES || s->k.train_queue) {
        sim_run_until(s, s->now + 2ull * s->k.lease_ms + 500); /* the last leases end */
        sim_queues_check_end(s);
    }
    if (s->k.profile == SIM_ROUNDS) {
        sim_rounds_check_end(s);
    }
    if (s->k.profile == SIM_OWN) {
        /* the last leases end, the time to claim, and what is kept of sessions */
        sim_run_until(s, s->now + 2ull * s->k.lease_ms + 5000 + s->k.session_keep_ms);
        sim_own_check_end(s);
    }
    sim_check_end(s);
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (s->task[i].core != NULL) {
            sim_replay_end(s, &s->task[i]);
        }
    }
}

static void unmake_world(struct sim *s)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (s->task[i].core != NULL) {
            s->k.backlog_survives_in = 1;
            sim_task_kill(s, &s->task[i], SIM_NEVER);
        }
    }
    for (uint32_t i = 0; i < SIM_TASKS_MAX; i++) { /* also of those that are not in the cluster any more */
        sim_disks_free(&s->task[i]);
    }
    sim_conn_sweep(s);
    for (size_t i = 0; i < s->op_count; i++) {
        free(s->op[i]);
    }
    free(s->op);
    for (uint32_t i = 0; i < SIM_FREED_MAX; i++) {
        free(s->freed[i].dst);
    }
    for (size_t i = 0; i < s->birth_count; i++) {
        free(s->birth[i].rows);
    }
    free(s->birth);
    sim_queues_free(s);
    sim_rounds_free(s);
    sim_own_free(s);
    sim_back_free(s);
    sim_saves_free(s);
    free(s->scratch);
    psi_cluster_fini(&s->cluster);
}

bool sim_run(const struct sim_options *options, struct sim_summary *out, char *why)
{
    struct sim *s = sim_alloc(sizeof(*s));
    volatile bool ok = false; /* survives the longjmp */
    s->seed = options->seed;
    s->rng = options->seed * 0x9e3779b97f4a7c15u + 1;
    s->verbose = options->verbose;
    s->identities = options->identities;
    s->now = 1000;
    if (setjmp(s->failed) == 0) {
        sim_knobs_draw(s, options);
        sim_vars_draw(s);
        make_world(s);
        life(s);
        ok = true;
        *out = (struct sim_summary){.events = s->event,
                                    .ok = s->count_ok,
                                    .failed = s->count_failed,
                                    .cuts = s->count_cuts,
                                    .restarts = s->count_restarts,
                                    .gave_way = s->count_gave_way,
                                    .slices = s->count_slices,
                                    .written = s->count_written,
                                    .early = s->count_early,
                                    .early_cut = s->count_early_cut,
                                    .disk_ops = s->count_disk_ops,
                                    .disk_cuts = s->count_disk_cuts,
                                    .checkpoints = s->count_checkpoints,
                                    .unchanged = s->count_unchanged,
                                    .saves_ok = s->count_saves_ok,
                                    .restores_ok = s->count_restores_ok,
                                    .saves_failed = s->count_saves_failed,
                                    .came_back = s->count_came_back,
                                    .in_parts = s->had_table,
                                    .sliced = s->count_sliced,
                                    .grains = s->count_grains,
                                    .back_slots = s->count_back_slots,
                                    .back_elements = s->count_back_elements,
                                    .fewer = s->count_fewer,
                                    .spread = s->count_spread,
                                    .older = s->count_older,
                                    .replayed = s->count_replayed,
                                    .loaded = s->count_loaded,
                                    .virtual_ms = s->now,
                                    .boundaries = {s->boundary_seen[0], s->boundary_seen[1]},
                                    .race = s->race,
                                    .elements = s->element_count,
                                    .taken = s->count_taken,
                                    .back = s->count_back,
                                    .again = s->count_again,
                                    .compared = s->count_compared,
                                    .held = s->count_held,
                                    .shares_done = s->count_shares_done,
                                    .shares_back = s->count_shares_back,
                                    .shares_over = s->count_shares_over,
                                    .train_marks = s->train_marks,
                                    .gets_marks = s->gets_marks,
                                    .readying_marks = s->readying_marks,
                                    .train_restores = s->count_train_restores,
                                    .train_emptied = s->count_train_emptied,
                                    .session_marks = {s->session_marks[0], s->session_marks[1]},
                                    .train_made = s->count_train_made,
                                    .train_broken = s->count_train_broken,
                                    .train_early = s->count_train_early,
                                    .train_back = s->count_train_back,
                                    .train_hooks = s->count_train_hooks,
                                    .train_gates = s->count_train_gates,
                                    .train_elements = s->count_train_elements,
                                    .train_queue_lost = s->count_train_queue_lost,
                                    .train_calls = s->count_train_calls,
                                    .train_steps = s->count_train_steps,
                                    .train_cut = s->count_train_cut,
                                    .train_ends = s->count_train_ends,
                                    .flips = s->count_flips,
                                    .steps = s->count_steps,
                                    .dropped = s->count_dropped,
                                    .places_lost = s->count_places_lost,
                                    .ahead = s->count_ahead,
                                    .no_room = s->count_no_room,
                                    .late = s->count_late,
                                    .recovered = s->count_recovered,
                                    .forgot = s->count_forgot,
                                    .chiefs = s->count_chiefs,
                                    .takeovers = s->count_takeovers,
                                    .stops = s->count_stops,
                                    .restored = s->count_restored,
                                    .emptied = s->count_emptied,
                                    .other = s->count_other,
                                    .gradients = s->count_gradients,
                                    .stale = s->count_stale,
                                    .results = s->count_results,
                                    .results_back = s->count_results_back,
                                    .own_made = s->count_own_made,
                                    .own_read = s->count_own_read,
                                    .own_denied = s->count_own_denied,
                                    .own_guessed = s->count_own_guessed,
                                    .own_reset = s->count_own_reset,
                                    .own_lapsed = s->count_own_lapsed,
                                    .own_lost = s->count_own_lost,
                                    .twin_turns = s->twin_turns,
                                    .twin_dropped = s->twin_dropped,
                                    .moved = s->count_moved,
                                    .strangers = s->count_strangers,
                                    .stolen = s->count_stolen,
                                    .denied = s->count_denied,
                                    .tables = s->count_tables};
        unmake_world(s);
    } else {
        (void)snprintf(why, 1024, "seed %llu: %s", (unsigned long long)s->seed, s->why); /* the world is left as it is */
    }
    free(s);
    return ok;
}
