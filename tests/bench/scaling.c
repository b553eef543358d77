/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What large clusters cost: the cores of a directory and of all other ps tasks, without sockets, with the sessions of all
 * workers at two of them, the directory and ps task 1. Each phase says the CPU time of its events, at the directory and at the
 * other tasks, and the longest event of each: nobody else is served by that task meanwhile. What the other ps tasks have with
 * workers is what ps task 1 has, so it is not done again.
 *
 *   scaling WORKERS PS [VARIABLES]       a line of JSON for each phase; tests/bench/scaling.py runs it
 *
 * sessions_max is raised here where WORKERS needs it. Members of rounds are WORKERS, PS_MEMBERS_MAX at most.
 */
#include "fake_client.h"

#include "common/mem.h"
#include "psd/rounds/groups.h"
#include "psd/shell/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ELEMENTS = 1024 /* of a variable: 4 KiB */, ITEMS = 500 /* of one request */ };

struct cost {
    double ms, longest_ms;
    uint64_t events;
};

static struct shell_net net;
static const struct shell_task *directory;
static struct cost at_directory, at_others;
static uint32_t workers, tasks, variables;
static struct fc *of_directory, *of_ps; /* [workers] */
static char *spec;

static void check(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "scaling: %s\n", what);
        exit(2);
    }
}

static void turn(bool begins)
{
    static struct timespec begun;
    if (begins) {
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun); /* cannot fail for this clock */
        return;
    }
    struct timespec ended;
    struct cost *cost = net.turning == directory ? &at_directory : &at_others;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    const double ms = 1e3 * (double)(ended.tv_sec - begun.tv_sec) + 1e-6 * (double)(ended.tv_nsec - begun.tv_nsec);
    cost->ms += ms;
    cost->longest_ms = ms > cost->longest_ms ? ms : cost->longest_ms;
    cost->events++;
}

/* The cost since the last phase. `times`: how often the phase did what it names. */
static void phase(const char *name, uint32_t times)
{
    (void)printf("{\"workers\": %u, \"ps\": %u, \"variables\": %u, \"phase\": \"%s\", \"times\": %u, \"directory_ms\": %.3f, "
                 "\"directory_longest_ms\": %.3f, \"others_ms\": %.3f, \"others_longest_ms\": %.3f, \"events\": %llu}\n",
                 workers, tasks, variables, name, times, at_directory.ms, at_directory.longest_ms, at_others.ms,
                 at_others.longest_ms, (unsigned long long)(at_directory.events + at_others.events));
    (void)fflush(stdout);
    at_directory = at_others = (struct cost){0};
}

static void config_of(struct psd_task_config *config)
{
    config->memory_budget_bytes = UINT64_C(1) << 40;
    config->sessions_max = workers > config->sessions_max ? workers : config->sessions_max;
}

static struct shell_task *start(uint32_t index, uint32_t life)
{
    ps_status st = PS_OK;
    const uint64_t now = net.task_count > 0 ? net.tasks[0]->now : 1000000;
    struct shell_task *t = shell_task_new(&net, spec, "ps", index, 7919 * life + index, now, config_of, &st);
    check(t != NULL, "a task");
    return t;
}

/* A ps task connects with the directory, and both list. */
static void join(struct shell_task *t, struct shell_task *to)
{
    while (t->dials == 0) {
        shell_task_tick(t, t->now + 100);
        shell_run(&net);
    }
    check(shell_dial(t, to) != NULL, "a ps task");
}

/* The shell looks at each connection of a list for each event, so those of workers are in it only while they are used. */
static struct fc *awake(struct fc *c)
{
    static struct fc *last;
    if (last != NULL && last->conn != NULL) {
        psi_list_remove(&last->conn->link);
    }
    last = c;
    if (c != NULL && c->conn != NULL) {
        psi_list_push_back(&c->task->conns, &c->conn->link);
    }
    return c;
}

static void say_hello(struct fc *c, struct shell_task *t, uint32_t worker)
{
    awake(c);
    struct fc_hello hello;
    fc_init(c, t, 1);
    memcpy(c->session + 1, &worker, sizeof(worker));
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    hello.m.task = worker;
    check(fc_hello(c, &hello) == PS_OK, c->hello_reply.text);
}

static void all_say_hello(struct fc *all, struct shell_task *t, const char *name)
{
    for (uint32_t i = 0; i < workers; i++) {
        say_hello(&all[i], t, i);
    }
    phase(name, workers);
}

static void all_beat(struct fc *all, const char *name)
{
    for (uint32_t i = 0; i < workers; i++) {
        check(fc_beat(awake(&all[i]), 1, NULL).status == PS_OK, "BEAT");
    }
    phase(name, workers);
}

static const char *name_of(uint32_t i)
{
    static char name[32];
    (void)snprintf(name, sizeof(name), i == 0 ? "global_step" : "layer/%07u/weights", i);
    return name;
}

/* All variables are created, in turn on one ps and on the next; those of ps task 1 get their values. */
static void create(struct fc *chief)
{
    const ps_optimizer sgd = {.kind = PS_OPT_SGD, .learning_rate = 0.5};
    for (uint32_t at = 0; at < variables; at += ITEMS) {
        const uint32_t count = variables - at < ITEMS ? variables - at : ITEMS;
        ps_v1_CreateItem *items = calloc(count, sizeof(*items));
        ps_v1_CreateAnswer *answers = calloc(count, sizeof(*answers));
        check(items != NULL && answers != NULL, "memory");
        for (uint32_t i = 0; i < count; i++) {
            const bool is_step = at + i == 0;
            fc_create_item(&items[i], name_of(at + i), is_step ? PS_I64 : PS_F32, is_step ? 1 : ELEMENTS,
                           is_step ? ps_no_optimizer() : &sgd);
            items[i].task = (at + i + 1) % tasks;
        }
        check(fc_create_list(awake(chief), items, count, answers) == PS_OK, "CREATE");
        free(items);
        free(answers);
    }
    phase("the chief creates all variables", variables);
    for (uint32_t i = 0; i < variables; i += tasks) {
        ps_v1_OpenAnswer a;
        check(fc_open(awake(&of_ps[0]), name_of(i), &a) == PS_OK, "OPEN");
        const ps_optimizer *by = i == 0 ? ps_no_optimizer() : &sgd;
        check(fc_init_var(&of_ps[0], a.handle, ps_zeros(), by, 0, false).status == PS_OK, "INIT");
    }
    phase("the chief initialises those of a ps task", (variables + tasks - 1) / tasks);
}

static const float gradient[ELEMENTS] = {1};

/* Returns the handle of the variable, which is the same in all sessions. */
static uint32_t all_step(void)
{
    static float values[ELEMENTS];
    ps_v1_OpenAnswer a;
    for (uint32_t i = 0; i < workers; i++) {
        check(fc_open(awake(&of_ps[i]), name_of(tasks), &a) == PS_OK, "OPEN");
    }
    phase("workers open one variable of a ps task", workers);
    for (uint32_t i = 0; i < workers; i++) {
        check(fc_pull(awake(&of_ps[i]), &a, 0, ELEMENTS, values).status == PS_OK, "PULL");
    }
    phase("a step: workers pull one variable of 4 KiB", workers);
    for (uint32_t i = 0; i < workers; i++) {
        check(fc_push(awake(&of_ps[i]), PS_OP_PUSH, &a, gradient, 1, 0).status == PS_OK, "PUSH");
    }
    phase("a step: workers push one variable of 4 KiB", workers);
    return a.handle;
}

/* ---- rounds ---- */

/* A request with this meta, about `body`. FC_NONE: it waits. */
static void ask(struct fc *c, uint8_t op, const pb_msgdesc_t *d, const void *m, const struct wire *body)
{
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    PSI_IGNORE(psi_msg_encode(d, m, meta, sizeof(meta), &bytes, NULL)); /* fits */
    const struct fc_reply r = fc_call(c, op, 0, c->next_id++, 0, meta, (uint32_t)psi_pad8((uint32_t)bytes), body);
    check(r.status == PS_OK || r.status == FC_NONE, r.text);
}

/* The worker whose session it is. */
static uint32_t worker_of(const uint8_t session[16])
{
    uint32_t worker = 0;
    memcpy(&worker, session + 1, sizeof(worker));
    return worker;
}

static void round_of_all(uint32_t handle)
{
    const uint32_t members = workers < PS_MEMBERS_MAX ? workers : PS_MEMBERS_MAX;
    const ps_v1_SyncOptions options = {.mode = PSD_SYNC_ROUNDS, .workers = members};
    const ps_v1_Join join_with = {.timeout_ms = 1000000, .has_options = true, .options = options};
    const ps_v1_Sync sync = {.timeout_ms = 1000000, .has_options = true, .options = options, .chief_number = 1000};
    ps_v1_ContainerItem container = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(container.container, PSI_CONTAINER_DEFAULT)); /* fits: a constant */
    struct wire names, of_container;
    wire_init(&names);
    wire_init(&of_container);
    wire_item(&of_container, &ps_v1_ContainerItem_msg, &container);
    for (uint32_t i = 0; i < 2; i++) {
        ps_v1_NameItem name = ps_v1_NameItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(name.name, name_of(i * tasks))); /* fits */
        wire_item(&names, &ps_v1_NameItem_msg, &name);
    }
    ask(awake(&of_directory[0]), PS_OP_SYNC, &ps_v1_Sync_msg, &sync, &names);
    phase("rounds: the chief describes the group", 1);
    for (uint32_t i = 0; i < members; i++) {
        ask(awake(&of_directory[i]), PS_OP_JOIN, &ps_v1_Join_msg, &join_with, &of_container);
    }
    const struct psd_group *g = psd_group_find(directory->core, PSI_CONTAINER_DEFAULT);
    check(g != NULL && g->member_count == members, "members");
    phase("rounds: workers join", members);
    for (uint64_t round = 1; round <= 2; round++) { /* the first one is not like the others */
        at_directory = at_others = (struct cost){0};
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &g->members) {
            const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
            struct fc *to = awake(&of_ps[worker_of(m->session)]);
            const struct fc_part part = {.op = PS_OP_CONTRIBUTE,
                                         .dtype = PS_F32,
                                         .number = to->next_number++,
                                         .handle = handle,
                                         .total = ELEMENTS,
                                         .payload = gradient,
                                         .scale = 1,
                                         .member = m->id,
                                         .round = round};
            fc_send_frames(to, &part, 0, 0);
            const struct fc_reply r = fc_take(to, NULL);
            check(r.status == PS_OK, r.text);
        }
        if (round == 2) {
            phase("a round: workers contribute to one variable of 4 KiB", members);
        }
        uint64_t *ids = calloc(members, sizeof(*ids)); /* a round that ends may change the list */
        uint32_t *who = calloc(members, sizeof(*who)), count = 0;
        check(ids != NULL && who != NULL, "memory");
        PSI_LIST_FOREACH(it, &g->members) {
            const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
            ids[count] = m->id;
            who[count++] = worker_of(m->session);
        }
        for (uint32_t i = 0; i < count; i++) {
            const ps_v1_Step step = {.timeout_ms = 1000000, .member = ids[i], .round = round};
            ask(awake(&of_directory[who[i]]), PS_OP_STEP, &ps_v1_Step_msg, &step, &of_container);
        }
        free(ids);
        free(who);
    }
    phase("a round: its end, at the directory and all ps tasks", members);
    wire_fini(&names);
    wire_fini(&of_container);
}

/* ---- losses ---- */

/* The process of ps task `index` is another one, with nothing; its workers come back. */
static void lose(uint32_t index, uint32_t life)
{
    struct shell_task *old = net.tasks[index];
    struct fc *all = index == 0 ? of_directory : of_ps;
    awake(NULL);
    for (uint32_t i = 0; i < workers; i++) {
        psi_list_push_back(&old->conns, &all[i].conn->link);
        all[i].conn = NULL;
    }
    shell_task_free(old);
    /* the tasks behind it have moved up */
    struct shell_task *t = start(index, life);
    memmove(&net.tasks[index + 1], &net.tasks[index], (net.task_count - 1 - index) * sizeof(struct shell_task *));
    net.tasks[index] = t;
    if (index > 0) {
        at_directory = at_others = (struct cost){0};
        join(t, net.tasks[0]);
        phase("a rolling restart: a ps task comes back", 1);
        all_say_hello(of_ps, t, "a rolling restart: its workers come back");
        return;
    }
    directory = t;
    at_directory = at_others = (struct cost){0};
    for (uint32_t i = 1; i < tasks; i++) {
        join(net.tasks[i], t);
    }
    phase("a lost directory: ps tasks come back", tasks - 1);
    all_say_hello(of_directory, t, "a lost directory: workers come back");
}

int main(int argc, char **argv)
{
    workers = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    tasks = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    variables = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 4000;
    if (workers < 1 || workers > 1000000 || tasks < 2 || tasks > PS_TASKS_MAX || variables <= tasks || variables > 1000000) {
        (void)fprintf(stderr, "usage: scaling WORKERS PS [VARIABLES]   (PS: 2 to %d; VARIABLES: more than PS)\n", PS_TASKS_MAX);
        return 2;
    }
    spec = malloc(32 + 24 * (size_t)tasks);
    of_directory = calloc(workers, sizeof(*of_directory));
    of_ps = calloc(workers, sizeof(*of_ps));
    check(spec != NULL && of_directory != NULL && of_ps != NULL, "memory");
    char *end = spec + sprintf(spec, "ps=");
    for (uint32_t i = 0; i < tasks; i++) {
        end += sprintf(end, "%s10.0.%u.%u:2222", i == 0 ? "" : ",", i / 250, 1 + i % 250);
    }
    psd_machine_keep_little(); /* as psd does */
    shell_net_init(&net);
    net.check_every = UINT32_MAX;
    net.turn = turn;
    directory = start(0, 1);
    for (uint32_t i = 1; i < tasks; i++) {
        (void)start(i, 1);
    }
    for (uint32_t i = 1; i < tasks; i++) {
        join(net.tasks[i], net.tasks[0]);
    }
    phase("a start: ps tasks find the directory", tasks - 1);
    all_say_hello(of_directory, net.tasks[0], "a start: workers come to the directory");
    all_say_hello(of_ps, net.tasks[1], "a start: workers come to a ps task");
    create(&of_directory[0]);
    const uint32_t handle = all_step();
    all_beat(of_directory, "workers beat at the directory");
    all_beat(of_ps, "workers beat at a ps task");
    round_of_all(handle);
    lose(1, 2);
    lose(0, 3);
    return 0;
}
