/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint of one task in memory: written by a cut, loaded into another task. */
#ifndef TESTS_UNIT_PSD_CUT_TEST_H
#define TESTS_UNIT_PSD_CUT_TEST_H

#include "load_sum.h"
#include "queue_life.h"

#include "psd/store/cut.h"
#include "psd/store/load.h"

#include "common/crc32c.h"
#include "common/state_file.h"

enum { FILES = 4, BLOCK = 64 << 10 };

struct checkpoint {
    struct psi_buf files[FILES];
    uint32_t count;
    uint64_t state_bytes; /* as a manifest has them; 0: all that are there */
};

static inline void checkpoint_fini(void *ctx)
{
    struct checkpoint *c = ctx;
    for (uint32_t i = 0; i < FILES; i++) {
        psi_buf_fini(&c->files[i]);
    }
}

static inline struct checkpoint *checkpoint_new(void)
{
    struct checkpoint *c = test_alloc(sizeof(*c));
    memset(c, 0, sizeof(*c));
    for (uint32_t i = 0; i < FILES; i++) {
        psi_buf_init(&c->files[i], SIZE_MAX);
    }
    test_later(checkpoint_fini, c);
    return c;
}

static inline void store(struct checkpoint *c, const struct psd_cut_write *w)
{
    struct psi_buf *f = &c->files[w->file];
    size_t end_at = w->at + w->bytes;
    assert_in_range(w->file, 0, FILES - 1);
    if (end_at > f->len) {
        assert_int_equal(psi_buf_reserve(f, end_at - f->len, NULL), PS_OK);
        memset(f->data + f->len, 0x5a, end_at - f->len);
        f->len = end_at;
    }
    memcpy(f->data + w->at, w->data, w->bytes);
}

/* A variable of ones. */
static inline const struct psd_variable *variable_of(struct life *l, const char *name, ps_shape shape, const ps_optimizer *opt,
                                                     bool sealed)
{
    static uint64_t number = 0;
    struct psd_definition d = {.dtype = PS_F32, .shape = shape, .optimizer = *opt};
    struct psd_making m = {.init = *ps_ones(), .optimizer = *opt};
    struct psd_change c = creating(l, name, NULL);
    c.create.definition = &d;
    c.create.pin = 3;
    must(l, c);
    const struct psd_variable *v = psd_variable_find(psd_container_find(&l->task->store, "c"), name);
    must(l,
         (struct psd_change){.kind = PSD_CHANGE_INIT,
                             .init = {.record = l->records[0], .number = ++number, .variable = v, .making = &m, .runs = true}});
    if (sealed) {
        must(l, (struct psd_change){.kind = PSD_CHANGE_SEAL, .seal = {.variable = v}});
    }
    return v;
}

/* All that can be written now is. */
static inline void drain(struct life *l, struct checkpoint *c)
{
    const struct psd_cut_write *w = NULL;
    while ((w = psd_cut_next(l->task)) != NULL) {
        store(c, w);
        psd_cut_written(l->task, w);
    }
}

static inline void cut_begin(struct life *l, uint64_t memory_bytes)
{
    struct psd_cut_options o = {.number = 12, .memory_bytes = memory_bytes};
    assert_int_equal(psd_cut_begin(l->task, &o, NULL), PS_OK);
}

static inline struct checkpoint *saved(struct life *l)
{
    struct checkpoint *c = checkpoint_new();
    cut_begin(l, 1 << 20);
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, c);
    }
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_WRITTEN);
    c->count = psd_cut_file_count(l->task);
    for (uint32_t i = 0; i < c->count; i++) {
        assert_int_equal(psd_cut_file(l->task, i).bytes, c->files[i].len);
    }
    psd_cut_end(l->task);
    return c;
}

static inline uint64_t read_one(const struct checkpoint *c, const struct psd_load_read *r)
{
    const struct psi_buf *f = &c->files[r->file];
    uint64_t left = r->offset < f->len ? f->len - r->offset : 0, n = r->bytes < left ? r->bytes : left;
    if (n > 0) {
        memcpy(r->to, f->data + r->offset, n);
    }
    if (n == r->bytes) {
        load_sum(r);
    }
    return n;
}

/* All that is wanted at a time is read, the last one first. */
static inline ps_status load_into(struct psd_task *t, const struct checkpoint *c, struct psi_err *err)
{
    struct psd_load_options o = {.number = 12, .state_bytes = c->state_bytes != 0 ? c->state_bytes : c->files[0].len};
    struct psd_load *l = NULL;
    struct psd_load_read r[PSD_LOAD_WANTED_MAX];
    uint64_t n[PSD_LOAD_WANTED_MAX];
    ps_status st = psd_load_new(t, &o, &l, err);
    for (uint32_t count = 1; st == PS_OK && count > 0;) {
        for (count = 0; count < PSD_LOAD_WANTED_MAX && psd_load_want(l, &r[count]); count++) {
            assert_false(psd_load_is_done(l));
        }
        for (uint32_t i = count; i-- > 0;) {
            n[i] = read_one(c, &r[i]);
        }
        for (uint32_t i = 0; st == PS_OK && i < count; i++) {
            st = psd_load_got(l, n[i], err);
        }
    }
    assert_true(st != PS_OK || psd_load_is_done(l));
    psd_load_free(l);
    return st;
}

static inline ps_status load(const struct life *l, const struct checkpoint *c, struct psi_err *err)
{
    struct psd_task *t = task_new(l);
    ps_status st = load_into(t, c, err);
    psd_task_free(t);
    return st;
}

/* The block, as if it had been written so. */
static inline void sign(uint8_t *block)
{
    uint32_t sum = psi_crc32c(0, block, BLOCK - 4);
    memcpy(block + BLOCK - 4, &sum, sizeof(sum));
}

#endif
