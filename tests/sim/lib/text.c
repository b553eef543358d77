/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers of strings: element i of the value for a tag is a row of 8-byte words that all are the tag; how many follows from the
 * tag and i, so that every tag has another size and one in two needs two segments. The oracles see tags: a blob that is not whole
 * ends the run here.
 */
#include "sim.h"

#include "../../../common/blob.h"

#include <string.h>

enum { WORDS_MAX = 5200 }; /* of an element; three of them fit a frame of the small build */

static uint64_t words(uint64_t tag, uint64_t element)
{
    return tag == 0 ? 0 : tag % 2 == 0 ? 1 + (tag + element) % 7 : 1 + (tag * 7919 + element * 977) % WORDS_MAX;
}

size_t sim_text_fill(const struct sim_var *v, uint64_t tag, uint8_t *blob)
{
    uint64_t start = psi_blob_bytes_min(v->elements);
    uint64_t at = 0;
    memcpy(blob, &at, 8);
    for (uint64_t i = 0; i < v->elements; i++) {
        for (uint64_t w = 0; w < words(tag, i); w++, at += 8) {
            memcpy(blob + start + at, &tag, 8);
        }
        memcpy(blob + (i + 1) * 8, &at, 8);
    }
    return (size_t)(start + at);
}

static double tag_of(struct sim *s, const struct sim_var *v, const uint8_t *blob, uint64_t i)
{
    uint64_t from = psi_blob_offset(blob, i);
    uint64_t bytes = psi_blob_offset(blob, i + 1) - from;
    const uint8_t *text = blob + psi_blob_bytes_min(v->elements) + from;
    uint64_t tag = 0;
    if (bytes >= 8) {
        memcpy(&tag, text, 8);
    }
    if (bytes != words(tag, i) * 8) {
        sim_fail(s, "string %llu of '%s' has %llu bytes and begins with tag %llu", (unsigned long long)i, v->name,
                 (unsigned long long)bytes, (unsigned long long)tag);
    }
    for (uint64_t at = 8; at < bytes; at += 8) {
        if (memcmp(text, text + at, 8) != 0) {
            sim_fail(s, "string %llu of '%s' is of tag %llu as far as byte %llu", (unsigned long long)i, v->name,
                     (unsigned long long)tag, (unsigned long long)at);
        }
    }
    return (double)tag;
}

const void *sim_values(struct sim *s, const struct sim_var *v, const void *value, size_t bytes)
{
    if (v->dtype != PS_STRING) {
        if (bytes != sim_var_bytes(v)) {
            sim_fail(s, "'%s' has %zu bytes", v->name, bytes);
        }
        return value;
    }
    struct psi_err err;
    uint64_t least = psi_blob_bytes_min(v->elements);
    uint64_t text = psi_blob_offset(value, v->elements);
    bool pulled = bytes == psi_blob_bytes_max(v->elements); /* the buffer's size */
    if (text > PS_STRING_BYTES_MAX || psi_blob_check(value, pulled ? least + text : bytes, v->elements, &err) != PS_OK) {
        sim_fail(s, "'%s': its strings are broken", v->name);
    }
    for (uint64_t i = 0; i < v->elements; i++) {
        s->tags[i] = tag_of(s, v, value, i);
    }
    return s->tags;
}
