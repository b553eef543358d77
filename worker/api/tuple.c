/* SPDX-License-Identifier: Apache-2.0 */
/* Tuples: memory for elements of queues. A program puts and reads an element's components one by one, or whole elements by
 * arrays. Happy path: one growing piece of memory has the elements in wire form, each behind its length; a queue keeps some
 * tuples, so that calls allocate nothing. Failure modes: wrong values are refused; bytes from a task are checked when read. */
#include "queue.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/sparse.h"
#include "common/tuple.h"

#include <string.h>

enum { SPARE_MAX = 16, SPARE_BYTES_MAX = 1 << 20, FIRST_BYTES = 256 };

static ps_tuple *tuple_new(const struct psi_queue_spec *spec)
{
    ps_tuple *t = psi_calloc(1, sizeof(*t));
    if (t != NULL) {
        t->spec = *spec;
        if (spec->kind == PSI_QUEUE_SPARSE_ACCUMULATOR) {
            psi_sparse_form(spec, &t->spec);
        }
        psi_list_init(&t->link);
    }
    return t;
}

ps_tuple *ps_tuple_new(const ps_queue *q)
{
    return q != NULL ? tuple_new(&q->spec) : NULL;
}

void ps_tuple_free(ps_tuple *t)
{
    if (t != NULL) {
        psi_free(t->data);
        psi_free(t);
    }
}

void ps_tuple_clear(ps_tuple *t)
{
    if (t != NULL) {
        t->bytes = 0;
        t->last = 0;
        t->count = 0;
        t->component = 0;
        t->seen = 0;
        t->seen_at = 0;
    }
}

ps_tuple *psi_tuple_borrow(ps_queue *q)
{
    ps_session *s = q->variable.session;
    (void)pthread_mutex_lock(&s->lock);
    struct psi_list *link = psi_list_pop_front(&q->spare);
    q->spare_count -= link != NULL ? 1 : 0;
    ps_tuple *t = link != NULL ? PSI_CONTAINER_OF(link, ps_tuple, link) : tuple_new(&q->spec);
    if (t != NULL) {
        psi_list_push_back(&q->lent, &t->link);
    }
    (void)pthread_mutex_unlock(&s->lock);
    ps_tuple_clear(t);
    return t;
}

void psi_tuple_return(ps_queue *q, ps_tuple *t)
{
    ps_session *s = q->variable.session;
    if (t == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    bool keep = q->spare_count < SPARE_MAX && t->capacity <= SPARE_BYTES_MAX;
    psi_list_remove(&t->link);
    if (keep) {
        psi_list_push_front(&q->spare, &t->link);
        q->spare_count++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!keep) {
        ps_tuple_free(t);
    }
}

/* Make room for `more` further bytes and a NUL. */
static ps_status reserve(ps_tuple *t, uint64_t more, struct psi_err *err)
{
    uint64_t need = t->bytes + more + 8;
    uint64_t capacity = t->capacity > 0 ? t->capacity : FIRST_BYTES;
    if (need <= t->capacity) {
        return PS_OK;
    }
    while (capacity < need) {
        /* cannot overflow: sizes from the program (sums of PS_VARIABLE_BYTES_MAX) or a task (take_room()) are below 2^51 */
        capacity *= 2;
    }
    uint8_t *data = psi_realloc(t->data, (size_t)capacity);
    if (data == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for elements of %llu bytes", (unsigned long long)need);
    }
    t->data = data;
    t->capacity = capacity;
    return PS_OK;
}

ps_status psi_tuple_begin(ps_tuple *t, const ps_shape *given, uint64_t data_bytes, uint8_t **out, struct psi_err *err)
{
    const struct psi_queue_component *c = &t->spec.components[t->component];
    const ps_shape *shape = given != NULL ? given : &c->shape;
    uint64_t bytes = psi_tuple_part_bytes(c, shape, data_bytes);
    bool first = t->component == 0;
    ps_status st = reserve(t, bytes + (first ? PSI_BATCH_HEAD : 0) + PSI_TUPLE_BYTES_MIN, err);
    if (st != PS_OK) {
        return st;
    }
    if (first) {
        t->last = t->bytes;
        t->bytes += PSI_BATCH_HEAD;
    }
    uint8_t *p = t->data + t->bytes;
    memset(p + bytes - (bytes < 8 ? bytes : 8), 0, bytes < 8 ? (size_t)bytes : 8); /* zeroes the padding */
    *out = p + psi_tuple_head(c, shape, data_bytes, p);
    t->bytes += bytes;
    t->component = t->component + 1 < t->spec.component_count ? t->component + 1 : 0;
    if (t->component == 0) {
        uint64_t length = t->bytes - t->last - PSI_BATCH_HEAD;
        if (length == 0) { /* an element has bytes even if its components have none: common/tuple.h */
            length = PSI_TUPLE_BYTES_MIN;
            memset(t->data + t->bytes, 0, length);
            t->bytes += length;
        }
        memcpy(t->data + t->last, &length, sizeof(length));
        t->count++;
    }
    return PS_OK;
}

static ps_status check_part(const ps_tuple *t, const ps_shape *shape, bool strings, uint64_t *out_elements, struct psi_err *err)
{
    const struct psi_queue_component *c = &t->spec.components[t->component];
    ps_status st = PS_OK;
    if ((c->dtype == PS_STRING) != strings) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, strings ? "it holds %s" : "it holds %ss: use the call for these",
                      ps_dtype_name(c->dtype));
    } else if (shape == NULL && !c->shaped) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "its shape is not declared, so each element must say it");
    } else if (shape != NULL && c->shaped && !psi_shape_equal(shape, &c->shape)) {
        char a[PSI_SHAPE_TEXT_MAX], b[PSI_SHAPE_TEXT_MAX];
        st = psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH, "shape %s, the queue has %s",
                         psi_shape_format(shape, a, sizeof(a)), psi_shape_format(&c->shape, b, sizeof(b)));
    } else if (shape != NULL) {
        st = psi_variable_check(c->dtype, shape, false, err);
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "component %u", t->component);
        return st;
    }
    *out_elements = (uint64_t)ps_shape_elements(shape != NULL ? shape : &c->shape);
    return PS_OK;
}

static ps_status put(ps_tuple *t, const ps_shape *shape, const void *data, uint64_t bytes, struct psi_err *err)
{
    uint64_t elements = 0;
    uint8_t *p = NULL;
    ps_status st = check_part(t, shape, false, &elements, err);
    uint64_t wanted = elements * ps_dtype_bytes(t->spec.components[t->component].dtype);
    if (st == PS_OK && ((data == NULL && wanted > 0) || bytes != wanted)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "component %u: %llu bytes are given, it has %llu", t->component,
                      (unsigned long long)(data != NULL ? bytes : 0), (unsigned long long)wanted);
    }
    st = st == PS_OK ? psi_tuple_begin(t, shape, bytes, &p, err) : st;
    if (st == PS_OK && bytes > 0) {
        memcpy(p, data, (size_t)bytes);
    }
    return st;
}

ps_status ps_tuple_put(ps_tuple *t, const ps_shape *shape, const void *data, size_t bytes)
{
    struct psi_err err = {0};
    ps_status st = t == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "the tuple is NULL") : put(t, shape, data, bytes, &err);
    return psi_api_result(&err, st);
}

static ps_status put_strings(ps_tuple *t, const ps_shape *shape, const char *const *texts, const size_t *lengths, size_t count,
                             struct psi_err *err)
{
    uint64_t elements = 0;
    uint8_t *p = NULL;
    ps_status st = check_part(t, shape, true, &elements, err);
    uint64_t text = 0;
    if (st == PS_OK && count != elements) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "component %u: %zu texts are given, it has %llu", t->component, count,
                        (unsigned long long)elements);
    }
    for (uint64_t i = 0; st == PS_OK && i < elements; i++) {
        if (texts == NULL || texts[i] == NULL) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "component %u: text %llu is NULL", t->component, (unsigned long long)i);
        }
        uint64_t length = lengths != NULL ? lengths[i] : strlen(texts[i]);
        text += length < PS_STRING_BYTES_MAX ? length : PS_STRING_BYTES_MAX + 1;
    }
    if (st == PS_OK && text > PS_STRING_BYTES_MAX) {
        st = psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_TOO_LARGE, "component %u: its strings have more than %zu bytes",
                         t->component, PS_STRING_BYTES_MAX);
    }
    st = st == PS_OK ? psi_tuple_begin(t, shape, psi_blob_bytes_min(elements) + text, &p, err) : st;
    uint64_t at = 0;
    for (uint64_t i = 0; st == PS_OK && i <= elements; i++) {
        memcpy(p + i * sizeof(at), &at, sizeof(at));
        if (i < elements) {
            uint64_t length = lengths != NULL ? lengths[i] : strlen(texts[i]);
            memcpy(p + psi_blob_bytes_min(elements) + at, texts[i], (size_t)length);
            at += length;
        }
    }
    return st;
}

ps_status ps_tuple_put_strings(ps_tuple *t, const ps_shape *shape, const char *const *texts, const size_t *lengths, size_t count)
{
    struct psi_err err = {0};
    ps_status st =
        t == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "the tuple is NULL") : put_strings(t, shape, texts, lengths, count, &err);
    return psi_api_result(&err, st);
}

static uint64_t bytes_of(const struct psi_queue_component *c)
{
    return (uint64_t)ps_shape_elements(&c->shape) * ps_dtype_bytes(c->dtype);
}

static ps_status check_memory(const struct psi_queue_spec *spec, uint32_t i, const void *data, size_t bytes, uint32_t count,
                              struct psi_err *err)
{
    const struct psi_queue_component *c = &spec->components[i];
    if (!c->shaped || c->dtype == PS_STRING) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "component %u %s: use a ps_tuple", i,
                        c->dtype == PS_STRING ? "holds strings" : "has a shape that is not declared");
    }
    uint64_t wanted = 0;
    if (!psi_mul_bytes(bytes_of(c), count, &wanted) || bytes != wanted) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "component %u: %zu bytes are given, %u element%s of it %s %llu", i, bytes,
                        count, count == 1 ? "" : "s", count == 1 ? "has" : "have", (unsigned long long)wanted);
    }
    return data != NULL || bytes == 0 ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "no memory is given for component %u", i);
}

static ps_status check_value_count(const struct psi_queue_spec *spec, const void *values, size_t value_count, struct psi_err *err)
{
    if (values == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the values are NULL");
    }
    return value_count == spec->component_count
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "%zu values are given, an element has %u components", value_count,
                          spec->component_count);
}

ps_status psi_tuple_gather(ps_tuple *t, const ps_from *values, size_t value_count, uint32_t count, struct psi_err *err)
{
    ps_status st = check_value_count(&t->spec, values, value_count, err);
    for (uint32_t i = 0; st == PS_OK && i < t->spec.component_count; i++) {
        st = check_memory(&t->spec, i, values[i].data, values[i].bytes, count, err);
    }
    for (uint32_t e = 0; st == PS_OK && e < count; e++) {
        for (uint32_t i = 0; st == PS_OK && i < t->spec.component_count; i++) {
            uint64_t bytes = bytes_of(&t->spec.components[i]);
            const uint8_t *data = values[i].data;
            st = put(t, NULL, bytes > 0 ? data + e * bytes : data, bytes, err);
        }
    }
    return st;
}

ps_status psi_tuple_to_put(ps_tuple *t, struct psi_err *err)
{
    if (t->component != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the last element lacks component %u", t->component);
    }
    bool many = t->count != 1;
    t->put = (struct psi_enqueue){.data = many ? t->data : t->data + PSI_BATCH_HEAD,
                                  .bytes = many ? t->bytes : t->bytes - PSI_BATCH_HEAD,
                                  .count = t->count,
                                  .many = many};
    return PS_OK;
}

/* The callback psi_dequeue.room: give memory for the elements that *got announces. Called on the loop thread, while the caller
 * waits. INTERNAL: the number of bytes does not fit the number of elements. */
static ps_status take_room(struct psi_dequeue *d, const struct ps_dequeue_result *got, uint8_t **out, struct psi_err *err)
{
    ps_tuple *t = PSI_CONTAINER_OF(d, ps_tuple, take);
    uint64_t head = d->many ? 0 : PSI_BATCH_HEAD;
    uint64_t fixed = psi_tuple_fixed_bytes(&t->spec);
    bool fits = fixed == 0 || got->bytes == got->count * (fixed + (d->many ? PSI_BATCH_HEAD : 0));
    if (!fits || got->bytes >> 50 != 0) { /* 2^50 bytes: no memory is so large, and sums could overflow */
        return psi_fail(err, PS_INTERNAL, "%llu elements in %llu bytes", (unsigned long long)got->count,
                        (unsigned long long)got->bytes);
    }
    ps_tuple_clear(t);
    ps_status st = reserve(t, got->bytes + head, err);
    if (st != PS_OK) {
        return st;
    }
    memcpy(t->data, &got->bytes, sizeof(got->bytes)); /* if `many`, the answer overwrites this: it has the lengths */
    t->bytes = got->bytes + head;
    t->count = (uint32_t)got->count;
    t->data[t->bytes] = 0;
    *out = t->data + head;
    return PS_OK;
}

void psi_tuple_to_take(ps_tuple *t, uint32_t count, bool many, bool up_to)
{
    ps_tuple_clear(t);
    t->take = (struct psi_dequeue){.count = count, .many = many, .up_to = up_to, .room = take_room};
}

/* The callback psi_dequeue.here: copy the received elements into the caller's arrays. Loop thread, while the caller waits. */
static ps_status scatter(struct psi_dequeue *d, struct psi_err *err)
{
    const ps_tuple *t = PSI_CONTAINER_OF(d, ps_tuple, take);
    const ps_into *values = d->ctx;
    const uint8_t *p = t->data;
    uint64_t left = t->bytes;
    struct psi_tuple_part part;
    for (uint32_t e = 0; e < t->count; e++) {
        const uint8_t *element = NULL;
        uint64_t bytes = 0;
        ps_status st = psi_batch_next(&p, &left, &element, &bytes, err);
        for (uint32_t i = 0; st == PS_OK && i < t->spec.component_count; i++) {
            st = psi_tuple_next(&t->spec.components[i], &element, &bytes, &part, err);
            if (st == PS_OK && part.bytes > 0) {
                memcpy((uint8_t *)values[i].data + e * part.bytes, part.data, (size_t)part.bytes);
            }
        }
        if (st != PS_OK) {
            return psi_fail(err, PS_INTERNAL, "element %u is not understood", e);
        }
    }
    return PS_OK;
}

void psi_tuple_take_into(ps_tuple *t, const ps_into *values)
{
    t->take.here = scatter;
    /* the cast drops const: scatter() writes the memory that values[i].data points to, not the array `values` */
    t->take.ctx = (void *)(uintptr_t)values;
}

static ps_status find_part(ps_tuple *t, uint32_t e, uint32_t i, struct psi_tuple_part *out, struct psi_err *err)
{
    const uint8_t *element = NULL;
    uint64_t bytes = 0;
    if (e < t->seen) {
        t->seen = 0;
        t->seen_at = 0;
    }
    const uint8_t *p = t->data + t->seen_at;
    uint64_t left = t->bytes - t->seen_at;
    ps_status st = psi_batch_next(&p, &left, &element, &bytes, err);
    while (st == PS_OK && t->seen < e) {
        t->seen++;
        t->seen_at = t->bytes - left;
        st = psi_batch_next(&p, &left, &element, &bytes, err);
    }
    for (uint32_t at = 0; st == PS_OK && at <= i; at++) {
        st = psi_tuple_next(&t->spec.components[at], &element, &bytes, out, err);
    }
    if (st != PS_OK && err != NULL) {
        psi_err_prefix(err, "element %u", e);
        err->code = PS_INTERNAL;
    }
    return st == PS_OK ? PS_OK : PS_INTERNAL;
}

static ps_status get_part(ps_tuple *t, uint32_t e, uint32_t i, bool strings, struct psi_tuple_part *out, struct psi_err *err)
{
    if (t == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the tuple is NULL");
    }
    if (e >= t->count || i >= t->spec.component_count) {
        return psi_fail(err, PS_OUT_OF_RANGE, "component %u of element %u: there are %u of %u", i, e, t->spec.component_count,
                        t->count);
    }
    if ((t->spec.components[i].dtype == PS_STRING) != strings) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "component %u holds %s", i, ps_dtype_name(t->spec.components[i].dtype));
    }
    return find_part(t, e, i, out, err);
}

ps_status ps_tuple_get(ps_tuple *t, uint32_t element, uint32_t component, const void **out_data, size_t *out_bytes,
                       ps_shape *out_shape)
{
    struct psi_err err = {0};
    struct psi_tuple_part part;
    ps_status st = out_data == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_data is NULL")
                                    : get_part(t, element, component, false, &part, &err);
    if (st != PS_OK) {
        return psi_api_result(&err, st);
    }
    *out_data = part.data;
    if (out_bytes != NULL) {
        *out_bytes = (size_t)part.bytes;
    }
    if (out_shape != NULL) {
        *out_shape = part.shape;
    }
    return PS_OK;
}

ps_status ps_tuple_get_string(ps_tuple *t, uint32_t element, uint32_t component, size_t index, const char **out_text,
                              size_t *out_bytes, ps_shape *out_shape)
{
    struct psi_err err = {0};
    struct psi_tuple_part part;
    ps_status st = out_text == NULL || out_bytes == NULL
                       ? psi_fail(&err, PS_INVALID_ARGUMENT, "%s is NULL", out_text == NULL ? "out_text" : "out_bytes")
                       : get_part(t, element, component, true, &part, &err);
    uint64_t strings = st == PS_OK ? (uint64_t)ps_shape_elements(&part.shape) : 0;
    if (st == PS_OK && out_shape != NULL) {
        *out_shape = part.shape; /* also with OUT_OF_RANGE, so that the shape of a component without strings can be read */
    }
    if (st == PS_OK && index >= strings) {
        st = psi_fail(&err, PS_OUT_OF_RANGE, "string %zu: there are %llu", index, (unsigned long long)strings);
    }
    if (st != PS_OK) {
        return psi_api_result(&err, st);
    }
    uint64_t begin = psi_blob_offset(part.data, index);
    *out_text = (const char *)part.data + psi_blob_bytes_min(strings) + begin;
    *out_bytes = (size_t)(psi_blob_offset(part.data, index + 1) - begin);
    return PS_OK;
}

uint32_t ps_tuple_count(const ps_tuple *t)
{
    return t != NULL ? t->count : 0;
}

ps_status psi_tuple_room_check(const ps_queue *q, const ps_into *values, size_t value_count, uint32_t count, struct psi_err *err)
{
    ps_status st = check_value_count(&q->spec, values, value_count, err);
    for (uint32_t i = 0; st == PS_OK && i < q->spec.component_count; i++) {
        st = check_memory(&q->spec, i, values[i].data, values[i].bytes, count, err);
    }
    return st;
}
