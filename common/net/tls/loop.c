/* SPDX-License-Identifier: Apache-2.0 */
/* What the TLS streams of one net share: two buffers of ciphertext, slots for handshakes, and the number of handshake steps left
 * in this turn of the loop. A handshake costs memory (libssl takes 72 to 130 KiB) and time before the peer has proved anything.
 * The slots limit the memory, the steps the time. An IP address gets only some of the slots. Strangers (peers at unknown
 * addresses) together leave some slots free, for the cluster's tasks and for peers that proved a key or certificate before. The
 * number of strangers that wait for a slot is limited too: each takes PSI_TLS_HELLO_BYTES_MAX. */
#include "stream_internal.h"

#include "../../mem.h"

#include <string.h>

#ifdef PSI_HAVE_TLS

enum { LOOKED_MAX = 256 }; /* most waiting streams to offer a freed slot to, if the addresses of the first have enough slots */

struct psi_tls_loop *psi_tls_loop_new(const uint64_t *turn, struct psi_tls *const *now)
{
    struct psi_tls_loop *loop = psi_calloc(1, sizeof(*loop));
    if (loop == NULL) {
        return NULL;
    }
    loop->turn = turn;
    loop->now = now;
    psi_list_init(&loop->holders);
    psi_list_init(&loop->waiting[0]);
    psi_list_init(&loop->waiting[1]);
    loop->in = psi_malloc(PSI_TLS_IN_BYTES);
    loop->out = psi_malloc(PSI_TLS_OUT_BYTES);
    if (loop->in == NULL || loop->out == NULL) {
        psi_tls_loop_free(loop);
        return NULL;
    }
    return loop;
}

void psi_tls_loop_free(struct psi_tls_loop *loop)
{
    if (loop != NULL) {
        PSI_ASSERT(loop->slots == 0 && loop->raw == 0 && psi_list_empty(&loop->waiting[0]) && psi_list_empty(&loop->waiting[1]));
        psi_free(loop->in);
        psi_free(loop->spare);
        psi_free(loop->out);
        psi_free(loop);
    }
}

void psi_tls_loop_handshakes(const struct psi_tls_loop *loop, struct psi_handshakes *out)
{
    *out = loop != NULL ? loop->handshakes : (struct psi_handshakes){.done = 0};
}

void psi_tls_handshake_begins(struct psi_tls_stream *s)
{
    s->under_way = true;
    s->loop->handshakes.under_way++;
}

void psi_tls_handshake_ends(struct psi_tls_stream *s, bool done)
{
    if (s->under_way) {
        s->under_way = false;
        s->loop->handshakes.under_way--;
        s->loop->handshakes.done += done ? 1 : 0;
        s->loop->handshakes.refused += done ? 0 : 1;
    }
}

static size_t host_bytes(const char *name)
{
    const char *port = strrchr(name, ':');
    return port != NULL ? (size_t)(port - name) : strlen(name);
}

static unsigned slots_of_address(const struct psi_tls_stream *s)
{
    unsigned count = 0;
    size_t n = host_bytes(s->name);
    struct psi_list *it;
    PSI_LIST_FOREACH(it, &s->loop->holders) {
        const struct psi_tls_stream *other = PSI_CONTAINER_OF(it, struct psi_tls_stream, place);
        count += host_bytes(other->name) == n && memcmp(other->name, s->name, n) == 0 ? 1 : 0;
    }
    return count;
}

bool psi_tls_is_known(const struct psi_tls_stream *s)
{
    size_t n = host_bytes(s->name);
    bool known = s->is_listed;
    for (unsigned i = 0; i < PSI_TLS_KNOWN && !known; i++) {
        known = strlen(s->loop->known[i]) == n && memcmp(s->loop->known[i], s->name, n) == 0;
    }
    return known;
}

void psi_tls_known_add(struct psi_tls_stream *s)
{
    struct psi_tls_loop *loop = s->loop;
    size_t n = host_bytes(s->name);
    if (n < PSI_TLS_HOST_BYTES && !psi_tls_is_known(s)) {
        char *place = loop->known[loop->known_next++ % PSI_TLS_KNOWN];
        memcpy(place, s->name, n);
        place[n] = '\0';
    }
}

bool psi_tls_raw_take(struct psi_tls_stream *s)
{
    if (psi_tls_is_known(s)) {
        return true;
    }
    s->is_raw = s->loop->raw < PSI_TLS_RAW_MAX;
    s->loop->raw += s->is_raw ? 1 : 0;
    return s->is_raw;
}

static void raw_leave(struct psi_tls_stream *s)
{
    s->loop->raw -= s->is_raw ? 1 : 0;
    s->is_raw = false;
}

bool psi_tls_slot_take(struct psi_tls_stream *s)
{
    struct psi_tls_loop *loop = s->loop;
    bool known = psi_tls_is_known(s);
    if (loop->slots == PSI_TLS_SLOTS || slots_of_address(s) >= PSI_TLS_SLOTS_PER_ADDRESS ||
        (!known && loop->stranger_slots >= PSI_TLS_SLOTS - PSI_TLS_SLOTS_KEPT)) {
        return false;
    }
    loop->slots++;
    loop->stranger_slots += known ? 0 : 1;
    s->has_slot = true;
    s->slot_of_stranger = !known;
    raw_leave(s);
    psi_list_remove(&s->place);
    psi_list_push_back(&loop->holders, &s->place);
    return true;
}

void psi_tls_slot_wait(struct psi_tls_stream *s)
{
    psi_list_push_back(&s->loop->waiting[psi_tls_is_known(s) ? 1 : 0], &s->place);
}

/* Give a free slot to the first stream in `waiting` that may have it, and let its handshake go on. false: no stream may. */
static bool slot_pass_on(struct psi_list *waiting)
{
    struct psi_list *it;
    unsigned looked = 0;
    PSI_LIST_FOREACH(it, waiting) {
        struct psi_tls_stream *next = PSI_CONTAINER_OF(it, struct psi_tls_stream, place);
        if (psi_tls_slot_take(next)) {
            next->outer->events->again(next->outer);
            return true;
        }
        if (++looked == LOOKED_MAX) {
            return false;
        }
    }
    return false;
}

void psi_tls_slot_give_back(struct psi_tls_stream *s)
{
    struct psi_tls_loop *loop = s->loop;
    psi_list_remove(&s->place);
    raw_leave(s);
    if (s->has_slot) {
        s->has_slot = false;
        loop->slots--;
        loop->stranger_slots -= s->slot_of_stranger ? 1 : 0;
        (void)(slot_pass_on(&loop->waiting[1]) || slot_pass_on(&loop->waiting[0]));
    }
}

bool psi_tls_step_take(struct psi_tls_loop *loop)
{
    if (loop->steps_turn != *loop->turn) {
        loop->steps_turn = *loop->turn;
        loop->steps = 0;
    }
    bool may = loop->steps < PSI_TLS_STEPS_PER_TURN;
    loop->steps += may ? 1 : 0;
    return may;
}

#else

struct psi_tls_loop *psi_tls_loop_new(const uint64_t *turn, struct psi_tls *const *now)
{
    (void)turn;
    (void)now;
    return NULL;
}

void psi_tls_loop_free(struct psi_tls_loop *loop)
{
    PSI_ASSERT(loop == NULL);
}

void psi_tls_loop_handshakes(const struct psi_tls_loop *loop, struct psi_handshakes *out)
{
    PSI_ASSERT(loop == NULL);
    *out = (struct psi_handshakes){.done = 0};
}

#endif
