/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/state_code.c: what is written is read again; what was cut anywhere, a number above its row's bound, a count of more than
 * there is, and a text that is none are refused, and nothing behind the end is read (in memory of its exact size).
 */
#include "test.h"

#include "common/mem.h"
#include "common/state_file.h"

#include <string.h>

typedef void (*code_fn)(struct psi_code *k, void *x);

#define CASE(group)                                                                                                              \
    static void code_##group(struct psi_code *k, void *x)                                                                        \
    {                                                                                                                            \
        psi_state_##group(k, x);                                                                                                 \
    }
CASE(head)
CASE(file)
CASE(sums)
CASE(end)
CASE(variable)
CASE(queued)
CASE(record)
CASE(outcome)
CASE(push)
CASE(attempt)
CASE(staged)
CASE(chief)
CASE(name)
CASE(reset)
CASE(reset_task)

static const uint8_t bytes_of[5] = {1, 2, 3, 4, 5};
static const uint32_t sums_of[3] = {7, 8, 9};

static struct psi_state_head head = {PSI_STATE_MAGIC, PSI_STATE_VERSION, 3, 12, "psd", "ps"};
static struct psi_state_file file = {1, 2, 300, 200, "c"};
static struct psi_state_sums sums = {77, 1, 3, 4, sums_of};
static struct psi_state_end end = {100, 200};
static struct psi_state_variable variable = {
    .container = "c",
    .name = "w",
    .dtype = PS_F32,
    .shape = {.rank = 2, .dims = {3, 4}},
    .optimizer = {.kind = PS_OPT_ADAM, .learning_rate = 0.5, .beta1 = 0.75, .epsilon = 2},
    .atomic = true,
    .creation = 5,
    .bytes = 48,
    .given = true,
    .giver = {1, 2, 3},
    .powers = {0.25, 0.125},
    .init = {.kind = PS_INIT_UNIFORM, .a = -1, .b = 1},
    .pin = 3};
static struct psi_state_variable queue = {
    .container = "c",
    .name = "q",
    .queue = true,
    .spec = {.kind = PSI_QUEUE_ACCUMULATOR,
             .component_count = 2,
             .capacity = -1,
             .components = {{.dtype = PS_F32, .shaped = true, .shape = {.rank = 1, .dims = {2}}}, {.dtype = PS_I64}}},
    .state = {.size = 1,
              .next_serial = 9,
              .step = 17,
              .has_sum = true,
              .sum = {.serial = 8, .bytes = sizeof(bytes_of), .data = bytes_of}}};
static struct psi_state_queued queued = {77, 3, true, {.serial = 1, .bytes = sizeof(bytes_of), .data = bytes_of}};
static struct psi_state_record record = {{1, 2}, 4, "key:0123", 0};
static struct psi_state_outcome outcome = {.number = 1,
                                           .state = PS_NUMBER_REFUSED,
                                           .reason = 49,
                                           .result_bytes = sizeof(bytes_of),
                                           .result = bytes_of,
                                           .text = "element 3 is NaN"};
static struct psi_state_outcome silent = {.number = 2, .state = PS_NUMBER_APPLIED};
static struct psi_state_push push = {.creation = 5, .number = 2, .scalars = {.rate = 1, .epsilon = 2, .form = 1}, .total = 9};
static struct psi_state_attempt attempt = {5, 6, 7, true, false, 0};
static struct psi_state_staged staged = {{1}, 2, 3, sizeof(bytes_of), bytes_of};
static struct psi_state_chief chief = {"c", 8, "host:1", {9}};
static struct psi_state_name name = {.container = "c", .name = "w", .dtype = PS_F64, .job = "ps", .task = 1};
static struct psi_state_reset reset = {"c", true, 0};
static struct psi_state_reset_task reset_task = {"ps", 1, true, false};

#define ROW(group, x)                                                                                                            \
    {                                                                                                                            \
        code_##group, &(x), sizeof(x)                                                                                            \
    }
static const struct {
    code_fn code;
    void *x;
    size_t bytes;
} cases[] = {ROW(head, head),
             ROW(file, file),
             ROW(sums, sums),
             ROW(end, end),
             ROW(variable, variable),
             ROW(variable, queue),
             ROW(queued, queued),
             ROW(record, record),
             ROW(outcome, outcome),
             ROW(outcome, silent),
             ROW(push, push),
             ROW(attempt, attempt),
             ROW(staged, staged),
             ROW(chief, chief),
             ROW(name, name),
             ROW(reset, reset),
             ROW(reset_task, reset_task)};
enum { SUMS = 2, QUEUED = 6, PUSH = 10, STAGED = 12, CHIEF = 13 };
enum { CASES = sizeof(cases) / sizeof(cases[0]), ROOM = 4096 };

static void written(size_t i, struct psi_buf *out)
{
    struct psi_code k = {.out = out, .version = PSI_STATE_VERSION, .what = "a test"};
    psi_buf_init(out, ROOM);
    cases[i].code(&k, cases[i].x);
    assert_int_equal(k.st, PS_OK);
}

/* n bytes, with nothing behind them, in one of the formats. *out: what was read, whose texts are gone. */
static ps_status read_as(size_t i, uint32_t version, const uint8_t *p, size_t n, struct psi_buf *again)
{
    uint8_t *copy = psi_aligned_malloc(8, n + 1);
    void *x = psi_calloc(1, cases[i].bytes);
    struct psi_err err;
    struct psi_code k = {.in = copy, .bytes_left = n, .version = version, .what = "a test", .err = &err};
    assert_true(copy != NULL && x != NULL);
    memcpy(copy, p, n);
    cases[i].code(&k, x);
    assert_in_range(k.bytes_left, 0, n);
    if (k.st == PS_OK && k.bytes_left > 0) {
        psi_code_wrong(&k, "more than it is");
    }
    if (k.st == PS_OK && again != NULL) {
        struct psi_code w = {.out = again, .version = PSI_STATE_VERSION, .what = "a test"};
        psi_buf_init(again, ROOM);
        cases[i].code(&w, x);
        assert_int_equal(w.st, PS_OK);
    }
    assert_true(k.st == PS_OK || (k.st == PS_DATA_LOSS && err.text[0] != '\0'));
    psi_free(copy);
    psi_free(x);
    return k.st;
}

static ps_status read_one(size_t i, const struct psi_buf *b)
{
    return read_as(i, PSI_STATE_VERSION, b->data, b->len, NULL);
}

TEST(test_what_is_written_is_read)
{
    for (size_t i = 0; i < CASES; i++) {
        struct psi_buf b, again;
        written(i, &b);
        assert_int_equal(read_as(i, PSI_STATE_VERSION, b.data, b.len, &again), PS_OK);
        assert_int_equal(again.len, b.len);
        assert_memory_equal(again.data, b.data, b.len);
        psi_buf_fini(&again);
        psi_buf_fini(&b);
    }
}

TEST(test_cut_at_each_byte)
{
    for (size_t i = 0; i < CASES; i++) {
        struct psi_buf b;
        written(i, &b);
        for (size_t n = 0; n < b.len; n++) {
            if (read_one(i, &(struct psi_buf){.data = b.data, .len = n}) != PS_DATA_LOSS) {
                fail_msg("case %zu cut at byte %zu is read", i, n);
            }
            for (uint32_t version = 1; version < PSI_STATE_VERSION; version++) {
                PSI_IGNORE(read_as(i, version, b.data, n, NULL)); /* of another format: whatever it says, no harm is done */
            }
        }
        psi_buf_fini(&b);
    }
}

/* What is read of any byte is what is written of it and read again. */
TEST(test_each_byte_changed)
{
    static const uint8_t xors[] = {0x01, 0x02, 0x80, 0xff};
    uint32_t refused = 0, read = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct psi_buf b, again;
        written(i, &b);
        for (size_t at = 0; at < b.len; at++) {
            for (size_t x = 0; x < sizeof(xors); x++) {
                b.data[at] ^= xors[x];
                if (read_as(i, PSI_STATE_VERSION, b.data, b.len, &again) == PS_OK) {
                    struct psi_buf twice;
                    assert_int_equal(read_as(i, PSI_STATE_VERSION, again.data, again.len, &twice), PS_OK);
                    assert_int_equal(twice.len, again.len);
                    assert_memory_equal(twice.data, again.data, twice.len);
                    psi_buf_fini(&twice);
                    psi_buf_fini(&again);
                    read++;
                } else {
                    refused++;
                }
                b.data[at] ^= xors[x];
            }
        }
        psi_buf_fini(&b);
    }
    assert_in_range(read, 500, UINT32_MAX);
    assert_in_range(refused, 500, UINT32_MAX);
}

/* The case with one member changed is refused; written, it was what the row does not allow. */
#define REFUSED(x, member, value)                                                                                                \
    do {                                                                                                                         \
        __typeof__((x).member) was = (x).member;                                                                                 \
        (x).member = (value);                                                                                                    \
        assert_refused(&(x), #x "." #member);                                                                                    \
        (x).member = was;                                                                                                        \
    } while (0)

static void assert_refused(const void *x, const char *what)
{
    size_t i = 0;
    while (cases[i].x != x) {
        i++;
    }
    struct psi_buf b;
    struct psi_err err;
    struct psi_code k = {.out = &b, .version = PSI_STATE_VERSION, .what = what, .err = &err};
    psi_buf_init(&b, ROOM);
    cases[i].code(&k, cases[i].x);
    if (k.st == PS_OK && read_one(i, &b) == PS_OK) {
        fail_msg("%s is read", what);
    }
    psi_buf_fini(&b);
}

TEST(test_bounds_of_rows)
{
    char long_name[PS_CONTAINER_BYTES_MAX + 2];
    memset(long_name, 'x', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    REFUSED(variable, shape.rank, PS_RANK_MAX + 1);
    REFUSED(variable, optimizer.nesterov, 2);
    REFUSED(variable, container, long_name);
    REFUSED(variable, name, NULL);
    REFUSED(queue, spec.component_count, PSI_QUEUE_COMPONENTS_MAX + 1);
    REFUSED(queue, spec.components[1].shape.rank, PS_RANK_MAX + 1);
    REFUSED(queue, state.size, UINT64_C(1) << 32);
    REFUSED(queue, state.done, UINT64_C(1) << 32);
    REFUSED(queue, state.taken, UINT64_MAX);
    REFUSED(outcome, state, PS_NUMBER_ABANDONED + 1);
    REFUSED(outcome, result_bytes, PS_RESULT_BYTES_MAX + 1);
    REFUSED(record, count, PS_WINDOW + 1);
    REFUSED(chief, text, NULL);
}

/* A count in the bytes of a case becomes another one. */
static void assert_count_refused(size_t i, size_t at, size_t bytes, uint64_t was, uint64_t count)
{
    struct psi_buf b;
    written(i, &b);
    assert_memory_equal(b.data + at, &was, bytes);
    memcpy(b.data + at, &count, bytes);
    assert_int_equal(read_one(i, &b), PS_DATA_LOSS);
    psi_buf_fini(&b);
}

TEST(test_counts_of_more_than_there_is)
{
    static const uint64_t counts[] = {4, 6, 1000, UINT64_C(1) << 30, UINT32_MAX - 7, UINT32_MAX};
    for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
        assert_count_refused(SUMS, 12, 4, 3, counts[n]);
    }
    for (size_t n = 1; n < sizeof(counts) / sizeof(counts[0]); n++) {
        assert_count_refused(STAGED, 32, 8, sizeof(bytes_of), counts[n]);
        assert_count_refused(STAGED, 32, 8, sizeof(bytes_of), counts[n] << 32);
        assert_count_refused(STAGED, 32, 8, sizeof(bytes_of), UINT64_MAX - counts[n]);
        assert_count_refused(QUEUED, 25, 8, sizeof(bytes_of), UINT64_MAX - counts[n]);
    }
    REFUSED(record, count, 1); /* there is no byte of it */
    REFUSED(reset, count, UINT32_MAX);
    REFUSED(attempt, count, 1);
    REFUSED(attempt, count, UINT64_MAX);
}

/* More NUMBERs than this psd knows are of a newer one: refused, not passed over. Fewer are of an older one. */
TEST(test_counted_numbers)
{
    struct psi_buf b;
    struct psi_state_push x = {.creation = 0};
    enum { NUMBERS = 21 }; /* of PSI_ROWS_SCALARS */
    const uint32_t numbers = NUMBERS;
    size_t at = 16;
    written(PUSH, &b);
    assert_memory_equal(b.data + at, &numbers, sizeof(numbers));
    for (uint32_t count = 0; count < NUMBERS + 3; count++) {
        uint8_t bytes[ROOM];
        struct psi_code k = {.in = bytes, .version = PSI_STATE_VERSION, .what = "a test"};
        size_t rest = at + sizeof(count) + NUMBERS * sizeof(double);
        memcpy(bytes, b.data, at);
        memcpy(bytes + at, &count, sizeof(count));
        memset(bytes + at + sizeof(count), 0, count * sizeof(double));
        memcpy(bytes + at + sizeof(count) + count * sizeof(double), b.data + rest, b.len - rest);
        k.bytes_left = b.len + count * sizeof(double) - NUMBERS * sizeof(double);
        psi_state_push(&k, &x);
        assert_int_equal(k.st, count <= NUMBERS ? PS_OK : PS_DATA_LOSS);
        if (count <= NUMBERS) {
            assert_int_equal(k.bytes_left, 0);
            assert_int_equal(x.total, 9);
            assert_int_equal(x.scalars.form, 1);
        }
    }
    psi_buf_fini(&b);
}

/* Its NUL is where its length says, and nowhere before. */
TEST(test_texts)
{
    enum { NAME_AT = 0, TEXT_AT = 12, TEXT_BYTES = 6 };
    static const struct {
        size_t at;
        uint8_t byte;
    } changes[] = {{TEXT_AT + 2 + TEXT_BYTES, 'x'},
                   {TEXT_AT + 4, 0},
                   {TEXT_AT, TEXT_BYTES - 1},
                   {TEXT_AT, TEXT_BYTES + 1},
                   {TEXT_AT + 1, 0xff},
                   {NAME_AT, 0},
                   {NAME_AT + 2, 0},
                   {NAME_AT + 3, 'x'}};
    struct psi_buf b;
    written(CHIEF, &b);
    assert_memory_equal(b.data + TEXT_AT + 2, chief.text, TEXT_BYTES + 1);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        const uint8_t was = b.data[changes[i].at];
        b.data[changes[i].at] = changes[i].byte;
        if (read_one(CHIEF, &b) != PS_DATA_LOSS) {
            fail_msg("byte %zu as %02x is read", changes[i].at, changes[i].byte);
        }
        b.data[changes[i].at] = was;
    }
    assert_int_equal(read_one(CHIEF, &b), PS_OK);
    b.data[NAME_AT] = b.data[NAME_AT + 1] = 0xff; /* a text that there is not, where a name is to be */
    assert_int_equal(read_one(CHIEF, &b), PS_DATA_LOSS);
    psi_buf_fini(&b);
}
