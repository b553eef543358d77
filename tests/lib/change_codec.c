/* SPDX-License-Identifier: Apache-2.0 */
/* See change_codec.h. Happy path: bytes are appended, or read where they lie. Failure: the first one stays in k->st, and nothing
 * is written or read behind it. */
#include "change_codec.h"

#include "psd/state.h"

#include <string.h>

void psd_code_wrong(struct psd_codec *k, const char *what)
{
    if (k->st == PS_OK) {
        k->st = psi_fail(k->err, PS_DATA_LOSS, "%s: %s", k->what, what);
    }
}

void psd_code_raw(struct psd_codec *k, void *p, size_t n)
{
    if (k->st != PS_OK) {
        return;
    }
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, p, n, k->err);
    } else if (n > k->left) {
        psd_code_wrong(k, "its end is missing");
    } else {
        memcpy(p, k->in, n);
        k->in += n;
        k->left -= n;
    }
}

void psd_code_flag(struct psd_codec *k, bool *x)
{
    uint8_t byte = k->out != NULL && *x;
    PSD_CODE(k, byte);
    *x = byte == 1;
    if (byte > 1) {
        psd_code_wrong(k, "neither yes nor no");
    }
}

void psd_code_align(struct psd_codec *k)
{
    uint8_t zeros[8] = {0};
    size_t at = k->out != NULL ? k->out->len : (uintptr_t)k->in;
    psd_code_raw(k, zeros, (sizeof(zeros) - at % sizeof(zeros)) % sizeof(zeros));
}

void psd_code_text(struct psd_codec *k, const char **s, size_t max)
{
    uint16_t n = k->out != NULL ? (uint16_t)(*s == NULL ? UINT16_MAX : strlen(*s)) : 0;
    PSD_CODE(k, n);
    if (k->st != PS_OK || n == UINT16_MAX) {
        return;
    }
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, *s, (size_t)n + 1, k->err);
    } else if (n > max || n + 1u > k->left || memchr(k->in, 0, n + 1u) != k->in + n) {
        psd_code_wrong(k, "a text that is none");
    } else {
        *s = (const char *)k->in;
        k->in += n + 1u;
        k->left -= n + 1u;
    }
}

void psd_code_name(struct psd_codec *k, const char **s, size_t max)
{
    psd_code_text(k, s, max);
    if (k->st == PS_OK && *s == NULL) {
        psd_code_wrong(k, "a name is missing");
    }
}

void psd_code_record(struct psd_codec *k, struct psd_record **r)
{
    uint8_t session[sizeof((*r)->session)] = {0};
    if (k->out != NULL) {
        memcpy(session, (*r)->session, sizeof(session));
    }
    psd_code_raw(k, session, sizeof(session));
    if (k->out == NULL && k->st == PS_OK) {
        *r = psi_map_find(&k->task->records, session, sizeof(session));
        if (*r == NULL) {
            psd_code_wrong(k, "its session is not known");
        }
    }
}

void psd_code_variable(struct psd_codec *k, const struct psd_variable **v)
{
    uint64_t creation = k->out != NULL ? (*v)->creation : 0;
    PSD_CODE(k, creation);
    if (k->out == NULL && k->st == PS_OK) {
        *v = psd_variable_by_creation(&k->task->store, creation);
        if (*v == NULL) {
            psd_code_wrong(k, "its variable is not known");
        }
    }
}

void psd_code_container(struct psd_codec *k, const struct psd_container **c)
{
    const char *name = k->out != NULL ? (*c)->name : NULL;
    psd_code_name(k, &name, PS_CONTAINER_BYTES_MAX);
    if (k->out == NULL && k->st == PS_OK) {
        *c = psd_container_find(&k->task->store, name);
        if (*c == NULL) {
            psd_code_wrong(k, "its container is not known");
        }
    }
}

const void *psd_code_array(struct psd_codec *k, const void *p, uint64_t n, size_t each)
{
    psd_code_align(k);
    if (k->st != PS_OK) {
        return NULL;
    }
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, p, n * each, k->err);
        return p;
    }
    if (n > k->left / each) {
        psd_code_wrong(k, "its end is missing");
        return NULL;
    }
    p = k->in;
    k->in += n * each;
    k->left -= n * each;
    return p;
}

void psd_code_definition(struct psd_codec *k, const struct psd_definition **d)
{
    struct psd_definition *own = &k->storage->definition;
    if (k->out != NULL) {
        *own = **d;
    }
    uint32_t dtype = (uint32_t)own->dtype;
    PSD_CODE(k, dtype);
    PSD_CODE(k, own->shape);
    psd_code_flag(k, &own->atomic);
    psd_code_flag(k, &own->queue);
    if (!own->queue) {
        PSD_CODE(k, own->optimizer);
        PSD_CODE(k, own->part);
    } else if (k->out == NULL) {
        memset(&own->optimizer, 0, sizeof(own->optimizer)); /* as ps_no_optimizer() */
        memset(&own->part, 0, sizeof(own->part));
    }
    own->dtype = (ps_dtype)dtype;
    if (own->shape.rank > PS_RANK_MAX) {
        own->shape.rank = 0; /* a copy of the definition takes as many dimensions as this rank says */
        psd_code_wrong(k, "too many dimensions");
    }
    *d = own;
}

void psd_code_queue_spec(struct psd_codec *k, const struct psi_queue_spec **spec)
{
    struct psi_queue_spec *own = &k->storage->queue;
    if (k->out != NULL) {
        *own = **spec;
    }
    PSD_CODE(k, own->kind);
    PSD_CODE(k, own->component_count);
    PSD_CODE(k, own->capacity);
    PSD_CODE(k, own->min_after_dequeue);
    PSD_CODE(k, own->seed);
    PSD_CODE(k, own->epochs);
    PSD_CODE(k, own->reduction);
    if (own->component_count > PSI_QUEUE_COMPONENTS_MAX) {
        psd_code_wrong(k, "too many components");
    }
    for (uint32_t i = 0; k->st == PS_OK && i < own->component_count; i++) {
        struct psi_queue_component *part = &own->components[i];
        uint32_t dtype = (uint32_t)part->dtype;
        PSD_CODE(k, dtype);
        psd_code_flag(k, &part->shaped);
        PSD_CODE(k, part->shape);
        part->dtype = (ps_dtype)dtype;
    }
    *spec = own;
}
