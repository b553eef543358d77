/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues and work through real psd processes and the public API: every kind of element, many at once, elements of 64 MiB, many
 * threads, what is refused, and what a call says that has to wait.
 */
#include "api_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void assert_said(ps_status st, ps_status wanted, const char *part)
{
    if (st != wanted || strstr(ps_last_error(), part) == NULL) {
        fail_msg("%s '%s', expected %s with '%s'", ps_status_name(st), ps_last_error(), ps_status_name(wanted), part);
    }
}

static void assert_fine(ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s '%s'", ps_status_name(st), ps_last_error());
    }
}

static ps_queue *queue(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, int64_t capacity)
{
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_queue_spec_init(&spec, name, dtype, shape);
    spec.capacity = capacity;
    assert_fine(ps_queue_get(s, &spec, &q));
    return q;
}

static void one_and_many(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_queue *q = queue(s, "one/many", PS_F32, PS_SHAPE(3), -1);
    float in[4][3], out[4][3];
    uint32_t count = 99;
    uint64_t size = 99;
    bool closed = true;
    for (int i = 0; i < 12; i++) {
        in[i / 3][i % 3] = (float)i;
    }
    assert_fine(ps_enqueue(q, PS_FROM({in[0], sizeof(in[0])}), 0));
    assert_fine(ps_enqueue_many(q, PS_FROM({in[1], sizeof(float[3][3])}), 3, 0, &count));
    assert_int_equal(count, 3);
    assert_fine(ps_enqueue_many(q, PS_FROM({in, 0}), 0, 0, &count));
    assert_int_equal(count, 0);
    assert_fine(ps_queue_size(q, &size));
    assert_int_equal(size, 4);
    assert_fine(ps_dequeue_many(q, PS_INTO({out, sizeof(float[3][3])}), 3, 0));
    assert_fine(ps_dequeue(q, PS_INTO({out[3], sizeof(out[3])}), 0));
    assert_memory_equal(in, out, sizeof(in));
    assert_fine(ps_dequeue_many(q, PS_INTO({out, 0}), 0, 0));
    assert_fine(ps_enqueue_many(q, PS_FROM({in, sizeof(float[2][3])}), 2, 0, NULL));
    assert_said(ps_dequeue_many(q, PS_INTO({out, sizeof(float[3][3])}), 3, 300), PS_DEADLINE_EXCEEDED, "");
    assert_fine(ps_queue_size(q, &size));
    assert_int_equal(size, 2); /* given back */
    assert_fine(ps_queue_close(q, false, 0));
    assert_fine(ps_queue_is_closed(q, &closed));
    assert_true(closed);
    assert_said(ps_enqueue(q, PS_FROM({in[0], sizeof(in[0])}), 0), PS_CANCELLED, "closed");
    assert_said(ps_dequeue_many(q, PS_INTO({out, sizeof(float[3][3])}), 3, 0), PS_OUT_OF_RANGE,
                "closed and has insufficient elements");
    memset(out, 0, sizeof(out));
    assert_fine(ps_dequeue_up_to(q, PS_INTO({out, sizeof(float[3][3])}), 3, 0, &count));
    assert_int_equal(count, 2);
    assert_memory_equal(in, out, 2 * sizeof(in[0])); /* in order, also after they had been taken and given back */
    assert_said(ps_dequeue(q, PS_INTO({out[0], sizeof(out[0])}), 0), PS_OUT_OF_RANGE, "current size 0");
    assert_said(ps_queue_close(q, false, 0), PS_CANCELLED, "already closed");
    assert_int_equal(ps_session_close(s), 0);
}

static void several_components(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_queue *q = NULL, *found = NULL;
    ps_queue_spec spec;
    ps_queue_spec_init(&spec, "pair", PS_I64, PS_SCALAR);
    spec.component_count = 2;
    spec.components[1] = (ps_component){.dtype = PS_U8, .shaped = true, .shape = PS_SHAPE(3)};
    spec.device = "/job:ps/task:1";
    assert_fine(ps_queue_get(s, &spec, &q));
    assert_string_equal(ps_queue_device(q), "/job:ps/task:1/device:CPU:0");
    const int64_t n[2] = {5, -6};
    const uint8_t b[2][3] = {{1, 2, 3}, {4, 5, 6}};
    int64_t n2[2];
    uint8_t b2[2][3];
    assert_fine(ps_enqueue_many(q, PS_FROM({n, sizeof(n)}, {b, sizeof(b)}), 2, 0, NULL));
    assert_fine(ps_queue_find(s, "pair", &found));
    const ps_queue_spec *what = ps_queue_spec_of(found);
    assert_true(what->kind == PS_QUEUE_FIFO && what->capacity < 0 && what->component_count == 2);
    assert_true(what->components[1].dtype == PS_U8 && what->components[1].shaped && what->components[1].shape.dims[0] == 3);
    assert_fine(ps_dequeue_many(found, PS_INTO({n2, sizeof(n2)}, {b2, sizeof(b2)}), 2, 0));
    assert_memory_equal(n, n2, sizeof(n));
    assert_memory_equal(b, b2, sizeof(b));
    assert_int_equal(ps_session_close(s), 0);
}

/* What a call is given to read or to fill has the bytes that it says, and these are the queue's; both are named. */
static void sizes_of_memory(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_queue_spec_init(&spec, "sizes", PS_I64, PS_SHAPE(2));
    spec.component_count = 2;
    spec.components[1] = (ps_component){.dtype = PS_U8, .shaped = true, .shape = PS_SHAPE(3)};
    assert_fine(ps_queue_get(s, &spec, &q));
    const int64_t n[2][2] = {{1, 2}, {3, 4}};
    const uint8_t b[2][3] = {{5, 6, 7}, {8, 9, 10}};
    int64_t got_n[2][2];
    uint8_t got_b[2][3], marked[sizeof(got_n)];
    uint32_t count = 99;
    uint64_t size = 99;
    memset(got_n, 0x5a, sizeof(got_n));
    memset(marked, 0x5a, sizeof(marked));
    assert_said(ps_enqueue(q, PS_FROM({n, 8}, {b, 3}), 0), PS_INVALID_ARGUMENT,
                "queue 'sizes': component 0: 8 bytes are given, 1 element of it has 16");
    assert_said(ps_enqueue(q, PS_FROM({n, sizeof(n)}, {b, 3}), 0), PS_INVALID_ARGUMENT,
                "32 bytes are given, 1 element of it has 16");
    assert_said(ps_enqueue(q, PS_FROM({n, 16}), 0), PS_INVALID_ARGUMENT, "1 values are given, an element has 2 components");
    assert_said(ps_enqueue(q, PS_FROM({n, 16}, {b, 3}, {b, 3}), 0), PS_INVALID_ARGUMENT, "3 values are given");
    assert_said(ps_enqueue(q, PS_FROM({n, 16}, {NULL, 3}), 0), PS_INVALID_ARGUMENT, "no memory is given for component 1");
    assert_said(ps_enqueue(q, NULL, 2, 0), PS_INVALID_ARGUMENT, "the values are NULL");
    assert_said(ps_enqueue_many(q, PS_FROM({n, sizeof(n)}, {b, 5}), 2, 0, &count), PS_INVALID_ARGUMENT,
                "component 1: 5 bytes are given, 2 elements of it have 6");
    assert_int_equal(count, 0);
    assert_said(ps_enqueue_many(q, PS_FROM({n, sizeof(n)}, {b, sizeof(b)}), UINT32_MAX, 0, &count), PS_INVALID_ARGUMENT,
                "32 bytes are given, 4294967295 elements of it have 68719476720");
    assert_fine(ps_queue_size(q, &size));
    assert_int_equal(size, 0); /* nothing was sent */
    assert_fine(ps_enqueue_many(q, PS_FROM({n, sizeof(n)}, {b, sizeof(b)}), 2, 0, &count));
    assert_said(ps_dequeue(q, PS_INTO({got_n, 15}, {got_b, 3}), 0), PS_INVALID_ARGUMENT,
                "15 bytes are given, 1 element of it has 16");
    assert_said(ps_dequeue_many(q, PS_INTO({got_n, sizeof(got_n)}, {got_b, 3}), 2, 0), PS_INVALID_ARGUMENT,
                "component 1: 3 bytes are given, 2 elements of it have 6");
    assert_said(ps_dequeue_up_to(q, PS_INTO({got_n, 16}, {got_b, 6}), 2, 0, &count), PS_INVALID_ARGUMENT,
                "16 bytes are given, 2 elements of it have 32");
    assert_said(ps_dequeue_many(q, PS_INTO({got_n, sizeof(got_n)}), 2, 0), PS_INVALID_ARGUMENT, "an element has 2 components");
    assert_fine(ps_queue_size(q, &size));
    assert_int_equal(size, 2); /* nothing was taken */
    assert_memory_equal(got_n, marked, sizeof(got_n));
    assert_fine(ps_dequeue_many(q, PS_INTO({got_n, sizeof(got_n)}, {got_b, sizeof(got_b)}), 2, 0));
    assert_true(memcmp(n, got_n, sizeof(n)) == 0 && memcmp(b, got_b, sizeof(b)) == 0);
    assert_int_equal(ps_session_close(s), 0);
}

static void strings_and_shapes(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_queue_spec_init(&spec, "tuples", PS_STRING, PS_SHAPE(2));
    spec.component_count = 2;
    spec.components[1] = (ps_component){.dtype = PS_F64};
    assert_fine(ps_queue_get(s, &spec, &q));
    ps_tuple *t = ps_tuple_new(q);
    const char *texts[2][2] = {{"a", ""}, {"with\0zero", "zwei"}};
    const size_t lengths[2] = {9, 4};
    const double values[6] = {1, 2, 3, 4, 5, 6};
    const ps_shape shapes[2] = {PS_SHAPE(2, 3), PS_SCALAR};
    uint32_t count = 0;
    assert_said(ps_tuple_put_strings(t, NULL, texts[0], NULL, 3), PS_INVALID_ARGUMENT, "3 texts are given, it has 2");
    assert_said(ps_tuple_put_strings(t, NULL, texts[0], NULL, 1), PS_INVALID_ARGUMENT, "1 texts are given, it has 2");
    assert_fine(ps_tuple_put_strings(t, NULL, texts[0], NULL, 2));
    assert_said(ps_enqueue_tuple(q, t, 0, &count), PS_INVALID_ARGUMENT, "lacks component 1");
    assert_fine(ps_tuple_put(t, &shapes[0], values, 48));
    assert_fine(ps_tuple_put_strings(t, NULL, texts[1], lengths, 2));
    assert_said(ps_tuple_put(t, NULL, values, 8), PS_INVALID_ARGUMENT, "its shape is not declared");
    assert_said(ps_tuple_put(t, &shapes[0], values, 8), PS_INVALID_ARGUMENT, "8 bytes are given, it has 48");
    assert_said(ps_tuple_put_strings(t, NULL, texts[0], NULL, 2), PS_INVALID_ARGUMENT, "float64");
    assert_fine(ps_tuple_put(t, &shapes[1], values + 5, 8));
    assert_fine(ps_enqueue_tuple(q, t, 0, &count));
    assert_int_equal(count, 2);
    assert_said(ps_dequeue_tuple(q, t, 2, false, 0), PS_INVALID_ARGUMENT, "component 1");
    for (int e = 0; e < 2; e++) {
        const char *text = NULL;
        const void *data = NULL;
        size_t bytes = 0;
        ps_shape shape;
        assert_fine(ps_dequeue_tuple(q, t, 1, false, 0));
        assert_int_equal(ps_tuple_count(t), 1);
        for (size_t i = 0; i < 2; i++) {
            size_t length = e == 1 ? lengths[i] : strlen(texts[e][i]);
            assert_fine(ps_tuple_get_string(t, 0, 0, i, &text, &bytes, &shape));
            assert_true(bytes == length && memcmp(text, texts[e][i], length) == 0);
        }
        assert_said(ps_tuple_get_string(t, 0, 0, 0, NULL, &bytes, NULL), PS_INVALID_ARGUMENT, "out_text is NULL");
        assert_said(ps_tuple_get_string(t, 0, 0, 0, &text, NULL, NULL), PS_INVALID_ARGUMENT, "out_bytes is NULL");
        assert_said(ps_tuple_get_string(t, 0, 0, 2, &text, &bytes, NULL), PS_OUT_OF_RANGE, "string 2");
        assert_said(ps_tuple_get_string(t, 1, 0, 0, &text, &bytes, NULL), PS_OUT_OF_RANGE, "element 1");
        assert_said(ps_tuple_get_string(t, 0, 1, 0, &text, &bytes, NULL), PS_INVALID_ARGUMENT, "float64");
        assert_fine(ps_tuple_get(t, 0, 1, &data, &bytes, &shape));
        assert_true(shape.rank == shapes[e].rank && bytes == (e == 0 ? 48 : 8));
        assert_memory_equal(data, e == 0 ? values : values + 5, bytes);
    }
    assert_said(ps_enqueue(q, PS_FROM({values, sizeof(values)}, {values, sizeof(values)}), 0), PS_INVALID_ARGUMENT,
                "component 0 holds strings: use a ps_tuple");
    ps_tuple_free(t);
    assert_int_equal(ps_session_close(s), 0);
}

/* Many times a frame, both ways, next to small ones that must not overtake. */
static void large_elements(void **state)
{
    (void)state;
    enum { MIB64 = 64 << 20 };
    ps_session *s = open_session(60000);
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_queue_spec_init(&spec, "large", PS_U8, PS_SCALAR);
    spec.components[0].shaped = false;
    assert_fine(ps_queue_get(s, &spec, &q));
    ps_tuple *t = ps_tuple_new(q);
    uint8_t *in = malloc(MIB64);
    static const int64_t sizes[] = {MIB64 - 3, 1, 3 * (64 << 10) - 16, 3 * (64 << 10) - 15, 300000, 1};
    assert_non_null(in);
    for (size_t i = 0; i < MIB64; i++) {
        in[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const ps_shape shape = PS_SHAPE(sizes[i]);
        ps_tuple_clear(t);
        assert_fine(ps_tuple_put(t, &shape, in + i, (size_t)sizes[i]));
        assert_fine(ps_enqueue_tuple(q, t, 0, NULL));
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const void *data = NULL;
        size_t bytes = 0;
        assert_fine(ps_dequeue_tuple(q, t, 1, false, 0));
        assert_fine(ps_tuple_get(t, 0, 0, &data, &bytes, NULL));
        assert_true(bytes == (size_t)sizes[i] && memcmp(data, in + i, bytes) == 0);
    }
    free(in);
    ps_tuple_free(t);
    assert_int_equal(ps_session_close(s), 0);
}

enum { THREADS = 8, EACH = 200, CAPACITY = 3 };
struct worker {
    ps_session *s;
    pthread_t thread;
    int index;
    uint64_t sum;
    ps_status st;
};

static void *work_at_it(void *arg)
{
    struct worker *w = arg;
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_queue_spec_init(&spec, "threads", PS_I64, PS_SCALAR);
    spec.capacity = CAPACITY;
    w->st = ps_queue_get(w->s, &spec, &q);
    for (int64_t i = 0; w->st == PS_OK && i < EACH; i++) {
        int64_t value = w->index * EACH + i;
        w->st = w->index % 2 == 0 ? ps_enqueue(q, PS_FROM({&value, sizeof(value)}), 0)
                                  : ps_dequeue(q, PS_INTO({&value, sizeof(value)}), 0);
        w->sum += (uint64_t)value;
    }
    return NULL;
}

/* Half of them put, the others take; the queue holds three. */
static void threads_of_one_session(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    struct worker w[THREADS];
    uint64_t in = 0, out = 0;
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.s = s, .index = i};
        assert_int_equal(pthread_create(&w[i].thread, NULL, work_at_it, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        assert_int_equal(w[i].st, PS_OK);
        *(i % 2 == 0 ? &in : &out) += w[i].sum;
    }
    assert_int_equal(in, out);
    assert_int_equal(ps_session_close(s), 0);
}

struct landed {
    int count;
    ps_status status;
};

static void on_landed(void *ctx, ps_request *req, const ps_result *result)
{
    struct landed *l = ctx;
    (void)req;
    l->status = result->status;
    __atomic_add_fetch(&l->count, 1, __ATOMIC_RELEASE);
}

/* One waits at the empty queue and is woken by the other. */
static void started(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_queue *q = queue(s, "started", PS_I64, PS_SCALAR, -1);
    ps_tuple *in = ps_tuple_new(q), *out = ps_tuple_new(q);
    static ps_request take, put;
    struct landed l = {0};
    const int64_t value = 77;
    const void *data = NULL;
    bool closed = false;
    assert_fine(ps_dequeue_start(q, out, 1, false, 0, &take, on_landed, &l));
    assert_fine(ps_tuple_put(in, NULL, &value, sizeof(value)));
    assert_fine(ps_enqueue_start(q, in, 0, &put, on_landed, &l));
    while (__atomic_load_n(&l.count, __ATOMIC_ACQUIRE) < 2) {
        assert_fine(ps_queue_is_closed(q, &closed)); /* drives the session where it has no thread */
    }
    assert_int_equal(l.status, PS_OK);
    assert_fine(ps_tuple_get(out, 0, 0, &data, NULL, NULL));
    assert_memory_equal(data, &value, sizeof(value));
    ps_tuple_free(in);
    ps_tuple_free(out);
    assert_int_equal(ps_session_close(s), 0);
}

static void what_is_refused(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_queue *q = queue(s, "refused", PS_I64, PS_SCALAR, 2), *other = NULL;
    const char *const item = "item";
    ps_work *work = NULL;
    ps_accumulator *sums = NULL;
    ps_variable *v = NULL;
    ps_variable_spec like;
    ps_queue_spec spec;
    int64_t value = 1;
    uint32_t count = 0;
    const int64_t values[4] = {1, 2, 3, 4};
    ps_queue_spec_init(&spec, "refused", PS_I64, PS_SCALAR);
    spec.capacity = 3;
    assert_said(ps_queue_get(s, &spec, &other), PS_INVALID_ARGUMENT, "with capacity 2; asked for with 3");
    spec.capacity = 2;
    spec.components[0].dtype = PS_I32;
    assert_said(ps_queue_get(s, &spec, &other), PS_INVALID_ARGUMENT, "component 0 int64 (); asked for with int32 ()");
    spec.kind = PS_QUEUE_RANDOM_SHUFFLE;
    spec.components[0].dtype = PS_I64;
    assert_said(ps_queue_get(s, &spec, &other), PS_INVALID_ARGUMENT, "with kind FIFO; asked for with RANDOM_SHUFFLE");
    spec.kind = PS_QUEUE_FIFO;
    spec.capacity = 0;
    assert_said(ps_queue_get(s, &spec, &other), PS_INVALID_ARGUMENT, "capacity 0");
    spec.capacity = 2;
    spec.name = "";
    assert_said(ps_queue_get(s, &spec, &other), PS_INVALID_ARGUMENT, "is empty");
    assert_said(ps_work_get(s, "", &item, NULL, 1, 1, 0, &work), PS_INVALID_ARGUMENT, "is empty");
    assert_said(ps_accumulator_get(s, "", PS_F32, PS_SCALAR, PS_REDUCTION_SUM, NULL, &sums), PS_INVALID_ARGUMENT, "is empty");
    ps_variable_spec_init(&like);
    like.name = "refused";
    like.dtype = PS_I64;
    assert_said(ps_variable_get(s, &like, &v), PS_INVALID_ARGUMENT, "refused");
    assert_said(ps_variable_find(s, "refused", &v), PS_INVALID_ARGUMENT, "queue");
    get(s, "variable", PS_I64, PS_SCALAR, NULL);
    assert_said(ps_queue_find(s, "variable", &other), PS_INVALID_ARGUMENT, "variable, not a queue");
    assert_said(ps_queue_find(s, "absent", &other), PS_NOT_FOUND, "absent");
    ps_status st = ps_enqueue_many(q, PS_FROM({values, sizeof(values)}), 4, 300, &count);
    while (st == PS_DEADLINE_EXCEEDED && strstr(ps_last_error(), "no answer within") != NULL) {
        /* the task answers 120 ms before the deadline; on a busy machine that may be too late */
        uint64_t size = 0;
        for (assert_fine(ps_queue_size(q, &size)); size > 0; size--) {
            assert_fine(ps_dequeue(q, PS_INTO({&value, sizeof(value)}), 0));
        }
        st = ps_enqueue_many(q, PS_FROM({values, sizeof(values)}), 4, 300, &count);
    }
    assert_said(st, PS_DEADLINE_EXCEEDED, "2 of 4");
    assert_int_equal(count, 2);
    assert_int_equal(ps_last_applied(), PS_MAYBE_PARTLY_APPLIED);
    assert_said(ps_enqueue(q, PS_FROM({values, sizeof(values[0])}), 300), PS_DEADLINE_EXCEEDED, "");
    assert_fine(ps_dequeue(q, PS_INTO({&value, sizeof(value)}), 0));
    assert_int_equal(value, 1);
    assert_fine(ps_reset(s));
    assert_said(ps_dequeue(q, PS_INTO({&value, sizeof(value)}), 0), PS_ABORTED, "");
    assert_int_equal(ps_last_reason(), PS_REASON_LOST);
    q = queue(s, "refused", PS_I64, PS_SCALAR, 5); /* another one */
    assert_fine(ps_enqueue(q, PS_FROM({&value, sizeof(value)}), 0));
    assert_int_equal(ps_session_close(s), 0);
}

/* A model gets ready beside a queue, which is no variable of it. */
static void not_of_the_model(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    queue(s, "beside", PS_I64, PS_SCALAR, -1);
    ps_param *p = ps_param_get(s, "model/w", PS_SHAPE(3), NULL, ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_report_uninitialized(s, NULL, 0), 0);
    assert_non_null(ps_param_value(p));
    assert_int_equal(ps_session_close(s), 0);
}

static void shuffled(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_queue *q = NULL;
    ps_queue_spec spec;
    int64_t value = 0, seen = 0, in_order = 0;
    ps_queue_spec_init(&spec, "shuffled", PS_I64, PS_SCALAR);
    spec.kind = PS_QUEUE_RANDOM_SHUFFLE;
    spec.capacity = 100;
    spec.min_after_dequeue = 10;
    spec.seed = 3;
    assert_fine(ps_queue_get(s, &spec, &q));
    for (value = 0; value < 60; value++) {
        assert_fine(ps_enqueue(q, PS_FROM({&value, sizeof(value)}), 0));
    }
    for (int i = 0; i < 60; i++) {
        if (i == 50) {
            assert_said(ps_dequeue(q, PS_INTO({&value, sizeof(value)}), 200), PS_DEADLINE_EXCEEDED, "");
            assert_fine(ps_queue_close(q, false, 0));
        }
        assert_fine(ps_dequeue(q, PS_INTO({&value, sizeof(value)}), 0));
        seen |= INT64_C(1) << value;
        in_order += value == i;
    }
    assert_true(seen == (INT64_C(1) << 60) - 1 && in_order < 10);
    assert_int_equal(ps_session_close(s), 0);
}

static void work_is_shared(void **state)
{
    (void)state;
    static const char *const ITEMS[] = {"alpha", "beta", "gamma"};
    ps_session *a = open_session(20000), *b = open_session(20000);
    ps_work *wa = NULL, *wb = NULL;
    ps_work_item x, y, again;
    assert_said(ps_work_get(a, "work", NULL, NULL, 0, 1, 0, &wa), PS_NOT_FOUND, "work");
    assert_fine(ps_work_get(a, "work", ITEMS, NULL, 3, 2, 0, &wa));
    assert_fine(ps_work_get(b, "work", NULL, NULL, 0, 2, 0, &wb)); /* it is there */
    assert_said(ps_work_get(b, "work", ITEMS, NULL, 2, 2, 0, &wb), PS_INVALID_ARGUMENT, "filled with 3 items");
    assert_fine(ps_work_next(wa, &x, 0));
    assert_string_equal(x.data, "alpha");
    assert_true(x.bytes == 5 && x.epoch == 1 && x.again == 0);
    assert_fine(ps_work_next(wb, &y, 0));
    assert_string_equal(y.data, "beta");
    assert_fine(ps_work_return(wb, &y));
    assert_said(ps_work_done(wb, &y), PS_INVALID_ARGUMENT, "no item");
    assert_fine(ps_work_next(wb, &y, 0));
    assert_string_equal(y.data, "beta"); /* at the front */
    assert_int_equal(y.again, 1);
    assert_fine(ps_work_done(wb, &y));
    assert_int_equal(y.done_before, 0);
    assert_int_equal(ps_session_close(a), 0); /* with alpha, undone */
    assert_fine(ps_work_next(wb, &again, 0));
    assert_string_equal(again.data, "alpha");
    assert_int_equal(again.again, 1);
    assert_fine(ps_work_done(wb, &again));
    for (int i = 0; i < 4; i++) {
        assert_fine(ps_work_next(wb, &x, 0));
        assert_int_equal(x.epoch, i == 0 ? 1 : 2);
        assert_fine(ps_work_done(wb, &x));
    }
    assert_said(ps_work_next(wb, &x, 0), PS_OUT_OF_RANGE, "");
    assert_int_equal(ps_session_close(b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_and_many),    cmocka_unit_test(several_components),
        cmocka_unit_test(sizes_of_memory), cmocka_unit_test(strings_and_shapes),
        cmocka_unit_test(large_elements),  cmocka_unit_test(threads_of_one_session),
        cmocka_unit_test(started),         cmocka_unit_test(shuffled),
        cmocka_unit_test(work_is_shared),  cmocka_unit_test(not_of_the_model),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
