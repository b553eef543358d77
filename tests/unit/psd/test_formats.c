/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints that psd wrote in each format of the state file, tests/golden/state: all of them are loaded, and read by who is no
 * task. A golden file is a text: "file N BYTES" begins a file (0: the state), a line "AT HEX" has those bytes that are not 0.
 *
 *   GOLDEN_WRITE=FILE    writes the checkpoint of everything() there, in the format of this psd: only for a new format
 */
#include "cut_test.h"

#include "psd/store/commit.h"
#include "psd/store/mutate.h"

#include "common/optimizer.h"
#include "common/saved.h"
#include "common/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_BYTES = 32, FORMAT_OF_IDENTITIES = 3 };

/* ---- the files ---- */

static uint8_t *zeros(struct psi_buf *f, size_t n)
{
    assert_int_equal(psi_buf_reserve(f, n, NULL), PS_OK);
    memset(f->data, 0, n);
    f->len = n;
    return f->data;
}

static struct checkpoint *golden(uint32_t format)
{
    struct checkpoint *c = checkpoint_new();
    struct psi_buf *f = NULL;
    char path[64], line[2048], hex[2 * 1000 + 1];
    size_t at = 0;
    (void)snprintf(path, sizeof(path), "tests/golden/state/format-%u.txt", format);
    FILE *in = fopen(path, "r");
    if (in == NULL) {
        fail_msg("%s is not there", path);
    }
    while (fgets(line, sizeof(line), in) != NULL) {
        uint32_t file = 0;
        if (sscanf(line, "file %u %zu", &file, &at) == 2) { /* NOLINT(cert-err34-c): write_golden() writes it */
            assert_in_range(file, 0, FILES - 1);
            f = &c->files[file];
            PSI_IGNORE(zeros(f, at)); /* it is f's */
            c->count = file + 1;
        } else if (sscanf(line, "%zu %2000s", &at, hex) == 2) { /* NOLINT(cert-err34-c): write_golden() writes it */
            assert_non_null(f);
            for (size_t i = 0; hex[i] != '\0'; i += 2, at++) {
                const char digits[3] = {hex[i], hex[i + 1], '\0'};
                assert_in_range(at, 0, f->len - 1);
                f->data[at] = (uint8_t)strtoul(digits, NULL, 16);
            }
        }
    }
    (void)fclose(in);
    return c;
}

static void write_golden(const struct checkpoint *c, const char *path)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    (void)fprintf(out,
                  "# A checkpoint as psd wrote it in format %u of the state file, number 12; tests/unit/psd/test_formats.c\n",
                  PSI_STATE_VERSION);
    for (uint32_t i = 0; i < c->count; i++) {
        const struct psi_buf *f = &c->files[i];
        (void)fprintf(out, "file %u %zu\n", i, f->len);
        for (size_t at = 0; at < f->len; at++) {
            size_t n = 0;
            for (size_t k = at; k < f->len && k < at + LINE_BYTES; k++) {
                n = f->data[k] != 0 ? k + 1 - at : n;
            }
            if (f->data[at] == 0 || n == 0) {
                continue;
            }
            (void)fprintf(out, "%zu ", at);
            for (size_t k = 0; k < n; k++) {
                (void)fprintf(out, "%02x", f->data[at + k]);
            }
            (void)fprintf(out, "\n");
            at += n - 1;
        }
    }
    assert_int_equal(fclose(out), 0);
}

/* ---- a task that has one of everything ---- */

static const struct psd_variable *made(struct life *l, const char *name, const struct psd_definition *d, uint32_t pin)
{
    struct psd_change c = creating(l, name, NULL);
    c.create.definition = d;
    c.create.pin = pin;
    must(l, c);
    return psd_variable_find(psd_container_find(&l->task->store, "c"), name);
}

static const struct psd_variable *filled(struct life *l, const char *name, ps_dtype dtype, const ps_optimizer *optimizer,
                                         const ps_initializer *init)
{
    static uint64_t number = 40;
    struct psd_definition d = {.dtype = dtype, .shape = {.rank = 2, .dims = {2, 3}}, .optimizer = *optimizer};
    struct psd_making m = {.init = *init, .seed = 99, .optimizer = *optimizer};
    const struct psd_variable *v = made(l, name, &d, name[0] == 'w' ? 3 : 0);
    must(l,
         (struct psd_change){.kind = PSD_CHANGE_INIT,
                             .init = {.record = l->records[0], .number = ++number, .variable = v, .making = &m, .runs = true}});
    return v;
}

/* A push of session 1 that begins. */
static const struct psd_number *begin(struct life *l, const struct psd_variable *v, enum psd_push_kind kind, uint64_t total)
{
    static uint64_t number = 0;
    struct psd_progress *p = psd_progress_new(l->task, v);
    assert_non_null(p);
    p->number = ++number;
    p->kind = (uint8_t)kind;
    p->wire = (uint8_t)v->dtype;
    p->unit = psd_progress_unit(p);
    p->total = total;
    p->highest = psd_push_is_rows(p->kind) ? total - 1 : 0;
    p->last_index = psd_push_is_rows(p->kind) ? UINT64_MAX : 0;
    p->scale = 0.5f;
    p->staging_bytes = psd_progress_staging_bytes(p);
    if (psd_push_is_applied(p->kind)) {
        p->step = kind == PSD_PUSH && v->optimizer.schedule != PS_SCHEDULE_NONE ? 1000 + number : 0;
        psd_variable_capture(v, p->step, 0.5f, &p->scalars);
    }
    struct psd_change c = {.kind = PSD_CHANGE_BEGIN, .begin = {.record = l->records[1], .reserved = p}};
    must(l, c);
    return psd_record_find(l->records[1], number);
}

static void segment(struct life *l, const struct psd_number *n, const void *bytes, uint64_t count, bool last)
{
    must(l, (struct psd_change){.kind = PSD_CHANGE_SEGMENT,
                                .segment = {.record = l->records[1], .number = n, .bytes = bytes, .count = count, .last = last}});
}

static void in_queue(struct life *l, const char *name, const struct psi_queue_spec *spec)
{
    l->v = create(l, name, spec);
    l->q = l->v->queue;
}

static void queues(struct life *l)
{
    struct psi_queue_spec shuffle = spec_of(PSI_QUEUE_SHUFFLE, 10), work = spec_of(PSI_QUEUE_WORK, -1),
                          sum = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
    for (uint64_t i = 0; i < 4; i++) {
        put(l, 0, 100 + i, i, true);
        end(l, 0, 100 + i, false);
    }
    (void)take(l, 2, 7, false); /* goes on waiting for more */
    put(l, 0, 110, 44, false);
    shuffle.min_after_dequeue = 2;
    shuffle.seed = 5;
    in_queue(l, "shuffle", &shuffle);
    for (uint64_t i = 0; i < 6; i++) {
        put(l, 0, 200 + i, 10 * i, true);
        end(l, 0, 200 + i, false);
    }
    (void)take(l, 2, 8, true);
    close_queue(l);
    in_queue(l, "work", &work);
    for (uint64_t i = 0; i < 5; i++) {
        put(l, 0, 300 + i, i, true);
        end(l, 0, 300 + i, false);
    }
    must(l, (struct psd_change){.kind = PSD_CHANGE_WORK_FILLED, .filled = {.variable = l->v, .hash = 77}});
    for (uint64_t i = 0; i < 3; i++) {
        (void)take(l, 2, 20 + i, true);
        end(l, 2, 20 + i, false); /* the session holds the item from now on */
    }
    PSI_IGNORE(work_end(l, 2, 1, 1, false, false)); /* how often it was handed out does not matter here */
    PSI_IGNORE(work_end(l, 2, 2, 2, true, false));
    in_queue(l, "sums", &sum);
    apply(l, 0, 400, 1.5);
    end(l, 0, 400, false);
    apply(l, 0, 401, 2.5);
    end(l, 0, 401, false);
    must(l, setting(l, 0, 90, 17));
}

static void variables(struct life *l)
{
    static const float ones[6] = {1, 1, 1, 1, 1, 1};
    const struct psd_definition strings = {.dtype = PS_STRING, .shape = {.rank = 1, .dims = {2}}};
    const struct psd_definition empty = {.dtype = PS_F64, .shape = {.rank = 3, .dims = {2, 0, 4}}, .optimizer = *ps_adam(0.25)};
    static const uint64_t offsets[3] = {0, 2, 5}; /* common/blob.h */
    uint8_t text[24 + 5];
    const struct psd_variable *w = filled(l, "w", PS_F32, ps_adagrad_from(0.5, 0.25), ps_glorot(PS_FAN_IN_OUT));
    const struct psd_variable *adam = filled(l, "adam", PS_F32, ps_adam_with(0.01, 0.9, 0.99, 1e-6), ps_uniform(-1, 1));
    const struct psd_variable *fast = filled(l, "fast", PS_F32, ps_nesterov(0.5, 0.75), ps_ones());
    const struct psd_variable *whole = filled(l, "whole", PS_I64, ps_no_optimizer(), ps_constant(-3));
    const struct psd_variable *names = made(l, "names", &strings, 0);
    PSI_IGNORE(made(l, "empty", &empty, 2)); /* it stays without a value */
    for (int i = 0; i < 3; i++) {
        segment(l, begin(l, adam, PSD_PUSH, 6), ones, 6, true);
        segment(l, begin(l, fast, PSD_PUSH, 6), ones, 6, true);
    }
    must(l, (struct psd_change){.kind = PSD_CHANGE_SEAL, .seal = {.variable = w}});
    must(l, (struct psd_change){.kind = PSD_CHANGE_SEAL, .seal = {.variable = whole, .chief_number = 8}});
    must(l, (struct psd_change){.kind = PSD_CHANGE_RATE, .rate = {.variable = fast, .rate = 0.125}});
    memcpy(text, offsets, sizeof(offsets));
    memcpy(text + sizeof(offsets), "hello", 5);
    segment(l, begin(l, names, PSD_ASSIGN, sizeof(text)), text, sizeof(text), true);
    /* in progress: applied in part, and staged in part */
    segment(l, begin(l, w, PSD_PUSH, 6), ones, 2, false);
    segment(l, begin(l, adam, PSD_ASSIGN, 6), ones, 4, false);
    segment(l, begin(l, names, PSD_ASSIGN, sizeof(text)), text, 20, false);
}

static struct life *everything(void)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, 100);
    static const uint8_t id[16] = {9, 8, 7};
    const struct psd_definition known = {.dtype = PS_F32, .shape = {.rank = 1, .dims = {7}}, .optimizer = *ps_sgd(0.5)};
    struct life *l = life_new(&spec);
    must(l, (struct psd_change){.kind = PSD_CHANGE_SESSION,
                                .session = {.session = id, .name = 4, .who = "key:0123456789abcdef0123456789abcdef"}});
    variables(l);
    queues(l);
    must(l, (struct psd_change){.kind = PSD_CHANGE_REFUSE,
                                .end = {.record = l->records[0],
                                        .number = 91,
                                        .status = PS_INVALID_ARGUMENT,
                                        .reason = PS_REASON_NOT_FINITE,
                                        .applied = PS_NOTHING_APPLIED,
                                        .text = psi_strndup("element 3 is NaN", 16)}});
    must(l, (struct psd_change){.kind = PSD_CHANGE_ABANDON,
                                .end = {.record = l->records[0], .number = 92, .applied = PS_NOTHING_APPLIED}});
    must(l, (struct psd_change){.kind = PSD_CHANGE_CHIEF,
                                .chief = {.container = "c", .record = l->records[2], .number = 8, .text = "host:1"}});
    must(l, (struct psd_change){.kind = PSD_CHANGE_NAME,
                                .name = {.container = "c", .name = "w", .definition = &known, .job = "ps", .task = 0}});
    must(l, (struct psd_change){.kind = PSD_CHANGE_RESET, .reset = {.container = "gone"}});
    must(l, (struct psd_change){.kind = PSD_CHANGE_RESET_TASK,
                                .reset = {.container = "gone", .job = "ps", .outstanding = true, .owed = true}});
    return l;
}

/* ---- cases ---- */

static ps_status read_by_others(struct checkpoint *c, struct psi_err *err);

/* What was loaded is written again: nothing of it is lost. */
static struct checkpoint *again(const struct life *l, const struct checkpoint *c)
{
    struct life other = *l;
    struct psi_err err;
    other.task = task_new(l);
    assert_ok(load_into(other.task, c, &err), &err);
    psd_store_check_invariants(&other.task->store);
    struct checkpoint *out = saved(&other);
    psd_task_free(other.task);
    return out;
}

static void assert_same(const struct checkpoint *a, const struct checkpoint *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        const struct psi_buf *x = &a->files[i], *y = &b->files[i];
        assert_int_equal(x->len, y->len);
        for (size_t at = 0; at < x->len; at++) {
            if (x->data[at] != y->data[at]) {
                fail_msg("file %u, byte %zu: %02x, not %02x", i, at, x->data[at], y->data[at]);
            }
        }
    }
}

/* A life whose task is of the cluster and the job of the golden files. */
static const struct life *reader(void)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    return life_new(&spec);
}

/* What this psd writes does not change within a format. */
TEST(test_this_format)
{
    struct checkpoint *c = saved(everything());
    const char *path = getenv("GOLDEN_WRITE");
    if (path != NULL) {
        write_golden(c, path);
    }
    assert_same(c, golden(PSI_STATE_VERSION));
    assert_same(again(reader(), c), c);
}

/* Rows in progress: where they stand, and which row came last; an atomic variable's are staged. */
TEST(test_rows_in_progress)
{
    enum { PER = PS_SEGMENT_BYTES / 12 };
    static uint8_t bytes[PER * 12];
    for (uint32_t which = 0; which < 4; which++) {
        const bool atomic = which % 2 != 0;
        struct life *l = (struct life *)(uintptr_t)reader();
        struct psd_definition d = {.dtype = PS_F32, .shape = {.rank = 1, .dims = {4 * PER}}, .optimizer = *ps_adagrad(0.5)};
        struct psd_making m = {.init = *ps_ones(), .optimizer = d.optimizer};
        d.atomic = atomic;
        const struct psd_variable *v = made(l, "rows", &d, 0);
        must(l, (struct psd_change){.kind = PSD_CHANGE_INIT,
                                    .init = {.record = l->records[0], .number = 77, .variable = v, .making = &m, .runs = true}});
        const struct psd_number *n = begin(l, v, which < 2 ? PSD_PUSH_ROWS : PSD_PUSH_PULL_ROWS, 2 * PER);
        for (uint64_t i = 0; i < PER; i++) {
            const float one = 1;
            memcpy(bytes + 8 * i, &i, sizeof(i));
            memcpy(bytes + PER * 8 + i * 4, &one, sizeof(one));
        }
        segment(l, n, bytes, PER, false);
        struct checkpoint *c = saved(l);
        assert_same(again(l, c), c);
        struct psi_err err;
        struct psd_task *t = task_new(l);
        assert_ok(load_into(t, c, &err), &err);
        const struct psd_record *r = psi_map_find(&t->records, l->records[1]->session, sizeof(l->records[1]->session));
        const struct psd_number *loaded = psd_record_find(r, n->number);
        assert_int_equal(loaded->offset, PER);
        assert_int_equal(loaded->progress->last_index, PER - 1);
        assert_int_equal(loaded->progress->highest, 2 * PER - 1);
        psd_task_free(t);
        psd_number_own(n)->progress->last_index = 4 * PER; /* above the highest: no push can stand there */
        assert_int_equal(load(l, saved(l), &err), PS_DATA_LOSS);
        psd_number_own(n)->progress->last_index = PER - 1;
        /* staged rows are applied as they are: their indices rise, up to that of the last row */
        static const uint64_t wrong[] = {UINT64_C(1) << 40, PER - 1, 0};
        for (size_t k = 0; atomic && k < 3; k++) {
            uint8_t *row = (uint8_t *)n->progress->staging + (k < 2 ? 0 : PER - 1) * (uint64_t)n->progress->unit;
            uint64_t was = 0;
            memcpy(&was, row, sizeof(was));
            memcpy(row, &wrong[k], sizeof(was));
            assert_int_equal(load(l, saved(l), &err), PS_DATA_LOSS);
            assert_non_null(strstr(err.text, "rows of a push in progress that cannot be"));
            memcpy(row, &was, sizeof(was));
        }
    }
}

/* Three slots with a moving average behind them, the most numbers of a schedule, and a push that has captured its rate, in the
 * middle. */
TEST(test_the_most_of_an_optimizer)
{
    struct life *l = (struct life *)(uintptr_t)reader();
    ps_optimizer most = *ps_optimizer_standard(PS_OPT_RMSPROP_CENTERED, 0.125), adamw = *ps_optimizer_standard(PS_OPT_ADAMW, 0.5);
    static const float grad[6] = {1, -2, 3, -4, 5, -6};
    most.l2 = 0.25;
    most.clip_value = 2;
    most.ema = 0.75;
    most.ema_updates = 10;
    most.schedule = PS_SCHEDULE_PIECEWISE_CONSTANT;
    most.warmup_steps = 10;
    most.warmup_rate = 0.5;
    for (uint32_t i = 0; i < PS_SCHEDULE_NUMBERS; i++) {
        most.schedule_numbers[i] = 1 + i;
    }
    adamw.schedule = PS_SCHEDULE_POLYNOMIAL_DECAY;
    adamw.schedule_switch = 1;
    adamw.schedule_numbers[0] = 100;
    adamw.schedule_numbers[2] = 1;
    const struct psd_variable *v = filled(l, "most", PS_F32, &most, ps_uniform(-1, 1));
    const struct psd_variable *w = filled(l, "wide", PS_F32, &adamw, ps_uniform(-1, 1));
    assert_memory_equal(v->slots[3], v->value, v->bytes); /* an average begins with the variable */
    segment(l, begin(l, w, PSD_PUSH, 6), grad, 6, true);
    assert_true(w->optim_state.powers[1] == 0.999 * 0.999); /* no float */
    segment(l, begin(l, v, PSD_PUSH, 6), grad, 6, true);
    assert_memory_not_equal(v->slots[3], v->value, v->bytes);
    segment(l, begin(l, v, PSD_PUSH, 6), grad, 3, false);
    assert_true(v->step > 1000 && w->step > 1000 && v->step != w->step);
    struct checkpoint *c = saved(l);
    assert_same(again(l, c), c);
    struct psd_task *t = task_new(l);
    struct psi_err err;
    assert_ok(load_into(t, c, &err), &err);
    const struct psd_variable *back = psd_variable_find(psd_container_find(&t->store, "c"), "most");
    assert_true(psi_optimizer_equal(&back->optimizer, &most) && back->step == v->step);
    const struct psd_progress *p = psd_record_find(l->records[1], l->records[1]->highest)->progress;
    assert_true(p->scalars.rate == 12); /* of the last value: the step is above all boundaries */
    psd_task_free(t);
}

/* What a variable, and a name of the directory, are parts of. */
TEST(test_parts_of_variables)
{
    static const struct psi_part part = {.count = 3, .index = 1, .axis = 0, .layout = PSI_LAYOUT_MOD, .rows = 6};
    const struct psd_definition d = {
        .dtype = PS_F32, .shape = {.rank = 2, .dims = {2, 3}}, .optimizer = *ps_adagrad_from(0.5, 0.25), .part = part};
    struct life *l = (struct life *)(uintptr_t)reader();
    struct psi_err err;
    PSI_IGNORE(made(l, "p/part_1", &d, 0)); /* it stays without a value */
    must(l, (struct psd_change){.kind = PSD_CHANGE_NAME,
                                .name = {.container = "c", .name = "p/part_1", .definition = &d, .job = "ps", .task = 0}});
    struct checkpoint *c = saved(l);
    assert_same(again(l, c), c);
    struct psd_task *t = task_new(l);
    assert_ok(load_into(t, c, &err), &err);
    const struct psi_part of = psd_variable_part_of(psd_variable_find(psd_container_find(&t->store, "c"), "p/part_1"));
    assert_true(psi_part_equal(&of, &part));
    const struct psd_definition named = psd_name_definition(psd_directory_find(&t->names, "c", "p/part_1"));
    assert_true(psi_part_equal(&named.part, &part));
    psd_task_free(t);
}

/* Strings in parts, which no task makes: refused by each reader. */
TEST(test_parts_of_strings)
{
    static const struct psi_part part = {.count = 2, .index = 0, .axis = 0, .rows = 2};
    static const uint64_t offsets[2] = {0, 0}; /* common/blob.h: one empty string */
    const struct psd_definition d = {.dtype = PS_STRING, .shape = {.rank = 1, .dims = {1}}, .part = part};
    struct life *l = (struct life *)(uintptr_t)reader();
    struct psi_err err;
    segment(l, begin(l, made(l, "s/part_0", &d, 0), PSD_ASSIGN, sizeof(offsets)), offsets, sizeof(offsets), true);
    struct checkpoint *c = saved(l);
    assert_int_equal(load(l, c, &err), PS_DATA_LOSS);
    assert_non_null(strstr(err.text, "a variable that cannot be"));
    assert_int_equal(read_by_others(c, &err), PS_DATA_LOSS);
    assert_non_null(strstr(err.text, "a variable that cannot be"));
}

/* What is read of an older format is what was written then: written in this one, it is the same as that of this one. */
TEST(test_older_formats)
{
    const struct life *l = reader();
    const struct checkpoint *now = golden(PSI_STATE_VERSION);
    for (uint32_t format = FORMAT_OF_IDENTITIES; format < PSI_STATE_VERSION; format++) {
        assert_same(again(l, golden(format)), now);
    }
    for (uint32_t format = 1; format < FORMAT_OF_IDENTITIES; format++) {
        struct checkpoint *c = again(l, golden(format));
        assert_same(again(l, c), c);
    }
}

/* The first format: nothing in it is pinned. */
TEST(test_format_1)
{
    const struct life *l = reader();
    struct psd_task *t = task_new(l);
    struct psi_err err;
    assert_ok(load_into(t, golden(1), &err), &err);
    psd_store_check_invariants(&t->store);
    const struct psd_container *in = psd_container_find(&t->store, "c");
    const struct psd_variable *w = psd_variable_find(in, "w");
    const struct psd_queue *q = psd_variable_find(in, "q")->queue;
    assert_true(w->sealed && w->elements == 5 && w->pin == 0);
    for (int i = 0; i < 5; i++) {
        assert_true(((const float *)w->value)[i] == 1.0f && ((const float *)w->slots[0])[i] == 0.1f);
    }
    assert_int_equal(q->size, 2);
    assert_int_equal(value_of(first_of(&q->elements)), 0);
    psd_task_free(t);
}

/* ---- entries of somebody ---- */

struct at_entry {
    size_t at; /* of its head */
    uint64_t bytes;
    uint32_t kind;
};

/* The one behind it; false: that was the last one. */
static bool next_entry(const struct checkpoint *c, struct at_entry *e)
{
    const uint8_t *p = c->files[0].data;
    if (e->kind == PSI_STATE_END) {
        return false;
    }
    e->at += e->kind == 0 ? 0 : PSI_STATE_ENTRY_HEAD_BYTES + e->bytes;
    memcpy(&e->bytes, p + e->at, sizeof(e->bytes));
    memcpy(&e->kind, p + e->at + sizeof(e->bytes), sizeof(e->kind));
    assert_in_range(e->at, 0, BLOCK - 100);
    return true;
}

/* All CRCs as if the entries had been written so. */
static void sign_all(struct checkpoint *c)
{
    struct at_entry e = {.kind = 0};
    while (next_entry(c, &e)) {
    }
    uint8_t *p = c->files[0].data;
    uint32_t sum = psi_crc32c(0, p, e.at);
    memcpy(p + e.at + PSI_STATE_ENTRY_HEAD_BYTES + sizeof(uint64_t), &sum, sizeof(sum));
    sign(p);
}

/* Bytes [at, at + old) of the state become n bytes. */
static void splice(struct checkpoint *c, size_t at, size_t old, const uint8_t *bytes, size_t n)
{
    uint8_t *p = c->files[0].data;
    uint8_t *was = test_alloc(BLOCK);
    memcpy(was, p, BLOCK);
    memcpy(p + at, bytes, n);
    memcpy(p + at + n, was + at + old, BLOCK - 8 - at - (old > n ? old : n));
}

/* The entry has another length, and all CRCs are right. */
static void resize_entry(struct checkpoint *c, const struct at_entry *e, uint64_t bytes)
{
    static const uint8_t zeros_of[64];
    size_t end_at = e->at + PSI_STATE_ENTRY_HEAD_BYTES + (e->bytes < bytes ? e->bytes : bytes);
    splice(c, end_at, e->bytes > bytes ? e->bytes - bytes : 0, zeros_of, e->bytes < bytes ? bytes - e->bytes : 0);
    memcpy(c->files[0].data + e->at, &bytes, sizeof(bytes));
    sign_all(c);
}

/* Cut behind any 8 bytes, or with 8 bytes more: refused by each reader that looks into it. */
TEST(test_entries_cut)
{
    const struct life *l = reader();
    for (uint32_t format = 1; format <= PSI_STATE_VERSION; format++) {
        struct at_entry e = {.kind = 0};
        while (next_entry(golden(format), &e)) {
            for (uint64_t bytes = 0; bytes <= e.bytes + 8; bytes += 8) {
                struct checkpoint *c = golden(format);
                struct psi_err err;
                if (bytes == e.bytes || e.kind == PSI_STATE_END) {
                    continue;
                }
                resize_entry(c, &e, bytes);
                if (load(l, c, &err) != PS_DATA_LOSS) {
                    fail_msg("format %u: an entry of kind %u with %llu bytes is loaded", format, e.kind,
                             (unsigned long long)bytes);
                }
                ps_status st = read_by_others(c, &err);
                bool looks = e.kind == PSI_STATE_HEAD || e.kind == PSI_STATE_VARIABLE || e.kind == PSI_STATE_FILE ||
                             e.kind == PSI_STATE_SUMS;
                assert_int_equal(st, looks ? PS_DATA_LOSS : PS_OK);
            }
        }
    }
}

/* Change the first entry of this kind for which `where` holds: psi_state_##group x is read, changed by `change`, written. */
#define ALTER(c, entry_kind, group, where, change)                                                                               \
    do {                                                                                                                         \
        struct at_entry e = {.kind = 0};                                                                                         \
        bool done = false;                                                                                                       \
        while (!done && next_entry(c, &e)) {                                                                                     \
            struct psi_buf out;                                                                                                  \
            struct psi_state_##group x = {0};                                                                                    \
            uint8_t *at = (c)->files[0].data + e.at + PSI_STATE_ENTRY_HEAD_BYTES;                                                \
            struct psi_code in = {.in = at, .bytes_left = e.bytes, .version = PSI_STATE_VERSION};                                \
            struct psi_code put = {.out = &out, .version = PSI_STATE_VERSION};                                                   \
            if (e.kind == (entry_kind)) {                                                                                        \
                psi_buf_init(&out, SIZE_MAX);                                                                                    \
                psi_state_##group(&in, &x);                                                                                      \
                assert_int_equal(in.st, PS_OK);                                                                                  \
                done = (where);                                                                                                  \
                change;                                                                                                          \
                psi_state_##group(&put, &x);                                                                                     \
                assert_int_equal(put.st, PS_OK);                                                                                 \
                if (done) {                                                                                                      \
                    assert_in_range(out.len, 1, e.bytes);                                                                        \
                    memcpy(at, out.data, out.len);                                                                               \
                }                                                                                                                \
                psi_buf_fini(&out);                                                                                              \
            }                                                                                                                    \
        }                                                                                                                        \
        assert_true(done);                                                                                                       \
        sign_all(c);                                                                                                             \
    } while (0)

static void assert_wrong(struct checkpoint *c, const char *says)
{
    struct psi_err err;
    ps_status st = load(reader(), c, &err);
    if (st != PS_DATA_LOSS || strstr(err.text, says) == NULL) {
        fail_msg("%s: '%s', not '%s'", ps_status_name(st), st == PS_OK ? "" : err.text, says);
    }
}

#define ASSERT_ALTERED(says, entry_kind, group, where, change)                                                                   \
    do {                                                                                                                         \
        struct checkpoint *c = golden(PSI_STATE_VERSION);                                                                        \
        ALTER(c, entry_kind, group, where, change);                                                                              \
        assert_wrong(c, says);                                                                                                   \
    } while (0)

/* Names that no request can give. */
TEST(test_names_that_are_none)
{
    const char *none = "a name that is none";
    ASSERT_ALTERED(none, PSI_STATE_CONTAINER, container, true, x.name = ".");
    ASSERT_ALTERED(none, PSI_STATE_VARIABLE, variable, strcmp(x.name, "w") == 0, x.name = "/");
    ASSERT_ALTERED(none, PSI_STATE_VARIABLE, variable, strcmp(x.name, "w") == 0, x.container = "\n");
    ASSERT_ALTERED(none, PSI_STATE_NAME, name, true, x.name = ".");
    ASSERT_ALTERED(none, PSI_STATE_CHIEF, chief, true, x.container = "\xff");
    ASSERT_ALTERED(none, PSI_STATE_RESET, reset, true, x.container = "a//b");
}

/* No variable has order 0, and behind the highest chief number the next one would be low. */
TEST(test_numbers_that_cannot_be)
{
    ASSERT_ALTERED("numbers that no task has", PSI_STATE_TASK, task, true, x.next_order = 0);
    ASSERT_ALTERED("numbers that no task has", PSI_STATE_TASK, task, true, x.chief_number = PS_CHIEF_NUMBER_MAX + 1);
    ASSERT_ALTERED("a chief that cannot be", PSI_STATE_CHIEF, chief, true, x.number = UINT64_MAX);
}

/* Numbers that soon do not fit into 64 bits, and a work queue whose items were handed out before it was filled. */
TEST(test_queues_that_cannot_be)
{
    const char *none = "a queue that cannot be";
    const uint64_t half = UINT64_C(1) << 63;
    ASSERT_ALTERED(none, PSI_STATE_VARIABLE, variable, x.queue && x.spec.kind == PSI_QUEUE_FIFO, x.state.next_serial = half);
    ASSERT_ALTERED(none, PSI_STATE_VARIABLE, variable, x.queue && x.spec.kind == PSI_QUEUE_WORK, x.state.filled = false);
    ASSERT_ALTERED("an element that its queue cannot have", PSI_STATE_VARIABLE, variable, x.queue && x.state.has_sum,
                   x.state.sum.serial = half);
}

static void put_entry(struct psi_buf *to, uint32_t kind, const struct psi_buf *of)
{
    const size_t bytes = (of->len + 7) / 8 * 8;
    assert_int_equal(psi_buf_reserve(to, PSI_STATE_ENTRY_HEAD_BYTES + bytes, NULL), PS_OK);
    memset(to->data + to->len, 0, PSI_STATE_ENTRY_HEAD_BYTES + bytes);
    psi_state_entry_begin(to->data + to->len, bytes, (enum psi_state_kind)kind);
    memcpy(to->data + to->len + PSI_STATE_ENTRY_HEAD_BYTES, of->data, of->len);
    to->len += PSI_STATE_ENTRY_HEAD_BYTES + bytes;
}

/* A state of the first two entries of c and `count` files of values. */
static struct checkpoint *with_files(uint32_t count)
{
    struct checkpoint *c = golden(PSI_STATE_VERSION);
    struct psi_buf entries, one;
    struct at_entry e = {.kind = 0};
    for (int i = 0; i < 3; i++) {
        assert_true(next_entry(c, &e));
    }
    psi_buf_init(&entries, SIZE_MAX);
    psi_buf_init(&one, SIZE_MAX);
    assert_int_equal(psi_buf_append(&entries, c->files[0].data, e.at, NULL), PS_OK);
    for (uint32_t i = 0; i < count; i++) {
        struct psi_state_file x = {.file = 1 + i, .bytes = 100, .header_bytes = 50, .container = "c"};
        struct psi_code k = {.out = &one, .version = PSI_STATE_VERSION};
        psi_buf_clear(&one);
        psi_state_file(&k, &x);
        put_entry(&entries, PSI_STATE_FILE, &one);
    }
    struct psi_state_end end = {.count = 2 + count, .sum = psi_crc32c(0, entries.data, entries.len)};
    struct psi_code k = {.out = &one, .version = PSI_STATE_VERSION};
    psi_buf_clear(&one);
    psi_state_end(&k, &end);
    put_entry(&entries, PSI_STATE_END, &one);
    const size_t blocks = (entries.len + PSI_STATE_PAYLOAD_BYTES - 1) / PSI_STATE_PAYLOAD_BYTES;
    struct psi_buf *f = &c->files[0];
    psi_buf_fini(f);
    psi_buf_init(f, SIZE_MAX);
    PSI_IGNORE(zeros(f, blocks * BLOCK)); /* it is f's */
    for (size_t i = 0, at = 0; i < blocks; i++, at += PSI_STATE_PAYLOAD_BYTES) {
        const size_t left = entries.len - at;
        memcpy(f->data + i * BLOCK, entries.data + at, left < PSI_STATE_PAYLOAD_BYTES ? left : PSI_STATE_PAYLOAD_BYTES);
        psi_state_seal(f->data + i * BLOCK, (uint32_t)i);
    }
    psi_buf_fini(&entries);
    psi_buf_fini(&one);
    return c;
}

/* A header shorter than the number of its bytes, and more files than a checkpoint can have. */
TEST(test_files_that_cannot_be)
{
    assert_wrong(with_files(PSD_DISK_INDEX_MAX + 1), "model-00000.safetensors: its header is not as it was written");
    assert_wrong(with_files(PSD_DISK_INDEX_MAX + 2), "a file that cannot be");
    for (uint64_t bytes = 0; bytes <= 8; bytes++) {
        ASSERT_ALTERED("a file that cannot be", PSI_STATE_FILE, file, true, x.header_bytes = bytes);
    }
}

/* A kind that no format has, and a format that there is not. */
TEST(test_entries_of_the_future)
{
    static const uint32_t kinds[] = {0, PSI_STATE_END + 1, PSI_STATE_END + 2, 255, UINT32_MAX};
    const struct life *l = reader();
    struct psi_err err;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct checkpoint *c = golden(PSI_STATE_VERSION);
        struct at_entry e = {.kind = 0};
        while (e.kind != PSI_STATE_CHIEF) {
            assert_true(next_entry(c, &e));
        }
        struct at_entry last = e;
        while (next_entry(c, &last)) {
        }
        memcpy(c->files[0].data + e.at + sizeof(uint64_t), &kinds[i], sizeof(kinds[i]));
        uint32_t sum = psi_crc32c(0, c->files[0].data, last.at);
        memcpy(c->files[0].data + last.at + PSI_STATE_ENTRY_HEAD_BYTES + sizeof(uint64_t), &sum, sizeof(sum));
        sign(c->files[0].data);
        assert_int_equal(load(l, c, &err), PS_DATA_LOSS);
        assert_non_null(strstr(err.text, "kind that is not known"));
        assert_int_equal(read_by_others(c, &err), PS_DATA_LOSS);
        assert_non_null(strstr(err.text, "kind that is not known"));
    }
    for (uint32_t format = 0; format <= PSI_STATE_VERSION + 1; format += PSI_STATE_VERSION + 1) {
        struct checkpoint *c = golden(PSI_STATE_VERSION);
        memcpy(c->files[0].data + PSI_STATE_ENTRY_HEAD_BYTES + sizeof(uint64_t), &format, sizeof(format));
        sign_all(c);
        assert_int_equal(load(l, c, &err), format == 0 ? PS_DATA_LOSS : PS_FAILED_PRECONDITION);
        assert_int_equal(read_by_others(c, &err), format == 0 ? PS_DATA_LOSS : PS_FAILED_PRECONDITION);
    }
}

/* ---- who is no task ---- */

static ps_status read_file(void *ctx, const struct psi_saved_file *file, uint64_t offset, void *dst, size_t bytes,
                           size_t *out_bytes, struct psi_err *err)
{
    const struct checkpoint *c = ctx;
    const struct psi_buf *f = &c->files[file->kind == PS_FILE_STATE ? 0 : file->index + 1];
    (void)err;
    *out_bytes = offset >= f->len ? 0 : bytes < f->len - offset ? bytes : f->len - offset;
    memcpy(dst, f->data + offset, *out_bytes);
    return PS_OK;
}

static ps_status pass_over(void *ctx, const struct psi_state_entry *e, struct psi_err *err)
{
    (void)ctx, (void)e, (void)err;
    return PS_OK;
}

/* As the manifest would have it. */
static struct psi_saved_file state_file(const struct checkpoint *c)
{
    struct psi_saved_file file = {.job = "ps", .kind = PS_FILE_STATE, .bytes = c->files[0].len};
    struct psi_state_reader r;
    assert_int_equal(psi_state_begin(&r, file.bytes, NULL), PS_OK);
    for (size_t at = 0; at < file.bytes; at += BLOCK) {
        assert_int_equal(psi_state_block(&r, c->files[0].data + at, pass_over, NULL, NULL), PS_OK);
    }
    file.sum = r.file_sum;
    psi_state_fini(&r);
    return file;
}

static void assert_as_loaded(const struct psi_saved_variable *a, const struct psd_store *s)
{
    const struct psd_variable *b = psd_variable_find(psd_container_find(s, a->container), a->name);
    assert_non_null(b);
    const struct psd_definition d = psd_variable_definition(b);
    assert_int_equal(a->dtype, b->dtype);
    assert_true(psi_shape_equal(&a->shape, &d.shape));
    assert_true(psi_optimizer_equal(&a->optimizer, &b->optimizer));
    assert_int_equal(a->atomic, d.atomic);
    assert_int_equal(a->order, b->order);
    assert_int_equal(a->creation, b->creation);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->version, b->version);
    assert_memory_equal(a->powers, b->optim_state.powers, sizeof(a->powers));
    assert_int_equal(a->array_count, 1 + psd_optim_slot_count(&b->optimizer));
}

TEST(test_read_by_who_is_no_task)
{
    static const size_t variables[PSI_STATE_VERSION + 1] = {0, 1, 5, 5, 5, 5};
    for (uint32_t format = 1; format <= PSI_STATE_VERSION; format++) {
        struct checkpoint *c = golden(format);
        struct psd_task *t = task_new(reader());
        const struct psi_saved_io io = {.read = read_file, .ctx = c};
        struct psi_saved saved = {.what = {.number = 12}};
        struct psi_saved_state state;
        struct psi_err err;
        PSI_IGNORE(PSI_BYTES_SET(saved.what.cluster_name, "psd")); /* fits */
        const struct psi_saved_file file = state_file(c);
        assert_ok(load_into(t, c, &err), &err);
        assert_ok(psi_saved_state_read(&saved, &io, &file, &state, &err), &err);
        assert_int_equal(state.variable_count, variables[format]);
        assert_int_equal(state.file_count, c->count - 1);
        for (size_t i = 0; i < state.variable_count; i++) {
            assert_as_loaded(&state.variables[i], &t->store);
        }
        for (uint32_t i = 0; i < state.file_count; i++) {
            struct psi_saved_file values = {.job = "ps", .kind = PS_FILE_VALUES, .index = i, .sum = state.files[i].header_sum};
            values.bytes = c->files[i + 1].len;
            memcpy(values.container, state.files[i].container, sizeof(values.container));
            assert_ok(psi_saved_values_read(&io, &values, &state, NULL, NULL, NULL, &err), &err);
        }
        psi_saved_state_fini(&state);
        psd_task_free(t);
    }
}

static ps_status read_by_others(struct checkpoint *c, struct psi_err *err)
{
    const struct psi_saved_io io = {.read = read_file, .ctx = c};
    struct psi_saved saved = {.what = {.number = 12}};
    struct psi_saved_state state;
    PSI_IGNORE(PSI_BYTES_SET(saved.what.cluster_name, "psd")); /* fits */
    const struct psi_saved_file file = state_file(c);
    ps_status st = psi_saved_state_read(&saved, &io, &file, &state, err);
    psi_saved_state_fini(&state);
    return st;
}
