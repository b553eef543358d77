/* SPDX-License-Identifier: Apache-2.0 */
/* ROUNDS and AGES: what worker/core/control_list.c makes of their answers. */
#include "fake_test.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2;worker=c:1,c:2,c:3"

static void add(struct psi_buf *body, const pb_msgdesc_t *d, const void *m)
{
    assert_int_equal(psi_list_append(body, d, m, NULL), PS_OK);
}

struct seen {
    char text[1024];
    uint32_t ages;
};

static void see_round(void *ctx, const ps_round_info *r)
{
    char *text = ((struct seen *)ctx)->text;
    size_t at = strlen(text);
    snprintf(text + at, sizeof(((struct seen *)ctx)->text) - at, "%s %d/%u r%llu p%d s%llu %u:%u d%llu [%s|%s] %llu..%llu; ",
             r->container, (int)r->options.mode, r->options.staleness, (unsigned long long)r->round, (int)r->phase,
             (unsigned long long)r->step, r->workers, r->replicas, (unsigned long long)r->dropped, r->waits_for, r->owners,
             (unsigned long long)r->leads[0], (unsigned long long)r->leads[16]);
}

static void see_member(void *ctx, const ps_member_info *m)
{
    char *text = ((struct seen *)ctx)->text;
    size_t at = strlen(text);
    snprintf(text + at, sizeof(((struct seen *)ctx)->text) - at, "%s%u %llu %s '%s' %d for %llu; ", m->job, m->task,
             (unsigned long long)m->member, m->host, m->id, (int)m->state, (unsigned long long)m->since_ms);
}

static void see_age(void *ctx, const ps_age_info *a)
{
    struct seen *seen = ctx;
    seen->ages++;
    assert_string_equal(a->container, "left");
    assert_true(a->ages[0] == 5 && a->ages[1] == 1 && a->ages[2] == 0);
}

static void list(enum psi_request_kind kind, uint8_t op, const struct psi_buf *body, struct seen *seen, ps_status status)
{
    static struct psi_list_sink sink; /* it lives as long as the request */
    sink = (struct psi_list_sink){.round = see_round, .member = see_member, .age = see_age, .ctx = seen};
    struct fake *f = fake_new(SPEC, "", 0, false);
    memset(seen, 0, sizeof(*seen));
    const struct fake_request *asked = fake_begin(f, kind, NULL, NULL, &sink, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_reply(f, 0, op, fake_take(f, 0, op)->h.id, false, &(struct fake_answer){.body = body});
    assert_done(asked, status);
}

TEST(test_rounds_list)
{
    struct seen seen;
    struct psi_buf body;
    ps_v1_RoundAnswer r = ps_v1_RoundAnswer_init_zero;
    ps_v1_MemberAnswer m = ps_v1_MemberAnswer_init_zero;
    psi_buf_init(&body, 16384);
    PSI_BYTES_SET(r.container, "left");
    r.options = (ps_v1_SyncOptions){.mode = 1, .on_loss = 2};
    r.has_options = true;
    r.round = 7;
    r.phase = 2;
    r.step = 6;
    r.workers = 3;
    r.replicas = 2;
    r.dropped = 4;
    r.member_count = 2;
    PSI_BYTES_SET(r.text, "worker 2");
    PSI_BYTES_SET(r.owners, "ps 1");
    add(&body, &ps_v1_RoundAnswer_msg, &r);
    m.member = 55;
    PSI_BYTES_SET(m.job, "worker");
    PSI_BYTES_SET(m.host, "there");
    memset(m.session.bytes, 0xab, 8);
    m.session.size = 8;
    m.state = 2;
    m.since_ms = 30;
    add(&body, &ps_v1_MemberAnswer_msg, &m);
    m = (ps_v1_MemberAnswer)ps_v1_MemberAnswer_init_zero; /* a place that nobody has */
    PSI_BYTES_SET(m.job, "worker");
    m.task = 2;
    m.state = 3;
    add(&body, &ps_v1_MemberAnswer_msg, &m);
    PSI_BYTES_SET(r.container, "right");
    r.options = (ps_v1_SyncOptions){.mode = 2, .staleness = 4};
    r.leads_count = 17;
    r.leads[0] = 9;
    r.leads[16] = 1;
    r.member_count = 0;
    add(&body, &ps_v1_RoundAnswer_msg, &r);
    list(PSI_REQ_ROUNDS, PS_OP_ROUNDS, &body, &seen, PS_OK);
    assert_string_equal(seen.text, "left 1/0 r7 p2 s6 3:2 d4 [worker 2|ps 1] 0..0; worker0 55 there 'abababababababab' 2 for 30; "
                                   "worker2 0  '' 3 for 0; right 2/4 r7 p2 s6 3:2 d4 [worker 2|ps 1] 9..1; ");
    r.member_count = 1; /* and none follows */
    add(&body, &ps_v1_RoundAnswer_msg, &r);
    list(PSI_REQ_ROUNDS, PS_OP_ROUNDS, &body, &seen, PS_INTERNAL);
    psi_buf_clear(&body);
    r.member_count = 0;
    r.phase = 7;
    add(&body, &ps_v1_RoundAnswer_msg, &r);
    list(PSI_REQ_ROUNDS, PS_OP_ROUNDS, &body, &seen, PS_INTERNAL);
    psi_buf_clear(&body);
    r.phase = 1;
    r.member_count = 1;
    m.state = 6;
    add(&body, &ps_v1_RoundAnswer_msg, &r);
    add(&body, &ps_v1_MemberAnswer_msg, &m);
    list(PSI_REQ_ROUNDS, PS_OP_ROUNDS, &body, &seen, PS_INTERNAL);
    psi_buf_fini(&body);
}

TEST(test_ages_list)
{
    struct seen seen;
    struct psi_buf body;
    ps_v1_AgeAnswer m = ps_v1_AgeAnswer_init_zero;
    psi_buf_init(&body, 4096);
    PSI_BYTES_SET(m.container, "left");
    m.ages_count = 2;
    m.ages[0] = 5;
    m.ages[1] = 1;
    add(&body, &ps_v1_AgeAnswer_msg, &m);
    list(PSI_REQ_AGES, PS_OP_AGES, &body, &seen, PS_OK);
    assert_int_equal(seen.ages, 1);
    psi_buf_fini(&body);
}
