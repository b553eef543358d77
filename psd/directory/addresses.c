/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of tasks that listen at any free port (docs/PROTOCOL.md §6, the model of addresses).
 *
 * Happy path: a task whose port is 0 in the cluster spec says in HELLO where it listens. The directory keeps the address with the
 * task's life (random number of its process), and counts the change. Answers to HELLO have all addresses; answers to BEAT have
 * the count, and a client that knows another count asks for newer addresses (ADDRESSES). After a restart of the directory each
 * task says its address again. If another task with port 0 had this address and is not connected, the other task loses it.
 * Failure: a HELLO is refused if it has no address, an address of the cluster spec, or the address of a connected task. */
#include "directory.h"

#include "common/form.h"
#include "common/mem.h"

#include <string.h>
#include <strings.h>

static struct psd_peer *find_other(const struct psd_task *t, const struct psd_peer *p, const char *address)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (i != p->index && strcasecmp(psd_peer_address(t, &t->peers[i]), address) == 0) {
            return &t->peers[i];
        }
    }
    return NULL;
}

ps_status psd_address_take(struct psd_task *t, struct psd_peer *p, const ps_v1_Hello *hello, struct psi_err *err)
{
    char text[PS_ADDRESS_BYTES_MAX + 1], name[PSI_TASK_NAME_MAX];
    struct psi_address address;
    if (!p->any_port || (p->address != NULL && p->address_life == hello->life)) {
        return PS_OK; /* this process (life) has said before where it listens, and does not move */
    }
    PSI_IGNORE(psi_task_name_format(name, sizeof(name), p->job, p->task)); /* fits */
    ps_status st = PSI_BYTES_TEXT(hello->address, text, sizeof(text)) == PS_OK
                       ? psi_address_parse(text, false, &address, err)
                       : psi_fail(err, PS_INVALID_ARGUMENT, "an address with a zero byte");
    if (st != PS_OK || address.kind != PSI_ADDRESS_TCP) {
        return psi_fail_as(
            err, PS_INVALID_ARGUMENT, PS_REASON_OTHER_CLUSTER,
            "%s is at '%s' in the directory's cluster, and its HELLO says no address with a port; check the cluster "
            "spec",
            name, psi_cluster_task_address(&t->cluster, p->job, p->task));
    }
    PSI_IGNORE(psi_address_format(&address, text, sizeof(text))); /* returns text */
    struct psd_peer *other = find_other(t, p, text);
    if (other != NULL && !other->any_port) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_OTHER_CLUSTER,
                           "%s says that it listens at %s, which is the address of /job:%s/task:%u", name, text, other->job,
                           other->task);
    }
    if (other != NULL && other->conn != NULL) { /* the other task is connected, so it still listens there */
        return psi_fail(err, PS_UNAVAILABLE, "%s says that it listens at %s, where /job:%s/task:%u is, which is connected", name,
                        text, other->job, other->task);
    }
    char *copy = psi_strndup(text, strlen(text));
    if (copy == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for the address of %s", name);
    }
    if (other != NULL) { /* the other task's process must be gone, because the system has given its port to this one */
        psi_free(other->address);
        other->address = NULL;
        other->address_life = 0;
    }
    psi_free(p->address);
    p->address = copy;
    p->address_life = hello->life;
    p->address_version = ++t->address_version;
    psd_log(t, PSI_LOG_INFO, "task_address", PSI_KV("peer", name), PSI_KV("address", text));
    return PS_OK;
}

void psd_rpc_addresses(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Addresses m;
    struct psi_err err;
    if (psi_msg_decode(&ps_v1_Addresses_msg, &m, r->meta, r->header.meta_bytes, &err) != PS_OK) {
        psd_reply(t, c, PS_OP_ADDRESSES, 0, r->header.id, 0, &err, 0, NULL, NULL);
        return;
    }
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_ADDRESSES, PS_FLAG_REPLY, r->header.id);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (p->address != NULL && p->address_version > m.since) {
            ps_v1_TaskItem item;
            psd_peer_item(t, p, &item);
            psd_list_add(&l, &ps_v1_TaskItem_msg, &item);
        }
    }
    psd_list_end(&l);
}
