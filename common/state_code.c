/* SPDX-License-Identifier: Apache-2.0 */
/* State files, written and read. state_rows.h describes each group of members by a table with a row for each member. A function
 * for each type of member both writes and reads it; the function of a group calls these in the order of the rows. Failure:
 * DATA_LOSS: a number above its row's bound, a text without its NUL, a count larger than the bytes that follow. */
#include "state_code.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers in memory are as in the file");

enum { FORMAT_OF_COUNTS = 4 /* from this format on, a count stands before NUMBERs, and a shape has `rank` dimensions */ };

static bool reads(const struct psi_code *k)
{
    return k->out == NULL;
}

void psi_code_wrong(struct psi_code *k, const char *what)
{
    if (k->st == PS_OK) {
        k->st = psi_fail(k->err, PS_DATA_LOSS, "%s: %s", k->what, what);
    }
}

static __attribute__((noinline)) bool make_room(struct psi_code *k, size_t n)
{
    if (k->st == PS_OK && reads(k)) {
        psi_code_wrong(k, "its end is missing");
    } else if (k->st == PS_OK) {
        k->st = psi_buf_reserve(k->out, n, k->err);
    }
    return k->st == PS_OK;
}

/* Write the n bytes at p, or read n bytes to p. Always inlined: n is a constant in the callers, so memcpy() becomes a move. */
static inline __attribute__((always_inline)) void code_raw(struct psi_code *k, void *p, size_t n)
{
    size_t room = reads(k) ? k->bytes_left : k->out->capacity - k->out->len;
    if ((k->st != PS_OK || n > room) && !make_room(k, n)) {
        return;
    }
    if (reads(k)) {
        memcpy(p, k->in, n);
        k->in += n;
        k->bytes_left -= n;
    } else {
        memcpy(k->out->data + k->out->len, p, n);
        k->out->len += n;
    }
}

static void check_bound(struct psi_code *k, uint64_t x, uint64_t bound)
{
    if (bound != 0 && x > bound) {
        psi_code_wrong(k, "a number that is too large");
    }
}

static void code_flag(struct psi_code *k, bool *x)
{
    uint8_t byte = !reads(k) && *x;
    code_raw(k, &byte, sizeof(byte));
    check_bound(k, byte, 1);
    *x = byte == 1;
}

/* Write the n items of `each` bytes at p, or read n items, which are not copied. Returns their address; when reading, they lie in
 * the memory of k->in. NULL: k has failed. */
static const void *code_array(struct psi_code *k, const void *p, uint64_t n, size_t each)
{
    if (k->st != PS_OK) {
        return NULL;
    }
    if (!reads(k)) {
        k->st = psi_buf_append(k->out, p, n * each, k->err);
        return p;
    }
    if (n > k->bytes_left / each) {
        psi_code_wrong(k, "its end is missing");
        return NULL;
    }
    p = k->in;
    k->in += n * each;
    k->bytes_left -= n * each;
    return p;
}

static void code_align(struct psi_code *k)
{
    uint8_t zeros[8] = {0};
    size_t at = reads(k) ? (uintptr_t)k->in : k->out->len;
    code_raw(k, zeros, (sizeof(zeros) - at % sizeof(zeros)) % sizeof(zeros));
}

void psi_code_over(struct psi_code *k)
{
    code_align(k);
    if (k->st == PS_OK && k->bytes_left > 0) {
        psi_code_wrong(k, "an entry that is too long");
    }
}

static void code_text(struct psi_code *k, const char **s, uint64_t max)
{
    uint16_t n = reads(k) ? 0 : (uint16_t)(*s == NULL ? UINT16_MAX : strlen(*s));
    code_raw(k, &n, sizeof(n));
    if (k->st != PS_OK || n == UINT16_MAX) {
        return;
    }
    const char *text = code_array(k, *s, n + UINT64_C(1), 1);
    if (text == NULL || n > max || memchr(text, 0, n + 1u) != text + n) {
        psi_code_wrong(k, "a text that is none");
        return;
    }
    *s = text;
}

static void code_name(struct psi_code *k, const char **s, uint64_t max)
{
    code_text(k, s, max);
    if (k->st == PS_OK && *s == NULL) {
        psi_code_wrong(k, "a name is missing");
    }
}

static void counted_begin(struct psi_code *k, uint32_t before, uint32_t now)
{
    k->numbers = k->version < FORMAT_OF_COUNTS ? before : now;
    if (k->version >= FORMAT_OF_COUNTS) {
        code_raw(k, &k->numbers, sizeof(k->numbers));
        check_bound(k, k->numbers, now);
    }
}

static void code_number(struct psi_code *k, double *x)
{
    if (k->numbers > 0) {
        k->numbers--;
        code_raw(k, x, sizeof(*x));
    }
}

static void code_numbers(struct psi_code *k, double *x, uint32_t bound)
{
    counted_begin(k, 2, bound);
    for (; k->numbers > 0 && k->st == PS_OK; x++) {
        code_number(k, x);
    }
}

/* Check a count of groups that follow in the entry: it is at most bound and, when an entry is read, not above the bytes that are
 * left, because each group takes at least one. */
static void check_count(struct psi_code *k, uint64_t count, uint64_t bound)
{
    check_bound(k, count, bound);
    if (reads(k) && count > k->bytes_left) {
        psi_code_wrong(k, "its end is missing");
    }
}

#define CODE_PLAIN(m, bytes)                                                                                                     \
    do {                                                                                                                         \
        _Static_assert(sizeof(x->m) == (bytes), #m);                                                                             \
        code_raw(k, &x->m, sizeof(x->m));                                                                                        \
    } while (0)
#define CODE_BOUNDED(m, bytes, b)                                                                                                \
    do {                                                                                                                         \
        CODE_PLAIN(m, bytes);                                                                                                    \
        check_bound(k, (uint64_t)x->m, b);                                                                                       \
    } while (0)
#define CODE_U8(m, b) CODE_BOUNDED(m, 1, b)
#define CODE_U16(m, b) CODE_BOUNDED(m, 2, b)
#define CODE_U32(m, b) CODE_BOUNDED(m, 4, b)
#define CODE_U64(m, b) CODE_BOUNDED(m, 8, b)
#define CODE_I64(m, b) CODE_PLAIN(m, 8)
#define CODE_F32(m, b) CODE_PLAIN(m, 4)
#define CODE_F64(m, b) CODE_PLAIN(m, 8)
#define CODE_FLAG(m, b) code_flag(k, &x->m)
#define CODE_NAME(m, b) code_name(k, &x->m, b)
#define CODE_TEXT(m, b) code_text(k, &x->m, b)
#define CODE_ID(m, b) CODE_PLAIN(m, b)
#define CODE_COUNTED(before, b) counted_begin(k, before, b)
#define CODE_NUMBER(m, b) code_number(k, &x->m)
#define CODE_COUNTED_END(m, b) PSI_ASSERT(k->numbers == 0 || k->st != PS_OK)
#define CODE_NUMBERS(m, b) code_numbers(k, x->m, b)
#define CODE_ALIGN(m, b) code_align(k)
#define CODE_BYTES(m, b) x->m = code_array(k, x->m, x->b, 1)
#define CODE_SUMS(m, b) x->m = code_array(k, x->m, x->b, sizeof(*x->m))
#define CODE_DIMS(m, b) code_dims(k, x)
#define CODE_COMPONENTS(m, b) code_components(k, x)
#define CODE_COUNT(m, b) CODE_COUNTS(m, b)
#define CODE_COUNT64(m, b) CODE_COUNTS(m, b)
#define CODE_COUNTS(m, b)                                                                                                        \
    do {                                                                                                                         \
        code_raw(k, &x->m, sizeof(x->m));                                                                                        \
        check_count(k, x->m, b);                                                                                                 \
    } while (0)
#define CODE_SHAPE(m, b) code_shape(k, &x->m)
#define CODE_SCHEDULE(m, b) code_schedule(k, x)
#define CODE_OPTIMIZER(m, b) code_optimizer(k, &x->m)
#define CODE_INITIALIZER(m, b) code_initializer(k, &x->m)
#define CODE_PART(m, b) code_part(k, &x->m)
#define CODE_SPEC(m, b) code_spec(k, &x->m)
#define CODE_QUEUE(m, b) psi_state_queue(k, &x->m)
#define CODE_ELEMENT(m, b) psi_state_element(k, &x->m)
#define CODE_SCALARS(m, b) psi_state_scalars(k, &x->m)

#define THERE_ALL true
#define THERE_SINCE(n) (k->version >= (n))
#define THERE_BEFORE(n) (k->version < (n))
#define THERE_OF(m) (x->m)

#define CODE(type, member, bound, there, text)                                                                                   \
    if (THERE_##there) {                                                                                                         \
        CODE_##type(member, bound);                                                                                              \
    }

static void code_dims(struct psi_code *k, ps_shape *x)
{
    /* x->rank is at most PS_RANK_MAX: reading a larger rank has failed before */
    uint32_t n = k->version < FORMAT_OF_COUNTS ? PS_RANK_MAX : x->rank;
    code_raw(k, x->dims, n * sizeof(x->dims[0]));
}

static void code_shape(struct psi_code *k, ps_shape *x)
{
    PSI_ROWS_SHAPE(CODE)
}

static void code_schedule(struct psi_code *k, ps_optimizer *x)
{
    PSI_ROWS_SCHEDULE(CODE)
}

static void code_optimizer(struct psi_code *k, ps_optimizer *x)
{
    PSI_ROWS_OPTIMIZER(CODE)
}

static void code_initializer(struct psi_code *k, ps_initializer *x)
{
    PSI_ROWS_INITIALIZER(CODE)
}

static void code_part(struct psi_code *k, struct psi_part *x)
{
    PSI_ROWS_PART(CODE)
}

static void code_component(struct psi_code *k, struct psi_queue_component *x)
{
    PSI_ROWS_COMPONENT(CODE)
}

static void code_components(struct psi_code *k, struct psi_queue_spec *x)
{
    for (uint32_t i = 0; k->st == PS_OK && i < x->component_count; i++) {
        code_component(k, &x->components[i]);
    }
}

static void code_spec(struct psi_code *k, struct psi_queue_spec *x){PSI_ROWS_SPEC(CODE)}

#define DEFINE(name, ROWS)                                                                                                       \
    void psi_state_##name(struct psi_code *k, struct psi_state_##name *x)                                                        \
    {                                                                                                                            \
        PSI_ROWS_##ROWS(CODE)                                                                                                    \
    }
PSI_STATE_GROUPS(DEFINE)
