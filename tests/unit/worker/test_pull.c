/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/pull.c and the values of PUSHPULL: chunks, exactness, reconnects, refusals, deadlines. */
#include "test.h"
#include "fake_test.h"
#include "worker/core/client.h"
#include "../../lib/wire.h"

#include "worker/core/client.h"
#include "worker/core/rows.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2"
enum { SMALL = 10, FRAME = PS_VALUES_FRAME_BYTES / 4, PAIR = PSI_PAIR_FRAME_BYTES / 4 };

static float *filled(uint64_t n, float first)
{
    float *p = test_alloc(n * sizeof(float));
    for (uint64_t i = 0; i < n; i++) {
        p[i] = first + (float)(i % 1000);
    }
    return p;
}

static struct fake_frame take_pull(struct fake *f, uint64_t first, uint32_t elements)
{
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PULL);
    struct ps_pull_meta m;
    memcpy(&m, frame->meta, sizeof(m));
    assert_true(frame->h.offset == first && m.elements == elements && frame->h.handle == 9);
    struct fake_frame copy = *frame;
    copy.payload = NULL;
    return copy;
}

TEST(test_small)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *now = filled(SMALL, 3);
    float *dst = filled(SMALL, 0);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
    struct fake_frame ask = take_pull(f, 0, SMALL);
    assert_true((ask.h.flags & PS_FLAG_CRC) != 0); /* the reply's segments will have CRCs as well */
    fake_values(f, 0, &ask, false, 0, now, SMALL * 4, 12, 1);
    assert_int_equal(pull->req.status, PS_OK);
    assert_int_equal(pull->dones, 1);
    assert_true(pull->req.exact && pull->req.version == 12); /* one segment: always exact */
    assert_memory_equal(dst, now, SMALL * 4);
}

/* float32 that is read as bfloat16 in one segment has two of its own: what adds to it, or pushes wide, may be half in. */
TEST(test_narrow)
{
    enum { TWO = 2 * PS_SEGMENT_BYTES / 4 };
    static const uint16_t now[TWO];
    for (uint32_t in_progress = 0; in_progress < 2; in_progress++) {
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_var *w = fake_get(f, 0, "w", TWO, 9, 1);
        w->wire = PS_BF16;
        float *dst = filled(TWO, 1);
        struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
        struct fake_frame ask = take_pull(f, 0, TWO);
        fake_values(f, 0, &ask, false, 0, now, sizeof(now), 12, in_progress);
        assert_done(pull, PS_OK);
        assert_int_equal(pull->req.exact, in_progress == 0);
        assert_true(dst[0] == 0 && dst[TWO - 1] == 0);
    }
}

/* Ten chunks, eight at a time; the versions decide about exact. */
static void pull_chunks(uint64_t odd_version, uint32_t in_progress, bool exact)
{
    enum { N = 9 * FRAME + 100 };
    struct fake f;
    struct fake_request pull;
    struct fake_frame ask[10];
    fake_init(&f, SPEC, "", 0, false);
    struct psi_var *w = fake_get(&f, 0, "w", N, 9, 1);
    float *now = filled(N, 3);
    float *dst = filled(N, 0);
    fake_start(&f, &pull, PSI_REQ_PULL, w, NULL, dst, 1000);
    for (uint32_t i = 0; i < 8; i++) {
        ask[i] = take_pull(&f, (uint64_t)i * FRAME, FRAME);
    }
    assert_null(fake_next(&f, 0));
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t n = i < 9 ? FRAME : 100;
        fake_values(&f, 0, &ask[i], false, 0, now + (size_t)i * FRAME, n * 4, i == 3 ? odd_version : 12,
                    i == 2 ? in_progress : 0);
        if (i < 2) {
            ask[i + 8] = take_pull(&f, (uint64_t)(i + 8) * FRAME, i == 0 ? FRAME : 100);
        }
        assert_int_equal(pull.dones, i == 9 ? 1 : 0);
    }
    assert_int_equal(pull.req.status, PS_OK);
    assert_int_equal(pull.req.exact, exact);
    assert_memory_equal(dst, now, (size_t)N * 4);
    fake_fini(&f);
}

TEST(test_chunks)
{
    pull_chunks(12, 0, true);
    pull_chunks(13, 0, false);
    pull_chunks(12, 1, false);
}

/* Small reads that go on and on have all chunks: the next that is free is the large one's. */
TEST(test_large_one_among_many_small_ones)
{
    enum { READS = 80, CHUNKS = 64 };
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *small = fake_get(f, 0, "w", SMALL, 9, 1);
    struct psi_var *large = fake_get(f, 0, "large", FRAME + 1, 10, 2);
    float *now = filled(FRAME + 1, 3);
    static float dst[READS][SMALL];
    float *values = filled(FRAME + 1, 0);
    for (uint32_t i = 0; i < READS; i++) {
        fake_begin(f, PSI_REQ_PULL, small, NULL, dst[i], 100000);
    }
    struct fake_frame ask = take_pull(f, 0, SMALL);
    for (uint32_t i = 1; i < CHUNKS; i++) {
        (void)take_pull(f, 0, SMALL);
    }
    assert_null(fake_next(f, 0));
    fake_begin(f, PSI_REQ_PULL, large, NULL, values, 100000);
    assert_null(fake_next(f, 0));
    fake_values(f, 0, &ask, false, 0, now, SMALL * 4, 12, 0);
    assert_int_equal(fake_take(f, 0, PS_OP_PULL)->h.handle, 10);
    fake_wait(f, 100001);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* After 5 s it is said where a read stands: asked for, or behind others. */
TEST(test_slow_ones_say_where_they_stand)
{
    enum { CHUNKS = 64 };
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *small = fake_get(f, 0, "w", SMALL, 9, 1);
    struct psi_var *large = fake_get(f, 0, "large", FRAME + 1, 10, 2);
    float *values = filled(FRAME + 1, 0), *now = filled(FRAME + 1, 3);
    static float dst[CHUNKS][SMALL];
    for (uint32_t i = 0; i < CHUNKS; i++) {
        fake_begin(f, PSI_REQ_PULL, small, NULL, dst[i], 16000);
    }
    struct fake_frame ask = take_pull(f, 0, SMALL);
    fake_wait(f, 2000);
    fake_begin(f, PSI_REQ_PULL, large, NULL, values, 16000);
    fake_wait(f, 3500);
    assert_non_null(strstr(f->last_log, "pull of 'w'"));
    assert_non_null(strstr(f->last_log, "its values have been asked for, and have not all come"));
    fake_values(f, 0, &ask, false, 0, now, SMALL * 4, 12, 0);
    fake_wait(f, 5000); /* the next line about pulls: of those that are told of for the first time */
    assert_non_null(strstr(f->last_log, "pull of 'large'"));
    assert_non_null(strstr(f->last_log, "it waits for what goes to the task before it"));
    fake_wait(f, 16000);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* The interrupted chunk and those behind it are asked for again, whole, under new numbers; what is complete stays. */
TEST(test_reconnect)
{
    enum { N = 3 * FRAME };
    struct fake_frame ask[3];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", N, 9, 1);
    float *now = filled(N, 3);
    float *dst = filled(N, 0);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        ask[i] = take_pull(f, (uint64_t)i * FRAME, FRAME);
    }
    fake_values(f, 0, &ask[0], false, 0, now, FRAME * 4, 12, 0);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame again = take_pull(f, FRAME, FRAME);
    assert_true(again.h.id > ask[2].h.id);
    struct fake_frame last = take_pull(f, 2 * FRAME, FRAME);
    assert_null(fake_next(f, 0));
    fake_values(f, 0, &again, false, 0, now + FRAME, FRAME * 4, 12, 0);
    fake_values(f, 0, &last, false, 0, now + 2 * FRAME, FRAME * 4, 12, 0);
    assert_int_equal(pull->req.status, PS_OK);
    assert_memory_equal(dst, now, (size_t)N * 4);
}

/* After the callback the memory is not touched: values that come late are read and dropped. */
TEST(test_deadline)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *now = filled(SMALL, 3);
    float *dst = calloc(SMALL, sizeof(*dst)); /* not by test_alloc(): it goes while the case runs */
    float *mine = filled(SMALL, 0);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
    struct fake_frame ask = take_pull(f, 0, SMALL);
    fake_wait(f, 1001);
    assert_int_equal(pull->req.status, PS_DEADLINE_EXCEEDED);
    assert_int_equal(pull->req.applied, PS_NOTHING_APPLIED);
    free(dst);
    struct fake_request *next = fake_begin(f, PSI_REQ_PULL, w, NULL, mine, 1000);
    fake_values(f, 0, &ask, false, 0, now, SMALL * 4, 12, 0);
    assert_int_equal(next->dones, 0);
    ask = take_pull(f, 0, SMALL);
    fake_values(f, 0, &ask, false, 0, now, SMALL * 4, 12, 0);
    assert_int_equal(next->req.status, PS_OK);
    assert_memory_equal(mine, now, SMALL * 4);
}

/* ---- values go straight to the caller's memory ---- */

enum { SEGMENT = PS_SEGMENT_BYTES / 4, THREE = 2 * SEGMENT + 100 };

/* The answer to `ask` as bytes: head, then segments of PS_SEGMENT_BYTES + 8. Returns where the first segment begins. */
static size_t answer_bytes(struct wire *w, const struct fake_frame *ask, bool value, const float *values, size_t n)
{
    struct ps_pull_reply_meta m = {.version = 12};
    struct ps_pull_trailer t = {.version = 12};
    struct wire_frame frame = {.op = ask->h.op,
                               .dtype = ask->h.dtype,
                               .flags = (uint16_t)(PS_FLAG_REPLY | PS_FLAG_CRC | (value ? PS_FLAG_SEQ | PS_FLAG_VALUE : 0)),
                               .id = ask->h.id,
                               .meta = &m,
                               .meta_bytes = sizeof(m),
                               .payload = values,
                               .payload_bytes = n * 4,
                               .trailer = &t};
    wire_init(w);
    return wire_frame(w, &frame) + PS_FRAME_HEADER_BYTES + sizeof(m);
}

static bool all_are(const float *p, size_t n, float value)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != value) {
            return false;
        }
    }
    return true;
}

/* A deadline while values arrive: after the callback nothing more is written, the rest is read and dropped, the connection goes
 * on. cut: of the answer, what has come by then. */
static void ends_while_values_arrive(enum psi_request_kind kind, size_t cut)
{
    struct fake f;
    struct fake_request r, next;
    struct wire w;
    fake_init(&f, SPEC, "", 0, true);
    struct psi_var *var = fake_get(&f, 0, "w", THREE, 9, 1);
    float *now = filled(THREE, 3);
    float *grad = filled(THREE, 1);
    float *dst = filled(THREE, 0);
    float *mine = filled(THREE, 0);
    fake_start(&f, &r, kind, var, grad, dst, 1000);
    struct fake_frame ask = kind == PSI_REQ_PULL ? take_pull(&f, 0, THREE) : *fake_take(&f, 0, PS_OP_PUSHPULL);
    size_t body = answer_bytes(&w, &ask, kind == PSI_REQ_PUSH_PULL, now, THREE);
    f.deliveries = 0; /* the next one is read in place */
    fake_bytes(&f, 0, w.data, body);
    f.deliveries = 0;
    fake_bytes(&f, 0, w.data + body, cut);
    assert_memory_equal(dst, now, cut < PS_SEGMENT_BYTES ? cut : PS_SEGMENT_BYTES); /* it was on its way there */
    fake_wait(&f, 1001);
    assert_int_equal(r.dones, 1);
    assert_int_equal(r.req.status, PS_DEADLINE_EXCEEDED);
    for (size_t i = 0; i < THREE; i++) {
        dst[i] = -7;
    }
    fake_bytes(&f, 0, w.data + body + cut, w.len - body - cut);
    assert_true(all_are(dst, THREE, -7));
    assert_int_equal(f.task[0].closes, 0);
    if (kind == PSI_REQ_PUSH_PULL) {
        struct fake_answer gone = {.status = PS_ABORTED, .text = "abandoned"};
        fake_reply(&f, 0, PS_OP_PUSHPULL, ask.h.id, true, &gone);
        assert_int_equal(fake_take(&f, 0, PS_OP_ABANDON)->h.id, ask.h.id);
    }
    fake_start(&f, &next, PSI_REQ_PULL, var, NULL, mine, 1000);
    ask = take_pull(&f, 0, THREE);
    fake_values(&f, 0, &ask, false, 0, now, THREE * 4, 12, 0);
    assert_int_equal(next.req.status, PS_OK);
    assert_memory_equal(mine, now, THREE * 4);
    assert_true(all_are(dst, THREE, -7));
    wire_fini(&w);
    fake_fini(&f);
}

TEST(test_nothing_is_written_after_the_end)
{
    static const size_t cuts[] = {4, 1000, PS_SEGMENT_BYTES - 4, PS_SEGMENT_BYTES, PS_SEGMENT_BYTES + 4, PS_SEGMENT_BYTES + 5000};
    for (size_t i = 0; i < ARRAY_COUNT(cuts); i++) {
        ends_while_values_arrive(PSI_REQ_PULL, cuts[i]);
        ends_while_values_arrive(PSI_REQ_PUSH_PULL, cuts[i]);
    }
}

/* Damaged bytes are in the caller's memory by then: the request is not done, and what it reports in the end is right. */
static void damaged_in_place(uint32_t first_delivery, size_t where)
{
    struct fake f;
    struct fake_request pull;
    struct wire w;
    fake_init(&f, SPEC, "", 0, true);
    struct psi_var *var = fake_get(&f, 0, "w", THREE, 9, 1);
    float *now = filled(THREE, 3);
    float *dst = filled(THREE, 0);
    fake_start(&f, &pull, PSI_REQ_PULL, var, NULL, dst, 1000);
    struct fake_frame ask = take_pull(&f, 0, THREE);
    size_t body = answer_bytes(&w, &ask, false, now, THREE);
    w.data[body + where] ^= 1;
    fake_bytes(&f, 0, w.data, body);
    f.deliveries = first_delivery;
    fake_bytes(&f, 0, w.data + body, w.len - body);
    assert_int_equal(pull.dones, 0);
    assert_int_equal(f.task[0].closes, 1);
    assert_non_null(strstr(f.last_log, "BAD_CRC"));
    fake_hello(&f, 0, 100, 200, NULL, NULL);
    ask = take_pull(&f, 0, THREE);
    fake_values(&f, 0, &ask, false, 0, now, THREE * 4, 13, 0);
    assert_int_equal(pull.dones, 1);
    assert_int_equal(pull.req.status, PS_OK);
    assert_true(pull.req.version == 13);
    assert_memory_equal(dst, now, THREE * 4);
    wire_fini(&w);
    fake_fini(&f);
}

TEST(test_damaged_in_place)
{
    for (uint32_t way = 0; way < 2; way++) {
        damaged_in_place(way, 12);
        damaged_in_place(way, PS_SEGMENT_BYTES + 8 + 70);
        damaged_in_place(way, 2 * (PS_SEGMENT_BYTES + 8) + 401); /* the last CRC itself */
    }
}

/* A connection that breaks while values arrive: the same request gets them on the next one, whole. */
TEST(test_cut_in_place)
{
    struct wire w;
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *var = fake_get(f, 0, "w", THREE, 9, 1);
    float *now = filled(THREE, 3);
    float *later = filled(THREE, 5);
    float *dst = filled(THREE, 0);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, var, NULL, dst, 1000);
    struct fake_frame ask = take_pull(f, 0, THREE);
    size_t body = answer_bytes(&w, &ask, false, now, THREE);
    f->deliveries = 0;
    fake_bytes(f, 0, w.data, body);
    fake_bytes(f, 0, w.data + body, PS_SEGMENT_BYTES + 1000);
    fake_cut(f, 0);
    assert_int_equal(pull->dones, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    ask = take_pull(f, 0, THREE);
    fake_values(f, 0, &ask, false, 0, later, THREE * 4, 13, 0);
    assert_int_equal(pull->req.status, PS_OK);
    assert_memory_equal(dst, later, THREE * 4);
    wire_fini(&w);
}

TEST(test_refused)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *dst = filled(SMALL, 0);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
    struct fake_answer busy = {.status = PS_RESOURCE_EXHAUSTED, .text = "busy"};
    fake_reply(f, 0, PS_OP_PULL, take_pull(f, 0, SMALL).h.id, false, &busy);
    assert_int_equal(pull->dones, 0);
    fake_wait(f, 100);
    fake_reply(f, 0, PS_OP_PULL, take_pull(f, 0, SMALL).h.id, false,
               &(struct fake_answer){.status = PS_FAILED_PRECONDITION, .text = "UNINITIALIZED 'w'"});
    assert_int_equal(pull->req.status, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(pull->err.text, "UNINITIALIZED"));
}

TEST(test_bad_size)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *dst = filled(SMALL + 8, 0);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
    struct fake_frame ask = take_pull(f, 0, SMALL);
    fake_values(f, 0, &ask, false, 0, dst, (SMALL + 8) * 4, 1, 0);
    assert_int_equal(f->task[0].closes, 1);
    assert_int_equal(pull->dones, 0);
}

TEST(test_push_pull)
{
    enum { N = PAIR + 6 };
    struct fake_frame frame[2];
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", N, 9, 1);
    float *grad = filled(N, 1);
    float *now = filled(N, 3);
    float *dst = filled(N, 0);
    struct fake_request *both = fake_begin(f, PSI_REQ_PUSH_PULL, w, grad, dst, 1000);
    for (uint32_t i = 0; i < 2; i++) {
        frame[i] = *fake_take(f, 0, PS_OP_PUSHPULL);
        assert_int_equal(frame[i].h.offset, i * PAIR); /* a short frame: its values come while the next one goes */
        frame[i].payload = NULL;
    }
    fake_values(f, 0, &frame[0], true, 0, now, PAIR * 4, 4, 1);
    fake_values(f, 0, &frame[1], true, PAIR, now + PAIR, 6 * 4, 5, 0);
    assert_int_equal(both->dones, 0); /* a value frame is no acknowledgement */
    struct fake_answer a = {.version = 5};
    fake_reply(f, 0, PS_OP_PUSHPULL, 1, true, &a);
    assert_done(both, PS_OK);
    assert_true(both->req.version == 5);
    assert_memory_equal(dst, now, (size_t)N * 4);
}

/* Values that a disconnect has cost come by PULL, once the push is known to be applied. */
TEST(test_push_pull_reconnect)
{
    enum { N = PAIR + 6 };
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", N, 9, 1);
    float *grad = filled(N, 1);
    float *now = filled(N, 3);
    float *dst = filled(N, 0);
    struct fake_request *both = fake_begin(f, PSI_REQ_PUSH_PULL, w, grad, dst, 1000);
    struct fake_frame first = *fake_take(f, 0, PS_OP_PUSHPULL);
    fake_values(f, 0, &first, true, 0, now, PAIR * 4, 4, 1);
    fake_cut(f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_APPLIED, 0, 0, 5}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    assert_int_equal(both->dones, 0);
    struct fake_frame ask = take_pull(f, PAIR, 6);
    fake_values(f, 0, &ask, false, 0, now + PAIR, 6 * 4, 5, 0);
    assert_int_equal(both->req.status, PS_OK);
    assert_memory_equal(dst, now, (size_t)N * 4);
}

/* They may come late: another one's push is in them, and the version that this push has made is not theirs. */
TEST(test_push_pull_of_a_later_version)
{
    for (uint64_t version = 5; version <= 6; version++) {
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_var *w = fake_get(f, 0, "w", THREE, 9, 1);
        float *grad = filled(THREE, 1), *now = filled(THREE, 3), *dst = filled(THREE, 0);
        struct fake_request *both = fake_begin(f, PSI_REQ_PUSH_PULL, w, grad, dst, 1000);
        fake_take(f, 0, PS_OP_PUSHPULL);
        fake_cut(f, 0);
        const struct fake_number states[] = {{1, PS_NUMBER_APPLIED, 0, 0, 5}, {0}};
        fake_hello(f, 0, 100, 200, states, NULL);
        struct fake_frame ask = take_pull(f, 0, THREE);
        fake_values(f, 0, &ask, false, 0, now, THREE * 4, version, 0);
        assert_done(both, PS_OK);
        assert_true(both->req.version == 5);
        assert_int_equal(both->req.exact, version == 5);
    }
}

enum { COLS = 100, EACH = PS_SEGMENT_BYTES / (8 + COLS * 4), PUSHED = 3 * EACH - 5 };

/* A push of every apart-th row of `columns` elements, `count` rows, whose new values come to dst. */
static struct fake_request *push_pull_rows_of(struct fake *f, struct psi_rows **rows, float *dst, int64_t count, int64_t apart,
                                              int64_t columns)
{
    int64_t *indices = test_alloc((size_t)count * sizeof(*indices));
    struct psi_var *w = fake_get(f, 0, "w", apart * count * columns, 9, 1);
    w->shape = (ps_shape){.rank = 2, .dims = {apart * count, columns}};
    for (int64_t i = 0; i < count; i++) {
        indices[i] = apart * i + apart - 1;
    }
    const struct psi_rows_given given = {.name = "w",
                                         .shape = &w->shape,
                                         .dtype = PS_F32,
                                         .indices = indices,
                                         .count = (uint64_t)count,
                                         .values = filled((uint64_t)(count * columns), 1),
                                         .use = PSI_ROWS_SUM_READ};
    assert_int_equal(psi_rows_new(&given, rows, NULL), PS_OK);
    return fake_begin(f, PSI_REQ_PUSH_PULL_ROWS, w, (const float *)(const void *)*rows, dst, 1000);
}

static struct fake_request *push_pull_rows(struct fake *f, struct psi_rows **rows, float *dst)
{
    return push_pull_rows_of(f, rows, dst, PUSHED, 2, COLS);
}

/* The new rows `i * EACH` and following of a segment, as the task sends them. */
static void rows_come(struct fake *f, const struct fake_frame *push, uint32_t i, const float *now, uint64_t version)
{
    const uint64_t first = (uint64_t)i * EACH, rows = PUSHED - first < EACH ? PUSHED - first : EACH;
    fake_values(f, 0, push, true, first, now + first * COLS, (uint32_t)rows * COLS * 4, version, 0);
}

TEST(test_push_pull_rows)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_rows *rows = NULL;
    float *now = filled(PUSHED * COLS, 3), *dst = filled(PUSHED * COLS, 0);
    struct fake_request *both = push_pull_rows(f, &rows, dst);
    struct fake_frame push = *fake_take(f, 0, PS_OP_PUSHPULL_ROWS);
    assert_int_equal(push.h.meta_bytes, sizeof(struct ps_rows_meta));
    push.payload = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        rows_come(f, &push, i, now, 5);
    }
    assert_int_equal(both->dones, 0);
    fake_reply(f, 0, PS_OP_PUSHPULL_ROWS, 1, true, &(struct fake_answer){.version = 5});
    assert_done(both, PS_OK);
    assert_int_equal(both->req.version, 5);
    assert_memory_equal(dst, now, (size_t)PUSHED * COLS * 4);
    psi_rows_free(rows);
}

/* Rows behind a gap are no rows up to it: all from the gap on are gathered, once the push is known to be applied. */
TEST(test_push_pull_rows_gathers_what_is_missing)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_rows *rows = NULL;
    struct ps_gather_meta m;
    float *now = filled(PUSHED * COLS, 3), *dst = filled(PUSHED * COLS, 0);
    struct fake_request *both = push_pull_rows(f, &rows, dst);
    struct fake_frame push = *fake_take(f, 0, PS_OP_PUSHPULL_ROWS);
    push.payload = NULL;
    rows_come(f, &push, 0, now, 5);
    rows_come(f, &push, 2, now, 5); /* the task had no memory for the second one */
    fake_cut(f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_APPLIED, 0, 0, 5}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    assert_int_equal(both->dones, 0);
    struct fake_frame ask = *fake_take(f, 0, PS_OP_GATHER);
    memcpy(&m, ask.meta, sizeof(m));
    assert_true(m.rows == PUSHED - EACH && m.slot == 0);
    uint64_t index = 0;
    memcpy(&index, ask.payload, sizeof(index));
    assert_int_equal(index, 2 * EACH + 1);
    ask.payload = NULL;
    fake_values(f, 0, &ask, false, 0, now + EACH * COLS, (PUSHED - EACH) * COLS * 4, 6, 0);
    assert_done(both, PS_OK);
    assert_int_equal(both->req.version, 5);
    assert_false(both->req.exact);
    assert_memory_equal(dst, now, (size_t)PUSHED * COLS * 4);
    psi_rows_free(rows);
}

/* A variable of one segment, whose rows are more than a segment with their indices: values of two versions are not of one moment.
 */
TEST(test_push_pull_rows_of_two_versions)
{
    enum { ALL = PS_SEGMENT_BYTES / 4, FIRST = PS_SEGMENT_BYTES / (8 + 4) };
    for (uint64_t version = 5; version <= 6; version++) {
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_rows *rows = NULL;
        float *now = filled(ALL, 3), *dst = filled(ALL, 0);
        struct fake_request *both = push_pull_rows_of(f, &rows, dst, ALL, 1, 1);
        struct fake_frame push = *fake_take(f, 0, PS_OP_PUSHPULL_ROWS);
        push.payload = NULL;
        fake_values(f, 0, &push, true, 0, now, FIRST * 4, 5, 0);
        fake_cut(f, 0);
        const struct fake_number states[] = {{1, PS_NUMBER_APPLIED, 0, 0, 5}, {0}};
        fake_hello(f, 0, 100, 200, states, NULL);
        struct fake_frame ask = *fake_take(f, 0, PS_OP_GATHER);
        ask.payload = NULL;
        fake_values(f, 0, &ask, false, 0, now + FIRST, (ALL - FIRST) * 4, version, 0);
        assert_done(both, PS_OK);
        assert_int_equal(both->req.version, 5);
        assert_int_equal(both->req.exact, version == 5);
        assert_memory_equal(dst, now, (size_t)ALL * 4);
        psi_rows_free(rows);
    }
}

/* Rows are not narrowed, neither in VALUE frames nor where they are gathered. */
TEST(test_push_pull_rows_are_gathered_wide)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_rows *rows = NULL;
    f->c->wire_dtype = PS_BF16;
    float *now = filled(PUSHED * COLS, 0.1f), *dst = filled(PUSHED * COLS, 0);
    struct fake_request *both = push_pull_rows(f, &rows, dst);
    assert_int_equal(both->req.var->wire, PS_BF16);
    assert_int_equal(fake_take(f, 0, PS_OP_PUSHPULL_ROWS)->h.dtype, PS_F32);
    fake_reply(f, 0, PS_OP_PUSHPULL_ROWS, 1, true, &(struct fake_answer){.version = 5});
    struct fake_frame ask = *fake_take(f, 0, PS_OP_GATHER);
    assert_int_equal(ask.h.dtype, PS_F32);
    ask.payload = NULL;
    fake_values(f, 0, &ask, false, 0, now, PUSHED * COLS * 4, 5, 0);
    assert_done(both, PS_OK);
    assert_memory_equal(dst, now, (size_t)PUSHED * COLS * 4);
    psi_rows_free(rows);
}

/* Rows that the push does not have, half a segment, a number that is no such push: the connection is closed. */
TEST(test_rows_that_do_not_fit)
{
    static const struct {
        uint64_t first;
        uint32_t rows;
        uint8_t op;
    } bad[] = {{1, EACH, 0},     {EACH, EACH - 1, 0}, {0, 2 * EACH, 0},
               {3 * EACH, 1, 0}, {2 * EACH, EACH, 0}, {0, EACH, PS_OP_PUSHPULL}};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_rows *rows = NULL;
        float *now = filled(PUSHED * COLS, 3), *dst = filled(PUSHED * COLS, 0);
        struct fake_request *both = push_pull_rows(f, &rows, dst);
        struct fake_frame push = *fake_take(f, 0, PS_OP_PUSHPULL_ROWS);
        push.payload = NULL;
        push.h.op = bad[i].op != 0 ? bad[i].op : push.h.op;
        fake_values(f, 0, &push, true, bad[i].first, now, bad[i].rows * COLS * 4, 5, 0);
        if (f->task[0].closes != 1) {
            fail_msg("row %zu is taken", i);
        }
        assert_int_equal(both->dones, 0);
        fake_wait(f, 1001);
        assert_int_equal(both->dones, 1);
        psi_rows_free(rows);
    }
}

/* A task of an older release has no such operation: the request ends, and nothing is sent. */
TEST(test_push_pull_rows_of_an_older_task)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_rows *rows = NULL;
    float *dst = filled(PUSHED * COLS, 0);
    PSI_IGNORE(fake_get(f, 0, "other", 4, 8, 1)); /* connects */
    f->c->peers[0]->features &= ~(uint64_t)PS_FEATURE_PULL_ROWS;
    struct fake_request *both = push_pull_rows(f, &rows, dst);
    assert_done(both, PS_UNIMPLEMENTED);
    assert_non_null(strstr(both->err.text, "sends no values back for a push of rows"));
    psi_rows_free(rows);
}

static ps_status start_part(struct fake *f, struct fake_request *r, struct psi_var *var, void *dst, uint64_t first,
                            uint64_t elements)
{
    memset(r, 0, sizeof(*r));
    r->req.kind = PSI_REQ_PULL;
    r->req.var = var;
    r->req.dst = dst;
    r->req.bytes = elements * 4;
    r->req.part_first = first;
    r->req.part_elements = elements;
    r->req.deadline_ms = f->now + 1000;
    r->req.done = fake_request_done;
    struct psi_err err = {0};
    ps_status st = psi_client_start(f->c, &r->req, &err);
    fake_run(f);
    return st;
}

/* Two parts of one variable at a time, each to the start of its own memory, the second across a frame's end and a reconnect. */
TEST(test_parts)
{
    enum { N = 3 * FRAME, FIRST = 10, PART = FRAME + 5 };
    static struct fake_request one, two;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", N, 9, 1);
    float *now = filled(N, 3);
    float *dst = filled(FIRST + PART, 0);
    assert_int_equal(start_part(f, &one, w, dst, 0, N + 1), PS_INVALID_ARGUMENT);
    assert_int_equal(start_part(f, &one, w, dst, N, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(start_part(f, &one, w, dst, UINT64_MAX, 2), PS_INVALID_ARGUMENT);
    assert_int_equal(start_part(f, &one, w, dst, 0, FIRST), PS_OK);
    assert_int_equal(start_part(f, &two, w, dst + FIRST, N - PART, PART), PS_OK);
    struct fake_frame a = take_pull(f, 0, FIRST);
    struct fake_frame b = take_pull(f, N - PART, FRAME);
    struct fake_frame c = take_pull(f, N - 5, 5);
    fake_values(f, 0, &a, false, 0, now, FIRST * 4, 4, 0);
    assert_int_equal(one.dones, 1);
    fake_values(f, 0, &b, false, 0, now + N - PART, FRAME * 4, 4, 0);
    assert_int_equal(two.dones, 0);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    c = take_pull(f, N - 5, 5);
    fake_values(f, 0, &c, false, 0, now + N - 5, 5 * 4, 4, 0);
    assert_int_equal(two.req.status, PS_OK);
    assert_true(two.req.exact);
    assert_memory_equal(dst, now, FIRST * 4);
    assert_memory_equal(dst + FIRST, now + N - PART, (size_t)PART * 4);
}
