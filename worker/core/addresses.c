/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of tasks that have port 0 in the cluster spec (docs/PROTOCOL.md, ADDRESSES; tests/models/address_model.py). Happy
 * path: the directory (the first ps task) answers HELLO with the address of each such task and with its `life`, a number that
 * each process of a task chooses anew. The session dials the task, and the task must answer with this life (connection.c).
 * Failure: if a dial fails, or a process with another life answers, the session asks the directory for newer addresses, and dials
 * a new address at once. If an answer has no address for a task, nothing changes: a directory that was just restarted has not
 * heard from all tasks yet. */
#include "client.h"

#include "common/form.h"

#include <stdio.h>
#include <string.h>

static struct psi_peer *peer_of(const struct psi_client *c, const ps_v1_TaskItem *item)
{
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t i = PSI_BYTES_TEXT(item->job, job, sizeof(job)) == PS_OK ? psi_client_find_task(c, job, item->task) : UINT32_MAX;
    return i < c->peer_count ? c->peers[i] : NULL;
}

void psi_address_learn(struct psi_client *c, const ps_v1_TaskItem *item)
{
    struct psi_peer *peer = peer_of(c, item);
    if (peer != NULL && item->life != 0) {
        peer->any_port = true;
        peer->told_life = item->life;
    }
}

void psi_address_take(struct psi_client *c, const ps_v1_TaskItem *item)
{
    struct psi_peer *peer = peer_of(c, item);
    struct psi_address address;
    char text[PS_ADDRESS_BYTES_MAX + 1];
    bool known = peer != NULL && item->life != 0 && PSI_BYTES_TEXT(item->address, text, sizeof(text)) == PS_OK &&
                 psi_address_parse(text, false, &address, NULL) == PS_OK;
    if (!known || !peer->any_port || peer->told_life == item->life) {
        return;
    }
    if (strcmp(c->target, peer->address) == 0) {
        memcpy(c->target, text, sizeof(text));
    }
    memcpy(peer->address, text, sizeof(text));
    peer->told_life = item->life;
    peer->backoff_ms = PS_RECONNECT_FIRST_MS;
    peer->next_dial_ms = c->now_ms; /* a peer that waits for its next dial dials the new address at once */
    psi_peer_fail(peer, "another process is the task now, at %s", text);
}

void psi_addresses_known(struct psi_client *c, uint64_t version)
{
    c->addresses.version = version;
    c->addresses.newest = 0;
    c->addresses.wanted = false;
}

void psi_addresses_beaten(struct psi_client *c, uint64_t version)
{
    c->addresses.wanted = c->addresses.wanted || c->addresses.version != version;
}

void psi_addresses_ask(struct psi_client *c)
{
    c->addresses.wanted = true;
    psi_peer_want(psi_client_directory(c));
}

static void on_addresses(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    struct psi_addresses *a = &c->addresses;
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    (void)ask;
    for (;;) {
        ps_v1_TaskItem item;
        bool end = false;
        if (r->status != PS_OK || psi_list_next(&p, &n, &ps_v1_TaskItem_msg, &item, &end, NULL) != PS_OK || end) {
            break;
        }
        psi_address_take(c, &item);
        a->newest = item.version > a->newest ? item.version : a->newest;
    }
    if (!r->more) {
        a->asked = false;
        a->version = r->status == PS_OK && a->newest > a->version ? a->newest : a->version;
    }
}

void psi_addresses_pump(struct psi_client *c)
{
    struct psi_addresses *a = &c->addresses;
    if (!a->wanted || a->asked || psi_client_directory(c)->state != PSI_PEER_UP) {
        return;
    }
    const ps_v1_Addresses m = {.since = a->version};
    struct psi_ask *ask = psi_ask_new(psi_client_directory(c), PS_OP_ADDRESSES, NULL, on_addresses, 0);
    if (ask == NULL || psi_ask_meta(ask, &ps_v1_Addresses_msg, &m, NULL) != PS_OK) {
        psi_ask_free(ask);
        return; /* no memory: the request is repeated at the next event */
    }
    a->wanted = false;
    a->asked = true;
    a->newest = 0;
    psi_ask_start(ask);
}
