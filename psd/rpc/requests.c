/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of requests, and the checks before a handler sees a request.
 *
 * Happy path: the row of a frame -> the directory's requests at the directory, a fixed meta of its length, the variable or queue
 * of a handle -> the right to each container concerned -> the key of a session's container was shown -> a handle of the right
 * kind -> its handler. Failure: a refusal, which is answered, or kept by the handler of a mutation or of a waiting request as its
 * outcome. Items that cannot be understood have no container: their handler refuses them.
 */
#include "requests.h"

#include "common/form.h"
#include "common/name.h"
#include "psd/directory/directory.h"
#include "psd/store/shown.h"

enum { AT_CLIENT = 1, AT_TASK = 2, AT_DIRECTORY = 4, AT_SOURCE = 8 };
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
#define CONTAINERS(rights_) PSD_PLACE_CONTAINERS, PSD_TARGET_NONE, rights_, 0
#define OF(place_, target_, rights_) PSD_PLACE_##place_, PSD_TARGET_##target_, rights_, 0
#define FIXED(target_, rights_, meta_) PSD_PLACE_HANDLE, PSD_TARGET_##target_, rights_, sizeof(struct meta_)

#define ROW(op_, rules_, place_, handler_) {PS_OP_##op_, rules_, place_, handler_},
static const struct psd_row rows[] = {PSD_REQUESTS(ROW)};

/* A HELLO of a client or another task. */
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

/* The one place where rights are checked. has: the rights of c's peer there. container NULL: the cluster. Audited operations are
 * in the audit before they are carried out. */
static ps_status permit(struct psd_task *t, const struct psd_conn *c, const struct psd_row *row, unsigned has,
                        const char *container, struct psi_err *err)
{
    const unsigned lacks = row->rights & ~has;
    if ((row->rules & EITHER) != 0 ? lacks == row->rights : lacks != 0) {
        return psd_rights_denied(t, c, psi_op_name(row->op), container, lacks, err);
    }
    if ((row->rules & AUDITED) != 0) {
        psd_audit(t, c, psi_op_name(row->op), container == NULL ? "@cluster" : container);
    }
    return PS_OK;
}

/* Ask for the right to the container of this name. container NULL: to the cluster. */
static ps_status permit_named(struct psd_task *t, const struct psd_conn *c, const struct psd_row *row, const char *container,
                              struct psi_err *err)
{
    return permit(t, c, row, psd_rights_on(t, c, container), container, err);
}

/* NULL: no variable has this handle any more. */
static const struct psd_variable *variable_of(const struct psd_task *t, const struct psd_row *row, uint32_t handle)
{
    PSI_ASSERT(row->target != PSD_TARGET_NONE); /* rows without a target have no handles, whose rights would not be checked */
    return psd_variable_by_handle(&t->store, handle);
}

static const pb_msgdesc_t *item_of(enum psd_place place)
{
    return place == PSD_PLACE_HANDLES   ? &ps_v1_HandleItem_msg
           : place == PSD_PLACE_NAMES   ? &ps_v1_NameItem_msg
           : place == PSD_PLACE_CREATES ? &ps_v1_CreateItem_msg
                                        : &ps_v1_ContainerItem_msg;
}

/* May c use this handle? Only sessions that have shown the key may use handles in a session's container. */
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
        ps_status st = container == NULL ? PS_OK : permit_named(t, c, row, container, err);
        if (st != PS_OK || end) {
            return st;
        }
    }
}

static ps_status permit_all(struct psd_task *t, struct psd_conn *c, const struct psd_row *row, const struct psd_request *r,
                            struct psi_err *err)
{
    switch (row->place) {
    case PSD_PLACE_NONE:
        return PS_OK;
    case PSD_PLACE_CLUSTER:
        return permit_named(t, c, row, NULL, err);
    case PSD_PLACE_HANDLE:
        return r->variable == NULL
                   ? PS_OK
                   : permit(t, c, row, psd_rights_in(t, c, r->variable->container), r->variable->container->name, err);
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
    const bool may_say_step = h->op == PS_OP_PUSH || h->op == PS_OP_PUSHPULL || h->op == PS_OP_PUSH_ROWS;
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
