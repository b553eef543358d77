/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task under a hostile client: after a proper HELLO the input drives frames with right lengths and CRCs but any content, raw
 * bytes, cuts, reconnects and time. Whatever comes, the task keeps its invariants and a well-behaved session still works
 * afterwards.
 *
 * Input: commands of a kind byte each; kind % 8: 0-4 a frame (10 bytes of fields, then meta and body), 5 raw bytes, 6 cut and
 * HELLO again, 7 time passes, a call may end or a round be closed.
 */
#include "lib/fake_client.h"

#include "psd/rounds/rounds.h"

#include <string.h>

/* Of numbers; a work queue of strings; an accumulator. */
static void make_queue(struct fc *c, const char *name, uint32_t kind)
{
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.name, name)); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps"));
    m.has_queue = true;
    m.queue.kind = kind;
    m.queue.capacity = kind >= 3 ? -1 : 3;
    m.queue.epochs = kind == 3 ? 2 : 0;
    m.queue.reduction = kind == 4 ? 1 : 0;
    m.queue.components_count = 1;
    m.queue.components[0].dtype = kind == 4 ? PS_F64 : kind == 3 ? PS_STRING : PS_I64;
    m.queue.components[0].shaped = true;
    PSI_ASSERT(fc_create(c, &m, NULL) == PS_OK);
}

/* "r" is in rounds, and the hostile session is their member 1. */
static void begin_rounds(struct shell_task *t, const struct fc *member)
{
    static const char *const names[] = {"r"};
    struct psd_rounds_spec spec = {.container = PSI_CONTAINER_DEFAULT,
                                   .generation = 1,
                                   .options = {.mode = PSD_SYNC_ROUNDS, .workers = 1},
                                   .names = names,
                                   .name_count = 1};
    struct psd_member_spec m = {.id = 1, .session = member->session, .job = "worker"};
    PSI_ASSERT(psd_rounds_set_here(t->core, &spec, NULL) == PS_OK);
    PSI_ASSERT(psd_rounds_join_here(t->core, spec.container, spec.generation, &m, NULL) == PS_OK);
}

/* The directory closes the round that is collected, or prepares it, or has the member leave; who says what is no matter here. */
static void close_round(struct shell_task *t, uint8_t how)
{
    static const uint64_t members[] = {1};
    const struct psd_rounds *g = psd_rounds_here(t->core, PSI_CONTAINER_DEFAULT);
    if (g == NULL) {
        return;
    }
    struct psd_round_spec spec = {.container = PSI_CONTAINER_DEFAULT,
                                  .generation = 1,
                                  .round = g->committed + 1,
                                  .members = members,
                                  .member_count = how % 8 == 7 ? 0 : 1};
    if (how % 8 == 6) {
        psd_rounds_leave_here(t->core, PSI_CONTAINER_DEFAULT, 1, 1, 0, false);
    } else {
        PSI_IGNORE((how % 2 == 0 ? psd_rounds_commit_here : psd_rounds_prepare_here)(t->core, &spec, NULL)); /* or MISSING */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct input {
    const uint8_t *p;
    size_t n;
};

static uint8_t byte(struct input *in)
{
    if (in->n == 0) {
        return 0;
    }
    in->n--;
    return *in->p++;
}

static const uint8_t *take(struct input *in, size_t want, size_t *out_n)
{
    const uint8_t *p = in->p;
    *out_n = want < in->n ? want : in->n;
    in->p += *out_n;
    in->n -= *out_n;
    return p;
}

/* One setting that may change, one that may not. */
static char limit[16] = "10";

static bool config_row(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value,
                       const char **help, bool *reloadable)
{
    (void)ctx;
    *name = i == 0 ? "limit" : "address";
    *value = i == 0 ? limit : "h:1";
    *default_value = "10";
    *help = "";
    *reloadable = i == 0;
    return i < 2;
}

static ps_status config_set(void *shell, const char *name, const char *value, char *error, size_t error_bytes)
{
    (void)shell;
    (void)error_bytes;
    PSI_ASSERT(strcmp(name, "limit") == 0); /* the core lets nothing else through */
    error[0] = '\0';
    if (strlen(value) >= sizeof(limit)) {
        return PS_INVALID_ARGUMENT;
    }
    memcpy(limit, value, strlen(value) + 1);
    return PS_OK;
}

static const char *call_name(void *shell, uint32_t row)
{
    (void)shell;
    return row == 0 ? "c" : NULL;
}

static void with_settings(struct psd_task_config *config)
{
    config->call_name = call_name;
    config->calls_max = 3;
    config->config_row = config_row;
    config->config_set = config_set;
}

static void send_frame(struct fc *c, struct input *in)
{
    static const uint8_t ops[] = {PS_OP_HELLO,       PS_OP_GOODBYE,
                                  PS_OP_BEAT,        PS_OP_ABANDON,
                                  PS_OP_ACK,         PS_OP_PUSH,
                                  PS_OP_PULL,        PS_OP_PUSHPULL,
                                  PS_OP_ASSIGN,      PS_OP_ADD,
                                  PS_OP_OPEN,        PS_OP_INIT,
                                  PS_OP_SEAL,        PS_OP_WAIT,
                                  PS_OP_CREATE,      PS_OP_FIND,
                                  PS_OP_RESET,       PS_OP_DELETE,
                                  PS_OP_CHIEF,       PS_OP_WAIT_CLUSTER,
                                  PS_OP_INFO,        PS_OP_VARS,
                                  PS_OP_CONFIG,      PS_OP_LIST,
                                  PS_OP_TASK_CREATE, 99,
                                  PS_OP_SESSIONS,    PS_OP_WAITS,
                                  PS_OP_CONTAINERS,  PS_OP_CONFIG_SET,
                                  PS_OP_STOP,        PS_OP_TASKS,
                                  PS_OP_CALL,        PS_OP_BARRIER,
                                  PS_OP_ENQUEUE,     PS_OP_DEQUEUE,
                                  PS_OP_PUT_PART,    PS_OP_GET_PART,
                                  PS_OP_QUEUE_CLOSE, PS_OP_WORK_END,
                                  PS_OP_QUEUES,      PS_OP_SET_RATE,
                                  PS_OP_SET_STEP,    PS_OP_SYNC,
                                  PS_OP_JOIN,        PS_OP_STEP,
                                  PS_OP_LEAVE,       PS_OP_ROUNDS,
                                  PS_OP_CONTRIBUTE};
    static uint8_t zeros[3 * PS_SEGMENT_BYTES];
    struct wire w;
    size_t meta_bytes = 0, body_bytes = 0;
    uint8_t what = byte(in);
    uint8_t op = what == UINT8_MAX ? PS_OP_JOB_DONE : ops[what % sizeof(ops)]; /* the last: what older seeds say stays */
    uint8_t flags = byte(in) & PS_FLAG_KNOWN;
    uint8_t dtype = byte(in);
    uint8_t id = byte(in);
    uint8_t handle = byte(in);
    uint8_t offset = byte(in);
    uint8_t meta_want = byte(in) % 65;
    uint8_t body_kind = byte(in);
    const uint8_t *meta = take(in, meta_want, &meta_bytes);
    const uint8_t *body = take(in, body_kind, &body_bytes);
    bool segments = body_kind % 4 == 3 && op >= PS_OP_PUSH && op <= PS_OP_CONTRIBUTE;
    struct wire_frame f = {.op = op,
                           .dtype = dtype % 12,
                           .flags = flags,
                           .id = id,
                           .handle = handle % 11,
                           .offset = op == PS_OP_ACK ? offset % 3 : (uint64_t)offset * 16384,
                           .meta = meta,
                           .meta_bytes = (uint32_t)meta_bytes,
                           .payload = segments ? zeros : body,
                           .payload_bytes = segments ? (size_t)(body_kind / 4 % 4) * PS_SEGMENT_BYTES : body_bytes};
    wire_init(&w);
    wire_frame(&w, &f);
    shell_send(c->conn, &w);
    wire_fini(&w);
}

/* A session with a place in rounds. */
static ps_status connect_worker(struct fc *c)
{
    struct fc_hello hello;
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    return fc_hello(c, &hello);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input in = {.p = data, .n = bytes};
    struct shell_net net;
    struct fc bad, good;
    shell_net_init(&net);
    ps_status started = PS_OK;
    struct shell_task *t = shell_task_new(&net, "ps=h:1", "ps", 0, 1, 1000, with_settings, &started);
    PSI_ASSERT(t != NULL && started == PS_OK);
    fc_init(&good, t, 1);
    fc_init(&bad, t, 2);
    PSI_ASSERT(fc_connect(&good) == PS_OK);
    ps_optimizer sgd = {.kind = PS_OPT_SGD, .learning_rate = 1};
    ps_optimizer none = {.kind = PS_OPT_NONE};
    ps_v1_OpenAnswer mine = fc_ready(&good, "mine", PS_F64, 1, &none, 0); /* handle 1 */
    (void)fc_ready(&good, "w", PS_F32, 40000, &sgd, 1);                   /* handle 2: three segments */
    (void)fc_ready(&good, "n", PS_I64, 4, &none, 1);                      /* handle 3 */
    ps_v1_CreateItem item;
    ps_v1_OpenAnswer a;
    ps_initializer zeros = {.kind = PS_INIT_ZEROS};
    fc_create_item(&item, "atomic", PS_F32, 40000, &sgd); /* handle 4 */
    item.atomic = true;
    PSI_ASSERT(fc_create(&good, &item, NULL) == PS_OK && fc_open(&good, "atomic", &a) == PS_OK);
    PSI_ASSERT(fc_init_var(&good, a.handle, &zeros, &sgd, 0, false).status == PS_OK);
    fc_create_item(&item, "text", PS_STRING, 3, &none); /* handle 5 */
    PSI_ASSERT(fc_create(&good, &item, NULL) == PS_OK && fc_open(&good, "text", &a) == PS_OK);
    PSI_ASSERT(fc_init_var(&good, a.handle, &zeros, &none, 0, false).status == PS_OK);
    for (uint32_t kind = 1; kind <= 4; kind++) { /* queues: handles 6 to 9 */
        const char *const names[] = {"", "fifo", "shuffle", "work", "sums"};
        make_queue(&good, names[kind], kind);
    }
    (void)fc_ready(&good, "r", PS_F32, 2 * PS_SEGMENT_BYTES / 4, &sgd, 1); /* handle 10 */
    begin_rounds(t, &bad);
    (void)fc_ready(&good, "global_step", PS_I64, 1, &none, 0); /* handle 11 */
    if (connect_worker(&bad) == PS_OK) {
        for (int commands = 0; in.n > 0 && commands < 200; commands++) {
            uint8_t kind = byte(&in) % 8;
            size_t n = 0;
            if (kind < 5) {
                send_frame(&bad, &in);
            } else if (kind == 5) {
                struct wire w;
                const uint8_t *raw = take(&in, byte(&in), &n);
                wire_init(&w);
                wire_append(&w, raw, n);
                shell_send(bad.conn, &w);
                wire_fini(&w);
            } else if (kind == 6) {
                fc_cut(&bad);
                (void)connect_worker(&bad);
            } else {
                uint8_t steps = byte(&in);
                if (steps >= 248) {
                    close_round(t, steps);
                }
                shell_tick(&net, t->now + (uint64_t)steps * 8);
                if (t->call_count > 0 && steps % 2 == 1) { /* a call is over, cancelled or not */
                    shell_finish(t, steps % t->call_count, steps % 4 == 1 ? PS_OK : PS_ABORTED, "result", steps % 4 == 1 ? 6 : 0,
                                 "failed");
                }
            }
            if (shell_is_closed(bad.conn)) {
                (void)connect_worker(&bad);
            }
            psd_task_check_invariants(t->core);
        }
    }
    /* somebody else is not disturbed; the hostile client had every right to reset or delete, so the variable may be another now
     */
    if (shell_is_closed(good.conn)) {
        PSI_ASSERT(fc_connect(&good) == PS_OK);
    }
    ps_v1_OpenAnswer again;
    ps_v1_InfoAnswer info;
    PSI_ASSERT(fc_info(&good, &info) == PS_OK);
    PSI_ASSERT(fc_list(&good, PS_OP_SESSIONS, NULL, NULL, NULL).status == PS_OK);
    PSI_ASSERT(fc_list(&good, PS_OP_WAITS, NULL, NULL, NULL).status == PS_OK);
    if (fc_open(&good, "mine", &again) == PS_OK && again.creation == mine.creation && again.initialised) {
        double one = 1;
        struct fc_reply r = fc_push(&good, PS_OP_ADD, &again, &one, 1, 0);
        PSI_ASSERT(r.status == PS_OK && r.result_bytes == sizeof(one));
    }
    shell_net_fini(&net);
    return 0;
}
