/* SPDX-License-Identifier: Apache-2.0 */
/* The table of requests, and the checks before a handler sees a request.
 *
 * Happy path: psd_request_row() finds the row of a frame's operation. psd_request_admit() checks:
 * - requests to the directory come to the directory only;
 * - a fixed meta has its length;
 * - the peer has the rights on each container concerned;
 * - the session has shown the key of a session's container;
 * - a handle is of the right kind.
 * Then dispatch.c calls the row's handler, which checks the items itself. Failure: dispatch.c answers with the refusal; handlers
 * of mutations and waiting requests keep it as the outcome. */
#include "requests.h"

#include "common/form.h"
#include "common/name.h"
#include "psd/directory/directory.h"
#include "psd/store/shown.h"

#include <stdio.h>
#include <string.h>

enum { AT_CLIENT = 1, AT_TASK = 2, AT_DIRECTORY = 4, AT_SOURCE = 8 };
enum { OBJECT_BYTES = PS_CONTAINER_BYTES_MAX + 2 + PS_NAME_BYTES_MAX + 1 /* room for "container: name"; longer texts are cut */ };
enum { REPLIES = 16, ONLY_DIRECTORY = 32, NUMBERED = 64, IN_PARTS = 128, WAITS = 256, AUDITED = 512, EITHER = 1024 };

enum {
    READ = PSI_RIGHT_READ,
    WRITE = PSI_RIGHT_WRITE,
    CREATE = PSI_RIGHT_CREATE,
    CHIEF = PSI_RIGHT_CHIEF,
    CALL = PSI_RIGHT_CALL,
    SAVE = PSI_RIGHT_SAVE,
    ADMINISTER = PSI_RIGHT_ADMINISTER,
    MEMBER = PSI_RIGHT_MEMBER
};

#define NONE PSD_PLACE_NONE, PSD_TARGET_NONE, 0, 0
#define CLUSTER(rights_) PSD_PLACE_CLUSTER, PSD_TARGET_NONE, rights_, 0
#define SAVED(rights_) PSD_PLACE_SAVED, PSD_TARGET_NONE, rights_, 0
#define CONTAINERS(rights_) PSD_PLACE_CONTAINERS, PSD_TARGET_NONE, rights_, 0
#define OF(place_, target_, rights_) PSD_PLACE_##place_, PSD_TARGET_##target_, rights_, 0
#define FIXED(target_, rights_, meta_) PSD_PLACE_HANDLE, PSD_TARGET_##target_, rights_, sizeof(struct meta_)

#define ROW(op_, rules_, place_, handler_) {PS_OP_##op_, rules_, place_, handler_},
static const struct psd_row rows[] = {PSD_REQUESTS(ROW)};

void psd_rpc_hello(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Hello m;
    struct psi_err err;
    if (t->config.identify != NULL) {
        t->config.identify(t->config.shell, c->link, &c->who);
    }
    if (psd_rights_known(t, c, &err) != PS_OK || psd_hello_check(t, r, &m, &err) != PS_OK) {
        psd_hello_refuse(t, c, r, &err);
    } else if (m.role == PSD_ROLE_TASK) {
        psd_task_link_hello(t, c, &m, r);
    } else {
        psd_hello_session(t, c, &m, r);
    }
}

const struct psd_row *psd_request_row(const struct psd_conn *c, const struct ps_frame_header *h)
{
    static const uint8_t roles[] = {[PSD_ROLE_CLIENT] = AT_CLIENT,
                                    [PSD_ROLE_TASK] = AT_TASK,
                                    [PSD_ROLE_DIRECTORY] = AT_DIRECTORY,
                                    [PSD_ROLE_SOURCE] = AT_SOURCE,
                                    [PSD_ROLE_SELF] = AT_TASK | AT_DIRECTORY};
    uint8_t role = roles[c->role];
    bool reply = (h->flags & PS_FLAG_REPLY) != 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].op == h->op && (rows[i].rules & role) != 0 && ((rows[i].rules & REPLIES) != 0) == reply) {
            return &rows[i];
        }
    }
    return NULL;
}

bool psd_request_is_kept(const struct psd_row *row)
{
    return (row->rules & (NUMBERED | WAITS)) != 0;
}

bool psd_request_is_in_parts(const struct psd_row *row)
{
    return (row->rules & IN_PARTS) != 0;
}

/* True if c's session has named this container as its own in HELLO, with the right key if the directory knows the key. */
static bool is_own(const struct psd_task *t, const struct psd_conn *c, const char *container)
{
    const struct psd_names_in *in = psd_directory_names_in(&t->names, container);
    const struct psd_own *own = c->record == NULL ? NULL : &c->record->own;
    return own != NULL && strncmp(own->container, container, sizeof(own->container)) == 0 &&
           (in == NULL || memcmp(in->key, own->key, sizeof(in->key)) == 0);
}

/* Compute the rights of c's peer in a session's container. has: its rights by the table. A request that shows the container's key
 * needs no other right (psd_rights_keyed()). RESET shows no key: only administrators and the session itself may do it. */
static unsigned rights_of_session(const struct psd_task *t, const struct psd_conn *c, const struct psd_row *row,
                                  const char *container, unsigned has)
{
    if (row->place != PSD_PLACE_CONTAINERS) {
        return has | psd_rights_keyed(container);
    }
    return (has & PSI_RIGHT_ADMINISTER) != 0 ? PSI_RIGHTS_ALL : is_own(t, c, container) ? psd_rights_keyed(container) : 0;
}

/* Check that c's peer has all rights of the row or, with EITHER, one of them. has: the peer's rights on the container or, if
 * container is NULL, on the cluster. With AUDITED the audit notes the permission. object: what the request concerns. */
static ps_status permit(struct psd_task *t, const struct psd_conn *c, const struct psd_row *row, unsigned has,
                        const char *container, const char *object, struct psi_err *err)
{
    const bool of_session = container != NULL && psi_container_is_session(container);
    const unsigned lacks = row->rights & ~(of_session ? rights_of_session(t, c, row, container, has) : has);
    if ((row->rules & EITHER) != 0 ? lacks == row->rights : lacks != 0) {
        const unsigned needs = of_session && row->place == PSD_PLACE_CONTAINERS ? PSI_RIGHT_ADMINISTER : lacks;
        return psd_rights_denied(t, c, psi_op_name(row->op), container, needs, err);
    }
    if ((row->rules & AUDITED) != 0) {
        psd_audit(t, c, psi_op_name(row->op), object);
    }
    return PS_OK;
}

/* permit() with the peer's rights on the container of this name (NULL: on the cluster). */
static ps_status permit_named(struct psd_task *t, const struct psd_conn *c, const struct psd_row *row, const char *container,
                              const char *object, struct psi_err *err)
{
    return permit(t, c, row, psd_rights_on(t, c, container), container, object, err);
}

/* Write what a request about the cluster concerns into buf, for the audit: "log_level = debug", "checkpoint 7" or "@cluster". */
static const char *object_of(const struct psd_request *r, char buf[OBJECT_BYTES])
{
    ps_v1_ConfigItem setting;
    ps_v1_SavedNameItem saved;
    char name[sizeof(setting.name.bytes) + 1], value[sizeof(setting.value.bytes) + 1];
    const uint8_t op = r->header.op;
    PSI_IGNORE(snprintf(buf, OBJECT_BYTES, "@cluster")); /* fits */
    if (op == PS_OP_CONFIG_SET && psd_item_only(r, &ps_v1_ConfigItem_msg, &setting, "setting", NULL, NULL) == PS_OK) {
        psd_text_printable((const pb_bytes_array_t *)(const void *)&setting.name, name, sizeof(name));
        psd_text_printable((const pb_bytes_array_t *)(const void *)&setting.value, value, sizeof(value));
        PSI_IGNORE(snprintf(buf, OBJECT_BYTES, "%s = %s", name, value)); /* cut is fine */
    } else if ((op == PS_OP_CHECKPOINT_DELETE || op == PS_OP_CHECKPOINT_RESTORE) &&
               psd_item_only(r, &ps_v1_SavedNameItem_msg, &saved, "checkpoint", NULL, NULL) == PS_OK) {
        PSI_IGNORE(snprintf(buf, OBJECT_BYTES, "checkpoint %llu", (unsigned long long)saved.number)); /* fits */
    }
    return buf;
}

static const struct psd_variable *variable_of(const struct psd_task *t, const struct psd_row *row, uint32_t handle)
{
    PSI_ASSERT(row->target != PSD_TARGET_NONE); /* a row without a target has no handles */
    return psd_variable_by_handle(&t->store, handle);
}

static const pb_msgdesc_t *item_of(enum psd_place place)
{
    return place == PSD_PLACE_HANDLES   ? &ps_v1_HandleItem_msg
           : place == PSD_PLACE_NAMES   ? &ps_v1_NameItem_msg
           : place == PSD_PLACE_CREATES ? &ps_v1_CreateItem_msg
                                        : &ps_v1_ContainerItem_msg;
}

/* Check that c may use v's handle. PERMISSION_DENIED: v is in a session's container, and c's session has not shown its key. */
static ps_status handle_check(const struct psd_conn *c, const struct psd_variable *v, struct psi_err *err)
{
    const struct psd_container *in = v->container;
    return !in->of_session || (c->record != NULL && psd_shown_by(in, c->record)) ? PS_OK : psd_own_handle_denied(v, err);
}

static ps_status permit_items(struct psd_task *t, const struct psd_conn *c, const struct psd_row *row,
                              const struct psd_request *r, struct psi_err *err)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    for (uint32_t count = 0;; count++) {
        union {
            ps_v1_HandleItem handle;
            ps_v1_NameItem name;
            ps_v1_CreateItem create;
            ps_v1_ContainerItem container;
        } item;
        char text[PS_CONTAINER_BYTES_MAX + 1] = PSI_CONTAINER_DEFAULT;
        const char *container = text;
        bool end = false;
        if (psi_list_next(&p, &n, item_of(row->place), &item, &end, NULL) != PS_OK ||
            (end && (count > 0 || row->place != PSD_PLACE_CONTAINERS))) {
            return PS_OK;
        }
        if (row->place == PSD_PLACE_HANDLES) {
            const struct psd_variable *v = variable_of(t, row, item.handle.handle);
            ps_status shown = v == NULL ? PS_OK : handle_check(c, v, err);
            if (shown != PS_OK) {
                return shown;
            }
            container = v == NULL ? NULL : v->container->name;
        } else if (!end) {
            const void *field = row->place == PSD_PLACE_NAMES     ? (const void *)&item.name.container
                                : row->place == PSD_PLACE_CREATES ? (const void *)&item.create.container
                                                                  : (const void *)&item.container.container;
            container = psd_container_parse(field, text, NULL) == PS_OK ? text : NULL;
        }
        char name[PS_NAME_BYTES_MAX + 1], object[OBJECT_BYTES];
        if (row->place == PSD_PLACE_NAMES && (row->rules & AUDITED) != 0 && container != NULL && !end) {
            psd_text_printable((const pb_bytes_array_t *)(const void *)&item.name.name, name, sizeof(name));
            PSI_IGNORE(snprintf(object, sizeof(object), "%s: %s", container, name)); /* fits */
        } else {
            PSI_IGNORE(snprintf(object, sizeof(object), "%s", container == NULL ? "" : container)); /* fits */
        }
        ps_status st = container == NULL ? PS_OK : permit_named(t, c, row, container, object, err);
        if (st != PS_OK || end) {
            return st;
        }
    }
}

static ps_status permit_all(struct psd_task *t, struct psd_conn *c, const struct psd_row *row, const struct psd_request *r,
                            struct psi_err *err)
{
    char object[OBJECT_BYTES];
    switch (row->place) {
    case PSD_PLACE_NONE:
        return PS_OK;
    case PSD_PLACE_CLUSTER:
        return permit_named(t, c, row, NULL, (row->rules & AUDITED) != 0 ? object_of(r, object) : "", err);
    case PSD_PLACE_SAVED:
        return permit_named(t, c, row, NULL, "", err) == PS_OK ? psd_rights_saved(t, c, psi_op_name(row->op), err)
                                                               : PS_PERMISSION_DENIED;
    case PSD_PLACE_HANDLE:
        return r->variable == NULL ? PS_OK
                                   : permit(t, c, row, psd_rights_in(t, c, r->variable->container), r->variable->container->name,
                                            r->variable->container->name, err);
    default:
        return permit_items(t, c, row, r, err);
    }
}

ps_status psd_request_admit(struct psd_task *t, struct psd_conn *c, const struct psd_row *row, struct psd_request *r,
                            struct psi_err *err)
{
    const struct ps_frame_header *h = &r->header;
    if ((row->rules & ONLY_DIRECTORY) != 0 && !t->is_directory) {
        char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_NOT_DIRECTORY, "%s is not the directory: ask %s", t->name,
                           psd_peer_text(t, &t->peers[t->directory], who, sizeof(who)));
    }
    const bool may_say_step =
        h->op == PS_OP_PUSH || h->op == PS_OP_PUSHPULL || h->op == PS_OP_PUSH_ROWS || h->op == PS_OP_PUSHPULL_ROWS;
    const uint32_t more = may_say_step ? sizeof(struct ps_push_step) : 0;
    if (row->meta_bytes != 0 && h->meta_bytes != row->meta_bytes && h->meta_bytes != row->meta_bytes + more) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s with a meta of %u bytes; it has %u", psi_op_name(h->op), h->meta_bytes,
                        row->meta_bytes);
    }
    if (row->place == PSD_PLACE_HANDLE) {
        r->variable = variable_of(t, row, h->handle);
    }
    const bool known = row->place == PSD_PLACE_HANDLE && r->variable != NULL && t->rights != NULL &&
                       psd_rights_are_known(c, r->variable->container, row->rights);
    ps_status st = known || (t->rights == NULL && row->place != PSD_PLACE_HANDLES) ? PS_OK : permit_all(t, c, row, r, err);
    st = st == PS_OK && r->variable != NULL ? handle_check(c, r->variable, err) : st;
    return st == PS_OK && r->variable != NULL ? psd_target_check(t, r->variable, row->target == PSD_TARGET_QUEUE, err) : st;
}
