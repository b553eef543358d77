/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest turns: a directory and a second ps, without sockets, have as many names, containers, sessions and resets as the
 * limits allow (or as the arguments say), and each request that goes through a list of them is made once; a fifth of the names
 * make a group of variables in rounds. For each one the longest time that a task was inside one event, in CPU time of the thread:
 * nobody else is served by that task meanwhile.
 *
 *   turns [NAMES] [CONTAINERS] [SESSIONS] [RESETS]       `make bench-turns`
 */
#include "fake_client.h"

#include "common/mem.h"
#include "psd/directory/directory.h"
#include "psd/rounds/groups.h"
#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/loader.h"
#include "psd/shell/machine.h"
#include "psd/store/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPEC "ps=127.0.0.1:1,127.0.0.1:2;worker=127.0.0.1:3"
enum { BATCH = 500 /* items of one CREATE */ };

static double longest_ms;

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* cannot fail for this clock */
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void turn(bool begins)
{
    static double begun_ms;
    if (begins) {
        begun_ms = now_ms();
    } else {
        double ms = now_ms() - begun_ms;
        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
}

/* What was done since the last call. */
static void row(const char *what)
{
    (void)printf("%-72s %8.1f\n", what, longest_ms);
    (void)fflush(stdout);
    longest_ms = 0;
}

static void check(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "turns: %s\n", what);
        exit(2);
    }
}

static void any_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = UINT64_C(1) << 40;
}

static struct shell_task *task(struct shell_net *net, uint32_t index, uint64_t now)
{
    ps_status st = PS_OK;
    struct shell_task *t = shell_task_new(net, SPEC, "ps", index, 42 + index, now, any_memory, &st);
    check(t != NULL, "a task");
    return t;
}

/* The second ps connects and lists. */
static struct shell_conn *join(struct shell_net *net, struct shell_task *from, struct shell_task *to)
{
    while (from->dials == 0) {
        shell_pass(net, 100);
    }
    return shell_dial(from, to);
}

/* Variables of one element, in turn on one ps and on the other, i % containers says in which container */
static void create(struct fc *c, uint32_t from, uint32_t to, uint32_t containers)
{
    ps_optimizer sgd = {.kind = PS_OPT_SGD, .learning_rate = 0.5};
    for (uint32_t at = from; at < to; at += BATCH) {
        struct wire body;
        wire_init(&body);
        for (uint32_t i = at; i < to && i < at + BATCH; i++) {
            ps_v1_CreateItem m;
            char name[32], container[16];
            (void)snprintf(name, sizeof(name), "layer/%07u/weights", i);
            fc_create_item(&m, name, PS_F32, 1, &sgd);
            m.task = i % 2;
            if (containers > 1) {
                (void)snprintf(container, sizeof(container), "c%07u", i % containers);
                PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
            }
            wire_item(&body, &ps_v1_CreateItem_msg, &m);
        }
        struct wire w, answer;
        wire_init(&w);
        wire_init(&answer);
        uint64_t id = c->next_id++;
        fc_frame(c, &w, PS_OP_CREATE, 0, id, 0, NULL, 0, &body);
        shell_send(c->conn, &w);
        struct fc_reply r = fc_take(c, &answer);
        while ((r.h.flags & PS_FLAG_MORE) != 0) {
            r = fc_take(c, &answer);
        }
        check(r.status == PS_OK, r.text);
        const uint8_t *p = answer.data;
        size_t n = answer.len;
        ps_v1_CreateAnswer a;
        while (n > 0 && fc_item(&p, &n, &ps_v1_CreateAnswer_msg, &a)) {
            check(a.status == PS_OK, (const char *)a.text.bytes);
        }
        fc_ack(c, id);
        wire_fini(&w);
        wire_fini(&answer);
        wire_fini(&body);
    }
}

static void list(struct fc *c, uint8_t op)
{
    struct wire out;
    wire_init(&out);
    check(fc_list(c, op, NULL, NULL, &out).status == PS_OK, "a list");
    wire_fini(&out);
}

static void reset(struct fc *c, const char *container)
{
    uint64_t id = c->next_id++;
    struct fc_reply r = fc_reset(c, id, container);
    check(r.status == PS_OK, r.text);
    fc_ack(c, id);
}

static struct fc_reply chief(struct fc *c, uint32_t i)
{
    char container[16];
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    (void)snprintf(container, sizeof(container), "h%07u", i);
    PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
    return fc_list(c, PS_OP_CHIEF, &ps_v1_ContainerItem_msg, &m, NULL);
}

static struct fc_reply set_rate(struct fc *c)
{
    uint8_t meta[PS_META_BYTES_MAX];
    size_t bytes = 0;
    ps_v1_SetRate m = ps_v1_SetRate_init_zero;
    ps_v1_ContainerItem item = ps_v1_ContainerItem_init_zero;
    struct wire body;
    wire_init(&body);
    m.rate = 0.25;
    memset(meta, 0, sizeof(meta));
    PSI_IGNORE(psi_msg_encode(&ps_v1_SetRate_msg, &m, meta, sizeof(meta), &bytes, NULL)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(item.container, PSI_CONTAINER_DEFAULT));                     /* fits: a constant */
    wire_item(&body, &ps_v1_ContainerItem_msg, &item);
    struct fc_reply r = fc_call(c, PS_OP_SET_RATE, 0, c->next_id++, 0, meta, (uint32_t)psi_pad8((uint32_t)bytes), &body);
    wire_fini(&body);
    return r;
}

/* TASKS, as if this task were another process than the one that made its names. */
static void restarted(struct fc *c, struct psd_peer *p)
{
    p->restarts++;
    p->life++;
    list(c, PS_OP_TASKS);
    p->life--;
    p->restarts--;
}

/* All resets are due again at once, as after a disk that failed, and this task has answered none of them. */
static void try_again(struct psd_task *t, uint32_t peer)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->resets.all) {
        struct psd_reset *reset = PSI_CONTAINER_OF(it, struct psd_reset, link);
        reset->again_ms = 1;
        reset->owed[peer] = true;
    }
    turn(true);
    psd_resets_tick(t);
    turn(false);
}

/* Which names their owners have lost, and what each task has made: no disk is needed for that. */
static void look_at_names(struct psd_task *t)
{
    struct psd_saver saves = {.names = PSD_SAVER_NAMES_OPEN};
    struct psd_loader starts = {.peers = calloc(t->peer_count, sizeof(struct psd_loader_peer))};
    struct psd_saver *own_saves = t->saver;
    struct psd_loader *own_starts = t->loader;
    struct psi_err err;
    check(starts.peers != NULL, "memory");
    t->saver = &saves;
    t->loader = &starts;
    while (saves.names != PSD_SAVER_NAMES_CHECKED) {
        turn(true);
        ps_status st = psd_saver_check_names(t, &err);
        turn(false);
        check(st == PS_OK, err.text);
    }
    row("a checkpoint begins: have the owners all names");
    for (bool over = false; !over;) {
        turn(true);
        ps_status st = psd_loader_look_at_names(t, &over, &err);
        st = over && st == PS_OK ? psd_loader_list_own(t, &err) : st;
        turn(false);
        check(st == PS_OK, err.text);
    }
    row("a start is decided: what each task has made");
    t->saver = own_saves;
    t->loader = own_starts;
    psd_containers_fini(&starts.by_rounds);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        psd_loader_held_fini(t, &starts.peers[i]);
    }
    free(starts.peers);
}

static bool places_all(void *ctx, const char *container, uint64_t *out_start, bool *out_trained)
{
    (void)ctx;
    (void)container;
    *out_start = 1;
    *out_trained = false;
    return true;
}

static bool leaves_nothing_out(void *ctx, const char *container, const char *name)
{
    (void)ctx;
    (void)container;
    (void)name;
    return false;
}

static uint64_t random_number(void *ctx)
{
    return psd_random(ctx);
}

/* What `from` has is placed at a task without anything, as a checkpoint that was loaded is, and the directory forgets what names
 * `from` had there. `from` is only to be freed then. */
static void start_places(struct shell_net *net, struct psd_task *directory, struct shell_task *from)
{
    struct psd_task *to = task(net, 1, from->now)->core;
    const struct psd_placed how = {
        .start = 1, .wants = places_all, .leaves_out = leaves_nothing_out, .random = random_number, .ctx = to};
    struct psd_containers all = {.of = NULL};
    uint64_t cursor = 0;
    void *value = NULL;
    struct psi_err err;
    while (psi_map_next(&from->core->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        check(psd_containers_put(directory, &all, c->name, 1, &err) == PS_OK, "memory");
    }
    cursor = 0;
    while (psi_map_next(&from->core->records, &cursor, NULL, NULL, &value)) {
        psd_session_drop(from->core, value);
    }
    turn(true);
    psd_loader_forget_names(directory, &directory->peers[from->core->self], &all);
    turn(false);
    row("a start is placed: the directory forgets the names of a task");
    turn(true);
    check(psd_place(to, from->core, &how, &err) == PS_OK, err.text);
    turn(false);
    row("a start is placed: the variables of a task");
    psd_containers_fini(&all);
}

static void open_sessions(struct shell_task *t, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct fc c;
        fc_init(&c, t, 9);
        memcpy(c.session + 1, &i, sizeof(i));
        check(fc_connect(&c) == PS_OK, "one more session");
    }
}

/* ---- rounds ---- */

enum { SYNC_NAMES = 4000 /* of one frame */ };

/* A session of a worker. */
static void connect_worker(struct fc *c, struct shell_task *t)
{
    struct fc_hello hello;
    fc_init(c, t, 3);
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    check(fc_hello(c, &hello) == PS_OK, "a session of a worker");
}

/* What fc_call() says of a request with this meta and list. */
static struct fc_reply ask(struct fc *c, uint8_t op, uint16_t flags, uint64_t id, const pb_msgdesc_t *d, const void *m,
                           const struct wire *body)
{
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    PSI_IGNORE(psi_msg_encode(d, m, meta, sizeof(meta), &bytes, NULL)); /* fits */
    return fc_call(c, op, flags, id, 0, meta, (uint32_t)psi_pad8((uint32_t)bytes), body);
}

static struct fc_reply ask_container(struct fc *c, uint8_t op, const pb_msgdesc_t *d, const void *m)
{
    ps_v1_ContainerItem item = ps_v1_ContainerItem_init_zero;
    struct wire body;
    wire_init(&body);
    PSI_IGNORE(PSI_BYTES_SET(item.container, PSI_CONTAINER_DEFAULT)); /* fits: a constant */
    wire_item(&body, &ps_v1_ContainerItem_msg, &item);
    struct fc_reply r = ask(c, op, 0, c->next_id++, d, m, &body);
    wire_fini(&body);
    return r;
}

/* The variables at the second ps, the global step first: the odd ones of 2 * count names. */
static const char *name_in_group(uint32_t i)
{
    static char name[32];
    (void)snprintf(name, sizeof(name), "layer/%07u/weights", 2 * i - 1);
    return i == 0 ? "global_step" : name;
}

static void sync_group(struct fc *c, uint32_t count, const ps_v1_SyncOptions *options)
{
    ps_v1_Sync m = {.timeout_ms = 1000000, .has_options = true, .options = *options, .chief_number = 1000};
    const uint64_t id = c->next_id++;
    for (uint32_t at = 0; at <= count; at += SYNC_NAMES) {
        const bool more = at + SYNC_NAMES <= count;
        struct wire body;
        wire_init(&body);
        for (uint32_t i = at; i <= count && i < at + SYNC_NAMES; i++) {
            ps_v1_NameItem item = ps_v1_NameItem_init_zero;
            PSI_IGNORE(PSI_BYTES_SET(item.name, name_in_group(i))); /* fits */
            wire_item(&body, &ps_v1_NameItem_msg, &item);
        }
        struct fc_reply r = ask(c, PS_OP_SYNC, more ? PS_FLAG_MORE : 0, id, &ps_v1_Sync_msg, &m, &body);
        check(more || r.status == PS_OK, r.text);
        wire_fini(&body);
    }
}

/* One worker takes part in two rounds of a group of so many variables at one task. */
static void in_rounds(uint32_t count)
{
    struct shell_net net;
    struct fc c, at1, worker, worker1;
    const ps_v1_SyncOptions options = {.mode = PSD_SYNC_ROUNDS, .workers = 1};
    const ps_v1_Join join_with = {.timeout_ms = 1000000, .has_options = true, .options = options};
    uint32_t *handles = calloc(count + 1, sizeof(*handles));
    check(handles != NULL, "memory");
    shell_net_init(&net);
    net.check_every = UINT32_MAX;
    net.turn = turn;
    struct shell_task *ps0 = task(&net, 0, 1000000), *ps1 = task(&net, 1, 1000000);
    fc_init(&c, ps0, 1);
    fc_init(&at1, ps1, 1);
    check(fc_connect(&c) == PS_OK && fc_connect(&at1) == PS_OK, "sessions");
    check(join(&net, ps1, ps0) != NULL, "the second ps");
    connect_worker(&worker, ps0);
    connect_worker(&worker1, ps1);
    create(&c, 0, 2 * count, 1);
    ps_v1_CreateItem step_item;
    fc_create_item(&step_item, name_in_group(0), PS_I64, 1, ps_no_optimizer());
    step_item.task = 1;
    check(fc_create(&c, &step_item, NULL) == PS_OK, "CREATE");
    for (uint32_t i = 0; i <= count; i++) {
        const ps_optimizer *by = i == 0 ? ps_no_optimizer() : ps_sgd(0.5);
        ps_v1_OpenAnswer a;
        check(fc_open(&at1, name_in_group(i), &a) == PS_OK, "OPEN");
        handles[i] = a.handle;
        check(fc_init_var(&at1, a.handle, ps_zeros(), by, 0, false).status == PS_OK, "INIT");
    }
    longest_ms = 0;
    sync_group(&c, count, &options);
    row("SYNC of a group of a fifth of the names at one task");
    check(ask_container(&worker, PS_OP_JOIN, &ps_v1_Join_msg, &join_with).status == PS_OK, "JOIN");
    row("JOIN of that group");
    const struct psd_group *g = psd_group_find(ps0->core, PSI_CONTAINER_DEFAULT);
    ps_v1_Step step = {.timeout_ms = 1000000};
    step.member = PSI_CONTAINER_OF(psi_list_first(&g->members), struct psd_group_member, link)->id;
    for (step.round = 1; step.round <= 2; step.round++) {
        for (uint32_t i = 1; i <= count; i++) {
            const float one = 1;
            struct fc_part part = {.op = PS_OP_CONTRIBUTE,
                                   .dtype = PS_F32,
                                   .number = worker1.next_number++,
                                   .handle = handles[i],
                                   .total = 1,
                                   .payload = &one,
                                   .scale = 1,
                                   .member = step.member,
                                   .round = step.round};
            fc_send_frames(&worker1, &part, 0, 0);
            check(fc_take(&worker1, NULL).status == PS_OK, "CONTRIBUTE");
        }
        longest_ms = 0;
        check(ask_container(&worker, PS_OP_STEP, &ps_v1_Step_msg, &step).status == PS_OK, "STEP");
    }
    row("the end of a round of that group");
    sync_group(&c, count, &options);
    row("SYNC of that group again");
    free(handles);
    shell_net_fini(&net);
}

static uint32_t argument(int argc, char **argv, int i, uint32_t number)
{
    return argc > i ? (uint32_t)strtoul(argv[i], NULL, 10) : number;
}

int main(int argc, char **argv)
{
    const uint32_t names = argument(argc, argv, 1, 500000), containers = argument(argc, argv, 2, PS_CHIEFS_MAX),
                   sessions = argument(argc, argv, 3, 4096), resets = argument(argc, argv, 4, 1024);
    struct shell_net net;
    struct fc c, at1;
    psd_machine_keep_little(); /* as psd does */
    shell_net_init(&net);
    net.check_every = UINT32_MAX;
    net.turn = turn;
    struct shell_task *ps0 = task(&net, 0, 1000000), *ps1 = task(&net, 1, 1000000);
    fc_init(&c, ps0, 1);
    fc_init(&at1, ps1, 1);
    check(fc_connect(&c) == PS_OK && fc_connect(&at1) == PS_OK, "sessions");
    struct shell_conn *link = join(&net, ps1, ps0);
    check(link != NULL, "the second ps");
    (void)printf("%u names, %u containers, %u sessions, %u resets: the longest turn, ms of CPU\n", names, containers, sessions,
                 resets);
    longest_ms = 0;
    create(&c, 0, names, 1);
    row("CREATE of 500 each");
    list(&c, PS_OP_VARS);
    row("VARS, of half of the names");
    list(&c, PS_OP_INFO);
    row("INFO");
    list(&c, PS_OP_TASKS);
    row("TASKS");
    restarted(&c, &ps0->core->peers[ps1->core->self]);
    row("TASKS, when the other ps has restarted without its names");
    list(&c, PS_OP_CONTAINERS);
    row("CONTAINERS, one");
    struct fc_reply rate = set_rate(&at1);
    check(rate.status == PS_OK, rate.text);
    row("SET_RATE of a container with half of the names");
    for (uint32_t i = 2; i < resets; i++) { /* two more are below */
        char name[16];
        (void)snprintf(name, sizeof(name), "r%07u", i);
        reset(&c, name);
    }
    row("RESET, up to 1,024 that a task of another job is owed");
    create(&c, names, names + 4 * BATCH, 1);
    row("CREATE of 500 each beside these resets");
    try_again(ps0->core, ps1->core->self);
    row("a tick that asks a task for all these resets again");
    shell_cut(link);
    check(join(&net, ps1, ps0) != NULL, "the second ps");
    row("LIST of half of the names, either end, beside these resets");
    reset(&c, "");
    row("RESET of a container with all names");

    create(&c, 0, names, containers);
    row("CREATE of 500 each, in many containers");
    list(&c, PS_OP_CONTAINERS);
    row("CONTAINERS, all");
    reset(&c, "c0000000");
    row("RESET of one of many containers");
    look_at_names(ps0->core);
    for (uint32_t i = 0; i < containers; i++) {
        check(chief(&c, i).status == PS_OK, "a chief");
    }
    row("CHIEF of each of as many containers");
    open_sessions(ps0, sessions);
    row("HELLO of each session");
    shell_tick(&net, ps0->now + 25);
    row("a tick");
    shell_tick(&net, ps0->now + PS_LEASE_MS / 2);
    row("a tick after a pause of half a lease");
    shell_pass(&net, (uint64_t)3 * PS_LEASE_MS); /* the chief's lease ends */
    row("the end of these sessions' leases");
    fc_init(&c, ps0, 2);
    check(fc_connect(&c) == PS_OK, "a new session");
    longest_ms = 0;
    check(chief(&c, containers).status == PS_OK, "one more chief");
    row("CHIEF of one more container");
    start_places(&net, ps0->core, ps1);
    shell_net_fini(&net);
    in_rounds(names / 5);
    return 0;
}
