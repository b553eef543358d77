/* SPDX-License-Identifier: Apache-2.0 */
/* A cut between two slices of a push that moves its value (psd/rpc/moves.c): the cut has the value with the slices that were made
 * at its instant. In what is loaded the slices that are left give the value that the living task has. */
#include "cut_test.h"

#include "common/optimizer.h"

enum { BLOCK_ELEMENTS = PSD_CUT_BLOCK_BYTES / sizeof(float), N = 3 * BLOCK_ELEMENTS - 7 };

static const struct psd_variable *variable_with_norms(struct life *l, uint32_t kind, double ema)
{
    ps_optimizer opt = *ps_optimizer_standard(kind, 0.5);
    opt.weight_decay = 0.25;
    opt.l2 = 0.5;
    opt.ema = ema;
    const struct psd_definition d = {.dtype = PS_F32, .shape = {.rank = 1, .dims = {N}}, .optimizer = opt};
    struct psd_making m = {.init = *ps_ones(), .optimizer = opt};
    struct psd_change c = creating(l, "w", NULL);
    c.create.definition = &d;
    must(l, c);
    const struct psd_variable *v = psd_variable_find(psd_container_find(&l->task->store, "c"), "w");
    must(l, (struct psd_change){.kind = PSD_CHANGE_INIT,
                                .init = {.record = l->records[0], .number = 1, .variable = v, .making = &m, .runs = true}});
    return v;
}

/* A push of session 1 to v, all of whose gradient has come. */
static const struct psd_number *whole_push(struct life *l, const struct psd_variable *v)
{
    static float gradient[N];
    struct psd_progress *p = psd_progress_new(l->task, v);
    assert_non_null(p);
    p->number = 1;
    p->kind = PSD_PUSH;
    p->wire = PS_F32;
    p->unit = sizeof(float);
    p->total = N;
    p->scale = 1;
    p->staging_bytes = psd_progress_staging_bytes(p);
    struct psd_optim_scalars scalars;
    psd_variable_capture(v, 0, 1, &scalars);
    if (psd_progress_stages(p)) {
        p->staging = psd_store_stage_raw(&l->task->store, p->staging_bytes);
        assert_non_null(p->staging);
    } else {
        p->scalars = scalars;
    }
    for (int i = 0; i < N; i++) {
        gradient[i] = (float)(i % 5) - 1.5F;
    }
    must(l, (struct psd_change){.kind = PSD_CHANGE_BEGIN, .begin = {.record = l->records[1], .reserved = p}});
    const struct psd_number *n = psd_record_find(l->records[1], 1);
    must(l, (struct psd_change){.kind = PSD_CHANGE_SEGMENT,
                                .segment = {.record = l->records[1],
                                            .number = n,
                                            .bytes = (const uint8_t *)gradient,
                                            .count = N,
                                            .last = false,
                                            .scalars = p->staging != NULL ? &scalars : NULL}});
    assert_true(psd_number_moves(n));
    return n;
}

static void slice(struct life *l, const struct psd_number *n, uint64_t count)
{
    must(l, (struct psd_change){.kind = PSD_CHANGE_MOVE, .move = {.record = l->records[1], .number = n, .count = count}});
}

/* A slice of a block, or of what is left of the present pass. */
static void next_slice(struct life *l, const struct psd_number *n)
{
    const uint64_t left = psd_progress_left(n->progress);
    slice(l, n, left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS);
}

/* A checkpoint of l with a push to w, `made` slices of which are made at the instant of the cut. */
static struct checkpoint *saved_between_slices(struct life *l, const struct psd_variable *w, uint64_t made)
{
    struct checkpoint *c = checkpoint_new();
    const struct psd_number *n = whole_push(l, w);
    for (uint64_t i = 0; i < made; i++) {
        next_slice(l, n);
    }
    cut_begin(l, 8 << 20);
    while (n->progress != NULL && psd_progress_measures(n->progress)) {
        next_slice(l, n);
    }
    assert_in_range(psd_cut_held_bytes(&l->task->store), 0, 2 * BLOCK); /* slices that measure change nothing */
    while (n->progress != NULL) {
        next_slice(l, n);
    }
    /* of LAMB slices change the value and, with a moving average, that; of LARS all, and the staged gradient is freed */
    const uint64_t arrays = (w->optimizer.ema > 0 ? 2U : 1U) + (psi_optimizer_is_staged(w->optimizer.kind) ? 2U : 0U);
    assert_in_range(psd_cut_held_bytes(&l->task->store), 0, arrays * w->bytes + 2 * BLOCK);
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, c);
    }
    psd_cut_end(l->task);
    return c;
}

TEST(test_cut_between_slices)
{
    /* of LAMB there are 3 slices; of LARS 3 that measure, then 3 that move */
    for (uint64_t way = 0; way < 6 + 12; way++) {
        const uint32_t kind = way < 6 ? PS_OPT_LAMB : PS_OPT_LARS;
        const uint64_t made = way < 6 ? way / 2 : way / 2 - 3, moved = way < 6 ? made : made > 3 ? made - 3 : 0;
        struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
        struct life *l = life_new(&spec);
        struct psi_err err;
        const struct psd_variable *w = variable_with_norms(l, kind, way % 2 == 0 ? 0 : 0.75);
        const struct checkpoint *c = saved_between_slices(l, w, made);
        struct life other = *l;
        other.task = task_new(l);
        assert_int_equal(load_into(other.task, c, &err), PS_OK);
        other.records[1] = psi_map_find(&other.task->records, l->records[1]->session, sizeof(l->records[1]->session));
        const struct psd_variable *v = psd_variable_find(psd_container_find(&other.task->store, "c"), "w");
        const struct psd_number *in = psd_record_find(other.records[1], 1);
        assert_true(psd_number_moves(in));
        assert_int_equal(psd_progress_moved(in->progress), moved * BLOCK_ELEMENTS);
        assert_int_equal(psd_progress_measures(in->progress), kind == PS_OPT_LARS && made < 3);
        assert_int_equal(v->in_progress, 1);
        assert_int_equal(v->version, 0);
        for (uint64_t i = 0; i < N; i++) {
            const float want = i < moved * BLOCK_ELEMENTS ? ((const float *)w->value)[i] : 1;
            assert_true(((const float *)v->value)[i] == want);
        }
        while (in->progress != NULL) {
            slice(&other, in, psd_progress_left(in->progress));
        }
        assert_int_equal(in->state, PS_NUMBER_APPLIED);
        assert_int_equal(v->version, 1);
        assert_memory_equal(v->value, w->value, w->bytes);
        for (uint32_t i = 0; i < psd_optim_slot_count(&w->optimizer); i++) {
            assert_memory_equal(v->slots[i], w->slots[i], w->bytes);
        }
        assert_true(((const float *)v->value)[0] != 1);
        psd_task_free(other.task);
    }
}

/* A load that fails behind the record of the push, before the value has its memory: what was loaded is freed. */
static void load_fails_between_slices(uint32_t kind)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    struct psi_err err;
    const struct checkpoint *c = saved_between_slices(l, variable_with_norms(l, kind, 0), 1);
    struct psd_task *t = task_new(l);
    psd_store_set_budget(&t->store, 1 << 10);
    assert_fails(load_into(t, c, &err), PS_RESOURCE_EXHAUSTED, &err, "its memory budget is 1024 bytes");
    assert_int_equal(t->progress_count, 1);
    psd_task_free(t);
    uint8_t *p = c->files[0].data + c->files[0].len - BLOCK; /* the last block */
    size_t last = BLOCK - 8;
    while (p[last] == 0) {
        last--;
    }
    p[last] ^= 1; /* in the entry that ends the file */
    sign(p);
    t = task_new(l);
    assert_int_equal(load_into(t, c, &err), PS_DATA_LOSS);
    assert_int_equal(t->progress_count, 1);
    psd_task_free(t);
}

TEST(test_load_fails_between_slices)
{
    load_fails_between_slices(PS_OPT_LAMB);
    load_fails_between_slices(PS_OPT_LARS); /* also fails before the staged gradient has its memory */
}
