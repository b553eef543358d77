/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks among hostile neighbours: two connections that claim to be one session, one that claims to be a task at the directory,
 * one that claims to be the directory at a task; peers that do not read, cuts, pauses, and allocations that fail. Frames are well
 * formed, what they say is not. Whatever comes, both tasks keep their invariants (the fake shell checks them after every event)
 * and serve afterwards.
 *
 * Input: commands of a kind byte each. kind % 8: 0-3 a frame on connection kind % 4 (see send_frame), 4 reopen or cut a
 * connection, 5 time passes, 6 how a connection reads and writes, 7 an allocation will fail.
 */
#include "lib/fake_client.h"

#include "common/mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { CLIENT, SAME_CLIENT, TASK, DIRECTORY, CONNS, COMMANDS_MAX = 150 };

struct input {
    const uint8_t *p;
    size_t n;
};

struct scene {
    struct shell_net net;
    struct shell_task *directory, *other; /* ps:0; ps:1, which dials */
    struct fc ends[CONNS];                /* the hostile sides; DIRECTORY: other's connection that the test answers */
    uint64_t connection;
};

static uint8_t byte(struct input *in)
{
    if (in->n == 0) {
        return 0;
    }
    in->n--;
    return *in->p++;
}

static const char *name_of(uint8_t i)
{
    static const char *const names[] = {"a", "b", "c", "a/b", "..", ""};
    return names[i % 6];
}

static const char *container_of(uint8_t i)
{
    static const char *const containers[] = {"", "localhost", "other", "x/../y"};
    return containers[i % 4];
}

static const char *job_of(uint8_t i)
{
    static const char *const jobs[] = {"ps", "worker", "nobody", ""};
    return jobs[i % 4];
}

static ps_v1_RoundsItem rounds_of(uint8_t a, uint8_t b)
{
    ps_v1_RoundsItem m = ps_v1_RoundsItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, container_of(b))); /* fits */
    m.generation = a % 3 + 1u;
    m.has_options = a < 250;
    m.options = (ps_v1_SyncOptions){.mode = b / 4 % 4, .workers = b / 16 % 3, .replicas = a / 3 % 3, .on_loss = a / 9 % 4};
    m.round = b % 5;
    m.life = b % 2;
    m.attempt = a % 4;
    m.owner_count = b / 64;
    m.step = a >= 128;
    return m;
}

static ps_v1_MemberItem member_of(uint8_t a, uint8_t b)
{
    ps_v1_MemberItem m = ps_v1_MemberItem_init_zero;
    m.member = a % 5;
    PSI_IGNORE(PSI_BYTES_SET(m.job, job_of(b))); /* fits */
    m.task = b / 4 % 3;
    m.session.size = b < 250 ? 16 : 3;
    memset(m.session.bytes, 7, sizeof(m.session.bytes)); /* of both clients */
    m.round = a / 5 % 4;
    m.complete = a >= 128;
    m.taken = b >= 128;
    return m;
}

/* Of groups: as LIST has them, as a directory orders (kind 29: the group, then members), as PREPARE is answered. */
static void add_rounds_item(struct wire *body, uint8_t kind, bool first, uint8_t a, uint8_t b)
{
    ps_v1_RoundsItem group = rounds_of(a, b);
    ps_v1_MemberItem member = member_of(a, b);
    if (kind == 28 || (kind == 29 && first)) {
        wire_item(body, &ps_v1_RoundsItem_msg, &group);
    } else if (kind == 29) {
        wire_item(body, &ps_v1_MemberItem_msg, &member);
    } else {
        ps_v1_ListItem m = ps_v1_ListItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.container, container_of(b))); /* these fit */
        m.has_saved = b == UINT8_MAX;
        m.saved = (ps_v1_SavedItem){.number = a % 5, .state = a / 5 % 5};
        m.has_group = a % 3 == 0;
        m.has_owner = a % 3 == 1;
        m.has_member = a % 3 == 2;
        m.group = group;
        m.member = member;
        m.owner.task = a / 3 % 3;
        PSI_IGNORE(PSI_BYTES_SET(m.owner.job, job_of(b / 4)));
        wire_item(body, &ps_v1_ListItem_msg, &m);
    }
}

static bool is_save(uint8_t op)
{
    return op == PS_OP_TASK_CUT || op == PS_OP_TASK_MANIFEST || op == PS_OP_TASK_DROP || op == PS_OP_CHECKPOINT_DELETE ||
           op == PS_OP_CHECKPOINT_RESTORE || op == PS_OP_TASK_SAVED;
}

/* Of checkpoints: as the directory asks, as a task answers. */
static void add_save_item(struct wire *body, bool first, struct input *in)
{
    uint8_t a = byte(in), b = byte(in);
    if (first) {
        ps_v1_SaveItem m = ps_v1_SaveItem_init_zero;
        m.number = a % 5;
        m.file_count = b % 4;
        PSI_IGNORE(PSI_BYTES_SET(m.cluster_name, b < 200 ? "psd" : "other")); /* fits */
        wire_item(body, &ps_v1_SaveItem_msg, &m);
    } else {
        ps_v1_FileItem m = ps_v1_FileItem_init_zero;
        m.kind = a % 4;
        m.index = b;
        PSI_IGNORE(PSI_BYTES_SET(m.container, container_of(b))); /* fits */
        wire_item(body, &ps_v1_FileItem_msg, &m);
    }
}

static bool is_start(uint8_t op)
{
    return op == PS_OP_TASK_LOAD || op == PS_OP_TASK_PLACE;
}

static void add_start_item(struct wire *body, struct input *in)
{
    uint8_t a = byte(in), b = byte(in);
    ps_v1_StartItem m = ps_v1_StartItem_init_zero;
    m.number = a % 5;
    m.start = b % 3;
    m.state_bytes = (uint64_t)(b % 4) * 65536;
    PSI_IGNORE(PSI_BYTES_SET(m.container, b < 100 ? "" : container_of(b))); /* fits */
    wire_item(body, &ps_v1_StartItem_msg, &m);
}

/* One message of a list, its fields from the input. */
static void add_item(struct wire *body, uint8_t kind, bool first, struct input *in)
{
    uint8_t a = byte(in), b = byte(in);
    if (kind == 31) {
        ps_v1_ConfigItem m = ps_v1_ConfigItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.name, name_of(a)));
        PSI_IGNORE(PSI_BYTES_SET(m.value, container_of(b)));
        wire_item(body, &ps_v1_ConfigItem_msg, &m);
        return;
    }
    if (kind >= 28) {
        add_rounds_item(body, kind, first, a, b);
        return;
    }
    switch (kind % 9) {
    case 0: {
        ps_v1_CreateItem m;
        ps_optimizer opt = {.kind = b % 6, .learning_rate = 1, .initial_accumulator = 0.1, .beta1 = 0.9, .beta2 = 0.99};
        fc_create_item(&m, name_of(a), (ps_dtype)(b % 7), (uint64_t)(a / 8) * 1000 + 1, &opt);
        PSI_IGNORE(PSI_BYTES_SET(m.container, container_of(a / 6))); /* these fit */
        PSI_IGNORE(PSI_BYTES_SET(m.job, job_of(b / 6)));
        m.task = b / 24 % 3;
        m.pinned = b >= 128;
        wire_item(body, &ps_v1_CreateItem_msg, &m);
        break;
    }
    case 1: {
        ps_v1_NameItem m = ps_v1_NameItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.container, container_of(b)));
        PSI_IGNORE(PSI_BYTES_SET(m.name, name_of(a)));
        wire_item(body, &ps_v1_NameItem_msg, &m);
        break;
    }
    case 2: {
        ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.container, container_of(a)));
        wire_item(body, &ps_v1_ContainerItem_msg, &m);
        break;
    }
    case 3: {
        ps_v1_ListItem m = ps_v1_ListItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.container, container_of(b)));
        PSI_IGNORE(PSI_BYTES_SET(m.name, name_of(a)));
        m.dtype = b / 4 % 8;
        m.optimizer_kind = b / 32;
        m.dims_count = (pb_size_t)(a / 6 % 3);
        m.dims[0] = a / 18;
        m.dims[1] = 3;
        wire_item(body, &ps_v1_ListItem_msg, &m);
        break;
    }
    case 4: {
        ps_v1_HandleItem m = {.handle = a % 5, .creation = b};
        wire_item(body, &ps_v1_HandleItem_msg, &m);
        break;
    }
    case 5: {
        ps_v1_TaskItem m = ps_v1_TaskItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.job, job_of(a)));
        m.task = b % 3;
        wire_item(body, &ps_v1_TaskItem_msg, &m);
        break;
    }
    case 6: {
        ps_v1_UnresolvedItem m = {.number = a, .abandoned = b % 2 == 1};
        wire_item(body, &ps_v1_UnresolvedItem_msg, &m);
        break;
    }
    case 7: {
        ps_v1_HelloAnswer m = ps_v1_HelloAnswer_init_zero;
        m.protocol = 1;
        m.life = a % 4;
        wire_item(body, &ps_v1_HelloAnswer_msg, &m);
        break;
    }
    default: /* bytes of any kind */
        wire_append(body, &a, 1);
        wire_append(body, &b, 1);
        break;
    }
}

static void hello_meta(const struct scene *s, int which, struct input *in, uint8_t *meta, size_t *n)
{
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    uint8_t a = byte(in);
    m.protocol = 1;
    m.session.size = 16;
    memset(m.session.bytes, 7, 16); /* of both clients */
    m.connection = s->connection - a % 2;
    m.next_number = a / 2 % 64;
    m.role = which == TASK ? 1 : 0;
    m.record = s->ends[CLIENT].record;
    if (which == TASK) {
        PSI_IGNORE(PSI_BYTES_SET(m.job, a < 200 ? "worker" : "ps"));
        m.life = a;
        m.chief_number = a;
    }
    PSI_IGNORE(psi_msg_encode(&ps_v1_Hello_msg, &m, meta, PS_META_BYTES_MAX, n, NULL)); /* it fits */
}

/* op, flags, id, handle, dtype and offset, then the items or values of the body. */
static void send_frame(struct scene *s, int which, struct input *in)
{
    static const uint8_t client_ops[] = {
        PS_OP_HELLO,    PS_OP_GOODBYE, PS_OP_BEAT,     PS_OP_ABANDON,  PS_OP_ACK,   PS_OP_PUSH,         PS_OP_PULL,
        PS_OP_PUSHPULL, PS_OP_ASSIGN,  PS_OP_ADD,      PS_OP_OPEN,     PS_OP_INIT,  PS_OP_SEAL,         PS_OP_WAIT,
        PS_OP_CREATE,   PS_OP_FIND,    PS_OP_RESET,    PS_OP_DELETE,   PS_OP_CHIEF, PS_OP_WAIT_CLUSTER, PS_OP_INFO,
        PS_OP_VARS,     PS_OP_CONFIG,  PS_OP_SHUTDOWN, PS_OP_SESSIONS, PS_OP_WAITS, PS_OP_CONTAINERS,   PS_OP_CONFIG_SET,
        PS_OP_STOP,     PS_OP_TASKS,   PS_OP_BARRIER,  PS_OP_SET_RATE, PS_OP_SYNC,  PS_OP_JOIN,         PS_OP_STEP,
        PS_OP_LEAVE,    PS_OP_ROUNDS};
    static const uint8_t task_ops[] = {PS_OP_HELLO,      PS_OP_BEAT,        PS_OP_LIST,  PS_OP_LIST_ANSWER, PS_OP_TASK_CREATE,
                                       PS_OP_TASK_RESET, PS_OP_TASK_DELETE, 99,          PS_OP_TASK_ROUNDS, PS_OP_TASK_JOIN,
                                       PS_OP_TASK_LEAVE, PS_OP_PREPARE,     PS_OP_COMMIT};
    static uint8_t values[3 * PS_SEGMENT_BYTES];
    struct fc *c = &s->ends[which];
    struct wire w, body;
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t meta_bytes = 0;
    uint8_t what = byte(in);
    uint8_t op = which <= SAME_CLIENT ? client_ops[what % sizeof(client_ops)] : task_ops[what % sizeof(task_ops)];
    if (what == UINT8_MAX) { /* the last: what older seeds say stays */
        op = which <= SAME_CLIENT ? PS_OP_JOB_DONE : PS_OP_TASK_DONE;
    } else if (what >= UINT8_MAX - 6) { /* likewise */
        static const uint8_t saves[][2] = {
            {PS_OP_CHECKPOINT, PS_OP_TASK_CUT},          {PS_OP_CHECKPOINTS, PS_OP_TASK_MANIFEST},
            {PS_OP_CHECKPOINT, PS_OP_TASK_DROP},         {PS_OP_CHECKPOINT_READ, PS_OP_TASK_LOAD},
            {PS_OP_CHECKPOINT_DELETE, PS_OP_TASK_PLACE}, {PS_OP_CHECKPOINT_RESTORE, PS_OP_TASK_SAVED}};
        op = saves[UINT8_MAX - 1 - what][which <= SAME_CLIENT ? 0 : 1];
    }
    uint8_t flags = byte(in), id = byte(in), mix = byte(in), count = byte(in);
    if (c->conn == NULL || shell_is_closed(c->conn)) {
        return;
    }
    wire_init(&w);
    wire_init(&body);
    if (op >= PS_OP_PUSH && op <= PS_OP_ADD) {
        struct ps_push_meta m = {.total_elements = 40000, .scale = 1, .assign_flags = mix / 64};
        m.total_elements = mix % 8 == 0 ? 4 : 40000;
        memcpy(meta, &m, sizeof(m));
        meta_bytes = op == PS_OP_PULL ? 8 : (flags & PS_FLAG_FIRST) != 0 ? sizeof(m) : 0;
        wire_append(&body, values,
                    op == PS_OP_PULL ? 0
                    : count % 4 == 3 ? 160000 - 2 * PS_SEGMENT_BYTES
                                     : (size_t)(count % 4) * PS_SEGMENT_BYTES);
    } else {
        if (op == PS_OP_HELLO && (flags & PS_FLAG_REPLY) == 0) {
            hello_meta(s, which, in, meta, &meta_bytes);
        } else if ((flags & PS_FLAG_REPLY) != 0) {
            meta_bytes = sizeof(struct ps_reply_meta) + 8;
            meta[24] = 1; /* result bytes */
            meta[40] = mix % 3;
        } else {
            meta_bytes = mix % 4;
            meta[0] = 0x10;
            meta[1] = mix % 3;
        }
        for (uint8_t i = 0; i < count % 8; i++) {
            if (is_save(op)) {
                add_save_item(&body, i == 0 && (flags & PS_FLAG_REPLY) == 0, in);
            } else if (is_start(op)) {
                add_start_item(&body, in);
            } else {
                add_item(&body, count / 8, i == 0, in);
            }
        }
    }
    struct wire_frame f = {.op = op,
                           .dtype = mix / 8 % 6,
                           .flags = flags & (PS_FLAG_KNOWN & ~PS_FLAG_VALUE),
                           .id = id,
                           .handle = mix % 4,
                           .meta = meta};
    f.offset = (flags & PS_FLAG_REPLY) != 0 ? (uint64_t)(mix % 18) : (uint64_t)(mix % 3) * 16384;
    f.meta_bytes = (uint32_t)meta_bytes;
    f.payload = body.data;
    f.payload_bytes = body.len;
    PSI_IGNORE(wire_frame(&w, &f));
    shell_send(c->conn, &w);
    shell_forget(c->conn);
    wire_fini(&body);
    wire_fini(&w);
}

/* Connect anew and say HELLO, or only cut. */
static void reopen(struct scene *s, int which, uint8_t how)
{
    struct fc *c = &s->ends[which];
    if (c->conn != NULL && (which != SAME_CLIENT || how % 2 == 0)) {
        shell_cut(c->conn);
        c->conn = NULL;
    }
    if (how % 4 == 3) {
        return;
    }
    s->connection++;
    if (which == DIRECTORY) {
        if (s->other->dials == 1) {
            c->conn = shell_dial_test(s->other);
        }
        return;
    }
    struct fc_hello h;
    fc_hello_default(c, &h);
    memset(h.m.session.bytes, 7, 16);
    h.m.connection = s->connection;
    h.m.record = s->ends[CLIENT].record;
    if (which == TASK) {
        h.m.role = 1;
        h.m.life = how;
        PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    }
    if (fc_hello(c, &h) == PS_OK && which <= SAME_CLIENT) {
        s->ends[CLIENT].record = c->record;
    }
    if (c->conn != NULL) {
        shell_forget(c->conn);
    }
}

static void change_pace(struct shell_conn *c, uint8_t how)
{
    static const size_t pieces[] = {0, 1, 41, 1000, 65536};
    if (c == NULL || shell_is_closed(c)) {
        return;
    }
    c->piece = pieces[how % 5];
    c->write_most = pieces[how / 5 % 5];
    if (how >= 200) {
        c->stuck = true;
    } else if (c->stuck) {
        shell_unstick(c);
    }
    if (how % 16 == 15) {
        c->frozen = true;
    } else if (c->frozen) {
        shell_thaw(c);
    }
}

static void little_room(struct psd_task_config *config)
{
    config->memory_budget_bytes = 1 << 20;
    config->segment_buffers_max = 2;
    config->pushes_in_progress_max = 6;
    config->sessions_max = 2;
    config->has_disk = true;
    config->checkpoint_memory_bytes = 1 << 20;
}

/* Whatever was asked of the disks has ended so; there is nothing on them. */
static void end_disk_operations(const struct scene *s, ps_status st)
{
    struct shell_task *tasks[] = {s->directory, s->other};
    for (int i = 0; i < 2; i++) {
        while (tasks[i]->disk_count > 0) {
            bool list = tasks[i]->disk[0].kind == PSD_DISK_LIST;
            shell_disk_done(tasks[i], list ? PS_OK : st, 0, st == PS_OK ? "" : "full");
        }
    }
}

static void serves(struct shell_task *t, uint8_t id)
{
    struct fc c;
    ps_v1_InfoAnswer info;
    fc_init(&c, t, id);
    ps_status st = fc_connect(&c);
    PSI_ASSERT(st == PS_OK || st == PS_RESOURCE_EXHAUSTED); /* sessions_max */
    if (st == PS_OK) {
        PSI_ASSERT(fc_info(&c, &info) == PS_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input in = {.p = data, .n = bytes};
    struct scene s;
    ps_status st = PS_OK;
    memset(&s, 0, sizeof(s));
    shell_net_init(&s.net);
    s.directory = shell_task_new(&s.net, "ps=h:1,h:2;worker=h:3", "ps", 0, 1, 1000, little_room, &st);
    s.other = shell_task_new(&s.net, "ps=h:1,h:2;worker=h:3", "ps", 1, 2, 1000, little_room, &st);
    PSI_ASSERT(s.directory != NULL && s.other != NULL);
    for (int i = 0; i < CONNS; i++) {
        fc_init(&s.ends[i], i == DIRECTORY ? s.other : s.directory, 7);
    }
    shell_run(&s.net);
    end_disk_operations(&s, PS_OK);
    shell_tick(&s.net, 1100);
    /* the first byte: who is there to begin with */
    uint8_t begin = byte(&in);
    if (begin % 2 == 0 && s.other->dials == 1) {
        PSI_IGNORE(shell_dial(s.other, s.directory)); /* the true one */
    }
    for (int i = 0; i < CONNS; i++) {
        if ((begin >> (i + 1)) % 2 == 0) {
            reopen(&s, i, 0);
        }
    }
    for (int commands = 0; in.n > 0 && commands < COMMANDS_MAX; commands++) {
        uint8_t kind = byte(&in) % 8;
        if (kind < 4) {
            send_frame(&s, kind, &in);
        } else if (kind == 4) {
            uint8_t which = byte(&in);
            reopen(&s, which % CONNS, which / CONNS);
        } else if (kind == 5) {
            uint8_t ticks = byte(&in);
            shell_tick(&s.net, s.directory->now + 20u * ticks);
            end_disk_operations(&s, ticks % 8 == 7 ? PS_RESOURCE_EXHAUSTED : PS_OK);
        } else if (kind == 6) {
            uint8_t which = byte(&in);
            change_pace(s.ends[which % CONNS].conn, byte(&in));
        } else {
            psi_mem_fail_after(byte(&in));
        }
    }
    psi_mem_fail_after(-1);
    end_disk_operations(&s, PS_OK);
    for (int i = 0; i < CONNS; i++) { /* nobody holds a segment buffer any more */
        fc_cut(&s.ends[i]);
    }
    serves(s.directory, 50);
    serves(s.other, 51);
    shell_net_fini(&s.net);
    return 0;
}
