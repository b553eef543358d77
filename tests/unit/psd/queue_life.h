/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of queues in the store share: a task whose changes are kept as bytes, one queue and sessions, the changes of
 * requests to it, and what there is as text, compared with a task that replays them. */
#ifndef TESTS_UNIT_PSD_QUEUE_LIFE_H
#define TESTS_UNIT_PSD_QUEUE_LIFE_H

#include "change_code.h"
#include "test.h"
#include "wire_test.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/tuple.h"
#include "psd/state.h"

enum { CHANGES_MAX = 4096, SESSIONS = 3, BUDGET = 64 << 20 };

/* A task, its changes as bytes, one queue and sessions. */
struct life {
    struct psi_cluster cluster;
    struct psd_task *task;
    const struct psd_variable *v;
    struct psd_queue *q;
    struct psd_record *records[SESSIONS];
    struct psi_buf log;
    uint32_t count;
    size_t at[CHANGES_MAX + 1];
    bool silent; /* changes are not kept */
};

static inline struct psd_task *task_new(const struct life *l)
{
    static const uint8_t seed[32] = {1};
    struct psd_task_config config;
    struct psd_task *t = NULL;
    psd_task_config_init(&config);
    config.cluster = &l->cluster;
    config.memory_budget_bytes = BUDGET;
    memcpy(config.job, "ps", 3);
    assert_int_equal(psd_task_new(&config, seed, 1000, &t, NULL), PS_OK);
    return t;
}

static inline void hear(void *ctx, uint64_t position, const struct psd_change *c)
{
    struct life *l = ctx;
    assert_int_equal(position, l->count + 1);
    assert_in_range(l->count, 0, CHANGES_MAX - 1);
    assert_int_equal(psd_change_encode(c, &l->log, NULL), PS_OK);
    l->at[++l->count] = l->log.len;
}

static inline ps_status change(struct life *l, struct psd_change *c)
{
    ps_status st = psd_change_reserve(l->task, c, NULL);
    if (st == PS_OK) {
        psd_commit(l->task, c);
    }
    if (!l->silent) {
        psd_store_check_invariants(&l->task->store);
    }
    return st;
}

static inline void must(struct life *l, struct psd_change c)
{
    assert_int_equal(change(l, &c), PS_OK);
}

static inline void life_end(void *ctx)
{
    struct life *l = ctx;
    psd_task_free(l->task);
    psi_cluster_fini(&l->cluster);
    psi_buf_fini(&l->log);
}

static inline struct psd_change creating(const struct life *l, const char *name, const struct psi_queue_spec *spec)
{
    static const struct psd_definition queue = {.queue = true};
    static uint64_t creation = 77;
    const struct psd_container *in = psd_container_find(&l->task->store, "c");
    return (struct psd_change){.kind = PSD_CHANGE_CREATE,
                               .create = {.container = in,
                                          .name = name,
                                          .definition = &queue,
                                          .queue = spec,
                                          .creation = creation++,
                                          .order = l->task->store.next_order}};
}

static inline const struct psd_variable *create(struct life *l, const char *name, const struct psi_queue_spec *spec)
{
    assert_int_equal(psi_queue_spec_check(spec, NULL), PS_OK);
    must(l, creating(l, name, spec));
    return psd_variable_find(psd_container_find(&l->task->store, "c"), name);
}

static inline struct life *life_new(const struct psi_queue_spec *spec)
{
    struct life *l = test_alloc(sizeof(*l));
    memset(l, 0, sizeof(*l));
    psi_cluster_init(&l->cluster);
    assert_int_equal(psi_cluster_parse(&l->cluster, "ps=10.0.0.1:1;worker=10.0.0.3:3", NULL), PS_OK);
    psi_buf_init(&l->log, 1 << 26);
    assert_int_equal(psi_buf_reserve(&l->log, 1 << 16, NULL), PS_OK); /* hear() takes no memory where a test has it fail */
    l->task = task_new(l);
    test_later(life_end, l);
    psd_task_consumer(l->task, hear, l);
    must(l, (struct psd_change){.kind = PSD_CHANGE_CONTAINER, .container = {.name = "c", .incarnation = 5}});
    for (uint32_t i = 0; i < SESSIONS; i++) {
        const uint8_t id[16] = {(uint8_t)(i + 1)};
        must(l, (struct psd_change){.kind = PSD_CHANGE_SESSION, .session = {.session = id, .name = i + 1}});
        l->records[i] = psi_map_find(&l->task->records, id, sizeof(id));
    }
    l->v = create(l, "q", spec);
    l->q = l->v->queue;
    return l;
}

static inline struct psi_queue_spec spec_of(enum psi_queue_kind kind, int64_t capacity)
{
    struct psi_queue_spec spec = {.kind = kind, .capacity = capacity, .component_count = 1};
    spec.components[0] = (struct psi_queue_component){.dtype = PS_I64, .shaped = true};
    if (kind == PSI_QUEUE_WORK) {
        spec.components[0].dtype = PS_STRING;
        spec.epochs = 2;
    }
    if (kind == PSI_QUEUE_ACCUMULATOR) {
        spec.components[0].dtype = PS_F64;
        spec.reduction = PSI_REDUCTION_MEAN;
    }
    return spec;
}

/* An element that says `value`. */
static inline struct psd_element *element(struct life *l, uint64_t value)
{
    uint8_t bytes[32] = {0};
    uint64_t n = sizeof(value);
    if (l->q->spec.kind == PSI_QUEUE_WORK) { /* a blob of one string of 8 bytes, behind its length */
        const uint64_t blob[4] = {24, 0, 8, value};
        memcpy(bytes, blob, n = sizeof(blob));
    } else {
        memcpy(bytes, &value, sizeof(value));
    }
    assert_int_equal(psi_tuple_check(&l->q->spec, bytes, n, NULL), PS_OK);
    struct psd_element *e = psd_element_new(&l->task->store, n);
    assert_non_null(e);
    memcpy(e->data, bytes, n);
    return e;
}

static inline uint64_t value_of(const struct psd_element *e)
{
    uint64_t value = 0;
    memcpy(&value, e->data + e->bytes - sizeof(value), sizeof(value));
    return value;
}

static inline const struct psd_element *first_of(const struct psi_list *head)
{
    return PSI_CONTAINER_OF(head->next, struct psd_element, link);
}

/* ---- requests ---- */

/* The change of that kind by a request of the session. */
static inline struct psd_change by(const struct life *l, enum psd_change_kind kind, int session, uint64_t id)
{
    return (struct psd_change){.kind = kind, .attempt = {.record = l->records[session], .id = id, .variable = l->v}};
}

static inline struct psd_change putting(const struct life *l, int session, uint64_t id, struct psd_element *e)
{
    struct psd_change c = by(l, PSD_CHANGE_ENQUEUE, session, id);
    c.attempt.element = e;
    return c;
}

static inline void put(struct life *l, int session, uint64_t id, uint64_t value, bool last)
{
    struct psd_change c = putting(l, session, id, element(l, value));
    c.attempt.last = last;
    must(l, c);
}

/* Returns the value that was taken. */
static inline uint64_t take(struct life *l, int session, uint64_t id, bool last)
{
    struct psd_change c = by(l, PSD_CHANGE_DEQUEUE, session, id);
    c.attempt.index = psd_queue_draw(l->q, 12345);
    c.attempt.last = last;
    must(l, c);
    const struct psd_attempt *a = psd_attempt_find(l->records[session], id);
    return value_of(PSI_CONTAINER_OF(a->elements.prev, struct psd_element, link));
}

static inline void end(struct life *l, int session, uint64_t id, bool give_back)
{
    struct psd_change c = by(l, PSD_CHANGE_ATTEMPT_END, session, id);
    c.attempt.give_back = give_back;
    must(l, c);
}

static inline void close_queue(struct life *l)
{
    must(l, (struct psd_change){.kind = PSD_CHANGE_QUEUE_CLOSE, .variable = l->v});
}

static inline uint64_t work_end(struct life *l, int session, uint64_t number, uint64_t serial, bool give_back, bool repeated)
{
    must(l, (struct psd_change){.kind = PSD_CHANGE_WORK_END,
                                .work_end = {.record = l->records[session],
                                             .number = number,
                                             .variable = l->v,
                                             .serial = serial,
                                             .give_back = give_back,
                                             .repeated = repeated}});
    const struct psd_number *n = psd_record_find(l->records[session], number);
    assert_int_equal(n->state, PS_NUMBER_APPLIED);
    assert_int_equal(n->result_bytes, 8);
    assert_int_equal(n->incarnation, 5);
    return n->result[0];
}

/* ---- what there is, as text ---- */

static inline void say_element(struct psi_buf *out, const struct psd_element *e)
{
    assert_int_equal(psi_buf_printf(out, NULL, " %llu=%llu/%u.%u", (unsigned long long)e->serial, (unsigned long long)value_of(e),
                                    e->deliveries, e->state),
                     PS_OK);
}

static inline void say_list(struct psi_buf *out, const struct psi_list *list)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, list) {
        say_element(out, PSI_CONTAINER_OF(it, struct psd_element, link));
    }
}

static inline void say_queue(struct psi_buf *out, const struct psd_queue *q)
{
    ps_status st = psi_buf_printf(
        out, NULL,
        "size %llu next %llu draws %llu hash %llu done %llu epoch %u%s%s step %lld taken %llu bytes %llu attempts %llu:",
        (unsigned long long)q->size, (unsigned long long)q->next_serial, (unsigned long long)q->draws,
        (unsigned long long)q->fill_hash, (unsigned long long)q->done, q->epoch, q->closed ? " closed" : "",
        q->filled ? " filled" : "", (long long)q->step, (unsigned long long)q->taken, (unsigned long long)q->bytes,
        (unsigned long long)q->attempt_count);
    assert_int_equal(st, PS_OK);
    if (q->sum != NULL) {
        say_element(out, q->sum);
    }
    say_list(out, &q->elements);
    for (uint64_t i = 0; i < q->size && q->spec.kind == PSI_QUEUE_SHUFFLE; i++) {
        say_element(out, q->array[i]);
    }
}

static inline void say_records(struct psi_buf *out, const struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &r->attempts) {
            const struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, link);
            ps_status st =
                psi_buf_printf(out, NULL, "\n%llu/%llu in %llu%s%s has %llu of %llu:", (unsigned long long)r->name,
                               (unsigned long long)a->id, (unsigned long long)a->inserted, a->done ? " done" : "",
                               a->held ? " held" : "", (unsigned long long)a->element_count, (unsigned long long)a->bytes);
            assert_int_equal(st, PS_OK);
            say_list(out, &a->elements);
        }
    }
}

static inline const char *told(const struct psd_task *t, struct psi_buf *out)
{
    uint64_t cursor = 0;
    void *value = NULL;
    const struct psd_container *c = psd_container_find(&t->store, "c");
    psi_buf_init(out, 1 << 24);
    while (psi_map_next(&c->variables, &cursor, NULL, NULL, &value)) {
        say_queue(out, ((const struct psd_variable *)value)->queue);
    }
    say_records(out, t);
    assert_int_equal(psi_buf_append(out, "", 1, NULL), PS_OK);
    return (const char *)out->data;
}

/* The first `count` changes in a task of its own. */
static inline struct psd_task *replayed(const struct life *l, uint32_t count)
{
    struct psd_task *t = task_new(l);
    const uint8_t *p = l->log.data;
    size_t n = l->at[count];
    struct psi_err err;
    while (n > 0) {
        if (psd_replay(t, &p, &n, &err) != PS_OK) {
            fail_msg("change %llu: %s", (unsigned long long)t->position + 1, err.text);
        }
    }
    assert_int_equal(t->position, count);
    return t;
}

static inline void assert_replayed(const struct life *l)
{
    struct psi_buf a, b;
    struct psd_task *t = replayed(l, l->count);
    psd_store_check_invariants(&t->store);
    assert_string_equal(told(l->task, &a), told(t, &b));
    assert_int_equal(t->store.queue_count, l->task->store.queue_count);
    assert_int_equal(t->store.variable_count, l->task->store.variable_count);
    psi_buf_fini(&a);
    psi_buf_fini(&b);
    psd_task_free(t);
}

/* ---- accumulators ---- */

static inline struct psd_change applying(struct life *l, int session, uint64_t id, double gradient)
{
    uint64_t bits = 0;
    memcpy(&bits, &gradient, sizeof(bits));
    struct psd_change c = putting(l, session, id, element(l, bits));
    c.attempt.last = true;
    return c;
}

static inline void apply(struct life *l, int session, uint64_t id, double gradient)
{
    must(l, applying(l, session, id, gradient));
}

/* Returns what came out; it is the request's. */
static inline double take_grad(struct life *l, int session, uint64_t id, uint64_t gradients)
{
    uint64_t bits = take(l, session, id, true);
    double value = 0;
    memcpy(&value, &bits, sizeof(value));
    assert_int_equal(first_of(&psd_attempt_find(l->records[session], id)->elements)->serial, gradients);
    return value;
}

static inline struct psd_change setting(const struct life *l, int session, uint64_t number, int64_t step)
{
    return (struct psd_change){.kind = PSD_CHANGE_SET_STEP,
                               .set_step = {.record = l->records[session], .number = number, .variable = l->v, .step = step}};
}

#endif
