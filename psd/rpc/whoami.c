/* SPDX-License-Identifier: Apache-2.0 */
/* Two requests about rights. WHOAMI answers any peer with its own identity, and the rows of the table of rights that name this
 * identity. A task that acts for a client sends the request MAY: whether the client's identity has rights in a container.
 * Failure: without memory the connection ends; a MAY with a malformed identity: INVALID_ARGUMENT. */
#include "rpc.h"

void psd_rpc_whoami(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    char who[PSI_IDENTITY_TEXT_BYTES];
    const char *row = NULL;
    size_t cursor = 0;
    struct psd_list l;
    ps_v1_WhoamiAnswer a = ps_v1_WhoamiAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(a.who, psi_identity_text(&c->who, who, sizeof(who)))); /* fits: both hold 133 bytes */
    PSI_IGNORE(PSI_BYTES_SET(a.role, c->who.role));                                 /* fits: both hold 15 bytes */
    PSI_IGNORE(PSI_BYTES_SET(a.key_id, c->who.key_id));                             /* fits: both hold 8 bytes */
    a.open = t->rights == NULL;
    a.rights = psd_rights_on(t, c, NULL);
    psd_list_begin(&l, t, c, PS_OP_WHOAMI, PS_FLAG_REPLY, r->header.id);
    psd_list_add(&l, &ps_v1_WhoamiAnswer_msg, &a);
    while (psi_rights_next(t->rights, &c->who, &cursor, &row)) {
        a = (ps_v1_WhoamiAnswer)ps_v1_WhoamiAnswer_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(a.row, row)); /* fits: both hold 1023 bytes */
        psd_list_add(&l, &ps_v1_WhoamiAnswer_msg, &a);
    }
    psd_list_end(&l);
}

static ps_status read_may(const struct psd_request *r, struct psi_identity *who, char container[PS_CONTAINER_BYTES_MAX + 1],
                          unsigned *rights, struct psi_err *err)
{
    ps_v1_MayItem item;
    char text[PSI_IDENTITY_TEXT_BYTES];
    ps_status st = psd_item_only(r, &ps_v1_MayItem_msg, &item, "identity", NULL, err);
    if (st == PS_OK && PSI_BYTES_TEXT(item.who, text, sizeof(text)) != PS_OK) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "MAY: an identity with a zero byte");
    }
    st = st == PS_OK ? psi_identity_parse(text, who, err) : st;
    st = st == PS_OK ? psd_container_parse((const pb_bytes_array_t *)(const void *)&item.container, container, err) : st;
    if (st == PS_OK && who->kind == PSI_IDENTITY_KEY && PSI_BYTES_TEXT(item.role, who->role, sizeof(who->role)) != PS_OK) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "MAY: a role with a zero byte");
    }
    *rights = st == PS_OK ? item.rights : 0;
    return st == PS_OK && (*rights == 0 || (*rights & ~(unsigned)PSI_RIGHTS_OF_CONTAINER) != 0)
               ? psi_fail(err, PS_INVALID_ARGUMENT, "MAY: rights %u; a container has some of %d", *rights,
                          PSI_RIGHTS_OF_CONTAINER)
               : st;
}

/* Handler of MAY. A uid in the request is of another host: the identity has only rights by rows of the table that name it. */
void psd_rpc_may(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_identity who;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    unsigned rights = 0;
    struct psi_err err;
    ps_status st = read_may(r, &who, container, &rights, &err);
    st = st == PS_OK ? psd_rights_ask(t, c->text, &who, "a run", container, rights, &err) : st;
    psd_reply(t, c, PS_OP_MAY, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, NULL, NULL);
}
