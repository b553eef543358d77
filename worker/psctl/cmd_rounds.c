/* SPDX-License-Identifier: Apache-2.0 */
/* psctl rounds: containers that are trained in rounds or with bounded staleness, their members, and the age of gradients. Failure
 * modes, exit 1: the directory task is down; a task that does not give its ages is left out and named. */
#include "psctl.h"

#include <inttypes.h>
#include <stdlib.h>

struct round {
    ps_round_info r;
    uint32_t complete;
};

struct member {
    ps_member_info m;
    const char *container;
};

struct age {
    ps_age_info a;
    const char *at;
};

struct answers {
    struct round *rounds;
    struct member *members;
    struct age *ages;
    size_t round_count, round_capacity, member_count, member_capacity, age_count, age_capacity;
    const char *at;
};

static void each_round(void *ctx, const ps_round_info *info)
{
    struct answers *all = ctx;
    all->rounds = cli_grow(all->rounds, all->round_count, &all->round_capacity, sizeof(*all->rounds));
    all->rounds[all->round_count++] = (struct round){.r = *info};
}

static void each_member(void *ctx, const ps_member_info *info)
{
    struct answers *all = ctx;
    all->members = cli_grow(all->members, all->member_count, &all->member_capacity, sizeof(*all->members));
    all->members[all->member_count++] = (struct member){.m = *info};
    all->rounds[all->round_count - 1].complete += info->state == PS_MEMBER_COMPLETE ? 1 : 0;
}

static void each_age(void *ctx, const ps_age_info *info)
{
    struct answers *all = ctx;
    all->ages = cli_grow(all->ages, all->age_count, &all->age_capacity, sizeof(*all->ages));
    all->ages[all->age_count++] = (struct age){.a = *info, .at = all->at};
}

static const ps_round_info *round_of(const void *row)
{
    return &((const struct round *)row)->r;
}

static bool in_rounds(const void *row)
{
    return round_of(row)->options.mode == PS_SYNC_ROUNDS;
}

static bool in_staleness(const void *row)
{
    return !in_rounds(row);
}

static bool has_owners(const void *row)
{
    return round_of(row)->owners[0] != '\0';
}

static const char *mode_text(const void *row)
{
    return in_rounds(row) ? "rounds" : "staleness";
}

static const char *mode_cell(const void *row, char *buf, size_t n)
{
    if (in_rounds(row)) {
        return mode_text(row);
    }
    (void)snprintf(buf, n, "%s %" PRIu32, mode_text(row), round_of(row)->options.staleness);
    return buf;
}

static json_t *mode_value(const void *row)
{
    return json_string(mode_text(row));
}

static const char *phase_cell(const void *row, char *buf, size_t n)
{
    static const char *const phases[] = {"", "opening", "collects", "prepares", "commits", "in doubt", "failed"};
    (void)buf;
    (void)n;
    return phases[round_of(row)->phase];
}

static json_t *phase_value(const void *row)
{
    return json_string(phase_cell(row, NULL, 0));
}

static const char *loss_cell(const void *row, char *buf, size_t n)
{
    static const char *const losses[] = {"wait", "shrink", "fail"};
    (void)buf;
    (void)n;
    return losses[round_of(row)->options.on_worker_loss];
}

static json_t *loss_value(const void *row)
{
    return json_string(loss_cell(row, NULL, 0));
}

static const char *complete_cell(const void *row, char *buf, size_t n)
{
    const struct round *r = row;
    (void)snprintf(buf, n, "%" PRIu32 " of %" PRIu32, r->complete, r->r.workers);
    return buf;
}

static bool is_limited(const void *row)
{
    return round_of(row)->max_norm > 0;
}

static const char *limit_cell(const void *row, char *buf, size_t n)
{
    const ps_round_info *r = round_of(row);
    (void)snprintf(buf, n, "%g%s", r->max_norm, r->max_norm_each != 0 ? " each" : "");
    return buf;
}

static json_t *histogram_value(const uint64_t counts[PS_HISTOGRAM])
{
    json_t *list = json_array();
    for (int i = 0; i < PS_HISTOGRAM; i++) {
        (void)json_array_append_new(list, json_integer((json_int_t)counts[i]));
    }
    return list;
}

static json_t *leads_value(const void *row)
{
    return histogram_value(round_of(row)->leads);
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct round, field_)
static const struct cli_column round_columns[] = {
    {"CONTAINER", "container", FIELD(CLI_TEXT, r.container)},
    {"MODE", "mode", CLI_OTHER, .cell = mode_cell, .value = mode_value},
    {"ROUND", "round", FIELD(CLI_U64, r.round), .has = in_rounds},
    {"PHASE", "phase", CLI_OTHER, .cell = phase_cell, .value = phase_value},
    {"STEP", "step", FIELD(CLI_U64, r.step), .has = in_rounds},
    {"COMPLETE", "complete", FIELD(CLI_U32, complete), .cell = complete_cell},
    {NULL, "workers", FIELD(CLI_U32, r.workers)},
    {"CLOSES AT", "replicas", FIELD(CLI_U32, r.replicas), .has = in_rounds},
    {"ON LOSS", "on_worker_loss", CLI_OTHER, .cell = loss_cell, .value = loss_value},
    {"MAX NORM", "max_norm", FIELD(CLI_RATE, r.max_norm), .has = is_limited, .cell = limit_cell},
    {NULL, "max_norm_each", FIELD(CLI_BOOL, r.max_norm_each), .has = is_limited},
    {"DROPPED", "dropped", FIELD(CLI_U64, r.dropped), .has = in_rounds},
    {NULL, "staleness", FIELD(CLI_U32, r.options.staleness), .has = in_staleness},
    {NULL, "leads", CLI_OTHER, .value = leads_value, .has = in_staleness},
    {"AWAY OR IN DOUBT", "owners", FIELD(CLI_TEXT, r.owners), .has = has_owners},
    {"WAITS FOR", "waits_for", FIELD(CLI_TEXT, r.waits_for)},
};
#undef FIELD

static const char *task_cell(const void *row, char *buf, size_t n)
{
    const ps_member_info *m = &((const struct member *)row)->m;
    return psctl_task_text(m->job, m->task, buf, n);
}

static json_t *task_value(const void *row)
{
    const ps_member_info *m = &((const struct member *)row)->m;
    return psctl_task_value(m->job, m->task);
}

static bool has_session(const void *row)
{
    return ((const struct member *)row)->m.member != 0;
}

static bool has_process(const void *row)
{
    return has_session(row) && ((const struct member *)row)->m.pid != 0;
}

static const char *steps_cell(const void *row, char *buf, size_t n)
{
    const ps_member_info *m = &((const struct member *)row)->m;
    (void)snprintf(buf, n, "%" PRIu64, m->steps);
    return m->steps_unknown ? "unknown" : buf;
}

static json_t *steps_value(const void *row)
{
    const ps_member_info *m = &((const struct member *)row)->m;
    return m->steps_unknown ? json_null() : json_integer((json_int_t)m->steps);
}

static const char *state_cell(const void *row, char *buf, size_t n)
{
    static const char *const states[] = {"", "works", "complete", "lost", "enters next", "waits", "unknown"};
    (void)buf;
    (void)n;
    return has_session(row) ? states[((const struct member *)row)->m.state] : "missing";
}

static json_t *state_value(const void *row)
{
    return json_string(state_cell(row, NULL, 0));
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct member, field_)
static const struct cli_column member_columns[] = {
    {"CONTAINER", "container", FIELD(CLI_STRING, container)},
    {"WORKER", "task", CLI_OTHER, .cell = task_cell, .value = task_value},
    {"HOST", "host", FIELD(CLI_TEXT, m.host), .has = has_process},
    {"PID", "pid", FIELD(CLI_U32, m.pid), .has = has_process},
    {NULL, "id", FIELD(CLI_TEXT, m.id), .has = has_session},
    {"STATE", "state", CLI_OTHER, .cell = state_cell, .value = state_value},
    {"FOR", "since_ms", FIELD(CLI_TIME, m.since_ms)},
    {"STEPS", "steps", FIELD(CLI_U64, m.steps), .cell = steps_cell, .value = steps_value},
};
#undef FIELD

static json_t *ages_value(const void *row)
{
    return histogram_value(((const struct age *)row)->a.ages);
}

static const struct cli_column age_columns[] = {
    {NULL, "container", CLI_FIELD(CLI_TEXT, struct age, a.container)},
    {NULL, "task", CLI_FIELD(CLI_STRING, struct age, at)},
    {NULL, "ages", CLI_OTHER, .value = ages_value},
};

static void print_histogram(const char *what, const char *container, const char *at, const uint64_t counts[PS_HISTOGRAM])
{
    bool any = false;
    for (int i = 0; i < PS_HISTOGRAM; i++) {
        if (counts[i] == 0) {
            continue;
        }
        if (!any) {
            (void)printf("%s of %s%s%s:", what, container, at != NULL ? " at " : "", at != NULL ? at : "");
        }
        char bucket[16] = "more";
        if (i < PS_HISTOGRAM - 1) {
            (void)snprintf(bucket, sizeof(bucket), "%d", i);
        }
        (void)printf("%s %s: %" PRIu64, any ? "," : "", bucket, counts[i]);
        any = true;
    }
    if (any) {
        (void)putchar('\n');
    }
}

/* Write into each member which container it trains. The answer lists members round by round. */
static void name_containers(struct answers *all)
{
    size_t at = 0;
    for (size_t i = 0; i < all->round_count; i++) {
        for (uint32_t k = 0; k < all->rounds[i].r.members && at < all->member_count; k++) {
            all->members[at++].container = all->rounds[i].r.container;
        }
    }
}

static void print_groups(const struct psctl *c, const struct answers *all)
{
    struct cli_list list;
    cli_list_begin(&list, "rounds", round_columns, CLI_COUNT(round_columns), c->json);
    for (size_t i = 0; i < all->round_count; i++) {
        cli_list_add(&list, &all->rounds[i]);
    }
    cli_list_end(&list, &c->room);
    cli_list_begin(&list, "members", member_columns, CLI_COUNT(member_columns), c->json);
    for (size_t i = 0; i < all->member_count; i++) {
        cli_list_add(&list, &all->members[i]);
    }
    cli_list_end(&list, &c->room);
}

/* Print the answers. heard: the directory task has answered, so an empty list says that nothing is trained in rounds. */
static void print(const struct psctl *c, struct answers *all, bool heard)
{
    name_containers(all);
    if (c->json || all->round_count > 0) {
        print_groups(c, all);
    } else if (heard) {
        (void)printf("no container is trained in rounds, or with bounded staleness\n");
    }
    if (c->json) {
        struct cli_list list;
        cli_list_begin(&list, "ages", age_columns, CLI_COUNT(age_columns), true);
        for (size_t i = 0; i < all->age_count; i++) {
            cli_list_add(&list, &all->ages[i]);
        }
        cli_list_end(&list, &c->room);
        return;
    }
    for (size_t i = 0; i < all->round_count; i++) {
        print_histogram("lead", all->rounds[i].r.container, NULL, all->rounds[i].r.leads);
    }
    for (size_t i = 0; i < all->age_count; i++) {
        print_histogram("age of gradients", all->ages[i].a.container, all->ages[i].at, all->ages[i].a.ages);
    }
}

static enum psctl_exit show(struct psctl *c)
{
    struct answers all = {.round_count = 0};
    const int directory = psctl_directory(c);
    const bool heard =
        directory >= 0 && psctl_heard(c, directory, ps_rounds(c->session, psctl_left_ms(c), each_round, each_member, &all));
    for (int i = -1; psctl_next(c, -1, &i);) {
        all.at = ps_cluster_task_name(c->session, i);
        const ps_status st = ps_task_ages(c->session, i, psctl_left_ms(c), each_age, &all);
        /* UNIMPLEMENTED is no failure: an older release counts no ages */
        (void)psctl_heard(c, i, st == PS_UNIMPLEMENTED ? PS_OK : st);
    }
    psctl_answer(c);
    print(c, &all, heard);
    psctl_down(c, -1);
    psctl_answer_end(c);
    free(all.rounds);
    free(all.members);
    free(all.ages);
    if (directory < 0) {
        psctl_note(c, "the directory does not answer: only it knows the rounds");
    }
    return psctl_all_up(c, -1) && heard ? PSCTL_OK : PSCTL_FAILED;
}

const struct psctl_verb psctl_verb_rounds = {
    .name = "rounds",
    .arguments = "",
    .summary = "training in step: round, who is missing, lead, age",
    .flags = PSCTL_FLAG(WATCH),
    .words = "",
    .show = show,
    .help = "Each container that is trained in rounds (--sync) or with bounded staleness (--staleness), and its workers: who\n"
            "`works` has not completed the round, for so long; who is `complete` waits for the others, with --staleness who\n"
            "`waits`; `lost` is who died or is silent, `missing` a place that nobody has; `unknown` is who a directory that was\n"
            "restarted has not heard of yet, and steps that it has not been told yet. A task in doubt has built a\n"
            "round's values and waits to hear what became of it. MAX NORM limits the norm of the averages of all parameters\n"
            "together, or of `each` parameter's. Then the steps by their lead over the slowest worker, and the "
            "gradients by their age: by how many\n"
            "updates their variable had had since the values that they were computed from.\n",
};
