/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of variables in a CREATE: one request has all parts of a variable, or the directory makes none of them.
 *
 * Happy path: the parts of a variable follow one another in the request, in the order of their index, with equal definitions.
 * Failure modes: a part is missing or differs: INVALID_ARGUMENT; the variable exists whole: SHAPE_MISMATCH. */
#include "directory.h"

#include "common/name.h"

#include <inttypes.h>
#include <string.h>

/* True if b is the next part of the variable of which a is a part. */
static bool follows(const struct psd_create *a, const struct psd_create *b)
{
    char x[PS_NAME_BYTES_MAX + 1], y[PS_NAME_BYTES_MAX + 1];
    struct psd_definition same = b->definition;
    if (b->definition.part.index != a->definition.part.index + 1 || strcmp(a->container, b->container) != 0 ||
        same.shape.rank != a->definition.shape.rank) {
        return false;
    }
    psi_part_whole_name(&a->definition.part, a->name, x);
    psi_part_whole_name(&b->definition.part, b->name, y);
    same.part.index = a->definition.part.index;
    same.shape.dims[same.part.axis] =
        a->definition.shape.dims[same.part.axis]; /* parts may differ in size along the axis at which the variable is cut */
    return strcmp(x, y) == 0 && psd_definition_equal(&same, &a->definition);
}

uint32_t psd_parts_span(const struct psd_create *items, uint32_t count, uint32_t *out_parts)
{
    const struct psi_part *of = &items[0].definition.part;
    uint32_t span = 1;
    while (of->count > 0 && span < of->count && span < count && items[span].definition.part.count > 0 &&
           (items[span].done || items[span - 1].done || follows(&items[span - 1], &items[span]))) {
        span++;
    }
    *out_parts = of->count;
    return span;
}

ps_status psd_parts_complete(const struct psd_create *items, uint32_t span, struct psi_err *err)
{
    const struct psi_part *of = &items[0].definition.part;
    char whole[PS_NAME_BYTES_MAX + 1];
    if (of->index == 0 && span == of->count) {
        return PS_OK;
    }
    psi_part_whole_name(of, items[0].name, whole);
    return psi_fail(err, PS_INVALID_ARGUMENT,
                    "variable '%s' has %" PRIu32 " parts: the request has %" PRIu32 " from part %" PRIu32
                    " on; all of them, in this order and alike, are made at once",
                    whole, of->count, span, of->index);
}

ps_status psd_parts_whole_check(const struct psd_task *t, const struct psd_create *item, struct psi_err *err)
{
    char other[PS_NAME_BYTES_MAX + 1], text[PSI_PART_TEXT_MAX], asked[PSI_SHAPE_TEXT_MAX];
    const struct psd_definition *want = &item->definition;
    if (want->part.count > 0) {
        psi_part_whole_name(&want->part, item->name, other);
    } else if (psi_part_name(other, item->name, 0, NULL) != PS_OK) {
        return PS_OK; /* the name is too long for names of parts, so there are no parts */
    }
    const struct psd_name *n = psd_directory_find(&t->names, item->container, other);
    if (n == NULL || n->part == (want->part.count > 0)) {
        return PS_OK; /* no conflict: the other name does not exist, or n is of the same kind (part or whole) as item */
    }
    const struct psd_definition have = psd_name_definition(n);
    return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                       "%s: '%s' exists%s; '%s' is asked for as %s%s" PSI_MISMATCH_REMEDY,
                       ps_reason_name(PS_REASON_SHAPE_MISMATCH), other,
                       n->part ? psi_part_format(&have.part, &have.shape, text, sizeof(text)) : " as a whole variable",
                       item->name, psi_shape_format(&want->shape, asked, sizeof(asked)),
                       n->part ? ", a whole variable" : psi_part_format(&want->part, &want->shape, text, sizeof(text)));
}

const struct psd_name *psd_parts_next(const struct psd_task *t, const char *container, const char *whole, uint32_t *at)
{
    char name[PS_NAME_BYTES_MAX + 1];
    while (*at < PSI_PARTS_MAX && psi_part_name(name, whole, *at, NULL) == PS_OK) {
        const struct psd_name *n = psd_directory_find(&t->names, container, name);
        (*at)++;
        if (n != NULL && n->part) {
            return n;
        }
    }
    return NULL;
}
