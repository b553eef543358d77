/* SPDX-License-Identifier: Apache-2.0 */
/* Golden frames of rounds: a contribution, the requests of members and of the directory, what administration sees. */
#ifndef TESTS_GOLDEN_ROUND_FRAMES_H
#define TESTS_GOLDEN_ROUND_FRAMES_H

#include "queue_frames.h"

#define ROUND_MEMBER UINT64_C(0x8877665544332211)
#define ROUND_GENERATION UINT64_C(0x0102030405060708)
#define ROUND_TRAINING UINT64_C(0x1122334455667788)

static inline void contribute(struct wire *out)
{
    static const float g[3] = {1, -2, 0.5F};
    struct psi_outq q;
    struct ps_contribute_meta m = {.total_elements = 3, .scale = 0.5F, .member = ROUND_MEMBER, .round = 7};
    struct ps_frame_header h = header_of(PS_OP_CONTRIBUTE, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 50, 5);
    h.dtype = PS_F32;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, g, sizeof(g), true), PS_OK);
    drain(&q, out);
}

/* Rows 1 and 2 of a variable of one column. */
static inline void contribute_rows(struct wire *out)
{
    struct {
        uint64_t indices[2];
        float rows[2];
    } body = {{1, 2}, {0.5F, -2}};
    struct psi_outq q;
    struct ps_contribute_rows_meta m = {.rows = 2, .highest = 2, .scale = 0.5F, .member = ROUND_MEMBER, .round = 7};
    struct ps_frame_header h = header_of(PS_OP_CONTRIBUTE_ROWS, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 53, 5);
    h.dtype = PS_F32;
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push_body(&q, &h, &m, &body, sizeof(body), true), PS_OK);
    drain(&q, out);
}

static inline ps_v1_SyncOptions golden_sync(void)
{
    return (ps_v1_SyncOptions){.mode = 1, .workers = 3, .replicas = 2, .on_loss = 1, .staleness = 4};
}

/* A request or an answer with a meta (d NULL: none) and a list of one kind. */
static inline void round_frame(struct wire *out, uint8_t op, uint16_t flags, uint64_t id, const pb_msgdesc_t *d, const void *m,
                               struct psi_buf *body)
{
    struct ps_frame_header h = header_of(op, flags, id, 0);
    control(out, &h, d, m, body);
    psi_buf_fini(body);
}

static inline void sync_request(struct wire *out)
{
    ps_v1_NameItem names[2] = {ps_v1_NameItem_init_zero, ps_v1_NameItem_init_zero};
    PSI_IGNORE(PSI_BYTES_SET(names[0].name, "global_step")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(names[1].name, "w"));
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_NameItem_msg, &names[0]);
    list_add(&body, &ps_v1_NameItem_msg, &names[1]);
    ps_v1_Sync m = {.timeout_ms = 60000, .has_options = true, .options = golden_sync(), .chief_number = 3};
    round_frame(out, PS_OP_SYNC, 0, 51, &ps_v1_Sync_msg, &m, &body);
}

/* An embedding is in rounds by rows. */
static inline void sync_rows(struct wire *out)
{
    ps_v1_NameItem names[2] = {ps_v1_NameItem_init_zero, ps_v1_NameItem_init_zero};
    PSI_IGNORE(PSI_BYTES_SET(names[0].name, "global_step")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(names[1].name, "table"));
    names[1].rows = true;
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_NameItem_msg, &names[0]);
    list_add(&body, &ps_v1_NameItem_msg, &names[1]);
    ps_v1_Sync m = {.timeout_ms = 60000, .has_options = true, .options = golden_sync(), .chief_number = 3};
    m.options.rows_per_step = 4096;
    m.options.rows_mean = 1;
    round_frame(out, PS_OP_SYNC, 0, 54, &ps_v1_Sync_msg, &m, &body);
}

/* Its list goes on. */
static inline void sync_more(struct wire *out)
{
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(name.name, "global_step")); /* fits */
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_NameItem_msg, &name);
    ps_v1_Sync m = {.timeout_ms = 60000, .has_options = true, .options = golden_sync(), .chief_number = 3};
    round_frame(out, PS_OP_SYNC, PS_FLAG_MORE, 51, &ps_v1_Sync_msg, &m, &body);
}

/* Of a chief that has finished, whose session was made anew. */
static inline void sync_again(struct wire *out)
{
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(name.name, "global_step")); /* fits */
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_NameItem_msg, &name);
    ps_v1_Sync m = {.has_options = true, .options = golden_sync(), .finished = true, .training = ROUND_TRAINING};
    round_frame(out, PS_OP_SYNC, 0, 57, &ps_v1_Sync_msg, &m, &body);
}

/* The list of one container that JOIN, STEP and LEAVE have. */
static inline void container_list(struct psi_buf *body)
{
    ps_v1_ContainerItem item = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(item.container, "localhost")); /* fits */
    psi_buf_init(body, PS_CONTROL_BODY_MAX);
    list_add(body, &ps_v1_ContainerItem_msg, &item);
}

static inline void join_request(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_Join m = {.timeout_ms = 60000, .has_options = true, .options = golden_sync()};
    round_frame(out, PS_OP_JOIN, 0, 52, &ps_v1_Join_msg, &m, &body);
}

/* Of a process that was a member of that training. */
static inline void join_again(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_Join m = {.timeout_ms = 60000, .has_options = true, .options = golden_sync(), .training = ROUND_TRAINING};
    round_frame(out, PS_OP_JOIN, 0, 52, &ps_v1_Join_msg, &m, &body);
}

static inline void join_answer(struct wire *out)
{
    ps_v1_JoinAnswer m = {.member = ROUND_MEMBER,
                          .round = 7,
                          .step = 106,
                          .has_options = true,
                          .options = golden_sync(),
                          .generation = ROUND_GENERATION,
                          .steps = 9};
    list_frame(out, PS_OP_JOIN, PS_FLAG_REPLY, 52, &ps_v1_JoinAnswer_msg, &m, sizeof(m), 1);
}

static inline void join_answer_again(struct wire *out)
{
    ps_v1_JoinAnswer m = {.member = ROUND_MEMBER, .round = 1, .generation = ROUND_GENERATION, .training = ROUND_TRAINING};
    list_frame(out, PS_OP_JOIN, PS_FLAG_REPLY, 52, &ps_v1_JoinAnswer_msg, &m, sizeof(m), 1);
}

static inline void step_request(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_Step m = {.timeout_ms = 60000, .member = ROUND_MEMBER, .round = 7, .steps = 12};
    round_frame(out, PS_OP_STEP, 0, 53, &ps_v1_Step_msg, &m, &body);
}

static inline void step_first(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_Step m = {.timeout_ms = 600000, .member = ROUND_MEMBER, .round = 1, .open_timeout_ms = 60000};
    round_frame(out, PS_OP_STEP, 0, 78, &ps_v1_Step_msg, &m, &body);
}

static inline void step_reply(struct wire *out)
{
    struct psi_outq q;
    struct {
        struct ps_reply_meta reply;
        struct ps_step_result result;
    } m = {.reply = {.durable = 41, .result_bytes = sizeof(m.result)},
           .result = {.round = 8, .step = 107, .taken = 1, .flags = PS_STEP_LOST_PLACE}};
    struct ps_frame_header h = header_of(PS_OP_STEP, PS_FLAG_REPLY, 53, 0);
    h.meta_bytes = sizeof(m);
    psi_outq_init(&q);
    assert_int_equal(psi_outq_push(&q, &h, &m, NULL), PS_OK);
    drain(&q, out);
}

static inline void leave_request(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_Leave m = {.member = ROUND_MEMBER, .finished = true};
    round_frame(out, PS_OP_LEAVE, 0, 54, &ps_v1_Leave_msg, &m, &body);
}

static inline void rounds_answer(struct wire *out)
{
    ps_v1_RoundAnswer r = ps_v1_RoundAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(r.container, "localhost")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(r.text, "1 of 2 members is complete"));
    PSI_IGNORE(PSI_BYTES_SET(r.owners, "/job:ps/task:1"));
    r.generation = ROUND_GENERATION;
    r.has_options = true;
    r.options = golden_sync();
    r.round = 7;
    r.phase = 2;
    r.step = 106;
    r.workers = 3;
    r.replicas = 2;
    r.dropped = 5;
    r.leads_count = 17;
    r.leads[0] = 11;
    r.leads[16] = 1;
    r.member_count = 1;
    ps_v1_MemberAnswer m = ps_v1_MemberAnswer_init_zero;
    m.member = ROUND_MEMBER;
    PSI_IGNORE(PSI_BYTES_SET(m.job, "worker"));
    PSI_IGNORE(PSI_BYTES_SET(m.host, "host.example"));
    m.session.size = 8;
    memcpy(m.session.bytes, half_session, 8);
    m.task = 2;
    m.pid = 4711;
    m.state = 2;
    m.since_ms = 1500;
    m.steps = 12;
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_RoundAnswer_msg, &r);
    list_add(&body, &ps_v1_MemberAnswer_msg, &m);
    round_frame(out, PS_OP_ROUNDS, PS_FLAG_REPLY, 55, NULL, NULL, &body);
}

/* Of a directory that was restarted. */
static inline void rounds_unknown(struct wire *out)
{
    ps_v1_RoundAnswer r = ps_v1_RoundAnswer_init_zero;
    ps_v1_MemberAnswer m = ps_v1_MemberAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(r.container, "localhost")); /* these fit */
    r.member_count = 1;
    m.member = ROUND_MEMBER;
    PSI_IGNORE(PSI_BYTES_SET(m.job, "worker"));
    m.state = 1;
    m.unheard = true;
    m.steps_unknown = true;
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_RoundAnswer_msg, &r);
    list_add(&body, &ps_v1_MemberAnswer_msg, &m);
    round_frame(out, PS_OP_ROUNDS, PS_FLAG_REPLY, 55, NULL, NULL, &body);
}

/* Of a member with bounded staleness. */
static inline void member_beat(struct wire *out)
{
    ps_v1_Beat m = {.global_step = 107, .member = ROUND_MEMBER, .member_steps = 12};
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 101, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

static inline void ages_answer(struct wire *out)
{
    ps_v1_AgeAnswer m = ps_v1_AgeAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    m.ages_count = 17;
    m.ages[0] = 300;
    m.ages[2] = 1;
    list_frame(out, PS_OP_AGES, PS_FLAG_REPLY, 56, &ps_v1_AgeAnswer_msg, &m, sizeof(m), 1);
}

/* ---- between tasks ---- */

/* With a limit on the norm of each variable. */
static inline void join_limit(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_Join m = {.timeout_ms = 60000, .has_options = true, .options = golden_sync()};
    m.options.max_norm = 1.5;
    m.options.max_norm_each = true;
    round_frame(out, PS_OP_JOIN, 0, 52, &ps_v1_Join_msg, &m, &body);
}

static inline ps_v1_RoundsItem golden_group(void)
{
    ps_v1_RoundsItem m = ps_v1_RoundsItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    m.generation = ROUND_GENERATION;
    return m;
}

static inline ps_v1_MemberItem golden_member(void)
{
    ps_v1_MemberItem m = ps_v1_MemberItem_init_zero;
    m.member = ROUND_MEMBER;
    PSI_IGNORE(PSI_BYTES_SET(m.job, "worker")); /* fits */
    m.task = 2;
    m.session.size = 16;
    memcpy(m.session.bytes, half_session, 8);
    memset(m.session.bytes + 8, 9, 8);
    return m;
}

static inline void task_rounds(struct wire *out)
{
    ps_v1_RoundsItem m = golden_group();
    m.has_options = true;
    m.options = golden_sync();
    m.owner_count = 1;
    m.step = true;
    ps_v1_TaskItem owner = ps_v1_TaskItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(owner.job, "ps")); /* these fit */
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(name.name, "global_step"));
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_RoundsItem_msg, &m);
    list_add(&body, &ps_v1_TaskItem_msg, &owner);
    list_add(&body, &ps_v1_NameItem_msg, &name);
    round_frame(out, PS_OP_TASK_ROUNDS, 0, 60, NULL, NULL, &body);
}

/* A frame of its list that is not the first one, and not the last. */
static inline void task_rounds_more(struct wire *out)
{
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(name.name, "w")); /* fits */
    list_frame(out, PS_OP_TASK_ROUNDS, PS_FLAG_MORE, 60, &ps_v1_NameItem_msg, &name, sizeof(name), 1);
}

static inline void task_join(struct wire *out)
{
    ps_v1_RoundsItem m = golden_group();
    m.round = 1;
    m.life = 0x99;
    m.awaited = 3;
    ps_v1_MemberItem member = golden_member();
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_RoundsItem_msg, &m);
    list_add(&body, &ps_v1_MemberItem_msg, &member);
    round_frame(out, PS_OP_TASK_JOIN, 0, 61, NULL, NULL, &body);
}

static inline void task_leave(struct wire *out)
{
    ps_v1_RoundsItem m = golden_group();
    m.round = 7;
    m.life = 0x99;
    m.over = true;
    ps_v1_MemberItem member = golden_member();
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_RoundsItem_msg, &m);
    list_add(&body, &ps_v1_MemberItem_msg, &member);
    round_frame(out, PS_OP_TASK_LEAVE, 0, 63, NULL, NULL, &body);
}

/* An order for round 7, of an attempt or decided; more: with what else it says. */
static inline void close_with(struct wire *out, uint8_t op, ps_v1_RoundsItem more)
{
    ps_v1_RoundsItem m = golden_group();
    m.round = 7;
    m.life = 0x99;
    m.attempt = 3;
    m.set_rate = more.set_rate;
    m.rate = more.rate;
    m.round_step = more.round_step;
    m.factor = more.factor;
    ps_v1_MemberItem member = golden_member();
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_RoundsItem_msg, &m);
    list_add(&body, &ps_v1_MemberItem_msg, &member);
    round_frame(out, op, 0, 61, NULL, NULL, &body);
}

static inline void prepare_with(struct wire *out, ps_v1_RoundsItem more)
{
    close_with(out, PS_OP_PREPARE, more);
}

/* With the factor of all averages. */
static inline void build(struct wire *out)
{
    close_with(out, PS_OP_BUILD, (ps_v1_RoundsItem){.round_step = 1876, .factor = 0.25});
}

static inline void commit_factor(struct wire *out)
{
    close_with(out, PS_OP_COMMIT, (ps_v1_RoundsItem){.round_step = 1876, .factor = 0.25});
}

static inline void prepare(struct wire *out)
{
    prepare_with(out, (ps_v1_RoundsItem){0});
}

/* With another learning rate. */
static inline void prepare_rate(struct wire *out)
{
    prepare_with(out, (ps_v1_RoundsItem){.set_rate = true, .rate = 0.125});
}

/* At the global step 1875. */
static inline void prepare_step(struct wire *out)
{
    prepare_with(out, (ps_v1_RoundsItem){.round_step = 1876});
}

/* For a round to take along. */
static inline void set_rate_in_rounds(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_SetRate m = {.rate = 0.125, .token = ROUND_TRAINING};
    round_frame(out, PS_OP_SET_RATE, 0, 28, &ps_v1_SetRate_msg, &m, &body);
}

static inline void prepare_missing(struct wire *out)
{
    ps_v1_PrepareAnswer m = ps_v1_PrepareAnswer_init_zero;
    m.member = ROUND_MEMBER;
    PSI_IGNORE(PSI_BYTES_SET(m.name, "w")); /* fits */
    m.count = 2;
    list_frame(out, PS_OP_PREPARE, PS_FLAG_REPLY, 61, &ps_v1_PrepareAnswer_msg, &m, sizeof(m), 1);
}

/* The sums of squares of two variables. */
static inline void prepare_sums(struct wire *out)
{
    const ps_v1_PrepareAnswer m[2] = {{.order = 3, .squares = 2.5}, {.order = 5, .squares = 1e-300}};
    list_frame(out, PS_OP_PREPARE, PS_FLAG_REPLY, 61, &ps_v1_PrepareAnswer_msg, m, sizeof(m[0]), 2);
}

/* Behind the names: a group that has committed a round with a factor. */
static inline void list_factor(struct wire *out)
{
    ps_v1_ListItem m = ps_v1_ListItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    m.has_group = true;
    m.group.generation = ROUND_GENERATION;
    m.group.has_options = true;
    m.group.options = (ps_v1_SyncOptions){.mode = 1, .workers = 3, .max_norm = 1.5};
    m.group.round = 6;
    m.group.factor = 0.25;
    list_frame(out, PS_OP_LIST, 0, 62, &ps_v1_ListItem_msg, &m, sizeof(m), 1);
}

/* Behind the names: a group that is prepared, its owner, a member whose contribution is complete. */
static inline void list_group(struct wire *out)
{
    ps_v1_ListItem m[3] = {ps_v1_ListItem_init_zero, ps_v1_ListItem_init_zero, ps_v1_ListItem_init_zero};
    for (size_t i = 0; i < 3; i++) {
        PSI_IGNORE(PSI_BYTES_SET(m[i].container, "localhost")); /* fits */
    }
    m[0].has_group = true;
    m[0].group.generation = ROUND_GENERATION;
    m[0].group.has_options = true;
    m[0].group.options = golden_sync();
    m[0].group.round = 6;
    m[0].group.life = 0x99;
    m[0].group.attempt = 3;
    m[1].has_owner = true;
    PSI_IGNORE(PSI_BYTES_SET(m[1].owner.job, "ps")); /* fits */
    m[2].has_member = true;
    m[2].member = golden_member();
    m[2].member.round = 7;
    m[2].member.complete = true;
    m[2].member.taken = 1;
    list_frame(out, PS_OP_LIST, 0, 62, &ps_v1_ListItem_msg, m, sizeof(m[0]), 3);
}

#endif
