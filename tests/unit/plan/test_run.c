/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/plan/run.c: a run and an answer with everything in them, byte for byte as tests/golden/runs has them, and read back;
 * each prefix, each flipped bit, random damage; each rule by one thing that is wrong; sizes at their limits.
 * GOLDEN_WRITE=1 rewrites the golden files and the seeds of the fuzz target; nothing else does.
 */
#include "test.h"

#include "run_check.h"

#include "common/mem.h"
#include "common/rng.h"

#include <stdlib.h>

/* ---- a run with everything ---- */

static const float HALVES[3] = {0.5f, -1.5f, 2.5f};
static const struct {
    int64_t offsets[2];
    char text[5];
} TEXT = {{0, 5}, "hello"};
static const uint16_t FIRST[] = {0, 1}, SECOND[] = {3, 2, 3}, THIRD[] = {4};
static const struct psi_run_variable W = {"localhost", "layer/w", "ps", 1},
                                     KEPT = {"session/0123456789abcdef", "v7", "worker", 0};

struct whole {
    struct psi_run_input inputs[3];
    struct psi_run_row rows[3];
    struct psi_run_output outputs[5];
    struct psi_run run;
};

static struct psi_run *make_run(struct whole *w)
{
    *w = (struct whole){
        .inputs =
            {{.from = PSI_RUN_FROM_CALL, .type = {PS_F32, {.rank = 1, .dims = {3}}}, .data = HALVES, .bytes = sizeof(HALVES)},
             {.from = PSI_RUN_FROM_VARIABLE, .type = {PS_F32, {.rank = 2, .dims = {1, 3}}}, .variable = W},
             {.from = PSI_RUN_FROM_CALL, .type = {PS_STRING, {.rank = 0}}, .data = &TEXT, .bytes = 21}},
        .rows = {{.op = "matmul",
                  .name = "scope/MatMul",
                  .device = "GPU:0",
                  .inputs = FIRST,
                  .input_count = 2,
                  .output_count = 1,
                  .attrs = {.transpose_b = true}},
                 {.op = "print",
                  .name = "Print_1",
                  .device = "",
                  .inputs = SECOND,
                  .input_count = 3,
                  .output_count = 1,
                  .attrs = {.message = "portion is", .first_n = 2, .summarize = -1},
                  .printed = 7},
                 {.op = "split",
                  .name = "split",
                  .device = "CPU:0",
                  .inputs = THIRD,
                  .input_count = 1,
                  .output_count = 2,
                  .attrs = {.has_axis = true,
                            .axis = -1,
                            .keep_dims = true,
                            .dtype = PS_I64,
                            .transpose_a = true,
                            .outputs = 2,
                            .activation = 3,
                            .seed = UINT64_MAX,
                            .step = 9,
                            .keep = 0.75f}}},
        .outputs = {{.to = PSI_RUN_TO_ANSWER, .value = 5},
                    {.to = PSI_RUN_TO_ASSIGN, .value = 6, .variable = KEPT},
                    {.to = PSI_RUN_TO_ADD, .value = 4, .variable = W, .answers = true},
                    {.to = PSI_RUN_TO_PUSH, .value = 4, .variable = W, .scale = 0.5f},
                    {.to = PSI_RUN_TO_ANSWER, .value = 2}},
        .run = {.container = "session/0123456789abcdef", .trace = true, .input_count = 3, .row_count = 3, .output_count = 5}};
    for (size_t i = 0; i < PSI_RUN_KEY_BYTES; i++) {
        w->run.key[i] = (uint8_t)(0xf0 + i);
    }
    w->run.inputs = w->inputs;
    w->run.rows = w->rows;
    w->run.outputs = w->outputs;
    return &w->run;
}

static void buf_later(void *b)
{
    psi_buf_fini(b);
}

static struct psi_buf *new_buf(size_t max)
{
    struct psi_buf *b = test_alloc(sizeof(*b));
    psi_buf_init(b, max);
    test_later(buf_later, b);
    return b;
}

static struct psi_buf *encoded(const struct psi_run *run)
{
    struct psi_err err = {0};
    struct psi_buf *b = new_buf(PS_CALL_BYTES_MAX);
    assert_ok(psi_run_encode(run, b, &err), &err);
    return b;
}

static const struct psi_run_result RESULTS[] = {
    {.type = {PS_F32, {.rank = 1, .dims = {3}}}, .data = HALVES, .bytes = sizeof(HALVES)},
    {.type = {PS_I64, {.rank = 2, .dims = {0, 4}}}},
    {.type = {PS_STRING, {.rank = 0}}, .data = &TEXT, .bytes = 21}};

static struct psi_buf *encoded_answer(void)
{
    struct psi_run_result results[ARRAY_COUNT(RESULTS)];
    memcpy(results, RESULTS, sizeof(results));
    const struct psi_run_answer answer = {.times = {.queue_ns = 1, .inputs_ns = 2, .rows_ns = 300, .outputs_ns = 70000},
                                          .results = results,
                                          .result_count = ARRAY_COUNT(RESULTS)};
    struct psi_err err = {0};
    struct psi_buf *b = new_buf(PS_CALL_BYTES_MAX);
    assert_ok(psi_run_answer_encode(&answer, b, &err), &err);
    return b;
}

/* ---- golden files: comment lines, and rows of 16 bytes in hex ---- */

static void golden_write(const char *name, const char *what, const struct psi_buf *made)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "tests/golden/runs/%s.hex", name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "# %s: %zu bytes\n", what, made->len);
    for (size_t i = 0; i < made->len; i++) {
        fprintf(f, "%02x%s", made->data[i], i % 16 == 15 || i + 1 == made->len ? "\n" : "");
    }
    assert_int_equal(fclose(f), 0);
    (void)snprintf(path, sizeof(path), "tests/fuzz/corpus/run/%s", name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(made->data, 1, made->len, f), made->len);
    assert_int_equal(fclose(f), 0);
}

static void golden_compare(const char *name, const char *what, const struct psi_buf *made)
{
    char path[128], line[128];
    const char *write = getenv("GOLDEN_WRITE");
    size_t at = 0;
    if (write != NULL && strcmp(write, "1") == 0) {
        golden_write(name, what, made);
    }
    (void)snprintf(path, sizeof(path), "tests/golden/runs/%s.hex", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        for (const char *p = line; line[0] != '#' && p[0] != '\n' && p[0] != '\0'; p += 2, at++) {
            const char digits[] = {p[0], p[1], '\0'};
            const unsigned long byte = strtoul(digits, NULL, 16);
            if (at >= made->len || made->data[at] != byte) {
                fail_msg("%s: byte %zu differs from the file, which says 0x%02lx", name, at, byte);
            }
        }
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(at, made->len);
}

TEST(bytes_of_a_run_stay)
{
    struct whole w;
    golden_compare("run", "RunHead, 3 RunInputs, 3 RunRows, 5 RunOutputs", encoded(make_run(&w)));
    golden_compare("answer", "RunAnswer, 3 RunResults", encoded_answer());
    const struct psi_run probe = {.container = ""};
    golden_compare("probe", "RunHead of a run without rows", encoded(&probe));
}

/* ---- there and back ---- */

static void same_variable(const struct psi_run_variable *a, const struct psi_run_variable *b)
{
    assert_string_equal(a->container, b->container);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->job, b->job);
    assert_int_equal(a->task, b->task);
}

static void same_attrs(const struct psi_op_attrs *a, const struct psi_op_attrs *b)
{
    assert_string_equal(a->message != NULL ? a->message : "", b->message);
    assert_true(a->dtype == b->dtype && a->has_axis == b->has_axis && a->axis == b->axis && a->keep_dims == b->keep_dims);
    assert_true(a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b && a->outputs == b->outputs);
    assert_true(a->activation == b->activation && a->seed == b->seed && a->step == b->step && a->keep == b->keep);
    assert_true(a->first_n == b->first_n && a->summarize == b->summarize);
}

static void fini_later(void *run)
{
    psi_run_fini(run);
}

TEST(what_is_encoded_is_decoded)
{
    struct whole w;
    const struct psi_run *a = make_run(&w);
    const struct psi_buf *bytes = encoded(a);
    struct psi_run *b = test_alloc(sizeof(*b));
    struct psi_err err = {0};
    test_later(fini_later, b);
    assert_ok(psi_run_decode(bytes->data, bytes->len, b, &err), &err);
    run_check(b, bytes->data, bytes->len);
    assert_string_equal(a->container, b->container);
    assert_memory_equal(a->key, b->key, PSI_RUN_KEY_BYTES);
    assert_true(b->trace && b->value_count == 7 && b->input_count == 3 && b->row_count == 3 && b->output_count == 5);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(a->inputs[i].from, b->inputs[i].from);
        assert_int_equal(a->inputs[i].type.dtype, b->inputs[i].type.dtype);
        assert_true(psi_shape_equal(&a->inputs[i].type.shape, &b->inputs[i].type.shape));
        assert_int_equal(a->inputs[i].bytes, b->inputs[i].bytes);
        assert_true(a->inputs[i].bytes == 0 || memcmp(a->inputs[i].data, b->inputs[i].data, a->inputs[i].bytes) == 0);
    }
    same_variable(&a->inputs[1].variable, &b->inputs[1].variable);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(a->rows[i].op, b->rows[i].op);
        assert_string_equal(a->rows[i].name, b->rows[i].name);
        assert_string_equal(a->rows[i].device, b->rows[i].device);
        assert_int_equal(a->rows[i].printed, b->rows[i].printed);
        assert_int_equal(a->rows[i].output_count, b->rows[i].output_count);
        assert_int_equal(a->rows[i].input_count, b->rows[i].input_count);
        assert_memory_equal(a->rows[i].inputs, b->rows[i].inputs, a->rows[i].input_count * sizeof(uint16_t));
        same_attrs(&a->rows[i].attrs, &b->rows[i].attrs);
    }
    assert_int_equal(b->rows[2].first_value, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(a->outputs[i].to == b->outputs[i].to && a->outputs[i].value == b->outputs[i].value);
        assert_true(a->outputs[i].scale == b->outputs[i].scale && a->outputs[i].answers == b->outputs[i].answers);
        if (a->outputs[i].to != PSI_RUN_TO_ANSWER) {
            same_variable(&a->outputs[i].variable, &b->outputs[i].variable);
        }
    }
}

TEST(an_answer_is_decoded)
{
    const struct psi_buf *bytes = encoded_answer();
    struct psi_run_answer answer = {0};
    struct psi_err err = {0};
    assert_ok(psi_run_answer_decode(bytes->data, bytes->len, &answer, &err), &err);
    assert_true(answer.times.queue_ns == 1 && answer.times.inputs_ns == 2 && answer.times.rows_ns == 300);
    assert_true(answer.times.outputs_ns == 70000 && answer.result_count == 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(answer.results[i].type.dtype, RESULTS[i].type.dtype);
        assert_true(psi_shape_equal(&answer.results[i].type.shape, &RESULTS[i].type.shape));
        assert_int_equal(answer.results[i].bytes, RESULTS[i].bytes);
        assert_true(RESULTS[i].bytes == 0 || memcmp(answer.results[i].data, RESULTS[i].data, RESULTS[i].bytes) == 0);
    }
    psi_run_answer_fini(&answer);
}

/* ---- from anybody ---- */

/* In memory of its own, so that a sanitizer sees its end. */
static void decode_copy(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    run_decode_check(copy, n);
    free(copy);
}

static void damage(const struct psi_buf *good, uint64_t seed)
{
    uint64_t random = seed;
    uint8_t *bytes = test_alloc(good->len);
    for (size_t n = 0; n < good->len; n++) {
        decode_copy(good->data, n);
    }
    memcpy(bytes, good->data, good->len);
    for (size_t bit = 0; bit < good->len * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        decode_copy(bytes, good->len);
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    for (int round = 0; round < 20000; round++) {
        memcpy(bytes, good->data, good->len);
        for (uint64_t k = psi_random_below(&random, 6) + 1; k > 0; k--) {
            const uint64_t at = psi_random_below(&random, good->len);
            const uint64_t how = psi_random_below(&random, 3);
            bytes[at] = how == 0 ? 0 : how == 1 ? 0xff : (uint8_t)psi_random_below(&random, 256);
        }
        decode_copy(bytes, good->len - (size_t)psi_random_below(&random, 3));
    }
}

TEST(damaged_runs_are_refused_or_sound)
{
    struct whole w;
    damage(encoded(make_run(&w)), 33);
}

TEST(damaged_answers_are_refused_or_sound)
{
    damage(encoded_answer(), 34);
}

static void refused(const struct psi_run *run, ps_status st, const char *part)
{
    const struct psi_buf *b = encoded(run);
    struct psi_run out = {0};
    struct psi_err err = {0};
    assert_fails(psi_run_decode(b->data, b->len, &out, &err), st, &err, part);
    assert_null(out.memory);
}

TEST(each_rule_is_checked)
{
    static const uint16_t LATER[] = {0, 3};
    struct whole w;
    struct psi_run *run = make_run(&w);
    w.rows[0].inputs = LATER;
    refused(run, PS_INVALID_ARGUMENT, "row 0: its input 1 is value 3, before it are 3");
    run = make_run(&w);
    w.rows[1].output_count = 0;
    refused(run, PS_INVALID_ARGUMENT, "row 1: 3 inputs, 0 outputs");
    run = make_run(&w);
    w.rows[1].name = "";
    refused(run, PS_INVALID_ARGUMENT, "row 1");
    run = make_run(&w);
    w.outputs[0].value = 7;
    refused(run, PS_INVALID_ARGUMENT, "output 0: value 7 of 7");
    run = make_run(&w);
    w.outputs[3].scale = 0;
    refused(run, PS_INVALID_ARGUMENT, "output 3: scale 0");
    run = make_run(&w);
    w.outputs[1].variable.name = "";
    refused(run, PS_INVALID_ARGUMENT, "output 1: its variable has no container, name or job");
    run = make_run(&w);
    w.outputs[1].to = (enum psi_run_to)5;
    refused(run, PS_INVALID_ARGUMENT, "output 1: a value does not go to 5");
    run = make_run(&w);
    w.inputs[0].bytes = 8;
    refused(run, PS_INVALID_ARGUMENT, "input 0: a value of 8 bytes, its type has 12");
    run = make_run(&w);
    w.inputs[2].bytes = 20;
    refused(run, PS_INVALID_ARGUMENT, "input 2");
    run = make_run(&w);
    w.inputs[1].type.dtype = (ps_dtype)77;
    refused(run, PS_INVALID_ARGUMENT, "input 1: dtype 77 does not exist");
    run = make_run(&w);
    w.inputs[1].type.shape.dims[0] = -1;
    refused(run, PS_INVALID_ARGUMENT, "input 1");
    run = make_run(&w);
    w.inputs[1].from = (enum psi_run_from)3;
    refused(run, PS_INVALID_ARGUMENT, "input 1: a value comes from the call or from a variable");
}

/* Values that are lent come where the copies would be, and every value lies where its type can be read. */
TEST(values_are_lent_where_they_lie)
{
    enum { LARGE = 5000, LARGER = 9001 };
    uint8_t *values[2] = {test_alloc(LARGE), test_alloc(LARGER)};
    struct psi_run_input inputs[] = {
        {.from = PSI_RUN_FROM_CALL, .type = {PS_F32, {.rank = 1, .dims = {3}}}, .data = HALVES, .bytes = sizeof(HALVES)},
        {.from = PSI_RUN_FROM_CALL, .type = {PS_U8, {.rank = 1, .dims = {LARGE}}}, .data = values[0], .bytes = LARGE},
        {.from = PSI_RUN_FROM_CALL, .type = {PS_U8, {.rank = 1, .dims = {0}}}},
        {.from = PSI_RUN_FROM_CALL, .type = {PS_U8, {.rank = 1, .dims = {LARGER}}}, .data = values[1], .bytes = LARGER},
        {.from = PSI_RUN_FROM_CALL, .type = {PS_STRING, {.rank = 0}}, .data = &TEXT, .bytes = 21}};
    const struct psi_run run = {.container = "", .inputs = inputs, .input_count = ARRAY_COUNT(inputs)};
    struct psi_lent lents[ARRAY_COUNT(inputs)];
    struct psi_run out = {0};
    struct psi_err err = {0};
    uint32_t lent_count = 0;
    for (size_t i = 0; i < LARGER; i++) {
        values[0][i % LARGE] = (uint8_t)(i * 7);
        values[1][i] = (uint8_t)(i * 11 + i / 253);
    }
    const struct psi_buf *whole = encoded(&run);
    struct psi_buf *plain = new_buf(PS_CALL_BYTES_MAX);
    assert_ok(psi_buf_append(plain, "before", 6, &err), &err);
    assert_ok(psi_run_encode_lending(&run, LARGE, plain, lents, &lent_count, &err), &err);
    assert_int_equal(lent_count, 2);
    assert_int_equal(plain->len - 6 + LARGE + LARGER, whole->len);
    for (size_t step = 1; step < 10000; step = step * 3 + 1) {
        for (size_t at = 0, n = 0; at < whole->len; at += n) {
            const uint8_t *from = psi_lent_find(plain->data + 6, lents, lent_count, at, whole->len, &n);
            n = n < step ? n : step;
            assert_true(n > 0 && at + n <= whole->len);
            assert_memory_equal(from, whole->data + at, n);
        }
    }
    for (uint32_t i = 0; i < lent_count; i++) {
        assert_ptr_equal(psi_lent_find(plain->data + 6, lents, lent_count, lents[i].at, whole->len, &(size_t){0}), values[i]);
    }
    _Alignas(64) uint8_t aligned[20000];
    assert_true(whole->len <= sizeof(aligned));
    memcpy(aligned, whole->data, whole->len);
    assert_ok(psi_run_decode(aligned, whole->len, &out, &err), &err);
    for (uint32_t i = 0; i < out.input_count; i++) {
        const uintptr_t at = (uintptr_t)out.inputs[i].data;
        assert_int_equal(at % (out.inputs[i].bytes >= LARGE ? 64 : 8), 0);
        assert_int_equal(out.inputs[i].bytes, inputs[i].bytes);
        assert_true(inputs[i].bytes == 0 || memcmp(out.inputs[i].data, inputs[i].data, inputs[i].bytes) == 0);
    }
    psi_run_fini(&out);
    struct psi_buf *small = new_buf(whole->len - 1);
    assert_fails(psi_run_encode_lending(&run, LARGE, small, lents, &lent_count, &err), PS_RESOURCE_EXHAUSTED, &err, "more than");
}

/* Numbers may be still to come when a run is decoded, strings may not. What is behind the bytes that have come is not read. */
TEST(a_run_is_decoded_while_its_values_come)
{
    struct whole w;
    struct psi_run_output answer = {.to = PSI_RUN_TO_ANSWER, .value = 0, .variable = {"", "", "", 0}};
    struct psi_run run = *make_run(&w);
    struct psi_err err = {0};
    run.row_count = 0;
    run.outputs = &answer;
    run.output_count = 1;
    for (uint32_t inputs = 2; inputs <= 3; inputs++) { /* input 2 has strings */
        run.input_count = inputs;
        const struct psi_buf *b = encoded(&run);
        size_t decoded = 0;
        for (size_t come = 0; come <= b->len; come++) {
            struct psi_run out = {0};
            uint8_t *bytes = test_alloc(b->len);
            memset(bytes, 0xee, b->len);
            memcpy(bytes, b->data, come);
            if (psi_run_decode_early(bytes, b->len, come, &out, &err) == PS_OK) {
                const uint8_t *value = out.inputs[0].data;
                assert_int_equal(out.inputs[0].bytes, sizeof(HALVES));
                assert_memory_equal(b->data + (value - bytes), HALVES, sizeof(HALVES));
                assert_string_equal(out.inputs[1].variable.name, W.name);
                psi_run_fini(&out);
                decoded++;
            }
        }
        assert_true(inputs == 2 ? decoded > sizeof(HALVES) && decoded < sizeof(HALVES) + 16 : decoded == 1);
    }
}

TEST(counts_that_lie_are_refused)
{
    struct whole w;
    const struct psi_run *run = make_run(&w);
    struct psi_run out = {0};
    struct psi_err err = {0};
    struct psi_buf *b = encoded(run);
    PSI_IGNORE(psi_buf_append(b, "\1", 1, NULL));
    assert_fails(psi_run_decode(b->data, b->len, &out, &err), PS_INVALID_ARGUMENT, &err, "run: 1 bytes after its end");
    struct psi_run few = *run;
    few.output_count--;
    const struct psi_buf *less = encoded(&few);
    struct psi_buf *whole = encoded(run);
    memcpy(whole->data, less->data, (size_t)less->data[0] + 1); /* the head says 4 outputs */
    assert_fails(psi_run_decode(whole->data, whole->len, &out, &err), PS_INVALID_ARGUMENT, &err,
                 "run: "); /* values begin early */
    assert_fails(psi_run_decode(NULL, 0, &out, &err), PS_INVALID_ARGUMENT, &err, "run: it ends before head 0");
}

/* A head that counts more parts than the bytes behind it can have gets no memory for them. */
TEST(heads_that_lie_get_no_memory)
{
    enum { LEAST = 9 };                                                         /* bytes of a row */
    static const uint8_t head[] = {5, 0x08, PSI_RUN_VERSION, 0x30, 0xe8, 0x07}; /* 1,000 rows */
    static uint8_t bytes[sizeof(head) + 1000 * LEAST];
    struct psi_run out = {0};
    struct psi_err err = {0};
    memcpy(bytes, head, sizeof(head));
    const uint64_t before = psi_mem_count();
    assert_fails(psi_run_decode(bytes, sizeof(bytes) - 1, &out, &err), PS_INVALID_ARGUMENT, &err, "1000 parts in 8999 bytes");
    assert_int_equal(psi_mem_count(), before);
    assert_fails(psi_run_decode(bytes, sizeof(bytes), &out, &err), PS_INVALID_ARGUMENT, &err, "run: row 0");
    assert_true(psi_mem_count() > before);
}

TEST(a_newer_version_is_unimplemented)
{
    const struct psi_run probe = {.container = ""};
    struct psi_buf *b = encoded(&probe);
    struct psi_run out = {0};
    struct psi_err err = {0};
    assert_ok(psi_run_decode(b->data, b->len, &out, &err), &err);
    assert_true(out.row_count == 0 && out.value_count == 0);
    psi_run_fini(&out);
    b->data[2] = PSI_RUN_VERSION + 1;
    assert_fails(psi_run_decode(b->data, b->len, &out, &err), PS_UNIMPLEMENTED, &err, "update the older side");
    assert_int_equal(err.reason, PS_REASON_VERSION);
}

/* ---- limits ---- */

TEST(a_run_fills_a_call_to_the_last_byte)
{
    struct psi_run_input input = {.from = PSI_RUN_FROM_CALL, .type = {PS_U8, {.rank = 1}}, .data = test_alloc(PS_CALL_BYTES_MAX)};
    const struct psi_run run = {.container = "", .inputs = &input, .input_count = 1};
    struct psi_err err = {0};
    input.bytes = 60000;
    input.type.shape.dims[0] = 60000;
    const size_t around = encoded(&run)->len - 60000;
    for (size_t over = 0; over < 2; over++) {
        struct psi_buf *b = new_buf(PS_CALL_BYTES_MAX);
        input.bytes = PS_CALL_BYTES_MAX - around + over;
        input.type.shape.dims[0] = (int64_t)input.bytes;
        if (over == 0) {
            assert_ok(psi_run_encode(&run, b, &err), &err);
            assert_int_equal(b->len, PS_CALL_BYTES_MAX);
            continue;
        }
        assert_fails(psi_run_encode(&run, b, &err), PS_RESOURCE_EXHAUSTED, &err,
                     "a run of 0 rows and 1 inputs: it takes more than 65536 bytes");
        assert_int_equal(err.reason, PS_REASON_TOO_LARGE);
        assert_int_equal(b->len, 0);
    }
}

TEST(texts_have_limits)
{
    char text[PSI_OP_MESSAGE_BYTES_MAX + 2];
    struct whole w;
    struct psi_err err = {0};
    struct psi_run *run = make_run(&w);
    memset(text, 'x', sizeof(text));
    text[PSI_OP_MESSAGE_BYTES_MAX] = '\0';
    w.rows[1].attrs.message = text;
    PSI_IGNORE(encoded(run));
    text[PSI_OP_MESSAGE_BYTES_MAX] = 'x';
    text[PSI_OP_MESSAGE_BYTES_MAX + 1] = '\0';
    struct psi_buf *b = new_buf(PS_CALL_BYTES_MAX);
    assert_fails(psi_run_encode(run, b, &err), PS_INVALID_ARGUMENT, &err, "row 'Print_1': a message of 1025 bytes");
    run = make_run(&w);
    text[PSI_RUN_OP_BYTES_MAX + 1] = '\0';
    w.rows[0].op = text;
    assert_fails(psi_run_encode(run, b, &err), PS_INVALID_ARGUMENT, &err, "has 32 bytes, at most 31");
    assert_int_equal(b->len, 0);
}

TEST(numbers_of_values_have_a_limit)
{
    enum { ROWS = 300 };
    static const uint16_t ZERO[] = {0};
    struct psi_run_row *rows = test_alloc(ROWS * sizeof(*rows));
    struct psi_run_input input = {.from = PSI_RUN_FROM_CALL, .type = {PS_U8, {.rank = 1}}};
    struct psi_run run = {.container = "", .inputs = &input, .input_count = 1, .rows = rows, .row_count = 257};
    struct psi_err err = {0};
    for (size_t i = 0; i < ROWS; i++) {
        rows[i] =
            (struct psi_run_row){.op = "split", .name = "s", .device = "", .inputs = ZERO, .input_count = 1, .output_count = 255};
    }
    rows[256].output_count = 254; /* 1 + 256 x 255 + 254 = 65,535 */
    const struct psi_buf *most = encoded(&run);
    struct psi_run out = {0};
    assert_ok(psi_run_decode(most->data, most->len, &out, &err), &err);
    assert_int_equal(out.value_count, PSI_RUN_VALUES_MAX);
    psi_run_fini(&out);
    rows[256].output_count = 255;
    struct psi_buf *b = new_buf(PS_CALL_BYTES_MAX);
    assert_fails(psi_run_encode(&run, b, &err), PS_INVALID_ARGUMENT, &err, "65536 values, at most 65535");
}

/* Rows whose texts need more than one chunk of memory, each of which may be missing. */
TEST(long_texts_have_further_chunks)
{
    enum { ROWS = 40, NAME_BYTES = 200 };
    static char names[ROWS][NAME_BYTES + 1], message[PSI_OP_MESSAGE_BYTES_MAX + 1];
    struct psi_run_row rows[ROWS];
    struct psi_err err = {0};
    struct psi_run got = {0};
    memset(message, 'm', sizeof(message) - 1);
    for (int i = 0; i < ROWS; i++) {
        memset(names[i], 'a' + i % 26, NAME_BYTES);
        rows[i] = (struct psi_run_row){
            .op = "print", .name = names[i], .device = "", .output_count = 1, .attrs = {.message = i == 20 ? message : ""}};
    }
    const struct psi_run run = {.container = "", .rows = rows, .row_count = ROWS};
    const struct psi_buf *b = encoded(&run);
    int failures = 0;
    for (;; failures++) {
        psi_mem_fail_after(failures);
        const ps_status st = psi_run_decode(b->data, b->len, &got, &err);
        psi_mem_fail_after(-1);
        if (st == PS_OK) {
            break;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    }
    assert_true(failures > 1); /* there was more than one chunk */
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_string_equal(got.rows[i].name, names[i]);
        assert_string_equal(got.rows[i].attrs.message, i == 20 ? message : "");
        assert_int_equal(got.rows[i].first_value, i);
    }
    psi_run_fini(&got);
}

/* A short run is one allocation. */
TEST(a_short_run_is_one_allocation)
{
    struct whole w;
    const struct psi_buf *b = encoded(make_run(&w));
    struct psi_run run = {0};
    struct psi_err err = {0};
    const uint64_t before = psi_mem_count();
    assert_ok(psi_run_decode(b->data, b->len, &run, &err), &err);
    assert_int_equal(psi_mem_count() - before, 1);
    psi_run_fini(&run);
}

TEST(no_memory_is_resource_exhausted)
{
    struct whole w;
    const struct psi_buf *b = encoded(make_run(&w));
    const struct psi_buf *answer = encoded_answer();
    struct psi_run run = {0};
    struct psi_run_answer out = {0};
    struct psi_err err = {0};
    psi_mem_fail_after(0);
    assert_fails(psi_run_decode(b->data, b->len, &run, &err), PS_RESOURCE_EXHAUSTED, &err, "out of memory");
    psi_mem_fail_after(0);
    assert_fails(psi_run_answer_decode(answer->data, answer->len, &out, &err), PS_RESOURCE_EXHAUSTED, &err, "out of memory");
    psi_mem_fail_after(-1);
    assert_true(run.memory == NULL && out.memory == NULL);
}
