/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a seed is about. Each seed has few kinds of faults at high rates rather than all of them at low ones, because faults of
 * many kinds hide each other's consequences.
 */
#include "sim.h"

#include <string.h>

static uint32_t pick(struct sim *s, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t of[4] = {a, b, c, d};
    return of[sim_below(s, 4)];
}

static void draw_network(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->delay_ms = pick(s, 0, 1, 5, 40);
    k->pipe_bytes = pick(s, 3000, 70000, 200000, 1u << 20);
    k->small_read_in = pick(s, 0, 0, 40, 8);
    k->boundary_read_in = pick(s, 0, 2, 3, 8);
    k->short_write_in = pick(s, 0, 3, 8, 30);
    k->advance_in = pick(s, 2, 4, 16, 64);
    k->backlog_survives_in = pick(s, 0, 2, 4, 1);
}

static void draw_times(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->lease_ms = pick(s, 1500, 2000, 3000, 6000);
    k->beat_ms = k->lease_ms / 4;
    k->hello_ms = 1000;
    k->segment_ms = pick(s, 300, 1000, 1000, 5000);
    k->session_keep_ms = 60000;
    k->operation_ms = pick(s, 3000, 5000, 8000, 8000);
    k->ready_ms = pick(s, 4000, 8000, 8000, 12000);
    k->short_deadline_in = pick(s, 0, 0, 30, 8);
    k->depth = (uint32_t)sim_range(s, 1, 12);
    k->think_ms = pick(s, 0, 10, 60, 200);
    k->pushes_max = 1024;
    k->buffers_max = 64;
    k->fault_from_ms = s->now + sim_below(s, 1500);
    k->fault_until_ms = s->now + sim_range(s, 3000, 9000);
    k->fault_every_ms = pick(s, 20, 100, 400, 1000);
}

static void faults_of_session(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->fault_weight[SIM_FAULT_CUT] = pick(s, 0, 2, 4, 8);
    k->fault_weight[SIM_FAULT_CUT_BOUNDARY] = pick(s, 4, 4, 8, 16);
    k->fault_weight[SIM_FAULT_HALF_OPEN] = pick(s, 0, 0, 1, 4);
    k->fault_weight[SIM_FAULT_PAUSE_DIR] = pick(s, 0, 0, 2, 4);
    k->fault_weight[SIM_FAULT_STOP_TASK] = pick(s, 0, 0, 1, 3);
    k->fault_weight[SIM_FAULT_STOP_CLIENT] = pick(s, 0, 0, 1, 3);
    k->fault_weight[SIM_FAULT_SLOW_TICK] = pick(s, 0, 0, 1, 3);
    k->fault_weight[SIM_FAULT_PARTITION] = pick(s, 0, 0, 0, 2);
    if (sim_one_in(s, 6)) {
        k->fault_weight[SIM_FAULT_RESTART_TASK] = 2;
        k->may_lose = true;
        k->may_forget = true;
    }
    if (sim_one_in(s, 5)) {
        k->fault_weight[SIM_FAULT_KILL_CLIENT] = 2;
    }
    if (sim_one_in(s, 5)) {
        k->session_keep_ms = (uint32_t)sim_range(s, 100, 1500);
        k->may_forget = true;
    }
    if (sim_one_in(s, 4)) {
        k->pushes_max = (uint32_t)sim_range(s, 1, 3);
        k->may_refuse = true;
        k->session_keep_ms = 4000; /* what sessions left in progress must not fill the few places for ever */
        k->may_forget = true;
    }
    if (sim_one_in(s, 3)) {
        k->buffers_max = (uint32_t)sim_range(s, 1, 3);
    }
    if (s->seed % 5 == 1) { /* not drawn: what else a seed is about stays */
        k->few_sessions = true;
        k->may_forget = true;
        k->lease_ms = 1500;
        k->beat_ms = 300;
        k->session_keep_ms = k->session_keep_ms < 4000 ? k->session_keep_ms : 60000; /* the places come free by giving way only */
        k->fault_weight[SIM_FAULT_KILL_CLIENT] += 3;
    }
}

static void faults_of_directory(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->fault_weight[SIM_FAULT_RESTART_TASK] = pick(s, 0, 4, 4, 8);
    k->fault_weight[SIM_FAULT_CUT] = pick(s, 0, 4, 8, 8);
    k->fault_weight[SIM_FAULT_CUT_BOUNDARY] = pick(s, 0, 2, 4, 8);
    k->fault_weight[SIM_FAULT_HALF_OPEN] = pick(s, 0, 0, 2, 4);
    k->fault_weight[SIM_FAULT_PAUSE_DIR] = pick(s, 0, 2, 4, 8);
    k->fault_weight[SIM_FAULT_PARTITION] = pick(s, 0, 0, 2, 4);
    k->fault_weight[SIM_FAULT_STOP_TASK] = pick(s, 0, 0, 2, 4);
    k->fault_weight[SIM_FAULT_STOP_CLIENT] = pick(s, 0, 1, 2, 6);
    k->fault_weight[SIM_FAULT_KILL_CLIENT] = pick(s, 0, 0, 1, 4);
    k->fault_weight[SIM_FAULT_RESET] = pick(s, 0, 1, 4, 8);
    k->fault_every_ms = pick(s, 50, 150, 400, 1000);
    k->may_lose = true;
    k->may_forget = true;
    k->slow_links = sim_one_in(s, 4);
    if (k->slow_links) {
        k->fault_weight[SIM_FAULT_PAUSE_DIR] = 12;
        k->fault_weight[SIM_FAULT_RESET] = 6;
        k->fault_weight[SIM_FAULT_RESTART_TASK] = 0;
    }
}

/* They take turns, while names come and go. */
static void faults_of_twins(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->fault_weight[SIM_FAULT_TWIN] = pick(s, 8, 16, 16, 32);
    k->fault_weight[SIM_FAULT_RESET] = pick(s, 1, 2, 4, 8);
    k->fault_weight[SIM_FAULT_RESTART_TASK] = pick(s, 0, 2, 4, 8);
    k->fault_every_ms = pick(s, 50, 100, 200, 300);
    k->fault_until_ms += 4000;
    k->slow_links = false;
}

/* No connection breaks, but calls are given up all the time: what they leave behind must be cleared all the same. */
static void hasty(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    memset(k->fault_weight, 0, sizeof(k->fault_weight));
    k->fault_weight[SIM_FAULT_PAUSE_DIR] = 1;
    k->lease_ms = 6000;
    k->beat_ms = 1500;
    k->segment_ms = 5000;
    k->session_keep_ms = 60000;
    k->delay_ms = 5;
    k->pushes_max = 1024;
    k->buffers_max = 64;
    k->short_deadline_in = 3;
    k->may_lose = false;
    k->may_forget = false;
    k->may_refuse = false;
}

/* One program, one call on one variable of three frames, one cut: nothing else may disturb it. */
static void calm_for_boundary(struct sim *s, const struct sim_options *options)
{
    struct sim_knobs *k = &s->k;
    k->programs = 1;
    k->vars = 1;
    k->large = true;
    k->workers_listed = true;
    k->crc = true;
    k->lease_ms = 10000;
    k->beat_ms = 2500;
    k->operation_ms = 8000;
    k->ready_ms = 8000;
    k->short_deadline_in = 0;
    k->think_ms = 0;
    k->depth = 4;
    k->pipe_bytes = k->pipe_bytes < 70000 ? 70000 : k->pipe_bytes;
    k->fault_from_ms = SIM_NEVER;
    k->fault_until_ms = s->now + 600;
    s->cut_boundary = options->boundary_index;
    s->cut_side = options->boundary_side;
    s->cut_shift = options->boundary_shift;
    s->boundary_kind = options->boundary_kind;
    s->boundary_var = options->boundary_var;
}

/* Nothing but the rounds of race.c disturbs: what they show is theirs. */
static void race(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->ps_tasks = (uint32_t)sim_range(s, 2, 3);
    k->programs = (uint32_t)sim_range(s, 2, 3);
    k->vars = (uint32_t)sim_range(s, 2, 4);
    k->workers_listed = !sim_one_in(s, 3);
    k->monitor = sim_one_in(s, 3);
    k->short_deadline_in = 0;
    k->lease_ms = 1500;
    k->beat_ms = 375;
    k->operation_ms = pick(s, 500, 800, 1500, 4000);
    k->delay_ms = k->delay_ms > 5 ? 5 : k->delay_ms; /* a RESET must not wait behind slow bytes: its own end is the point */
    k->pipe_bytes = k->pipe_bytes < 200000 ? 200000 : k->pipe_bytes;
    k->ready_ms = 5000;
    k->think_ms = pick(s, 0, 5, 20, 60);
    k->depth = (uint32_t)sim_range(s, 2, 8);
    k->fault_from_ms = s->now + sim_range(s, 600, 1500);
    k->fault_until_ms = s->now + 12000;
    k->fault_every_ms = 20;
    k->may_lose = true;
    k->may_forget = true;
    s->race.order = (uint32_t)(s->seed % SIM_RACE_ORDERS);
    s->race.whole = true;
}

/* Eight programs at two queues: they die, stand still and reset, and their leases end. */
static void queues(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->ps_tasks = (uint32_t)sim_range(s, 1, 2);
    k->programs = 8;
    k->shares = s->seed % 5 == 4;
    k->sums = s->seed % 5 == 3;
    k->workers_listed = true;
    k->lease_ms = pick(s, 500, 1000, 1500, 3000);
    k->beat_ms = k->lease_ms / 4;
    k->session_keep_ms = sim_one_in(s, 3) ? k->lease_ms + (uint32_t)sim_range(s, 100, 2000) : 60000;
    k->pipe_bytes = k->pipe_bytes < 70000 ? 70000 : k->pipe_bytes;
    k->segment_ms = 5000;
    k->think_ms = pick(s, 5, 20, 60, 200);
    k->depth = (uint32_t)sim_range(s, 1, 4);
    k->fault_weight[SIM_FAULT_CUT] = pick(s, 0, 2, 4, 8);
    k->fault_weight[SIM_FAULT_CUT_BOUNDARY] = pick(s, 2, 4, 8, 16);
    k->fault_weight[SIM_FAULT_HALF_OPEN] = pick(s, 0, 0, 1, 4);
    k->fault_weight[SIM_FAULT_PAUSE_DIR] = pick(s, 0, 0, 2, 4);
    k->fault_weight[SIM_FAULT_STOP_TASK] = pick(s, 0, 0, 0, 2);
    k->fault_weight[SIM_FAULT_STOP_CLIENT] = pick(s, 0, 2, 4, 8);
    k->fault_weight[SIM_FAULT_SLOW_TICK] = pick(s, 0, 0, 1, 3);
    k->fault_weight[SIM_FAULT_PARTITION] = pick(s, 0, 0, 1, 4);
    k->fault_weight[SIM_FAULT_KILL_CLIENT] = pick(s, 0, 2, 4, 8);
    k->fault_weight[SIM_FAULT_RESET] = pick(s, 0, 0, 2, 8);
    k->fault_weight[SIM_FAULT_RESTART_TASK] = pick(s, 0, 0, 0, 1);
    k->may_lose = k->fault_weight[SIM_FAULT_RESET] + k->fault_weight[SIM_FAULT_RESTART_TASK] > 0;
    k->may_forget = true;
}

/* Workers in rounds: cuts; they die and stand still as well; the directory, which has none of their variables, as well; any task
 * and resets. One seed in five is calm. */
static void rounds(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    const uint64_t about = s->seed % 5;
    k->ps_tasks = about == 3 ? 3 : (uint32_t)sim_range(s, 1, 3);
    k->programs = (uint32_t)sim_range(s, 2, 4);
    k->vars = (uint32_t)sim_range(s, 2, 4);
    k->workers_listed = true;
    k->lease_ms = about == 0 ? 6000 : pick(s, 500, 1000, 1500, 3000);
    k->beat_ms = k->lease_ms / 4;
    k->session_keep_ms = 60000;
    k->pipe_bytes = k->pipe_bytes < 70000 ? 70000 : k->pipe_bytes;
    k->segment_ms = 5000;
    k->operation_ms = 5000;
    k->short_deadline_in = 0;
    k->think_ms = pick(s, 0, 5, 20, 60);
    k->depth = 8;
    k->fault_every_ms = pick(s, 50, 100, 200, 400);
    k->quiet = about == 0;
    if (k->quiet) {
        k->fault_from_ms = SIM_NEVER;
        return;
    }
    k->fault_weight[SIM_FAULT_CUT] = pick(s, 1, 2, 4, 8);
    k->fault_weight[SIM_FAULT_CUT_BOUNDARY] = pick(s, 4, 4, 8, 16);
    k->fault_weight[SIM_FAULT_HALF_OPEN] = pick(s, 0, 0, 1, 4);
    k->fault_weight[SIM_FAULT_PAUSE_DIR] = pick(s, 0, 0, 2, 4);
    k->fault_weight[SIM_FAULT_STOP_TASK] = pick(s, 0, 0, 1, 2);
    k->fault_weight[SIM_FAULT_SLOW_TICK] = pick(s, 0, 0, 1, 3);
    k->fault_weight[SIM_FAULT_PARTITION] = pick(s, 0, 0, 1, 2);
    k->may_forget = true;
    if (about >= 2) {
        k->fault_weight[SIM_FAULT_STOP_CLIENT] = pick(s, 1, 2, 4, 8);
        k->fault_weight[SIM_FAULT_KILL_CLIENT] = pick(s, 0, 1, 2, 4);
    }
    if (about >= 3) {
        k->fault_weight[SIM_FAULT_RESTART_TASK] = pick(s, 1, 2, 4, 4);
        k->restarts_directory = about == 3;
        k->may_lose = !k->restarts_directory;
    }
    if (about == 4) {
        k->fault_weight[SIM_FAULT_RESET] = pick(s, 0, 1, 2, 4);
    }
}

/* Two or three candidates and an evaluator: they stand still for longer than a lease, and die; connections break, the directory
 * restarts, which has none of the variables; or any task. */
static void leases(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    const uint64_t about = s->seed % 5;
    k->restarts_directory = about == 3;
    k->ps_tasks = k->restarts_directory ? 3 : (uint32_t)sim_range(s, 1, 3);
    k->programs = (uint32_t)sim_range(s, 2, 4);
    k->vars = (uint32_t)sim_range(s, 1, 3);
    k->workers_listed = true;
    k->second_chief = sim_one_in(s, 5);
    k->static_chief = sim_one_in(s, 2);
    k->ps_tasks = k->static_chief && k->ps_tasks < 2 ? 2 : k->ps_tasks;
    k->lease_ms = pick(s, 400, 800, 1200, 2000);
    k->beat_ms = k->lease_ms / 4;
    k->session_keep_ms = sim_one_in(s, 3) ? k->lease_ms + (uint32_t)sim_range(s, 100, 2000) : 60000;
    k->pipe_bytes = k->pipe_bytes < 70000 ? 70000 : k->pipe_bytes;
    k->segment_ms = pick(s, 1000, 5000, 5000, 10000);
    k->operation_ms = pick(s, 2000, 4000, 4000, 8000);
    k->think_ms = pick(s, 0, 5, 20, 100);
    k->depth = 8;
    k->fault_every_ms = pick(s, 50, 150, 300, 600);
    k->fault_until_ms += 4000;
    k->fault_weight[SIM_FAULT_STOP_CLIENT] = pick(s, 2, 4, 8, 16);
    k->fault_weight[SIM_FAULT_KILL_CLIENT] = pick(s, 0, 1, 2, 4);
    if (about > 0) {
        k->fault_weight[SIM_FAULT_CUT] = pick(s, 0, 2, 4, 8);
        k->fault_weight[SIM_FAULT_CUT_BOUNDARY] = pick(s, 0, 2, 4, 8);
        k->fault_weight[SIM_FAULT_HALF_OPEN] = pick(s, 0, 0, 1, 4);
        k->fault_weight[SIM_FAULT_PAUSE_DIR] = pick(s, 0, 2, 4, 8);
        k->fault_weight[SIM_FAULT_SLOW_TICK] = pick(s, 0, 0, 1, 3);
        k->fault_weight[SIM_FAULT_PARTITION] = pick(s, 0, 0, 1, 4);
        k->fault_weight[SIM_FAULT_STOP_TASK] = pick(s, 0, 0, 1, 2);
    }
    if (about >= 2) {
        k->fault_weight[SIM_FAULT_RESTART_TASK] = pick(s, 1, 2, 4, 8);
    }
    k->may_lose = true;
    k->may_forget = true;
}

/* Programs that use each other's containers: they die, stand still and say goodbye; connections break; tasks are started again,
 * the directory among them. */
static void owns(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->ps_tasks = (uint32_t)sim_range(s, 1, 3);
    k->programs = (uint32_t)sim_range(s, 2, 5);
    k->vars = 1;
    k->workers_listed = true;
    k->other_tasks = s->seed % 3 == 0 ? 1 : 0;
    k->lease_ms = pick(s, 500, 1000, 1500, 3000);
    k->beat_ms = k->lease_ms / 4;
    k->session_keep_ms = sim_one_in(s, 3) ? k->lease_ms + (uint32_t)sim_range(s, 100, 2000) : 60000;
    k->pipe_bytes = k->pipe_bytes < 70000 ? 70000 : k->pipe_bytes;
    k->segment_ms = 5000;
    k->operation_ms = pick(s, 1500, 3000, 3000, 5000);
    k->ready_ms = 5000;
    k->think_ms = pick(s, 5, 20, 60, 200);
    k->depth = (uint32_t)sim_range(s, 1, 6);
    k->fault_every_ms = pick(s, 50, 150, 300, 600);
    k->fault_weight[SIM_FAULT_CUT] = pick(s, 0, 2, 4, 8);
    k->fault_weight[SIM_FAULT_CUT_BOUNDARY] = pick(s, 0, 2, 4, 8);
    k->fault_weight[SIM_FAULT_HALF_OPEN] = pick(s, 0, 0, 1, 4);
    k->fault_weight[SIM_FAULT_PAUSE_DIR] = pick(s, 0, 0, 2, 4);
    k->fault_weight[SIM_FAULT_STOP_TASK] = pick(s, 0, 0, 1, 2);
    k->fault_weight[SIM_FAULT_STOP_CLIENT] = pick(s, 0, 1, 2, 4);
    k->fault_weight[SIM_FAULT_SLOW_TICK] = pick(s, 0, 0, 1, 3);
    k->fault_weight[SIM_FAULT_PARTITION] = pick(s, 0, 0, 1, 4);
    k->fault_weight[SIM_FAULT_KILL_CLIENT] = pick(s, 1, 2, 4, 8);
    k->fault_weight[SIM_FAULT_RESTART_TASK] = pick(s, 0, 1, 2, 4);
    k->may_lose = true;
    k->may_forget = true;
}

/* Disks beside what a profile is about: tasks end, one or all, and come back with what they have saved. */
static void faults_beside(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->recover = s->seed % 3 != 0 ? NULL : s->seed % 2 == 0 ? "cut" : "partial," SIM_CONTAINER "=cut";
    k->ps_tasks = k->fewer && k->ps_tasks < 2 ? 2 : k->ps_tasks;
    if (k->quiet) {
        return;
    }
    uint32_t total = 0;
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        total += k->fault_weight[i];
    }
    k->fault_weight[SIM_FAULT_POWER] = 1 + total / 20;
    k->fault_weight[SIM_FAULT_RESTART_TASK] = 1 + total / 10;
    k->fault_every_ms = k->fault_every_ms < 100 ? 100 : k->fault_every_ms;
    k->fault_until_ms += 4000;
    k->may_lose = true;
    k->may_forget = true;
}

static void faults_of_moves(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    k->moves = true;
    k->ps_tasks = 3;
    k->fault_weight[SIM_FAULT_RESTART_TASK] = pick(s, 4, 8, 8, 16);
    k->fault_weight[SIM_FAULT_PARTITION] = pick(s, 0, 1, 2, 4);
    k->fault_every_ms = pick(s, 100, 200, 200, 300);
    k->fault_until_ms += 4000;
    k->restarts_directory = false;
    k->may_lose = true;
    k->may_forget = true;
}

static enum sim_profile draw_profile(struct sim *s, const struct sim_options *options)
{
    uint64_t x = sim_below(s, 100);
    if (options->twin || options->moves) {
        return SIM_DIRECTORY;
    }
    if (options->frame_bytes > 1u << 20) {
        return SIM_FRAMES;
    }
    return x < 5 ? SIM_CALM : x < 45 ? SIM_SESSION : x < 60 ? SIM_FRAMES : x < 85 ? SIM_DIRECTORY : SIM_CHIEFS;
}

bool sim_grains(const struct sim *s)
{
    return s->seed % 9 == 6 && s->k.profile != SIM_BOUNDARY;
}

void sim_knobs_draw(struct sim *s, const struct sim_options *options)
{
    struct sim_knobs *k = &s->k;
    memset(k, 0, sizeof(*k));
    k->profile = options->boundary ? SIM_BOUNDARY
                 : options->race   ? SIM_RACE
                 : options->queues ? SIM_QUEUES
                 : options->rounds ? SIM_ROUNDS
                 : options->lease  ? SIM_LEASE
                 : options->own    ? SIM_OWN
                                   : draw_profile(s, options);
    k->frame_bytes = options->frame_bytes;
    k->crc = !sim_one_in(s, 5);
    draw_network(s);
    draw_times(s);
    k->ps_tasks = 1;
    k->programs = (uint32_t)sim_range(s, 1, 3);
    k->vars = (uint32_t)sim_range(s, 2, 6);
    k->workers_listed = !sim_one_in(s, 4);
    k->large = options->large;
    k->trains = options->trains;
    k->disks = options->disks;
    k->beside = options->beside;
    k->asks = options->asks;
    k->fewer = k->disks && (k->profile == SIM_RACE || k->beside) && s->seed % 4 == 2;
    k->save_in = k->beside ? 12 : 100;
    k->spread = k->fewer && !k->beside && s->seed % 8 == 2;
    k->imports = s->seed % 4 == 1 && k->profile != SIM_CALM && k->profile != SIM_RACE && k->profile != SIM_BOUNDARY &&
                 k->profile != SIM_QUEUES && k->profile != SIM_ROUNDS && k->profile != SIM_LEASE && k->profile != SIM_OWN;
    k->rows = s->seed % 3 == 1 || sim_grains(s);
    switch (k->profile) {
    case SIM_CALM:
        k->quiet = true;
        k->segment_ms = 5000;
        k->pipe_bytes = k->pipe_bytes < 70000 ? 70000 : k->pipe_bytes;
        k->ps_tasks = (uint32_t)sim_range(s, 1, 2);
        k->lease_ms = 10000;
        k->beat_ms = 2500;
        k->short_deadline_in = 0;
        k->workers_listed = true;
        k->monitor = true;
        k->fault_from_ms = SIM_NEVER;
        break;
    case SIM_SESSION:
        k->ps_tasks = sim_one_in(s, 3) ? 2 : 1;
        k->monitor = sim_one_in(s, 4);
        k->large = k->large || sim_one_in(s, 6);
        faults_of_session(s);
        break;
    case SIM_FRAMES:
        k->programs = (uint32_t)sim_range(s, 1, 2);
        k->vars = 2;
        k->large = true;
        faults_of_session(s);
        if (sim_one_in(s, 3)) {
            hasty(s);
        }
        k->pipe_bytes = k->pipe_bytes < 70000 ? 70000 : k->pipe_bytes;
        break;
    case SIM_DIRECTORY:
        k->ps_tasks = (uint32_t)sim_range(s, 2, 3);
        k->other_tasks = k->workers_listed && sim_one_in(s, 4) ? 1 : 0;
        k->monitor = sim_one_in(s, 2);
        k->second_chief = k->workers_listed && sim_one_in(s, 3);
        k->vars = (uint32_t)sim_range(s, 2, 4);
        faults_of_directory(s);
        if (options->twin) {
            k->twin = true;
            faults_of_twins(s);
        }
        if (options->moves) {
            faults_of_moves(s);
        }
        break;
    case SIM_CHIEFS:
        k->ps_tasks = (uint32_t)sim_range(s, 1, 2);
        k->second_chief = k->workers_listed;
        k->programs = 2;
        k->vars = (uint32_t)sim_range(s, 2, 3);
        faults_of_directory(s);
        k->fault_weight[SIM_FAULT_RESET] = 0;
        k->fault_weight[SIM_FAULT_RESTART_TASK] = pick(s, 0, 0, 1, 2);
        k->fault_weight[SIM_FAULT_STOP_CLIENT] = 6;
        break;
    case SIM_BOUNDARY:
        calm_for_boundary(s, options);
        break;
    case SIM_RACE:
        race(s);
        break;
    case SIM_QUEUES:
        queues(s);
        break;
    case SIM_ROUNDS:
        rounds(s);
        break;
    case SIM_LEASE:
        leases(s);
        break;
    case SIM_OWN:
        owns(s);
        break;
    case SIM_PROFILE_COUNT:
        break;
    }
    if (k->beside) {
        faults_beside(s);
    }
    k->calls_many = 600;
    k->unplaced_in = (uint32_t)(s->seed % 3); /* never, always, half of them */
    k->init_slice_bytes = s->seed % 3 == 0 ? k->frame_bytes / 16 : 0;
    if (k->frame_bytes > 1u << 20 && k->profile != SIM_RACE && !k->twin &&
        !k->moves) { /* full frames: everything is 32 times as large */
        k->pipe_bytes *= 32;
        k->small_read_in *= 8;
        k->calls_many = 60;
        k->depth = 4;
    }
    k->polite = k->fault_weight[SIM_FAULT_KILL_CLIENT] == 0 && !sim_one_in(s, 3);
    uint32_t total = 0;
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        total += k->fault_weight[i];
    }
    if (total == 0) {
        k->fault_weight[SIM_FAULT_CUT] = 1;
    } else if (s->seed % 4 == 3 && !k->quiet) {
        k->fault_weight[SIM_FAULT_INTERRUPT] = 1 + total / 4;
    }
    sim_trace(
        s, "profile %d: %u ps tasks%s, %u others, %u programs%s, delay %u ms, pipe %u bytes, keep %u ms, pushes %u, buffers %u",
        (int)k->profile, k->ps_tasks, k->twin ? " (task 1 twice)" : "", k->other_tasks, k->programs,
        k->workers_listed ? "" : " (all chiefs)", k->delay_ms, k->pipe_bytes, k->session_keep_ms, k->pushes_max, k->buffers_max);
}

static struct sim_var *add(struct sim *s, enum sim_var_kind kind, const char *name, ps_dtype dtype, uint64_t elements)
{
    struct sim_var *v = &s->var[s->var_count++];
    (void)snprintf(v->name, sizeof(v->name), "%s", name);
    v->container = SIM_CONTAINER;
    v->kind = kind;
    v->dtype = dtype;
    v->wire = dtype;
    v->elements = elements;
    v->digits_max = dtype == PS_F32 ? 12 : dtype == PS_F64 ? 25 : 31;
    if (kind == SIM_VAR_STEP || kind == SIM_VAR_REGISTER || kind == SIM_VAR_HYPER) {
        v->digits_max = 0;
    }
    return v;
}

/* Make v and the variable behind it the two parts of a table that is as v is; x chooses its rows and its layout. */
static void parts_of(struct sim_var *v, struct sim_var *next, uint64_t x)
{
    const bool odd = x % 2 == 1;
    const struct psi_part part = {
        .count = 2, .layout = x / 2 % 2 == 1 ? PSI_LAYOUT_MOD : PSI_LAYOUT_DIV, .rows = (int64_t)(2 * v->elements - odd)};
    char device[sizeof(next->device)];
    memcpy(device, next->device, sizeof(device));
    *next = *v;
    memcpy(next->device, device, sizeof(device));
    next->elements = v->elements - odd;
    v->part = next->part = part;
    next->part.index = 1;
    (void)snprintf(v->name, sizeof(v->name), "table/part_0");
    (void)snprintf(next->name, sizeof(next->name), "table/part_1");
}

void sim_parts_by_rows(struct sim *s, bool even)
{
    struct sim_var *v = &s->var[0];
    if (s->k.vars > 1 && v->by_rows && v->elements > 1 && s->seed / 3 % 2 == 0) {
        parts_of(v, v + 1, even ? s->seed & ~UINT64_C(1) : s->seed);
    }
}

bool sim_has_parts(const struct sim *s)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        if (s->var[i].part.count > 0) {
            return true;
        }
    }
    return false;
}

static uint64_t draw_elements(struct sim *s, ps_dtype dtype)
{
    uint64_t segment = PS_SEGMENT_BYTES / ps_dtype_bytes(dtype);
    switch (sim_below(s, 8)) {
    case 0:
        return segment;
    case 1:
        return segment + 1;
    case 2:
        return segment * 2 + sim_below(s, segment);
    case 3:
        return segment * 3;
    default:
        return sim_range(s, 1, 60);
    }
}

/* Gradients and reads of a float32 variable travel in two bytes: so few digits that it holds every value. */
static void narrow(struct sim_var *v, ps_dtype wire)
{
    v->wire = wire;
    v->digits_max = wire == PS_BF16 ? 4 : 5;
}

/* BOUNDARY: the one variable. */
static void boundary_var(struct sim *s)
{
    uint64_t frame = s->k.frame_bytes;
    bool reads_and_assigns = s->boundary_kind == PSI_REQ_ASSIGN;
    enum sim_var_kind kind = reads_and_assigns ? SIM_VAR_REGISTER : SIM_VAR_PUSH;
    struct sim_var *v = NULL;
    switch (s->boundary_var) {
    case SIM_BOUNDARY_LARGE: {
        ps_dtype dtype = !reads_and_assigns && sim_one_in(s, 3) ? PS_F32 : PS_F64;
        uint64_t of_frame = frame / ps_dtype_bytes(dtype);
        PSI_IGNORE(add(s, kind, "v0", dtype, 2 * of_frame + sim_range(s, 1, of_frame)));
        break;
    }
    case SIM_BOUNDARY_NARROW:
        v = add(s, kind, "v0", PS_F32, frame + sim_range(s, 1, frame / 2));
        narrow(v, PS_BF16);
        break;
    case SIM_BOUNDARY_ATOMIC:
        v = add(s, kind, "v0", PS_F32, frame / 4 - sim_below(s, 2000));
        v->atomic = true;
        break;
    case SIM_BOUNDARY_ATOMIC_NARROW: /* one segment of it as bfloat16 */
        v = add(s, kind, "v0", PS_F32, frame / 4);
        v->atomic = true;
        narrow(v, PS_BF16);
        break;
    case SIM_BOUNDARY_STRINGS:
        PSI_IGNORE(add(s, SIM_VAR_REGISTER, "v0", PS_STRING, 3));
        s->tag_next = 4; /* the next one's value has two segments */
        break;
    case SIM_BOUNDARY_EMPTY:
        PSI_IGNORE(add(s, kind, "v0", PS_F32, 0));
        break;
    }
}

static void one_var(struct sim *s, uint32_t i)
{
    struct sim_knobs *k = &s->k;
    char name[24];
    ps_dtype dtype = sim_one_in(s, 2) ? PS_F32 : PS_F64;
    bool other = i > 0 && sim_one_in(s, 3);
    enum sim_var_kind kind = other ? SIM_VAR_REGISTER : SIM_VAR_PUSH;
    bool text = other && sim_one_in(s, 2);
    dtype = text ? PS_STRING : other ? PS_F64 : dtype;
    bool large = k->large && i == 0;
    ps_dtype wire = dtype != PS_F32 || !sim_one_in(s, 2) ? dtype : sim_one_in(s, 3) ? PS_F16 : PS_BF16;
    uint64_t elements = text ? sim_range(s, 1, SIM_STRINGS_MAX) : draw_elements(s, wire);
    if (large) {
        uint64_t frame = k->frame_bytes / ps_dtype_bytes(wire);
        elements = 2 * frame + sim_range(s, 1, frame);
    }
    (void)snprintf(name, sizeof(name), "v%u", i);
    struct sim_var *v = add(s, kind, name, dtype, elements);
    if (wire != dtype) {
        narrow(v, wire);
    }
    if (!large && !text && sim_one_in(s, 3)) {
        uint64_t most = k->frame_bytes / ps_dtype_bytes(dtype);
        v->atomic = true;
        v->elements = elements < most ? elements : most;
    }
    if (sim_grains(s) && i == 0 && !large) { /* nor this */
        v->atomic = false;
        v->elements = 2 * PS_SEGMENT_BYTES / ps_dtype_bytes(dtype) + 1 + elements % 5000;
    }
    if (s->seed % 5 == 2 && i == 1 && !other) { /* not drawn: the other seeds stay what they were */
        v->elements = 0;
    }
    if (sim_one_in(s, 5)) {
        (void)snprintf(v->device, sizeof(v->device), "/job:ps/task:%u", (uint32_t)sim_below(s, k->ps_tasks));
    }
    if (k->other_tasks > 0 && i + 1 == k->vars) {
        (void)snprintf(v->device, sizeof(v->device), "/job:worker/task:%u", k->programs);
    }
}

/* The first two variables that are pushed to and lie side by side become the parts of a table. Not drawn: the other seeds stay
 * what they were. */
static void make_parts(struct sim *s)
{
    for (uint32_t i = 0; i + 1 < s->k.vars && s->seed % 4 == 3; i++) {
        struct sim_var *v = &s->var[i], *next = &s->var[i + 1];
        if (v->kind == SIM_VAR_PUSH && next->kind == SIM_VAR_PUSH && v->elements > 1) {
            parts_of(v, next, s->seed / 4);
            return;
        }
    }
}

void sim_vars_draw(struct sim *s)
{
    struct sim_knobs *k = &s->k;
    if (k->profile == SIM_QUEUES) {
        sim_queues_draw(s);
        return;
    }
    if (k->profile == SIM_ROUNDS) {
        sim_rounds_draw(s);
        sim_train_queue_draw(s);
        return;
    }
    if (k->profile == SIM_LEASE) {
        sim_chief_draw(s);
        return;
    }
    if (k->profile == SIM_OWN) {
        sim_own_draw(s);
    }
    if (s->boundary_kind != PSI_REQ_NONE) {
        boundary_var(s);
    } else {
        for (uint32_t i = 0; i < k->vars; i++) {
            one_var(s, i);
        }
        make_parts(s);
    }
    PSI_IGNORE(add(s, SIM_VAR_COUNTER, "counter", PS_I64, sim_range(s, 1, 8)));
    PSI_IGNORE(add(s, SIM_VAR_STEP, "global_step", PS_I64, 1));
    if (k->profile == SIM_CHIEFS || sim_one_in(s, 3)) {
        PSI_IGNORE(add(s, SIM_VAR_HYPER, "hyper", PS_F32, 3));
    }
    if (k->monitor) {
        struct sim_var *tmp = add(s, SIM_VAR_TMP, "tmp", PS_F64, sim_range(s, 1, 40));
        if (!sim_one_in(s, 4)) {
            tmp->container = SIM_OTHER;
            memcpy(tmp->name, s->var[0].name, sizeof(tmp->name)); /* that of a variable of the model */
        }
    }
    if (k->large && sim_one_in(s, 3) && k->vars > 1) {
        uint64_t frame = k->frame_bytes / 8;
        PSI_IGNORE(add(s, SIM_VAR_REGISTER, "large", PS_F64, 2 * frame + sim_range(s, 1, frame)));
    }
    if (sim_moved_draw(s)) { /* not drawn: the other seeds stay what they were */
        struct sim_var *v = add(s, SIM_VAR_MOVED, "moved", PS_F64, 3 * PS_SEGMENT_BYTES / sizeof(double) + 5);
        v->digits_max = 0;
    }
}
