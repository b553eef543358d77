/* SPDX-License-Identifier: Apache-2.0 */
/* OPEN: the owner of variables and queues tells a client their handles and definitions. Each item has its own error. */
#include "rpc.h"

#include "common/optimizer.h"

#include <string.h>

static void describe(const struct psd_task *t, const struct psd_variable *v, ps_v1_OpenAnswer *a)
{
    a->handle = v->handle;
    a->incarnation = v->container->incarnation;
    a->creation = v->creation;
    if (v->queue != NULL) {
        a->has_queue = true;
        psi_queue_spec_to_msg(&v->queue->spec, &a->queue);
        a->size = psd_queue_length(v->queue);
        a->closed = v->queue->closed;
        return;
    }
    a->dtype = (uint32_t)v->dtype;
    const ps_shape shape = psd_variable_shape(v);
    a->dims_count = (pb_size_t)shape.rank;
    memcpy(a->dims, shape.dims, shape.rank * sizeof(int64_t));
    a->has_optimizer = true;
    psi_optimizer_to_msg(&v->optimizer, &a->optimizer);
    a->version = v->version;
    a->initialised = v->initialised;
    a->sealed = v->sealed;
    a->restored = v->restored;
    a->seed = v->seed;
    a->init_kind = v->init.kind;
    a->init_a = v->init.a;
    a->init_b = v->init.b;
    a->chief_number = v->chief_number;
    a->provisional = v->sealed ? 0 : v->chief_value;
    a->seal_number = v->sealed ? v->chief_value : 0;
    a->container_chief = psd_chief_number(&t->chiefs, v->container->name);
    a->atomic = v->atomic;
    const struct psi_part part = psd_variable_part_of(v);
    a->has_part = v->is_part;
    psi_part_to_msg(&part, &a->part);
    a->rate = psd_variable_rate(v);
    a->rounds = v->part == NULL ? 0 : v->part->rounds->generation;
    a->rounds_mode = v->part == NULL ? PSD_SYNC_NONE : v->part->rounds->options.mode;
    a->giver.size = v->given ? sizeof(v->giver) : 0;
    memcpy(a->giver.bytes, v->giver, a->giver.size);
    a->checkpoint = v->checkpoint;
    a->checkpoint_version = v->checkpoint == 0 ? 0 : v->checkpoint_version;
}

static void bad_list(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err)
{
    psd_reply(t, c, r->header.op, 0, r->header.id, 0, err, 0, NULL, NULL);
}

static ps_status check_key(const struct psd_task *t, const ps_v1_NameItem *item, const char *container, struct psi_err *err)
{
    uint8_t key[PSI_KEY_BYTES];
    ps_status st = psd_key_parse((const pb_bytes_array_t *)(const void *)&item->key, container, key, err);
    const struct psd_container *in = st == PS_OK ? psd_container_find(&t->store, container) : NULL;
    bool other = in != NULL && in->of_session && memcmp(in->key, key, sizeof(key)) != 0;
    return other ? psd_key_denied(container, err) : st;
}

void psd_rpc_open(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_NameItem item;
    struct psi_err err;
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_OPEN, PS_FLAG_REPLY, r->header.id);
    for (uint32_t index = 1; psi_items_next(&items, &ps_v1_NameItem_msg, &item, &err); index++) {
        char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
        ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
        a.index = index;
        ps_status st = psd_name_parse(&item, container, name, &err);
        st = st == PS_OK ? check_key(t, &item, container, &err) : st;
        const struct psd_variable *v = st == PS_OK ? psd_variable_find(psd_container_find(&t->store, container), name) : NULL;
        const bool found = v != NULL && !t->fenced;
        st = st == PS_OK ? psd_peers_begun(t, &err) : st;
        st = st == PS_OK && found ? psd_own_show(t, c, v->container, &err) : st;
        if (st == PS_OK && found) {
            describe(t, v, &a);
        } else if (st == PS_OK) {
            st = psi_fail(&err, PS_NOT_FOUND, "%s has no variable '%s'", t->name, name);
        }
        if (st != PS_OK) {
            a.status = (uint32_t)st;
            a.reason = (uint32_t)err.reason;
            PSI_IGNORE(PSI_BYTES_SET(a.text, err.text)); /* cut is fine */
        }
        psd_list_add(&l, &ps_v1_OpenAnswer_msg, &a);
    }
    if (items.st != PS_OK) {
        psi_buf_fini(&l.buf);
        bad_list(t, c, r, &err);
        return;
    }
    psd_list_end(&l);
}
