/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues in the store, change by change: order on both sides, what comes back and where, draws, work items and epochs, memory and
 * budget. Each test ends with its changes replayed in an empty task, which must give the same; changes that are cut or have a bit
 * flipped are refused or harmless.
 */
#include "queue_life.h"

/* ---- FIFO ---- */

TEST(test_fifo_order)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, 10);
    struct life *l = life_new(&spec);
    assert_int_equal(l->v->bytes, 0);
    assert_false(l->v->initialised);
    for (uint64_t i = 0; i < 10; i++) {
        assert_true(psd_queue_has_room(l->q));
        put(l, 0, 1, 100 + i, i == 9);
    }
    assert_false(psd_queue_has_room(l->q));
    const struct psd_attempt *a = psd_attempt_find(l->records[0], 1);
    assert_true(a->done && a->inserted == 10 && a->element_count == 0);
    assert_null(psd_attempt_find(l->records[1], 1)); /* another session's */
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(take(l, 1, 2 + i, true), 100 + i);
        assert_int_equal(psd_queue_available(l->q), 9 - i);
    }
    assert_replayed(l);
    end(l, 0, 1, false);
    for (uint64_t i = 0; i < 10; i++) {
        end(l, 1, 2 + i, false);
    }
    assert_int_equal(l->q->bytes, 0);
    assert_int_equal(l->task->store.promised_bytes, psd_arena_bytes(sizeof(struct psd_queue)));
    assert_replayed(l);
}

/* To the front, in the order in which it was taken; it counts as delivered where the request was done. */
TEST(test_given_back)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, 6);
    struct life *l = life_new(&spec);
    for (uint64_t i = 0; i < 6; i++) {
        put(l, 0, 1, i, i == 5);
    }
    assert_int_equal(take(l, 1, 1, false), 0); /* of a batch that stays in part */
    assert_int_equal(take(l, 1, 1, false), 1);
    assert_int_equal(take(l, 2, 1, true), 2);
    assert_true(psd_queue_has_room(l->q)); /* what is taken is out, before its ACK */
    put(l, 0, 2, 6, true);
    end(l, 2, 1, true);
    end(l, 1, 1, true);
    assert_null(psd_attempt_find(l->records[1], 1));
    assert_int_equal(l->q->size, 7); /* above the capacity: nothing is lost */
    assert_false(psd_queue_has_room(l->q));
    for (uint64_t i = 0; i < 7; i++) {
        uint32_t deliveries = first_of(&l->q->elements)->deliveries;
        assert_int_equal(deliveries, i == 2);
        assert_int_equal(take(l, 1, 2, false), i);
    }
    must(l, by(l, PSD_CHANGE_ATTEMPT_DONE, 1, 2));
    assert_true(psd_attempt_find(l->records[1], 2)->done);
    assert_replayed(l);
    end(l, 1, 2, true);
    assert_int_equal(first_of(&l->q->elements)->deliveries, 1);
    assert_replayed(l);
}

TEST(test_close)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_SHUFFLE, 10);
    spec.min_after_dequeue = 3;
    struct life *l = life_new(&spec);
    for (uint64_t i = 0; i < 5; i++) {
        put(l, 0, i + 1, i, true);
    }
    assert_int_equal(psd_queue_available(l->q), 2);
    PSI_IGNORE(take(l, 1, 1, false)); /* any of them */
    PSI_IGNORE(take(l, 1, 1, false)); /* likewise */
    assert_int_equal(psd_queue_available(l->q), 0);
    close_queue(l);
    assert_true(l->q->closed);
    assert_int_equal(psd_queue_available(l->q), 3);
    assert_replayed(l);
}

/* ---- SHUFFLE ---- */

enum { DRAWN = 200 };

/* Takes all, each once; the order into out. */
static void draw_all(struct life *l, uint64_t *out)
{
    bool seen[DRAWN] = {false};
    for (uint64_t i = 0; i < DRAWN; i++) {
        put(l, 0, i + 1, i, true);
        end(l, 0, i + 1, false);
    }
    for (uint64_t i = 0; i < DRAWN; i++) {
        out[i] = take(l, 1, i + 1, true);
        assert_in_range(out[i], 0, DRAWN - 1);
        assert_false(seen[out[i]]);
        seen[out[i]] = true;
    }
}

TEST(test_shuffle_draws_by_its_seed)
{
    static uint64_t order[3][DRAWN];
    const uint64_t seeds[3] = {7, 7, UINT64_C(7) << 32};
    for (size_t i = 0; i < 3; i++) {
        struct psi_queue_spec spec = spec_of(PSI_QUEUE_SHUFFLE, -1);
        spec.seed = seeds[i];
        struct life *l = life_new(&spec);
        draw_all(l, order[i]);
        assert_int_equal(l->q->draws, DRAWN);
        assert_replayed(l);
    }
    assert_memory_equal(order[0], order[1], sizeof(order[0]));
    assert_memory_not_equal(order[0], order[2], sizeof(order[0]));
    uint64_t in_place = 0;
    for (uint64_t i = 0; i < DRAWN; i++) {
        in_place += order[0][i] == i;
    }
    assert_in_range(in_place, 0, 10); /* on average one */
}

/* Every element that was inserted has a place to come back to, also where others were inserted meanwhile. */
TEST(test_shuffle_given_back)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_SHUFFLE, -1);
    spec.seed = 3;
    struct life *l = life_new(&spec);
    uint64_t value = 0, first = 0;
    for (uint64_t round = 0; round < 4; round++) {
        for (uint64_t i = 0; i < 50; i++) {
            put(l, 0, 1 + round, value++, i == 49);
        }
        for (uint64_t i = 0; i < 50; i++) {
            uint64_t got = take(l, 1, 1 + round, i == 49);
            first = round == 0 && i == 0 ? got : first;
        }
    }
    assert_int_equal(l->q->size, 0);
    for (uint64_t round = 0; round < 4; round++) {
        end(l, 1, 1 + round, true);
    }
    assert_int_equal(l->q->size, 200);
    assert_int_equal(value_of(l->q->array[0]), first); /* at the back, of what was empty */
    assert_int_equal(l->q->array[0]->deliveries, 1);
    assert_replayed(l);
}

/* ---- WORK ---- */

static void fill(struct life *l, uint64_t items)
{
    for (uint64_t i = 0; i < items; i++) {
        put(l, 0, 1, i, i + 1 == items);
        assert_int_equal(psd_queue_available(l->q), 0); /* not before it is filled */
    }
    must(l, (struct psd_change){.kind = PSD_CHANGE_WORK_FILLED, .filled = {.variable = l->v, .hash = 99}});
    assert_int_equal(psd_queue_available(l->q), items);
}

/* The next item is leased: taken and acknowledged. Returns its serial. */
static uint64_t lease(struct life *l, int session, uint64_t id)
{
    uint64_t value = take(l, session, id, true);
    end(l, session, id, false);
    const struct psd_attempt *a = psd_attempt_find(l->records[session], id);
    assert_true(a->held);
    assert_int_equal(first_of(&a->elements)->serial, value + 1);
    return value + 1;
}

TEST(test_work_items_and_epochs)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_WORK, -1);
    struct life *l = life_new(&spec);
    uint64_t number = 1;
    fill(l, 3);
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(l->q->epoch, epoch);
        assert_int_equal(lease(l, 1, 10 * epoch + 1), 1); /* no seed: as filled */
        assert_int_equal(lease(l, 2, 10 * epoch + 1), 2);
        assert_ptr_equal(psd_queue_holder(l->q, 2)->record, l->records[2]);
        assert_null(psd_attempt_of_item(l->records[1], l->q, 2));
        assert_int_equal(work_end(l, 1, number++, 1, false, false), 0);
        assert_int_equal(psd_queue_item(l->q, 1)->state, PSD_ELEMENT_DONE);
        assert_int_equal(work_end(l, 1, number++, 1, false, true), 1); /* again */
        assert_int_equal(work_end(l, 2, number++, 2, true, false), 0); /* back, to the front */
        assert_int_equal(l->q->size, 2);
        assert_int_equal(psd_queue_item(l->q, 2)->deliveries, 1);
        assert_replayed(l);
        assert_int_equal(lease(l, 1, 10 * epoch + 2), 2);
        assert_int_equal(lease(l, 1, 10 * epoch + 3), 3);
        assert_int_equal(work_end(l, 1, number++, 3, false, false), 0);
        assert_int_equal(l->q->done, 2);
        assert_int_equal(work_end(l, 1, number++, 2, false, false), 0); /* the last one of the epoch */
        assert_replayed(l);
    }
    assert_int_equal(l->q->epoch, 2);
    assert_int_equal(l->q->size, 0);
    assert_int_equal(psd_queue_items(l->q), 3);
    assert_null(psd_queue_item(l->q, 0));
    assert_null(psd_queue_item(l->q, 4));
    assert_int_equal(psd_queue_item(l->q, 3)->deliveries, 0);
}

/* A session's end gives its items back. Whoever had taken one and not said so, likewise. */
TEST(test_work_of_a_session_that_ends)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_WORK, -1);
    struct life *l = life_new(&spec);
    fill(l, 4);
    PSI_IGNORE(lease(l, 1, 1));      /* 1 */
    PSI_IGNORE(take(l, 1, 2, true)); /* 2, not acknowledged */
    PSI_IGNORE(lease(l, 2, 1));      /* 3 */
    end(l, 1, 2, true);
    end(l, 1, 1, true);
    must(l, (struct psd_change){.kind = PSD_CHANGE_SESSION_END, .record = l->records[1]});
    assert_replayed(l);
    assert_int_equal(lease(l, 2, 2), 1);
    assert_int_equal(lease(l, 2, 3), 2);
    assert_int_equal(lease(l, 2, 4), 4);
}

TEST(test_work_order_by_seed)
{
    uint64_t order[2][20], same = 0;
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_WORK, -1);
    spec.seed = 5;
    struct life *l = life_new(&spec);
    fill(l, 20);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        uint64_t seen = 0;
        for (uint64_t i = 0; i < 20; i++) {
            order[epoch][i] = lease(l, 1, 20 * epoch + i + 1);
            seen |= UINT64_C(1) << order[epoch][i];
            assert_int_equal(work_end(l, 1, 20 * epoch + i + 1, order[epoch][i], false, false), 0);
        }
        assert_int_equal(seen, 0x1ffffe);
    }
    for (uint64_t i = 0; i < 20; i++) {
        same += order[0][i] == i + 1;
        same += order[0][i] == order[1][i];
    }
    assert_in_range(same, 0, 12); /* on average 2 */
    assert_replayed(l);
}

TEST(test_work_without_items)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_WORK, -1);
    struct life *l = life_new(&spec);
    must(l, (struct psd_change){.kind = PSD_CHANGE_WORK_FILLED, .filled = {.variable = l->v, .hash = 1}});
    assert_int_equal(l->q->epoch, l->q->spec.epochs); /* all are over */
    assert_replayed(l);
}

/* ---- its end ---- */

TEST(test_drop_and_reset)
{
    static const enum psi_queue_kind kinds[] = {PSI_QUEUE_FIFO, PSI_QUEUE_SHUFFLE, PSI_QUEUE_WORK};
    for (size_t i = 0; i < 2 * ARRAY_COUNT(kinds); i++) {
        struct psi_queue_spec spec = spec_of(kinds[i / 2], -1);
        struct life *l = life_new(&spec);
        if (spec.kind == PSI_QUEUE_WORK) {
            fill(l, 10);
            PSI_IGNORE(lease(l, 2, 1));
            assert_int_equal(work_end(l, 2, 1, 1, false, false), 0);
            PSI_IGNORE(lease(l, 2, 2));
        } else {
            for (uint64_t k = 0; k < 10; k++) {
                put(l, 0, 1, k, k == 9);
            }
        }
        uint64_t value = take(l, 1, 1, true);
        uint64_t kept = psd_arena_bytes(psd_element_memory_bytes(first_of(&psd_attempt_find(l->records[1], 1)->elements)->bytes));
        if (i % 2 == 0) {
            must(l, (struct psd_change){.kind = PSD_CHANGE_DROP, .variable = l->v});
        } else {
            must(l, (struct psd_change){.kind = PSD_CHANGE_CONTAINER_RESET, .container = {.name = "c", .incarnation = 6}});
        }
        assert_int_equal(l->task->store.queue_count, 0);
        const struct psd_attempt *a = psd_attempt_find(l->records[1], 1);
        assert_int_equal(value_of(first_of(&a->elements)), value); /* its client may be fetching it */
        assert_int_equal(l->task->store.promised_bytes, psd_arena_bytes(sizeof(struct psd_queue)) + kept);
        assert_null(psd_attempt_find(l->records[2], 2)); /* what it held is gone */
        assert_replayed(l);
        end(l, 1, 1, i / 2 == 0); /* either way: there is nothing to go back to */
        end(l, 0, 1, false);
        assert_int_equal(l->task->store.promised_bytes, 0);
        assert_replayed(l);
    }
}

/* ---- random ones ---- */

struct open {
    int session;
    uint64_t id;
    bool used;
};

static void random_changes(struct life *l, struct wire_random *random, int steps)
{
    struct open open[12] = {{0}};
    uint64_t id = 1, value = 0;
    for (int i = 0; i < steps; i++) {
        struct open *o = &open[wire_below(random, ARRAY_COUNT(open))];
        if (!o->used) {
            *o = (struct open){.session = (int)wire_below(random, SESSIONS), .id = id++, .used = true};
        }
        const struct psd_attempt *a = psd_attempt_find(l->records[o->session], o->id);
        bool taking = a != NULL && a->inserted == 0, putting = a != NULL && a->inserted > 0;
        uint64_t what = wire_below(random, 8);
        if (a != NULL && (what == 0 || a->done)) {
            end(l, o->session, o->id, wire_below(random, 2) == 0);
            o->used = false;
        } else if (a != NULL && what == 1) {
            must(l, by(l, PSD_CHANGE_ATTEMPT_DONE, o->session, o->id));
        } else if (!taking && (putting || what < 5) && psd_queue_has_room(l->q)) {
            put(l, o->session, o->id, value++, wire_below(random, 4) == 0);
        } else if (!putting && psd_queue_available(l->q) > 0) {
            PSI_IGNORE(take(l, o->session, o->id, wire_below(random, 4) == 0)); /* compared below */
        }
    }
}

TEST(test_random_changes)
{
    struct wire_random random = {.state = 8};
    for (int round = 0; round < 40; round++) {
        struct psi_queue_spec spec =
            spec_of(round % 2 == 0 ? PSI_QUEUE_FIFO : PSI_QUEUE_SHUFFLE, round % 3 == 0 ? -1 : 1 + round);
        struct life *l = life_new(&spec);
        random_changes(l, &random, 300);
        assert_replayed(l);
    }
}

/* ---- wrong bytes ---- */

static struct life *all_kinds(void)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_WORK, -1), fifo = spec_of(PSI_QUEUE_FIFO, 5);
    fifo.component_count = 2;
    fifo.components[1] = (struct psi_queue_component){.dtype = PS_F32};
    struct life *l = life_new(&spec);
    PSI_IGNORE(create(l, "other", &fifo)); /* its spec has two components */
    spec = spec_of(PSI_QUEUE_SHUFFLE, 5);
    const struct psd_variable *shuffle = create(l, "shuffle", &spec), *work = l->v;
    fill(l, 3);
    PSI_IGNORE(lease(l, 1, 1));
    assert_int_equal(work_end(l, 1, 1, 1, false, false), 0);
    PSI_IGNORE(take(l, 2, 1, true));
    l->v = shuffle;
    l->q = shuffle->queue;
    put(l, 0, 2, 1, false);
    put(l, 0, 2, 2, false);
    PSI_IGNORE(take(l, 1, 3, false));
    must(l, by(l, PSD_CHANGE_ATTEMPT_DONE, 1, 3));
    end(l, 1, 3, true);
    close_queue(l);
    must(l, (struct psd_change){.kind = PSD_CHANGE_DROP, .variable = shuffle});
    spec = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
    l->v = create(l, "sums", &spec);
    l->q = l->v->queue;
    apply(l, 0, 4, 1.5);
    apply(l, 0, 5, 2);
    must(l, setting(l, 0, 1, 6));
    PSI_IGNORE(take_grad(l, 1, 4, 2)); /* replayed below */
    l->v = work;
    l->q = work->queue;
    return l;
}

TEST(test_cut_anywhere)
{
    struct life *l = all_kinds();
    struct psd_task *t = task_new(l);
    for (uint32_t i = 0; i < l->count; i++) {
        size_t whole = l->at[i + 1] - l->at[i];
        const uint8_t *p = l->log.data + l->at[i];
        for (size_t n = 0; n < whole; n++) {
            size_t left = n;
            assert_int_equal(psd_replay(t, &p, &left, NULL), PS_DATA_LOSS);
            assert_int_equal(t->position, i);
        }
        assert_int_equal(psd_replay(t, &p, &whole, NULL), PS_OK);
    }
    assert_int_equal(t->store.promised_bytes, l->task->store.promised_bytes); /* of what was refused nothing stays */
    psd_task_free(t);
}

TEST(test_flipped_bits)
{
    struct life *l = all_kinds();
    uint32_t refused = 0, all = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        struct psd_task *t = replayed(l, i);
        for (size_t at = 0; at < 8 * (l->at[i + 1] - l->at[i]); at++) {
            uint8_t *byte = l->log.data + l->at[i] + at / 8;
            const uint8_t *p = l->log.data + l->at[i];
            size_t n = l->at[i + 1] - l->at[i];
            *byte ^= (uint8_t)(1u << at % 8);
            ps_status st = psd_replay(t, &p, &n, NULL);
            *byte ^= (uint8_t)(1u << at % 8);
            all++;
            refused += st != PS_OK;
            psd_store_check_invariants(&t->store);
            if (st == PS_OK) {
                psd_task_free(t);
                t = replayed(l, i);
            }
        }
        psd_task_free(t);
    }
    assert_in_range(refused, all / 3, all - 1);
}

/* Legal changes of other tasks, not the next one of this. */
static void assert_refused(struct life *l, struct psd_change c)
{
    struct psi_buf bytes;
    psi_buf_init(&bytes, 1 << 16);
    assert_int_equal(psd_change_encode(&c, &bytes, NULL), PS_OK);
    const uint8_t *p = bytes.data;
    size_t n = bytes.len;
    psd_task_consumer(l->task, NULL, NULL);
    assert_int_equal(psd_replay(l->task, &p, &n, NULL), PS_DATA_LOSS);
    psd_task_consumer(l->task, hear, l);
    psi_buf_fini(&bytes);
}

TEST(test_not_the_next_one)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, 5);
    struct life *l = life_new(&spec);
    struct psd_record *r = l->records[0];
    struct psd_change take_one = by(l, PSD_CHANGE_DEQUEUE, 0, 9), end_one = by(l, PSD_CHANGE_ATTEMPT_END, 0, 9);
    assert_refused(l, take_one); /* it is empty */
    assert_refused(l, end_one);  /* no such attempt */
    put(l, 0, 1, 5, true);
    take_one.attempt.index = 1;
    assert_refused(l, take_one);
    take_one.attempt.index = 0;
    take_one.attempt.id = 1;
    assert_refused(l, take_one); /* that request is done */
    struct psd_element *e = element(l, 1);
    assert_refused(l, putting(l, 0, 1, e));
    e->bytes = 0; /* not what the queue's elements are */
    assert_refused(l, putting(l, 0, 2, e));
    e->bytes = 8;
    psd_element_free(&l->task->store, e);
    assert_refused(l, (struct psd_change){.kind = PSD_CHANGE_SESSION_END, .record = r}); /* it has an attempt */
    assert_refused(l, (struct psd_change){.kind = PSD_CHANGE_WORK_FILLED, .filled = {.variable = l->v}});
    assert_refused(l, (struct psd_change){.kind = PSD_CHANGE_WORK_END,
                                          .work_end = {.record = r, .number = 1, .variable = l->v, .serial = 1}});
    assert_refused(l, (struct psd_change){.kind = PSD_CHANGE_SEAL, .seal = {.variable = l->v}});
    close_queue(l);
    assert_refused(l, (struct psd_change){.kind = PSD_CHANGE_QUEUE_CLOSE, .variable = l->v}); /* twice */
    spec.capacity = 0;
    assert_refused(l, creating(l, "z", &spec));
    end(l, 0, 1, false);
    spec = spec_of(PSI_QUEUE_WORK, -1);
    l->v = create(l, "w", &spec);
    l->q = l->v->queue;
    fill(l, 2);
    assert_refused(l, (struct psd_change){.kind = PSD_CHANGE_WORK_FILLED, .filled = {.variable = l->v}}); /* twice */
    assert_refused(l, (struct psd_change){.kind = PSD_CHANGE_QUEUE_CLOSE, .variable = l->v});
    assert_refused(l, setting(l, 0, 1, 5)); /* it has no step */
    const struct psd_variable *work = l->v;
    spec = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
    l->v = create(l, "sums", &spec);
    l->q = l->v->queue;
    take_one = by(l, PSD_CHANGE_DEQUEUE, 0, 9);
    assert_refused(l, take_one); /* it has no gradient */
    apply(l, 0, 50, 5);
    take_one.attempt.index = 1;
    assert_refused(l, take_one);
    assert_refused(l, setting(l, 0, 1, -1));
    assert_refused(l, setting(l, 0, 1, PSI_STEP_MAX + 1));
    assert_refused(l, (struct psd_change){.kind = PSD_CHANGE_QUEUE_CLOSE, .variable = l->v});
    l->v = work;
    l->q = l->v->queue;
    PSI_IGNORE(take(l, 1, 9, false));
    end_one.attempt.record = l->records[1];
    assert_refused(l, end_one); /* of what the request has not got nothing is held */
    struct psd_change done = {.kind = PSD_CHANGE_WORK_END, .work_end = {.record = r, .number = 1, .variable = l->v, .serial = 1}};
    assert_refused(l, done); /* another session has it */
    done.work_end.record = l->records[1];
    done.work_end.serial = 2;
    assert_refused(l, done); /* nobody has it */
    assert_replayed(l);
}

TEST(test_definitions)
{
    struct psi_err err;
    struct psd_definition v = {.dtype = PS_F32, .shape = {.rank = 1, .dims = {2}}}, q = {.queue = true}, bad = q;
    assert_int_equal(psd_definition_check(&q, "q", &err), PS_OK);
    bad.dtype = PS_F32;
    assert_int_equal(psd_definition_check(&bad, "q", &err), PS_INVALID_ARGUMENT);
    assert_int_equal(psd_definition_compare(&q, "here", &q, "x", &err), PS_OK);
    assert_int_equal(psd_definition_compare(&q, "here", &v, "x", &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "'x' exists at here as a queue; asked for as a variable"));
    assert_int_equal(psd_definition_compare(&v, "here", &q, "x", &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "as a variable; asked for as a queue"));
    assert_false(psd_definition_equal(&v, &q));
}

/* ---- memory ---- */

TEST(test_budget)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_SHUFFLE, -1);
    struct life *l = life_new(&spec);
    /* the largest element that what is left has room for, in whole pieces of memory */
    const uint64_t left = BUDGET - psd_store_taken(&l->task->store);
    uint64_t most = left;
    while (psd_arena_bytes(psd_element_memory_bytes(most)) > left) {
        most--;
    }
    psd_store_set_budget(&l->task->store, psd_store_taken(&l->task->store) + psd_arena_bytes(psd_element_memory_bytes(most)));
    for (uint64_t bytes = most; bytes <= most + 1; bytes++) {
        struct psd_element *e = psd_element_new(&l->task->store, bytes);
        assert_int_equal(e != NULL, bytes == most);
        if (e != NULL) {
            assert_int_equal(psd_store_missing(&l->task->store, 1), 1);
            struct psd_change c = putting(l, 0, 1, e);
            assert_int_equal(psd_change_reserve(l->task, &c, NULL), PS_RESOURCE_EXHAUSTED); /* no place in the array */
        }
        psd_element_free(&l->task->store, e);
    }
    assert_int_equal(l->task->store.promised_bytes, psd_arena_bytes(sizeof(struct psd_queue)));
    struct psd_element *e = psd_element_new(&l->task->store, most);
    struct psd_change c = creating(l, "p", &spec);
    assert_int_equal(psd_change_reserve(l->task, &c, NULL), PS_RESOURCE_EXHAUSTED);
    psd_element_free(&l->task->store, e);
}

/* What a change needs fails, one after the other: nothing is half done. */
TEST(test_no_memory)
{
    static const enum psi_queue_kind kinds[] = {PSI_QUEUE_FIFO, PSI_QUEUE_SHUFFLE, PSI_QUEUE_WORK, PSI_QUEUE_ACCUMULATOR};
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct psi_queue_spec spec = spec_of(kinds[i], -1);
        struct life *l = life_new(&spec);
        struct psd_change c = creating(l, "p", &spec);
        int fails = 0;
        do {
            psi_mem_fail_after(fails++);
        } while (change(l, &c) == PS_RESOURCE_EXHAUSTED);
        assert_in_range(fails, 1, 20); /* pieces of blocks that are there need no memory of the system */
        psi_mem_fail_after(-1);
        struct psd_change in = putting(l, 0, 1, element(l, 4));
        fails = 0;
        do {
            psi_mem_fail_after(fails++);
        } while (change(l, &in) == PS_RESOURCE_EXHAUSTED);
        psi_mem_fail_after(-1);
        assert_in_range(fails, 2, 20);
        assert_replayed(l);
    }
}

enum { MANY = 1000000 };

/* What a million elements of 16 bytes take, of blocks and arrays. */
TEST(test_bytes_of_an_element)
{
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        struct psi_queue_spec spec = spec_of(shuffle ? PSI_QUEUE_SHUFFLE : PSI_QUEUE_FIFO, -1);
        spec.components[0].shape = (ps_shape){.rank = 1, .dims = {2}};
        struct life *l = life_new(&spec);
        l->silent = true;
        psd_task_consumer(l->task, NULL, NULL);
        psd_store_set_budget(&l->task->store, UINT64_C(1) << 30);
        uint64_t before = psi_mem_count();
        for (uint64_t i = 0; i < MANY; i++) {
            struct psd_element *e = psd_element_new(&l->task->store, 16);
            memset(e->data, 0, 16);
            must(l, putting(l, 0, 1, e));
        }
        uint64_t bytes = (psi_mem_count() - before) * PSD_ARENA_BLOCK_BYTES + l->q->capacity * sizeof(void *);
        assert_int_equal(l->q->size, MANY);
        print_message("%s: %.1f bytes an element of 16\n", psi_queue_kind_name(spec.kind), (double)bytes / MANY);
        assert_in_range(bytes, 0, (uint64_t)128 * MANY);
    }
}

/* Put, taken, acknowledged: nothing comes from the allocator once the first ones were there. */
TEST(test_no_allocation_in_steady_state)
{
    static const uint64_t sizes[] = {16, 4096, 16384, 65536, 1 << 20};
    for (size_t k = 0; k < 2 * ARRAY_COUNT(sizes); k++) {
        struct psi_queue_spec spec = spec_of(k % 2 == 0 ? PSI_QUEUE_FIFO : PSI_QUEUE_SHUFFLE, -1);
        struct life *l = life_new(&spec);
        uint64_t bytes = sizes[k / 2], before = 0;
        l->silent = true;
        psd_task_consumer(l->task, NULL, NULL);
        for (uint64_t i = 0; i < 3000; i++) {
            before = i == 100 ? psi_mem_count() : before;
            for (uint64_t j = 0; j < 1 + i % 20; j++) { /* as many as fill several blocks, and none in between */
                struct psd_change c = putting(l, 0, 1, psd_element_new(&l->task->store, bytes));
                c.attempt.last = j == i % 20;
                must(l, c);
            }
            end(l, 0, 1, false);
            for (uint64_t j = 0; j < 1 + i % 20; j++) {
                PSI_IGNORE(take(l, 1, j + 1, true)); /* its data are none */
                end(l, 1, j + 1, false);
            }
        }
        assert_int_equal(psi_mem_count(), before);
        assert_int_equal(l->q->bytes, 0);
    }
}
