/* SPDX-License-Identifier: Apache-2.0 */
/* What the connections of one core (psd's or the client library's protocol logic) share on one event loop: memory into which
 * bytes are read (the scratch), the order of events and effects, limits of the work in a turn of the loop, and look-ups of host
 * names. A core has one loop and one psi_net: psi_net_init() -> connections come and go -> psi_net_close() -> the loop runs until
 * every handle is closed -> psi_net_fini().
 *
 * The rule of common/link.h (all effects of an event are carried out before the next event) is kept here: after every callback of
 * connections, listeners and dials the net calls ops->drain(). The owner calls psi_net_settle() after its own events (timers,
 * requests from other threads). All functions: loop thread only. A hold is the rest of a segment that the kernel took only in
 * part; libuv writes it later (common/outq.h). That write may raise SIGPIPE, so the loop's thread blocks this signal, always or
 * while there are holds (ops->holds, net->holds). */
#ifndef PSI_NET_H
#define PSI_NET_H

#include "../link.h"
#include "../list.h"
#include "spin.h"
#include "tls/tls.h"

#include <uv.h>

enum {
    PSI_NET_SCRATCH_BYTES = (256 << 10) + 4096, /* bytes of one read: four segments with their CRCs, and a frame's head */
    /* bytes that all connections together may read, and may write, in one turn of the loop */
    PSI_NET_TURN_BYTES = 2 << 20,
    /* bytes that each connection may read, and may write, in a turn even when many are busy */
    PSI_NET_TURN_LEAST_BYTES = 256 << 10,
    PSI_NET_LOOP_FILES = 4,      /* descriptors that libuv 1.44 opens for a loop: epoll, a pipe for signals, an eventfd */
    PSI_NET_FIRST_LOOP_FILES = 2 /* further descriptors for the first loop of a process: a pipe */
};

/* Functions that the owner of the core gives to its net. Called on the loop thread, one at a time; ctx is psi_net_init()'s. */
struct psi_net_ops {
    /* n bytes have come on link; borrows p. n does not count bytes that were read straight into the core's memory for values
     * (psi_reader_placed()), so it may be 0. Not called while link->paused. */
    void (*bytes)(void *ctx, struct psi_link *link, const uint8_t *p, size_t n);
    /* The connection has ended; why is for logs. The core forgets link, which the net then frees. Not called if link->closing. */
    void (*closed)(void *ctx, struct psi_link *link, const char *why);
    /* The operating system has taken bytes of link's send queue. */
    void (*writable)(void *ctx, struct psi_link *link);
    /* Do all that the core asks for: psi_conn_update() for each link that the core has marked (dirty), then dials, logs etc. */
    void (*drain)(void *ctx);
    /* A connection and its descriptor have been freed. May be NULL. */
    void (*released)(void *ctx);
    /* Called before the loop waits for its descriptors. May be NULL. */
    void (*prepare)(void *ctx);
    /* Called before a write of a hold (common/outq.h): that write may raise SIGPIPE. May be NULL. */
    void (*holds)(void *ctx);
    /* For the log: the peer of an accepted connection was refused, or only one of both sides speaks TLS. peer is the peer's
     * address; text is a sentence without the address. The connection's closed event follows. May be NULL. */
    void (*refused)(void *ctx, const char *peer, enum psi_tls_reason reason, const char *text);
    /* The peer of an accepted connection is no longer allowed (psi_net_recheck()): the owner sends it `text` after the queued
     * frames, and closes. May be NULL. */
    void (*revoked)(void *ctx, struct psi_link *link, const char *text);
    /* True if peer ("IP:PORT") is in the cluster; TLS handshake slots are reserved for such peers. NULL: no peer is. */
    bool (*listed)(void *ctx, const char *peer);
};

struct psi_net_mailbox; /* where threads that look up host names leave their results (dial.c) */

struct psi_net {
    uv_loop_t *loop;
    const struct psi_net_ops *ops;
    void *ctx;
    uint8_t *scratch;     /* memory to read into, 64-aligned, PSI_NET_SCRATCH_BYTES + 64 bytes */
    uint8_t *own_scratch; /* the net's own memory; `scratch` points to it, or to shared memory during a turn if `shares` */
    bool shares;
    uint64_t turn;
    uint32_t busy;     /* connections that read or wrote in the previous turn */
    uint32_t busy_now; /* connections that read or wrote in this turn so far */
    struct psi_list conns;
    /* connections with an event that arose during ops->drain(); the core gets the event afterwards */
    struct psi_list events;
    struct psi_list again;   /* connections that go on in the next turn: they have more to send, or bytes that TLS keeps */
    struct psi_list lingers; /* closing connections, which must end by conn->deadline_ms, the earliest first */
    struct psi_list dials;
    struct psi_net_mailbox *mailbox; /* NULL before the first look-up of a host name */
    uv_check_t check;
    uv_idle_t idle; /* runs while `again` is not empty, so that the loop does not sleep */
    uv_timer_t linger_timer;
    uv_prepare_t prepare;
    uint32_t conn_count;
    uint32_t holds; /* number of connections that write a hold now; each such write may raise SIGPIPE */
    bool settling, closing;
    struct psi_tls *tls;           /* TLS context of new connections; NULL: they are plain TCP */
    struct psi_tls_loop *tls_loop; /* shared by TLS connections; NULL before the first psi_net_set_tls() */
    bool tls_crc;
    struct psi_spin spin; /* waiting by polling, for short latency; off before psi_spin_set() */
};

/** Fill closed standard input, output and error with /dev/null: libuv ends the process when one of its own descriptors gets a
 * number from 0 to 2. Call it before uv_loop_init() and before sockets are made. Any thread. */
void psi_net_keep_stdio(void);
/** Check that `count` more descriptors can be opened. Any thread. RESOURCE_EXHAUSTED names a limit that would suffice. */
PSI_MUST ps_status psi_net_files_check(uint32_t count, struct psi_err *err);
/** Descriptors that psi_net_loop_init() would take now. Any thread. */
uint32_t psi_net_loop_files(void);
/** Call uv_loop_init(), but only if enough descriptors are free for it and for `further_files`: without this check libuv would
 * end the process. RESOURCE_EXHAUSTED: too few are free. */
PSI_MUST ps_status psi_net_loop_init(uv_loop_t *loop, uint32_t further_files, struct psi_err *err);
/** Initialise net, which keeps ops and ctx. RESOURCE_EXHAUSTED: no memory. */
PSI_MUST ps_status psi_net_init(struct psi_net *net, uv_loop_t *loop, const struct psi_net_ops *ops, void *ctx,
                                struct psi_err *err);
/** Let this net share its scratch (memory for reading) with other nets whose loops take turns on one thread: the scratch stays in
 * the CPU's cache. Call it after psi_net_init(), before the first turn. */
void psi_net_share(struct psi_net *net);
/** Set the TLS context of later TCP connections; NULL: plain. psi_net_recheck() closes older ones that the new context refuses.
 *
 * tls     the net takes a reference of its own.
 * crc     segments carry CRCs although TLS finds damaged bytes.
 * Errors  PS_RESOURCE_EXHAUSTED: nothing has changed. */
PSI_MUST ps_status psi_net_set_tls(struct psi_net *net, struct psi_tls *tls, bool crc, struct psi_err *err);
void psi_net_handshakes(const struct psi_net *net, struct psi_handshakes *out);
/** Close each connection that the net's TLS context would refuse now: the peer's key has expired, or its line is gone; the peer's
 * certificate has expired or is refused; or it is plain TCP and the net now uses TLS. ops->refused gets PSI_TLS_REVOKED, also
 * for dialled connections; ops->revoked or ops->closed follows. The other connections use the new context from now on. Call it
 * after psi_net_set_tls() and from time to time, but not from within ops. Returns the number of closed connections. */
size_t psi_net_recheck(struct psi_net *net);
/** Begin and end a turn of the loop of a net that shares its scratch (psi_net_share()). If another net's turn uses the shared
 * scratch, this net uses its own. */
void psi_net_enter(struct psi_net *net);
void psi_net_leave(struct psi_net *net);
/** Call ops->drain(), deliver the events that arose in it, and repeat this until there are none. Not to be called within ops. */
void psi_net_settle(struct psi_net *net);
/** End every connection: the core gets the closed event. A connection with unsent bytes closes at once. Any other sends the end
 * of the stream, and closes when the peer's end arrives, or after PSI_LINK_LINGER_MS. */
void psi_net_finish(struct psi_net *net);
/** Tell each send queue how many bytes of its hold (common/outq.h) the kernel has taken. Call it before the core checks which
 * peers read nothing, and closes their connections. */
void psi_net_note_sent(struct psi_net *net);
bool psi_net_sent_all(const struct psi_net *net);
/** Close everything now: no dial calls done() any more, and the core gets the closed event of each connection that it still has.
 * Running look-ups end by themselves. Call psi_net_fini() when the loop has no handle left. */
void psi_net_close(struct psi_net *net);
/** Free net; every handle must be closed. */
void psi_net_fini(struct psi_net *net);

/** Set the timer that ends closing connections. Call it after a connection with a deadline was put at the end of net->lingers. */
void psi_net_arm_linger(struct psi_net *net);
/** Make the loop's next turn begin without waiting for events. Call it after a connection was put into net->again. */
void psi_net_arm_again(struct psi_net *net);

#endif
