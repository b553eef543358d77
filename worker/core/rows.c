/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the rows of a request by index, and cuts them into segments. Happy path: indices are checked; if they are not in rising
 * order, a stable radix sort sorts them; rows are written into segments, and rows of equal index are added up. Failure: an index
 * out of range; no memory. */
#include "rows.h"

#include "proto/frame.h"

#include "common/half.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* An index of a row; at: its position in the program's list of indices. */
struct named {
    uint64_t index;
    uint64_t at;
};

ps_status psi_rows_indices_check(const struct psi_rows_given *g, uint64_t rows, bool *out_rise, struct psi_err *err)
{
    bool rise = true;
    for (uint64_t i = 0; i < g->count; i++) {
        if (g->indices[i] < 0 || (uint64_t)g->indices[i] >= rows) {
            return psi_fail(err, PS_OUT_OF_RANGE, "'%s': index %lld, number %llu of %llu, is outside [0, %llu)", g->name,
                            (long long)g->indices[i], (unsigned long long)i, (unsigned long long)g->count,
                            (unsigned long long)rows);
        }
        rise = rise && (i == 0 || g->indices[i] > g->indices[i - 1]);
    }
    *out_rise = rise;
    return PS_OK;
}

/* Sort a [count] by index, each of which is below `rows`: stable radix sort from the lowest digit. b [count]: memory to work in.
 * Returns a or b, whichever has the result. */
static struct named *sorted(struct named *a, struct named *b, uint64_t count, uint64_t rows)
{
    for (uint32_t shift = 0; shift < 64 && (rows - 1) >> shift != 0; shift += DIGIT_BITS) {
        uint64_t begin[DIGITS] = {0}, sum = 0;
        for (uint64_t i = 0; i < count; i++) {
            begin[a[i].index >> shift & (DIGITS - 1)]++;
        }
        for (uint32_t d = 0; d < DIGITS; d++) {
            const uint64_t n = begin[d];
            begin[d] = sum;
            sum += n;
        }
        for (uint64_t i = 0; i < count; i++) {
            b[begin[a[i].index >> shift & (DIGITS - 1)]++] = a[i];
        }
        struct named *other = a;
        a = b;
        b = other;
    }
    return a;
}

#define ADD(type, unsigned_type)                                                                                                 \
    for (uint64_t i = 0; i < n; i++) {                                                                                           \
        type x, y;                                                                                                               \
        memcpy(&x, (const uint8_t *)to + i * sizeof(x), sizeof(x));                                                              \
        memcpy(&y, (const uint8_t *)from + i * sizeof(y), sizeof(y));                                                            \
        x = (type)((unsigned_type)x + (unsigned_type)y);                                                                         \
        memcpy((uint8_t *)to + i * sizeof(x), &x, sizeof(x));                                                                    \
    }                                                                                                                            \
    break

static void add_half(ps_dtype dtype, void *to, const void *from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = 0, y = 0;
        psi_half_widen(dtype, (const uint8_t *)to + 2 * i, &x, 1);
        psi_half_widen(dtype, (const uint8_t *)from + 2 * i, &y, 1);
        x += y;
        psi_half_narrow(dtype, &x, (uint8_t *)to + 2 * i, 1);
    }
}

/* Add n elements to the elements at `to`, of any alignment. */
static void add(ps_dtype dtype, void *to, const void *from, uint64_t n)
{
    switch (dtype) {
    case PS_F32:
        ADD(float, float);
    case PS_F64:
        ADD(double, double);
    case PS_I32:
        ADD(int32_t, uint32_t);
    case PS_I64:
        ADD(int64_t, uint64_t);
    case PS_I8:
        ADD(int8_t, uint32_t);
    case PS_U8:
        ADD(uint8_t, uint32_t);
    case PS_F16:
    case PS_BF16:
        add_half(dtype, to, from, n);
        break;
    default:
        break; /* bool and strings are not added up */
    }
}

static uint64_t different(const struct named *list, uint64_t count)
{
    uint64_t n = count > 0;
    for (uint64_t i = 1; i < count; i++) {
        n += list[i].index != list[i - 1].index;
    }
    return n;
}

/* Write the rows into segments in the order of `list`; list NULL: in the program's order. */
static void fill(struct psi_rows *r, const struct psi_rows_given *g, const struct named *list)
{
    const uint64_t per = psi_rows_per_segment(psi_rows_unit(r->row_bytes)), row = r->row_bytes;
    uint64_t k = UINT64_MAX; /* index of the output row that is being written; given rows of equal index share an output row */
    uint64_t in_segment = 0;
    uint8_t *segment = NULL, *place = NULL;
    for (uint64_t i = 0; i < g->count; i++) {
        const uint64_t index = list != NULL ? list[i].index : (uint64_t)g->indices[i];
        const uint64_t given = list != NULL ? list[i].at : i;
        const uint8_t *from = (const uint8_t *)g->values + (g->at != NULL ? g->at[given] : given) * row;
        if (list != NULL && i > 0 && index == list[i - 1].index) {
            if (g->use != PSI_ROWS_LAST) {
                add(g->dtype, place, from, r->columns);
            } else {
                memcpy(place, from, row);
            }
            continue;
        }
        k++;
        if (k % per == 0) {
            segment = r->segments + k / per * PS_SEGMENT_BYTES;
            in_segment = r->count - k < per ? r->count - k : per;
            if (r->count - k > per) { /* not the last segment: fill the bytes after its rows with zeros */
                const uint64_t end = per * psi_rows_unit(row);
                memset(segment + end, 0, PS_SEGMENT_BYTES - end);
            }
        }
        memcpy(segment + k % per * PSI_INDEX_BYTES, &index, sizeof(index));
        place = segment + in_segment * PSI_INDEX_BYTES + k % per * row;
        memcpy(place, from, row);
    }
}

/* Write each given index once into r->indices and, if list is not NULL, the position of each given index into r->places. */
static void note(struct psi_rows *r, const struct psi_rows_given *g, const struct named *list)
{
    uint64_t k = UINT64_MAX;
    for (uint64_t i = 0; i < g->count; i++) {
        const uint64_t index = list != NULL ? list[i].index : (uint64_t)g->indices[i];
        if (list == NULL || i == 0 || index != list[i - 1].index) {
            r->indices[++k] = index;
        }
        if (list != NULL) {
            r->places[list[i].at] = (uint32_t)k;
        }
    }
}

static ps_status fail_memory(const struct psi_rows_given *g, struct psi_err *err)
{
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "'%s': no memory for %llu rows", g->name, (unsigned long long)g->count);
}

/* Fill r with the program's rows, in the order of `list`; list NULL: in the program's order. */
static ps_status make(struct psi_rows *r, const struct psi_rows_given *g, const struct named *list, struct psi_err *err)
{
    r->count = list != NULL ? different(list, g->count) : g->count;
    r->highest = g->count == 0 ? 0 : list != NULL ? list[g->count - 1].index : (uint64_t)g->indices[g->count - 1];
    if (g->use != PSI_ROWS_READ) {
        const uint64_t bytes = psi_rows_payload(r->count, psi_rows_unit(r->row_bytes));
        r->segments = psi_malloc(bytes + PSI_INDEX_BYTES); /* more than 0 bytes, so that NULL means no memory even without rows */
        if (r->segments == NULL) {
            return fail_memory(g, err);
        }
        fill(r, g, list);
    }
    if (g->use != PSI_ROWS_READ && g->use != PSI_ROWS_SUM_READ) {
        return PS_OK;
    }
    r->indices = psi_malloc((r->count + 1) * sizeof(*r->indices));
    r->places = list != NULL ? psi_malloc(g->count * sizeof(*r->places)) : NULL;
    r->at = g->at != NULL ? psi_malloc((g->count + 1) * sizeof(*r->at)) : NULL;
    if (r->indices == NULL || (list != NULL && r->places == NULL) || (g->at != NULL && r->at == NULL)) {
        return fail_memory(g, err);
    }
    if (r->at != NULL && g->count > 0) {
        memcpy(r->at, g->at, g->count * sizeof(*r->at));
    }
    note(r, g, list);
    return PS_OK;
}

ps_status psi_rows_new(const struct psi_rows_given *g, struct psi_rows **out, struct psi_err *err)
{
    bool rise = false;
    struct named *lists = NULL;
    struct psi_rows *r = psi_calloc(1, sizeof(*r));
    if (r == NULL) {
        return fail_memory(g, err);
    }
    ps_status st = psi_rows_of(g->name, g->shape, g->dtype, &r->variable_rows, &r->columns, err);
    r->row_bytes = r->columns * ps_dtype_bytes(g->dtype);
    r->given = g->count;
    if (st == PS_OK && g->count > UINT32_MAX / 2) {
        st = psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_TOO_LARGE, "'%s': %llu indices; at most %u in a call", g->name,
                         (unsigned long long)g->count, UINT32_MAX / 2);
    }
    st = st == PS_OK ? psi_rows_indices_check(g, r->variable_rows, &rise, err) : st;
    if (st == PS_OK && !rise) {
        lists = psi_malloc(2 * g->count * sizeof(*lists));
        st = lists == NULL ? fail_memory(g, err) : PS_OK;
    }
    const struct named *list = NULL;
    if (st == PS_OK && !rise) {
        for (uint64_t i = 0; i < g->count; i++) {
            lists[i] = (struct named){.index = (uint64_t)g->indices[i], .at = i};
        }
        list = sorted(lists, lists + g->count, g->count, r->variable_rows);
    }
    st = st == PS_OK ? make(r, g, list, err) : st;
    psi_free(lists);
    if (st != PS_OK) {
        psi_rows_free(r);
        return st;
    }
    *out = r;
    return PS_OK;
}

void psi_rows_free(struct psi_rows *r)
{
    if (r != NULL) {
        psi_free(r->segments);
        psi_free(r->indices);
        psi_free(r->places);
        psi_free(r->at);
        psi_free(r->came);
        psi_free(r);
    }
}

void psi_rows_spread(const struct psi_rows *r, const void *from, void *to)
{
    const uint64_t row = r->row_bytes;
    for (uint64_t i = 0; i < r->given; i++) {
        memcpy((uint8_t *)to + (r->at != NULL ? r->at[i] : i) * row,
               (const uint8_t *)from + (r->places != NULL ? r->places[i] : i) * row, row);
    }
}

void psi_rows_copy(const struct psi_rows *r, uint8_t *indices, uint8_t *rows)
{
    const uint64_t per = psi_rows_per_segment(psi_rows_unit(r->row_bytes));
    for (uint64_t first = 0; first < r->count; first += per) {
        const uint64_t n = r->count - first < per ? r->count - first : per;
        const uint8_t *segment = r->segments + first / per * PS_SEGMENT_BYTES;
        memcpy(indices + first * PSI_INDEX_BYTES, segment, n * PSI_INDEX_BYTES);
        memcpy(rows + first * r->row_bytes, segment + n * PSI_INDEX_BYTES, n * r->row_bytes);
    }
}
