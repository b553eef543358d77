/* SPDX-License-Identifier: Apache-2.0 */
/* Which IP addresses the cluster's hosts have: some handshake slots are reserved for them.
 *
 * Happy path: the cluster spec gives IP addresses (literals), and host names. psd_hosts_look_up() starts a thread, which looks up
 * all names one by one; its list of addresses then replaces the old list. psd_hosts_have() searches the literals and that list. A
 * peer that is in neither list starts the next look-up, which finds hosts that have got another address; while no unknown peer
 * connects, nothing is looked up. Failure modes: a name that does not resolve keeps the addresses that it had; no thread or no
 * memory: the list stays as it is, and the next look-up tries again. A look-up may outlive psd_hosts_free(). */
#include "hosts.h"

#include "common/mem.h"
#include "common/net/dial.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_BYTES = 48 }; /* "[" INET6_ADDRSTRLEN "]" */

/* One address of a host name. */
struct found {
    char host[HOST_BYTES]; /* first field, because by_text() compares structs as if they were this text */
    size_t name;           /* index of the name in psd_hosts.names */
};

struct psd_hosts {
    psd_hosts_resolve_fn resolve;
    /* [literal_count] IP addresses of the cluster spec, sorted, written like a peer's address without port */
    char (*literals)[HOST_BYTES];
    size_t literal_count;
    char **names; /* [name_count] host names, each once */
    size_t name_count;
    bool looked; /* looked_ms is set */
    uint64_t looked_ms;
    pthread_mutex_t mutex;
    struct found *found; /* [found_count] sorted by host. Under the mutex; only the look-up thread replaces it */
    size_t found_count;
    bool running; /* under the mutex: the look-up thread is running */
    bool freed;   /* under the mutex: the owner has gone, so the look-up thread frees this object */
};

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Write the host of a peer's address into out: "127.0.0.1" of "127.0.0.1:2222", "[::1]" of "[::1]:2222", "10.0.0.7" of
 * "[::ffff:10.0.0.7]:2222". */
static void host_of(const char *peer, char out[HOST_BYTES])
{
    static const char mapped[] = "[::ffff:";
    bool is_mapped = strncmp(peer, mapped, sizeof(mapped) - 1) == 0 && strchr(peer, '.') != NULL;
    const char *from = is_mapped ? peer + sizeof(mapped) - 1 : peer;
    const char *end = strrchr(from, is_mapped ? ']' : ':');
    size_t n = end != NULL ? (size_t)(end - from) : strlen(from);
    (void)snprintf(out, HOST_BYTES, "%.*s", (int)n, from); /* an IP address fits; a longer text, cut here, matches nothing */
}

static void host_of_socket(const struct psi_sockaddr *socket, char out[HOST_BYTES])
{
    char text[PS_ADDRESS_BYTES_MAX + 1];
    host_of(psi_sockaddr_format(socket, text, sizeof(text)), out);
}

static void hosts_free(struct psd_hosts *h)
{
    for (size_t i = 0; i < h->name_count; i++) {
        psi_free(h->names[i]);
    }
    psi_free(h->names);
    psi_free(h->literals);
    psi_free(h->found);
    (void)pthread_mutex_destroy(&h->mutex);
    psi_free(h);
}

void psd_hosts_free(struct psd_hosts *h)
{
    if (h == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&h->mutex);
    h->freed = true;
    const bool running = h->running;
    (void)pthread_mutex_unlock(&h->mutex);
    if (!running) {
        hosts_free(h);
    }
}

/* Put the host of the task address `text` into h->literals if it is an IP address, otherwise into h->names. */
static ps_status note_host(struct psd_hosts *h, const char *text, struct psi_err *err)
{
    struct psi_address address;
    struct psi_sockaddr socket;
    if (psi_address_parse(text, true, &address, NULL) != PS_OK || address.kind != PSI_ADDRESS_TCP) {
        return PS_OK;
    }
    if (psi_sockaddr_literal(&address, &socket)) {
        host_of_socket(&socket, h->literals[h->literal_count++]);
        return PS_OK;
    }
    char *name = psi_strndup(address.host, strlen(address.host));
    if (name == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the cluster's host names");
    }
    h->names[h->name_count++] = name;
    return PS_OK;
}

static void sort_hosts(struct psd_hosts *h)
{
    size_t count = 0;
    qsort(h->literals, h->literal_count, sizeof(*h->literals), by_text);
    qsort(h->names, h->name_count, sizeof(*h->names), by_name);
    for (size_t i = 0; i < h->name_count; i++) {
        if (count > 0 && strcmp(h->names[count - 1], h->names[i]) == 0) {
            psi_free(h->names[i]);
        } else {
            h->names[count++] = h->names[i];
        }
    }
    h->name_count = count;
}

ps_status psd_hosts_new(const struct psi_cluster *c, psd_hosts_resolve_fn resolve, struct psd_hosts **out, struct psi_err *err)
{
    size_t tasks = 0;
    for (uint32_t j = 0; j < c->job_count; j++) {
        tasks += c->jobs[j].task_count;
    }
    struct psd_hosts *h = psi_calloc(1, sizeof(*h));
    if (h == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the cluster's addresses");
    }
    (void)pthread_mutex_init(&h->mutex, NULL);
    h->resolve = resolve;
    h->literals = psi_calloc(tasks, sizeof(*h->literals));
    h->names = psi_calloc(tasks, sizeof(*h->names));
    ps_status st = h->literals != NULL && h->names != NULL
                       ? PS_OK
                       : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the cluster's addresses");
    for (uint32_t j = 0; j < c->job_count; j++) {
        for (uint32_t i = 0; i < c->jobs[j].task_count && st == PS_OK; i++) {
            st = note_host(h, c->jobs[j].tasks[i].address, err);
        }
    }
    if (st != PS_OK) {
        hosts_free(h);
        return st;
    }
    sort_hosts(h);
    *out = h;
    return PS_OK;
}

/* ---- the look-up thread ---- */

/* Append to list the addresses of host name i; if the look-up fails, those found before. Returns how many were appended. */
static size_t look_at(const struct psd_hosts *h, size_t i, struct found *list)
{
    struct psi_address address = {.kind = PSI_ADDRESS_TCP, .port = 1};
    struct psi_sockaddr sockets[PSI_RESOLVE_MAX];
    struct psi_err err;
    size_t count = 0, had = 0;
    (void)snprintf(address.host, sizeof(address.host), "%s", h->names[i]);
    if (h->resolve(&address, sockets, &count, &err) == PS_OK) {
        for (size_t k = 0; k < count; k++) {
            list[k].name = i;
            host_of_socket(&sockets[k], list[k].host);
        }
        return count;
    }
    for (size_t k = 0; k < h->found_count; k++) { /* no lock: only this thread writes `found` */
        if (h->found[k].name == i) {
            list[had++] = h->found[k];
        }
    }
    return had;
}

static bool is_freed(struct psd_hosts *h)
{
    (void)pthread_mutex_lock(&h->mutex);
    const bool freed = h->freed;
    (void)pthread_mutex_unlock(&h->mutex);
    return freed;
}

static void *look_up(void *arg)
{
    struct psd_hosts *h = arg;
    struct found *list = psi_calloc(h->name_count * PSI_RESOLVE_MAX, sizeof(*list));
    size_t count = 0;
    for (size_t i = 0; i < h->name_count && list != NULL && !is_freed(h); i++) {
        count += look_at(h, i, list + count);
    }
    struct found *old = list; /* to be freed: the list that the new one replaces; NULL if there was no memory for a new one */
    if (list != NULL) {
        qsort(list, count, sizeof(*list), by_text);
    }
    (void)pthread_mutex_lock(&h->mutex);
    if (list != NULL) {
        old = h->found;
        h->found = list;
        h->found_count = count;
    }
    h->running = false;
    const bool freed = h->freed;
    (void)pthread_mutex_unlock(&h->mutex);
    psi_free(old);
    if (freed) {
        hosts_free(h);
    }
    return NULL;
}

/* ---- the task's thread ---- */

void psd_hosts_look_up(struct psd_hosts *h, uint64_t now_ms)
{
    if (h->name_count == 0 || (h->looked && now_ms - h->looked_ms < PSD_HOSTS_LOOK_MS)) {
        return;
    }
    (void)pthread_mutex_lock(&h->mutex);
    const bool running = h->running;
    h->running = true;
    (void)pthread_mutex_unlock(&h->mutex);
    if (running) {
        return;
    }
    h->looked = true;
    h->looked_ms = now_ms;
    if (!psi_lookup_thread(look_up, h)) {
        (void)pthread_mutex_lock(&h->mutex);
        h->running = false;
        (void)pthread_mutex_unlock(&h->mutex);
    }
}

bool psd_hosts_have(struct psd_hosts *h, const char *peer, uint64_t now_ms)
{
    char host[HOST_BYTES];
    host_of(peer, host);
    bool have = h->literal_count > 0 && bsearch(host, h->literals, h->literal_count, sizeof(*h->literals), by_text) != NULL;
    (void)pthread_mutex_lock(&h->mutex);
    have = have || (h->found_count > 0 && bsearch(host, h->found, h->found_count, sizeof(*h->found), by_text) != NULL);
    (void)pthread_mutex_unlock(&h->mutex);
    if (!have) {
        psd_hosts_look_up(h, now_ms);
    }
    return have;
}
