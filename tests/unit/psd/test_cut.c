/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts and their loading, where the simulator does not look: every byte of a small checkpoint spoilt, files of others, memory
 * that is short at any moment, how much one turn does and how much memory it holds. What a cut has in it is the simulator's to
 * compare.
 */
#include "cut_test.h"

#include "psd/store/cut_internal.h"
#include "psd/store/mutate.h"

#include "common/optimizer.h"
#include "common/safetensors.h"

#include <stdlib.h>

enum { ELEMENTS = 300, LARGE = 4 << 20, MANY = 20000, ITEMS = 1000 };

/* ---- a task ---- */

static const struct psd_variable *variable(struct life *l, const char *name, int64_t elements, bool sealed)
{
    return variable_of(l, name, (ps_shape){.rank = 1, .dims = {elements}}, ps_adagrad(0.5), sealed);
}

/* A push of session 1 that stays in progress. */
static struct psd_number *begin(struct life *l, const struct psd_variable *v, uint64_t number)
{
    struct psd_progress *p = psd_progress_new(l->task, v);
    assert_non_null(p);
    p->number = number;
    p->kind = PSD_PUSH;
    p->wire = PS_F32;
    p->unit = 4;
    p->total = v->elements;
    p->scale = 1;
    p->staging_bytes = psd_progress_staging_bytes(p);
    if (psd_progress_stages(p)) {
        p->staging = psd_store_stage_raw(&l->task->store, p->staging_bytes);
        assert_non_null(p->staging);
    } else {
        psd_variable_capture(v, 0, 1, &p->scalars);
    }
    must(l, (struct psd_change){.kind = PSD_CHANGE_BEGIN, .begin = {.record = l->records[1], .reserved = p}});
    return (struct psd_number *)(uintptr_t)psd_record_find(l->records[1], number);
}

/* The block of it that comes next. */
static void segment(struct life *l, const struct psd_number *n)
{
    static float ones[BLOCK / 4];
    struct psd_optim_scalars scalars;
    uint64_t left = n->progress->total - n->offset, count = left < BLOCK / 4 ? left : BLOCK / 4;
    for (int i = 0; i < BLOCK / 4; i++) {
        ones[i] = 1;
    }
    psd_variable_capture(n->progress->variable, 0, 1, &scalars);
    must(l, (struct psd_change){.kind = PSD_CHANGE_SEGMENT,
                                .segment = {.record = l->records[1],
                                            .number = n,
                                            .bytes = (const uint8_t *)ones,
                                            .count = count,
                                            .last = count == left,
                                            .scalars = n->progress->staging != NULL ? &scalars : NULL}});
}

/* A bit of everything: a model, half a push, a queue and what is taken out of it. */
static struct life *small_with(enum psi_queue_kind kind)
{
    struct psi_queue_spec spec = spec_of(kind, -1);
    struct life *l = life_new(&spec);
    const struct psd_variable *w = variable(l, "w", BLOCK / 4 + 7, true);
    variable(l, "b", 3, true);
    for (uint64_t i = 0; i < 5; i++) {
        put(l, 0, 100 + i, i, true);
        end(l, 0, 100 + i, false);
    }
    if (kind == PSI_QUEUE_WORK) {
        must(l, (struct psd_change){.kind = PSD_CHANGE_WORK_FILLED, .filled = {.variable = l->v, .hash = 1}});
    }
    if (kind != PSI_QUEUE_ACCUMULATOR) {
        (void)take(l, 2, 7, true);
    }
    segment(l, begin(l, w, 1));
    return l;
}

static struct life *small(void)
{
    return small_with(PSI_QUEUE_FIFO);
}

/* ---- cases ---- */

/* What is in the container of a session is in no cut, nor a push to it that is in progress; the rest is as without it. */
TEST(test_containers_of_sessions_are_left_out)
{
    static const char own[] = "session/00112233445566aa";
    struct life *l = small();
    uint64_t before = l->task->store.changes;
    must(l, (struct psd_change){.kind = PSD_CHANGE_CONTAINER, .container = {.name = own, .incarnation = 99}});
    struct psd_definition d = {.dtype = PS_F32, .shape = {.rank = 1, .dims = {BLOCK / 4 + 7}}, .optimizer = *ps_sgd(0.5)};
    struct psd_making m = {.init = *ps_ones(), .optimizer = d.optimizer};
    struct psd_change c = creating(l, "part", NULL);
    c.create.container = psd_container_find(&l->task->store, own);
    c.create.definition = &d;
    must(l, c);
    const struct psd_variable *v = psd_variable_find(psd_container_find(&l->task->store, own), "part");
    must(l, (struct psd_change){.kind = PSD_CHANGE_INIT,
                                .init = {.record = l->records[0], .number = 4711, .variable = v, .making = &m, .runs = true}});
    const struct psd_number *torn = begin(l, v, 2);
    segment(l, torn);
    assert_true(psd_number_is_torn(torn));
    assert_int_equal(l->task->store.changes, before); /* no checkpoint differs */
    struct checkpoint *saved_ = checkpoint_new();
    cut_begin(l, 1 << 20);
    psd_cut_turn(l->task, 1);
    segment(l, torn); /* it ends while the cut goes on */
    must(l, (struct psd_change){.kind = PSD_CHANGE_CONTAINER_RESET, .container = {.name = own, .incarnation = 100}});
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, saved_);
    }
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_WRITTEN);
    saved_->count = psd_cut_file_count(l->task);
    psd_cut_end(l->task);
    assert_null(psd_container_find(&l->task->store, own));
    struct psd_task *t = task_new(l);
    struct psi_err err;
    assert_int_equal(load_into(t, saved_, &err), PS_OK);
    psd_store_check_invariants(&t->store);
    assert_null(psd_container_find(&t->store, own));
    assert_int_equal(t->store.variable_count, l->task->store.variable_count);
    const struct psd_record *r = psi_map_find(&t->records, l->records[1]->session, sizeof(l->records[1]->session));
    assert_non_null(r);
    assert_int_equal(psd_record_find(r, 2)->state, PS_NUMBER_ABANDONED);
    assert_int_equal(r->progress_count, 1); /* that of the model */
    psd_task_free(t);
}

TEST(test_what_was_saved_is_loaded)
{
    struct life *l = small();
    struct checkpoint *c = saved(l);
    struct psd_task *t = task_new(l);
    struct psi_err err;
    assert_int_equal(c->count, 2);
    assert_int_equal(load_into(t, c, &err), PS_OK);
    psd_store_check_invariants(&t->store);
    assert_int_equal(t->position, l->task->position);
    const struct psd_container *in = psd_container_find(&t->store, "c");
    const struct psd_variable *w = psd_variable_find(in, "w"),
                              *was = psd_variable_find(psd_container_find(&l->task->store, "c"), "w");
    assert_memory_equal(w->value, was->value, was->bytes);
    assert_memory_equal(w->slots[0], was->slots[0], was->bytes);
    assert_int_equal(w->in_progress, 1);
    assert_int_equal(w->pin, 3);
    const struct psd_queue *q = psd_variable_find(in, "q")->queue;
    assert_int_equal(q->size, 4);
    assert_int_equal(q->taken, 1);
    assert_int_equal(value_of(first_of(&q->elements)), 1);
    psd_task_free(t);
}

/* A push to a variable of LARS ends while a cut that has it in progress is copied: what the cut has is the gradient, and not what
 * the push has made of it. */
TEST(test_staged_gradient_of_an_optimizer_with_norms)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    struct checkpoint *c = checkpoint_new();
    ps_optimizer lars = *ps_optimizer_standard(PS_OPT_LARS, 0.5);
    struct psi_err err;
    lars.l2 = 1; /* the steps differ from the gradient */
    const struct psd_variable *w = variable_of(l, "w", (ps_shape){.rank = 1, .dims = {2 * BLOCK / 4 + 7}}, &lars, true);
    const struct psd_number *n = begin(l, w, 1);
    segment(l, n);
    segment(l, n);
    cut_begin(l, 8 << 20);
    segment(l, n);
    assert_null(n->progress);
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, c);
    }
    psd_cut_end(l->task);
    struct psd_task *t = task_new(l);
    assert_int_equal(load_into(t, c, &err), PS_OK);
    const struct psd_variable *v = psd_variable_find(psd_container_find(&t->store, "c"), "w");
    const struct psd_record *r = psi_map_find(&t->records, l->records[1]->session, sizeof(l->records[1]->session));
    const struct psd_number *half = psd_record_find(r, 1);
    assert_int_equal(half->offset, 2 * BLOCK / 4);
    const float *const staging = half->progress->staging, *const value = v->value, *const slot = v->slots[0];
    for (uint64_t i = 0; i < v->elements; i++) {
        assert_true(value[i] == 1 && slot[i] == 0 && (i >= half->offset || staging[i] == 1));
    }
    psd_task_free(t);
}

/* A push to a variable of LAMB goes on behind a cut: the norms of the segments before it are in the cut. */
TEST(test_norms_of_half_a_push)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    struct psi_err err;
    ps_optimizer lamb = *ps_optimizer_standard(PS_OPT_LAMB, 0.5);
    lamb.weight_decay = 0.25;
    const struct psd_variable *w = variable_of(l, "w", (ps_shape){.rank = 1, .dims = {2 * BLOCK / 4 + 7}}, &lamb, true);
    struct psd_number *n = begin(l, w, 1);
    segment(l, n);
    segment(l, n);
    assert_true(n->progress->scalars.value_squares == 2 * BLOCK / 4.0);
    struct checkpoint *c = saved(l);
    struct psd_task *t = task_new(l);
    assert_int_equal(load_into(t, c, &err), PS_OK);
    struct life other = *l;
    other.task = t;
    other.records[1] = psi_map_find(&t->records, l->records[1]->session, sizeof(l->records[1]->session));
    const struct psd_variable *v = psd_variable_find(psd_container_find(&t->store, "c"), "w");
    segment(&other, psd_record_find(other.records[1], 1));
    segment(l, n);
    assert_int_equal(v->version, 1);
    assert_memory_equal(v->value, w->value, w->bytes);
    assert_memory_equal(v->slots[0], w->slots[0], w->bytes);
    assert_memory_equal(v->slots[1], w->slots[1], w->bytes);
    assert_true(((const float *)v->value)[0] != 1);
    psd_task_free(t);
}

/* A push to a variable of LAMB ends while a cut that has it in progress is copied: the cut has the value before the push. */
TEST(test_value_before_a_step_with_norms)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    struct checkpoint *c = checkpoint_new();
    struct psi_err err;
    const struct psd_variable *w =
        variable_of(l, "w", (ps_shape){.rank = 1, .dims = {2 * BLOCK / 4 + 7}}, ps_optimizer_standard(PS_OPT_LAMB, 0.5), true);
    const struct psd_number *n = begin(l, w, 1);
    segment(l, n);
    segment(l, n);
    cut_begin(l, 8 << 20);
    segment(l, n);
    assert_null(n->progress);
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, c);
    }
    psd_cut_end(l->task);
    struct psd_task *t = task_new(l);
    assert_int_equal(load_into(t, c, &err), PS_OK);
    const struct psd_variable *v = psd_variable_find(psd_container_find(&t->store, "c"), "w");
    const float *const value = v->value, *const slot = v->slots[0];
    for (uint64_t i = 0; i < v->elements; i++) {
        assert_true(value[i] == 1 && (slot[i] > 0) == (i < 2 * BLOCK / 4));
    }
    psd_task_free(t);
}

/* Without elements: first, between others and last, so that a tensor of no bytes lies before, between and behind those of others;
 * and alone, in a file that has no values at all. */
TEST(test_variables_without_elements)
{
    for (int alone = 0; alone < 2; alone++) {
        struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
        struct life *l = life_new(&spec);
        variable(l, "a", 0, true);
        if (alone == 0) {
            variable(l, "b", 3, true);
            variable(l, "c", 0, false);
            variable(l, "d", BLOCK / 4 + 7, true);
            variable(l, "e", 0, true);
        }
        struct checkpoint *c = saved(l);
        struct psd_task *t = task_new(l);
        struct psi_err err;
        assert_int_equal(load_into(t, c, &err), PS_OK);
        psd_store_check_invariants(&t->store);
        const struct psd_variable *a = psd_variable_find(psd_container_find(&t->store, "c"), "a");
        assert_true(a->initialised && a->sealed && a->bytes == 0);
        assert_non_null(a->value);
        assert_non_null(a->slots[0]);
        assert_int_equal(t->store.variable_count, l->task->store.variable_count);
        assert_int_equal(t->store.promised_bytes, l->task->store.promised_bytes);
        psd_task_free(t);
    }
}

/* As any reader of safetensors sees it. */
TEST(test_values_are_safetensors)
{
    struct life *l = small();
    struct checkpoint *c = saved(l);
    const struct psi_buf *f = &c->files[1];
    struct psi_safetensors table = {0};
    uint64_t length = 0;
    const struct psd_variable *w = psd_variable_find(psd_container_find(&l->task->store, "c"), "w");
    bool value = false, slot = false;
    assert_int_equal(psi_safetensors_length(f->data, f->len, &length, NULL), PS_OK);
    assert_int_equal(psi_safetensors_decode((const char *)f->data + 8, length, f->len, NULL, &table, NULL), PS_OK);
    assert_int_equal(table.tensor_count, 4);
    assert_string_equal(psi_safetensors_metadata(&table, "psd_container"), "c");
    for (size_t i = 0; i < table.tensor_count; i++) {
        const struct psi_tensor *t = &table.tensors[i];
        const uint8_t *at = f->data + table.data_start + t->begin;
        bool is_value = strcmp(t->name, "w") == 0, is_slot = strcmp(t->name, "w:accumulator") == 0;
        if (is_value || is_slot) {
            assert_memory_equal(at, is_value ? w->value : w->slots[0], w->bytes);
        }
        value = value || is_value;
        slot = slot || is_slot;
    }
    assert_true(value && slot);
    psi_safetensors_fini(&table);
}

/* Of the state file one block is as good as another: each of its bytes is under its CRC. */
TEST(test_every_byte_spoilt)
{
    struct life *l = small();
    struct checkpoint *c = saved(l);
    struct psi_err err;
    for (uint32_t i = 0; i < c->count; i++) {
        struct psi_buf *f = &c->files[i];
        for (size_t at = 0; at < f->len; at += at < 4096 || at + 64 > f->len ? 1 : 53) {
            f->data[at] ^= (uint8_t)(1 << at % 8);
            if (load(l, c, &err) != PS_DATA_LOSS) {
                fail_msg("file %u, byte %zu flipped: %s", i, at, err.text);
            }
            f->data[at] ^= (uint8_t)(1 << at % 8);
        }
        for (size_t len = 0, whole = f->len; len < whole; len += len < 4096 || len + 64 > whole ? 1 : 53) {
            f->len = len;
            if (load(l, c, &err) != PS_DATA_LOSS) {
                fail_msg("file %u cut at byte %zu: %s", i, len, err.text);
            }
            f->len = whole;
        }
    }
    assert_int_equal(load(l, c, &err), PS_OK);
}

/* Bytes behind the end that the manifest, or the state file, gives a file. */
TEST(test_longer_than_it_was)
{
    struct life *l = small();
    struct checkpoint *c = saved(l);
    struct psi_err err;
    c->state_bytes = c->files[0].len;
    for (uint32_t i = 0; i < c->count; i++) {
        struct psi_buf *f = &c->files[i];
        assert_int_equal(psi_buf_append(f, "", 1, NULL), PS_OK);
        assert_int_equal(load(l, c, &err), PS_DATA_LOSS);
        assert_non_null(strstr(err.text, i == 0 ? "its state file: " : "model-00000.safetensors: "));
        assert_non_null(strstr(err.text, "it is longer than it was written"));
        f->len--;
    }
    assert_int_equal(load(l, c, &err), PS_OK);
}

/* A value that is read in several pieces, of which each is compared. */
TEST(test_large_value_spoilt)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    variable(l, "w", (9 << 20) / 4 + 1, true);
    struct checkpoint *c = saved(l);
    struct psi_buf *f = &c->files[1];
    struct psi_err err;
    assert_int_equal(load(l, c, &err), PS_OK);
    for (size_t at = f->len % 65521; at < f->len; at += (size_t)5 * 65521) {
        f->data[at] ^= 1;
        if (load(l, c, &err) != PS_DATA_LOSS) {
            fail_msg("byte %zu flipped: %s", at, err.text);
        }
        f->data[at] ^= 1;
    }
    f->data[f->len - 1] ^= 1;
    assert_int_equal(load(l, c, &err), PS_DATA_LOSS);
    f->data[f->len - 1] ^= 1;
}

/* ---- rounds ---- */

static const uint64_t only_member[1] = {1};

/* One contribution of its one member, and the round's end. */
static void round_of(struct life *l, const struct psd_variable *w, uint64_t round)
{
    struct psd_optim_scalars scalars;
    struct psd_progress *p = psd_progress_new(l->task, w);
    assert_non_null(p);
    p->number = 1000 + round;
    p->kind = PSD_CONTRIBUTE;
    p->wire = PS_F32;
    p->unit = 4;
    p->total = w->elements;
    p->scale = 1;
    p->member = 1;
    p->round = round;
    must(l, (struct psd_change){.kind = PSD_CHANGE_BEGIN, .begin = {.record = l->records[1], .reserved = p}});
    const struct psd_number *n = psd_record_find(l->records[1], 1000 + round);
    while (n->progress != NULL) {
        segment(l, n);
    }
    psd_variable_capture(w, 0, 1, &scalars);
    must(l, (struct psd_change){
                .kind = PSD_CHANGE_ROUND_FLIP,
                .flip = {.container = w->container, .round = round, .members = only_member, .count = 1, .scalars = &scalars}});
}

static void rounds_begin(struct life *l, const struct psd_variable *w)
{
    const struct psd_rounds_def def = {.options = {.mode = PSD_SYNC_ROUNDS, .workers = 1, .replicas = 1},
                                       .generation = 9,
                                       .parts = &(struct psd_part_def){.creation = w->creation},
                                       .count = 1};
    must(l, (struct psd_change){.kind = PSD_CHANGE_ROUNDS, .rounds = {.container = w->container, .def = &def}});
    must(l,
         (struct psd_change){.kind = PSD_CHANGE_ROUND_JOIN,
                             .member = {.container = w->container, .id = 1, .session = l->records[1]->session, .job = "worker"}});
}

/* The first flip leaves the values of the instant in the second copy, the next round is built there. */
TEST(test_rounds_go_on)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    struct checkpoint *c = checkpoint_new();
    const struct psd_variable *w = variable(l, "w", 3 * BLOCK / 4 + 5, true);
    rounds_begin(l, w);
    round_of(l, w, 1);
    float *value = test_alloc(w->bytes), *slot = test_alloc(w->bytes);
    memcpy(value, w->value, w->bytes);
    memcpy(slot, w->slots[0], w->bytes);
    cut_begin(l, 1 << 20);
    for (uint64_t round = 2; round <= 4; round++) {
        round_of(l, w, round);
    }
    assert_memory_not_equal(w->value, value, w->bytes);
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, c);
    }
    psd_cut_end(l->task);
    struct psd_task *t = task_new(l);
    struct psi_err err;
    assert_ok(load_into(t, c, &err), &err);
    const struct psd_variable *then = psd_variable_find(psd_container_find(&t->store, "c"), "w");
    assert_int_equal(then->version, 1);
    assert_memory_equal(then->value, value, then->bytes);
    assert_memory_equal(then->slots[0], slot, then->bytes);
    psd_task_free(t);
}

/* One value of the first entry is another one. */
static void change_head(struct checkpoint *c, size_t at, uint8_t value)
{
    c->files[0].data[PSI_STATE_ENTRY_HEAD_BYTES + at] = value;
    sign(c->files[0].data);
}

/* Entries that somebody has made up: refused at the latest at the end, and no harm is done on the way. */
TEST(test_entries_of_nobody)
{
    struct life *l = small();
    struct checkpoint *c = saved(l);
    struct psi_err err;
    uint8_t *p = c->files[0].data;
    size_t end_at = BLOCK - 8;
    while (end_at > 0 && p[end_at - 1] == 0) {
        end_at--;
    }
    assert_in_range(end_at, 1000, BLOCK - 100);
    for (size_t at = 0; at < end_at; at++) {
        for (uint8_t bit = (uint8_t)(at % 2); bit < 8; bit += 3) {
            p[at] ^= (uint8_t)(1 << bit);
            sign(p);
            if (load(l, c, &err) == PS_OK) {
                fail_msg("byte %zu, bit %u flipped: loaded", at, bit);
            }
            p[at] ^= (uint8_t)(1 << bit);
        }
    }
}

/* Where the last entry begins, which has the CRC of all before. */
static size_t last_entry(const uint8_t *p)
{
    size_t at = 0;
    for (;;) {
        uint64_t bytes = 0;
        uint32_t kind = 0;
        memcpy(&bytes, p + at, sizeof(bytes));
        memcpy(&kind, p + at + sizeof(bytes), sizeof(kind));
        if (kind == PSI_STATE_END) {
            return at;
        }
        at += PSI_STATE_ENTRY_HEAD_BYTES + bytes;
        assert_in_range(at, 0, BLOCK - 100);
    }
}

/* All CRCs are right, and any one byte is somebody's: what is loaded nevertheless is a state that a task can have. */
static void entries_of_somebody(enum psi_queue_kind kind)
{
    static const uint8_t xors[] = {0x01, 0x80, 0x10, 0xff};
    struct life *l = small_with(kind);
    struct checkpoint *c = saved(l);
    struct psi_err err;
    uint8_t *p = c->files[0].data;
    size_t end_at = last_entry(p), sum_at = end_at + PSI_STATE_ENTRY_HEAD_BYTES;
    uint32_t sum = psi_crc32c(0, p, end_at), loaded = 0, refused = 0;
    while (memcmp(p + sum_at, &sum, sizeof(sum)) != 0) {
        sum_at++;
        assert_in_range(sum_at, end_at, end_at + 100);
    }
    for (size_t at = 0; at < end_at; at++) {
        for (size_t i = 0; i < sizeof(xors); i++) {
            struct psd_task *t = task_new(l);
            p[at] ^= xors[i];
            sum = psi_crc32c(0, p, end_at);
            memcpy(p + sum_at, &sum, sizeof(sum));
            sign(p);
            if (load_into(t, c, &err) == PS_OK) {
                psd_store_check_invariants(&t->store);
                loaded++;
            } else {
                assert_int_not_equal(err.text[0], '\0');
                refused++;
            }
            psd_task_free(t);
            p[at] ^= xors[i];
        }
    }
    assert_true(loaded > 500 && refused > 500);
}

TEST(test_entries_of_somebody)
{
    entries_of_somebody(PSI_QUEUE_FIFO);
    entries_of_somebody(PSI_QUEUE_SHUFFLE);
    entries_of_somebody(PSI_QUEUE_ACCUMULATOR);
    entries_of_somebody(PSI_QUEUE_WORK);
}

TEST(test_files_of_others)
{
    struct life *l = small();
    struct psi_err err;
    struct checkpoint *c = saved(l);
    change_head(c, 8, PSI_STATE_VERSION + 1);
    assert_int_equal(load(l, c, &err), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "newer psd"));
    change_head(c, 8, PSI_STATE_VERSION);
    change_head(c, 12, 3); /* task */
    assert_int_equal(load(l, c, &err), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "/job:ps/task:3"));
    change_head(c, 12, 0);
    change_head(c, 26, 'x'); /* of the cluster's name, "psd" */
    assert_int_equal(load(l, c, &err), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "cluster"));
    change_head(c, 26, 'p');
    change_head(c, 16, 13); /* number */
    assert_int_equal(load(l, c, &err), PS_DATA_LOSS);
}

/* Allocation n fails: the cut fails, or nothing noticed; the task goes on, and the next cut is whole. */
TEST(test_no_memory_for_a_cut)
{
    struct life *l = small();
    struct psi_err err;
    uint32_t failed = 0;
    const struct psd_variable *w = psd_variable_find(psd_container_find(&l->task->store, "c"), "w");
    for (int64_t n = 0, fired = 1; fired; n++) {
        struct psd_cut_options o = {.number = 12, .memory_bytes = 1 << 20};
        psi_mem_fail_after(n);
        ps_status st = psd_cut_begin(l->task, &o, &err);
        for (int i = 0; st == PS_OK && i < 1000 && psd_cut_has_work(l->task); i++) {
            psd_cut_turn(l->task, 5000);
        }
        fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        st = st == PS_OK && psd_cut_status(l->task) == PSD_CUT_FAILED ? psd_cut_error(l->task, &err) : st;
        assert_true(st == PS_OK || (st == PS_RESOURCE_EXHAUSTED && strstr(err.text, "checkpoint 12") != NULL));
        failed += st != PS_OK;
        psd_cut_end(l->task);
        assert_int_equal(psd_cut_held_bytes(&l->task->store), 0);
        assert_null(w->kept[0]);
        psd_store_check_invariants(&l->task->store);
    }
    assert_in_range(failed, 10, UINT32_MAX);
    assert_int_equal(load(l, saved(l), &err), PS_OK);
}

TEST(test_no_memory_for_a_load)
{
    struct life *l = small();
    struct checkpoint *c = saved(l);
    struct psi_err err;
    uint32_t failed = 0;
    for (int64_t n = 0, fired = 1; fired; n++) {
        struct psd_task *t = task_new(l);
        psi_mem_fail_after(n);
        ps_status st = load_into(t, c, &err);
        fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_true(st == PS_OK || st == PS_RESOURCE_EXHAUSTED);
        assert_true(st != PS_OK || !fired);
        failed += st != PS_OK;
        psd_task_free(t);
    }
    assert_in_range(failed, 20, UINT32_MAX);
}

/* The instant costs the same whatever there is, and a turn no more than it may; the largest entry here is that of a session. */
TEST(test_bounded_work)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    struct checkpoint *c = checkpoint_new();
    char name[16];
    l->silent = true;
    psd_task_consumer(l->task, NULL, NULL);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "v%d", i);
        variable(l, name, 4, false);
        put(l, 0, 1, (uint64_t)i, false);
    }
    cut_begin(l, 64 << 20);
    uint64_t turns = 0, held = psd_cut_held_bytes(&l->task->store);
    assert_in_range(held, 0, BLOCK); /* nothing was looked at */
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        uint64_t before = psd_cut_held_bytes(&l->task->store);
        psd_cut_turn(l->task, 4096);
        uint64_t after = psd_cut_held_bytes(&l->task->store);
        assert_in_range(after, 0, before + 4096 + (40 << 10) + 2 * BLOCK);
        drain(l, c);
        assert_in_range(psd_cut_held_bytes(&l->task->store), 0, 2 * BLOCK); /* headers, too, go as they are copied */
        turns++;
    }
    assert_in_range(turns, MANY * 100 / 4096, UINT32_MAX);
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_WRITTEN);
    psd_cut_end(l->task);
}

/* The walk stops at a part of the memory, and goes on when something was written. What is pushed is copied beyond it, and says
 * when it would be too much; what was copied is not copied again. */
TEST(test_memory_is_bounded)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    struct checkpoint *c = checkpoint_new();
    const struct psd_store *s = &l->task->store;
    const struct psd_variable *w = variable(l, "w", LARGE / 4, false);
    l->silent = true;
    const struct psd_number *n = begin(l, w, 1);
    cut_begin(l, 1 << 20);
    while (psd_cut_has_work(l->task)) {
        psd_cut_turn(l->task, 1 << 20);
    }
    assert_in_range(psd_cut_held_bytes(s), 1 << 18, (1 << 19) + 2 * BLOCK);
    assert_false(psd_cut_is_full(s));
    uint64_t segments = 0;
    while (!psd_cut_is_full(s)) {
        bool missing = psd_cut_missing(s, w, n->offset * 4, BLOCK) > 0;
        uint64_t before = psd_cut_held_bytes(s);
        segment(l, n);
        assert_int_equal(psd_cut_held_bytes(s) > before, missing);
        segments += missing;
    }
    assert_in_range(segments, 2, 10);
    assert_in_range(psd_cut_held_bytes(s), 1 << 20, (1 << 20) + 2 * BLOCK);
    assert_int_equal(psd_cut_missing(s, w, 0, BLOCK), 0);
    assert_int_equal(psd_cut_missing(s, w, n->offset * 4, BLOCK), 2 * BLOCK);
    assert_int_equal(psd_cut_missing(s, w, n->offset * 4 + 1, BLOCK), 2 * (BLOCK + 64)); /* and of the next block one grain */
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        drain(l, c);
        psd_cut_turn(l->task, 1 << 20);
        assert_in_range(psd_cut_held_bytes(s), 0, (1 << 20) + 2 * BLOCK);
    }
    psd_cut_end(l->task);
    while (n->progress != NULL) {
        segment(l, n);
    }
}

/* Another epoch begins before the walk has come to the items: it does not encode all of them at once. */
TEST(test_another_epoch)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_WORK, -1);
    struct life *l = life_new(&spec);
    struct checkpoint *c = checkpoint_new();
    struct psi_err err;
    l->silent = true;
    psd_task_consumer(l->task, NULL, NULL);
    for (uint64_t i = 1; i <= ITEMS; i++) {
        put(l, 0, 100 + i, i, true);
        end(l, 0, 100 + i, false);
    }
    must(l, (struct psd_change){.kind = PSD_CHANGE_WORK_FILLED, .filled = {.variable = l->v, .hash = 1}});
    for (uint64_t i = 1; i <= ITEMS; i++) {
        if (i == ITEMS) {
            cut_begin(l, 1 << 20);
        }
        (void)take(l, 2, 1000 + i, true);
        PSI_IGNORE(work_end(l, 2, i, i, false, false));
    }
    assert_int_equal(l->q->epoch, 1);
    assert_int_equal(psd_cut_held_bytes(&l->task->store), BLOCK); /* of the state file, filled in part */
    (void)take(l, 2, 5000, true);                                 /* the first one, in the new epoch */
    PSI_IGNORE(work_end(l, 2, 5000, 1, true, false));             /* comes back */
    assert_int_equal(psd_queue_item(l->q, 1)->deliveries, 1);
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, c);
    }
    psd_cut_end(l->task);
    struct psd_task *t = task_new(l);
    assert_ok(load_into(t, c, &err), &err);
    psd_store_check_invariants(&t->store);
    const struct psd_queue *q = psd_variable_find(psd_container_find(&t->store, "c"), "q")->queue;
    assert_int_equal(q->epoch, 0);
    assert_int_equal(q->done, ITEMS - 1);
    assert_int_equal(q->size, 1);
    assert_int_equal(first_of(&q->elements)->serial, ITEMS);
    for (uint64_t i = 1; i <= ITEMS; i++) {
        assert_int_equal(psd_queue_item(q, i)->deliveries, 0); /* what came back in the next epoch is not of this one */
    }
    psd_task_free(t);
}

/* A learning rate of all variables that is in force, and not in all records yet: a cut that began before has none of it, one that
 * began since has it of all, whenever the records are written. */
static void rate_in_cut(struct life *l, bool cut_first, uint32_t written, double expected)
{
    struct checkpoint *c = checkpoint_new();
    struct psi_err err;
    const struct psd_container *in = psd_container_find(&l->task->store, "c");
    const char *const names[] = {"b", "w"};
    if (cut_first) {
        cut_begin(l, 1 << 20);
    }
    psd_container_rate(&l->task->store, l->task->store.next_handle, in, 0.25);
    if (!cut_first) {
        cut_begin(l, 1 << 20);
    }
    for (uint32_t i = 0; i < written; i++) {
        must(l,
             (struct psd_change){.kind = PSD_CHANGE_RATE, .rate = {.variable = psd_variable_find(in, names[i]), .rate = 0.25}});
    }
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, c);
    }
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_WRITTEN);
    psd_cut_end(l->task);
    struct psd_task *t = task_new(l);
    assert_ok(load_into(t, c, &err), &err);
    in = psd_container_find(&t->store, "c");
    assert_true(psd_variable_find(in, "w")->rate == expected);
    assert_true(psd_variable_find(in, "b")->rate == expected);
    psd_task_free(t);
}

/* Each container with values has a file of its own: with one container too many the checkpoint fails, and psd goes on. */
TEST(test_more_containers_than_files)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    struct psd_cut *cut = NULL;
    cut_begin(l, 1 << 20);
    cut = l->task->store.cut;
    struct psd_container *c = psd_container_own(l->v->container);
    for (uint32_t i = 0; i <= PSD_DISK_INDEX_MAX; i++) {
        c->cut_file = 0;
        assert_int_equal(psd_cut_model_for(cut, c, 1), i + 1);
    }
    c->cut_file = 0;
    assert_int_equal(psd_cut_model_for(cut, c, 1), 0);
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_FAILED);
    psd_cut_end(l->task);
}

TEST(test_a_rate_that_is_in_force)
{
    for (uint32_t written = 0; written <= 2; written++) {
        rate_in_cut(small(), true, written, 0);
        rate_in_cut(small(), false, written, 0.25);
    }
}

/* A variable that is deleted is the cut's until it is copied; given up, the cut holds nothing. */
TEST(test_deleted_and_given_up)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    const struct psd_store *s = &l->task->store;
    const struct psd_variable *w = variable(l, "w", LARGE / 4, false);
    put(l, 0, 1, 5, true);
    uint64_t before = s->arena.used_bytes;
    cut_begin(l, 1 << 20);
    psd_cut_turn(l->task, 100000);
    must(l, (struct psd_change){.kind = PSD_CHANGE_DROP, .variable = w});
    must(l, (struct psd_change){.kind = PSD_CHANGE_ATTEMPT_END, .attempt = {.record = l->records[0], .id = 1}});
    must(l, (struct psd_change){.kind = PSD_CHANGE_DROP, .variable = l->v});
    assert_in_range(s->arena.used_bytes, 2 * LARGE, before);
    psd_cut_turn(l->task, 100000);
    const struct psd_cut_write *taken = psd_cut_next(l->task);
    assert_non_null(taken);
    psd_cut_cancel(l->task);
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_FAILED);
    assert_int_equal(psd_cut_held_bytes(s), taken->capacity);
    assert_in_range(s->arena.used_bytes, 0, LARGE);
    assert_null(psd_cut_next(l->task));
    psd_cut_written(l->task, taken);
    psd_cut_end(l->task);
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_NONE);
    psd_store_check_invariants(s);
}
