/* SPDX-License-Identifier: Apache-2.0 */
/* Reads names and definitions from items of messages, and writes definitions into items. Failure: a wrong item is refused. */

#include "items.h"

#include "common/form.h"
#include "common/mem.h"
#include "common/name.h"

#include <string.h>

ps_status psd_container_parse(const pb_bytes_array_t *field, char container[PS_CONTAINER_BYTES_MAX + 1], struct psi_err *err)
{
    if (field->size == 0) {
        memcpy(container, PSI_CONTAINER_DEFAULT, sizeof(PSI_CONTAINER_DEFAULT));
        return PS_OK;
    }
    ps_status st = psi_container_name_check((const char *)field->bytes, field->size, err);
    return st != PS_OK ? st : psi_bytes_text(field, container, PS_CONTAINER_BYTES_MAX + 1);
}

ps_status psd_key_parse(const pb_bytes_array_t *field, const char *container, uint8_t key[PSI_KEY_BYTES], struct psi_err *err)
{
    static const char hex[] = "0123456789abcdef";
    const char *number = container + sizeof(PSI_SESSION_CONTAINER_PREFIX) - 1;
    if (!psi_container_is_session(container)) {
        return PS_OK;
    }
    if (strlen(number) != 16 || strspn(number, hex) != 16) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "container '%s': a name that begins with session/ is that of a session: session/ and 16 digits 0-9a-f",
                        container);
    }
    if (field->size != PSI_KEY_BYTES) {
        return psd_key_denied(container, err);
    }
    memcpy(key, field->bytes, PSI_KEY_BYTES);
    return PS_OK;
}

ps_status psd_key_denied(const char *container, struct psi_err *err)
{
    return psi_fail(err, PS_PERMISSION_DENIED,
                    "container '%s' belongs to a session: nobody but the session, and who executes for it, gets at what is there",
                    container);
}

ps_status psd_session_refuse(const char *container, const char *what, struct psi_err *err)
{
    return !psi_container_is_session(container)
               ? PS_OK
               : psi_fail(
                     err, PS_INVALID_ARGUMENT,
                     "container '%s' belongs to a session and is gone with it: it has no %s; use a container of another name",
                     container, what);
}

static ps_status name_parse(const pb_bytes_array_t *field, char name[PS_NAME_BYTES_MAX + 1], struct psi_err *err)
{
    ps_status st = psi_variable_name_check((const char *)field->bytes, field->size, err);
    return st != PS_OK ? st : psi_bytes_text(field, name, PS_NAME_BYTES_MAX + 1);
}

ps_status psd_name_parse(const ps_v1_NameItem *item, char container[PS_CONTAINER_BYTES_MAX + 1], char name[PS_NAME_BYTES_MAX + 1],
                         struct psi_err *err)
{
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    return st != PS_OK ? st : name_parse((const pb_bytes_array_t *)(const void *)&item->name, name, err);
}

static ps_status queue_parse(const ps_v1_CreateItem *item, struct psd_create *out, struct psi_err *err)
{
    if (item->dtype != 0 || item->dims_count != 0 || item->has_optimizer || item->atomic || item->has_part) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s' with dtype, shape, optimizer, atomic or part, which variables have",
                        out->name);
    }
    out->queue = psi_calloc(1, sizeof(*out->queue));
    if (out->queue == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "queue '%s': no memory", out->name);
    }
    out->definition = (struct psd_definition){.queue = true};
    out->pinned = item->pinned;
    ps_status st = psi_queue_spec_from_msg(&item->queue, out->queue, err);
    psi_err_prefix(st == PS_OK ? NULL : err, "queue '%s'", out->name);
    return st;
}

ps_status psd_create_parse(const ps_v1_CreateItem *item, struct psd_create *out, struct psi_err *err)
{
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, out->container, err);
    if (st == PS_OK) {
        st = name_parse((const pb_bytes_array_t *)(const void *)&item->name, out->name, err);
    }
    if (st == PS_OK) {
        st = psd_key_parse((const pb_bytes_array_t *)(const void *)&item->key, out->container, out->key, err);
    }
    out->order = item->order;
    if (st == PS_OK && item->has_queue) {
        st = psd_session_refuse(out->container, "queues and accumulators", err);
    }
    if (st == PS_OK && item->has_queue) {
        return queue_parse(item, out, err);
    }
    if (st == PS_OK) {
        st = psi_shape_from_dims(item->dims, item->dims_count, &out->definition.shape, err);
    }
    if (st == PS_OK) {
        st = psi_optimizer_from_msg(&item->optimizer, &out->definition.optimizer, err);
    }
    if (st == PS_OK) {
        out->definition.dtype = (ps_dtype)item->dtype; /* checked below */
        out->definition.atomic = item->atomic;
        psi_part_from_msg(&item->part, item->has_part, &out->definition.part);
        out->pinned = item->pinned;
        st = psd_definition_check(&out->definition, out->name, err);
    }
    return st;
}

void psd_create_to_msg(const struct psd_create *create, ps_v1_CreateItem *out)
{
    *out = (ps_v1_CreateItem)ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(out->container, create->container)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(out->name, create->name));           /* fits: checked names */
    out->pinned = create->pinned;
    out->order = create->order;
    if (psi_container_is_session(create->container)) {
        out->key.size = PSI_KEY_BYTES;
        memcpy(out->key.bytes, create->key, PSI_KEY_BYTES);
    }
    out->has_queue = create->queue != NULL;
    if (out->has_queue) {
        psi_queue_spec_to_msg(create->queue, &out->queue);
        return;
    }
    out->dtype = (uint32_t)create->definition.dtype;
    out->dims_count = (pb_size_t)create->definition.shape.rank;
    memcpy(out->dims, create->definition.shape.dims, create->definition.shape.rank * sizeof(int64_t));
    out->atomic = create->definition.atomic;
    out->has_part = create->definition.part.count > 0;
    psi_part_to_msg(&create->definition.part, &out->part);
    out->has_optimizer = true;
    psi_optimizer_to_msg(&create->definition.optimizer, &out->optimizer);
}

ps_status psd_item_first(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what, struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    bool none = !psi_items_next(&items, d, out, err) && items.st == PS_OK;
    return none ? psi_fail(err, PS_INVALID_ARGUMENT, "%s names no %s", psi_op_name(r->header.op), what) : items.st;
}

ps_status psd_item_only(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what, bool *out_none,
                        struct psi_err *err)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes, bytes = 0;
    uint32_t more = 0;
    bool end = false;
    ps_status st = psi_list_next(&p, &n, d, out, &end, err);
    if (st == PS_OK && end && out_none == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s names no %s", psi_op_name(r->header.op), what);
    }
    st = st == PS_OK ? psi_list_measure(p, n, n, &bytes, &more, err) : st;
    if (st == PS_OK && more > 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s names more than one %s", psi_op_name(r->header.op), what);
    }
    if (st == PS_OK && out_none != NULL) {
        *out_none = end;
    }
    return st;
}

ps_status psd_target_check(const struct psd_task *t, const struct psd_variable *v, bool queue, struct psi_err *err)
{
    return (v->queue != NULL) == queue ? PS_OK
                                       : psi_fail(err, PS_INVALID_ARGUMENT, "'%s' at %s is %s, not %s", v->name, t->name,
                                                  queue ? "a variable" : "a queue", queue ? "a queue" : "a variable");
}

ps_status psd_fail_gone(const struct psd_task *t, uint32_t handle, struct psi_err *err)
{
    return psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "handle %u at %s: the variable was reset or deleted", handle, t->name);
}

void psd_text_printable(const pb_bytes_array_t *field, char *dst, size_t cap)
{
    if (psi_bytes_text(field, dst, cap) != PS_OK) {
        dst[0] = '\0';
    }
    for (char *p = dst; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f) {
            *p = '?';
        }
    }
}
