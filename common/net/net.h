/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the connections of one core and one loop share: the scratch that bytes are read into, the order of events and effects,
 * bounded work per loop turn, name look-ups.
 *
 * One core, one loop, one psi_net. Life:
 *   psi_net_init -> connections come and go -> psi_net_close (loop runs on until every handle is closed) -> psi_net_fini
 *
 * The rule of common/link.h (all effects of an event are carried out before the next event) is kept here: after every callback
 * of connections, listeners and dials the net calls ops->drain(). The owner calls psi_net_settle() after its own events (timers,
 * requests from other threads). All functions: loop thread only. Holds of connections are written by calls that may raise
 * SIGPIPE: whoever runs the loop blocks that signal, always, or while there are holds (ops->holds, net->holds).
 */
#ifndef PSI_NET_H
#define PSI_NET_H

#include "../link.h"
#include "../list.h"
#include "spin.h"
#include "tls/tls.h"

#include <uv.h>

enum {
    PSI_NET_SCRATCH_BYTES = (256 << 10) + 4096, /* of one read: four segments with their CRCs, and a head */
    PSI_NET_TURN_BYTES = 2 << 20, /* bytes read, and written, in a loop turn by all connections that were busy in the last turn */
    PSI_NET_TURN_LEAST_BYTES = 256 << 10, /* bytes read, and written, in a loop turn by one connection at least */
    PSI_NET_LOOP_FILES = 4,               /* descriptors that libuv 1.44 opens for a loop: epoll, a pipe for signals, a wake-up */
    PSI_NET_FIRST_LOOP_FILES = 2          /* descriptors that it opens for the process's first loop besides: a pipe */
};

/* What the owner of a core provides. Called on the loop thread, one at a time. */
struct psi_net_ops {
    /* n bytes arrived on link, maybe 0, behind those of psi_reader_placed(); borrows p. Not called while link->paused. */
    void (*bytes)(void *ctx, struct psi_link *link, const uint8_t *p, size_t n);
    /* The connection ended (why: for logs). The core must let go of link before this returns; the net frees it. Not called for a
     * link that the core has marked closing. */
    void (*closed)(void *ctx, struct psi_link *link, const char *why);
    /* The system took bytes of link's queue. */
    void (*writable)(void *ctx, struct psi_link *link);
    /* Carry out all effects of the core: psi_conn_update() for each dirty link, then the other effects. */
    void (*drain)(void *ctx);
    /* A connection is freed, and so is its descriptor. May be NULL. */
    void (*released)(void *ctx);
    /* The loop is about to wait for its descriptors. May be NULL. */
    void (*prepare)(void *ctx);
    /* A hold is about to be written by a call that may raise SIGPIPE. May be NULL. */
    void (*holds)(void *ctx);
    /* The peer of an accepted connection was not let in, or only one of both sides speaks TLS: for the log. peer is its address,
     * text a sentence without it. The connection's closed event follows. May be NULL. */
    void (*refused)(void *ctx, const char *peer, enum psi_tls_reason reason, const char *text);
    /* peer, an IP address and port, is one of the cluster's: TLS handshakes are kept free for it. May be NULL: nobody is. */
    bool (*listed)(void *ctx, const char *peer);
};

struct psi_net_mailbox; /* where look-up threads leave their results (dial.c) */

struct psi_net {
    uv_loop_t *loop;
    const struct psi_net_ops *ops;
    void *ctx;
    uint8_t *scratch;     /* 64-aligned, PSI_NET_SCRATCH_BYTES + 64; only reads touch its pages */
    uint8_t *own_scratch; /* the net's own; scratch may be the shared one during a turn */
    bool shares;          /* psi_net_share() was called */
    uint64_t turn;
    uint32_t busy;     /* connections that read or wrote in the last turn */
    uint32_t busy_now; /* connections that read or wrote in this turn */
    struct psi_list conns;
    struct psi_list events;  /* connections with an event for the core, which arose while effects were carried out */
    struct psi_list again;   /* connections with more to send than one turn allows */
    struct psi_list lingers; /* connections that must end by conn->deadline_ms, ordered by it */
    struct psi_list dials;
    struct psi_net_mailbox *mailbox; /* NULL before the first look-up */
    uv_check_t check;
    uv_idle_t idle; /* runs while again is not empty */
    uv_timer_t linger_timer;
    uv_prepare_t prepare;
    uint32_t conn_count;
    uint32_t holds; /* connections whose transport may raise SIGPIPE at any time */
    bool settling, closing;
    struct psi_tls *tls;           /* for new connections; NULL: plain */
    struct psi_tls_loop *tls_loop; /* shared by TLS connections; NULL before the first psi_net_set_tls() */
    bool tls_crc;                  /* segments of TLS connections carry CRCs */
    struct psi_spin spin;          /* off unless psi_spin_set() */
};

/** Fill closed standard input, output and error with /dev/null: libuv ends the process when one of its own descriptors gets such
 * a number. Call it before uv_loop_init() and before sockets are made. Any thread. */
void psi_net_keep_stdio(void);
/** Check that `count` more descriptors are free. Any thread. RESOURCE_EXHAUSTED: says which limit of open files works. */
PSI_MUST ps_status psi_net_files_check(uint32_t count, struct psi_err *err);
/** Descriptors that psi_net_loop_init() would take now. Any thread. */
uint32_t psi_net_loop_files(void);
/** uv_loop_init(), after psi_net_files_check() of its descriptors and of `more`: libuv ends the process if the first loop lacks
 * descriptors. RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_net_loop_init(uv_loop_t *loop, uint32_t more, struct psi_err *err);
/** Init net; ops and ctx are kept. RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_net_init(struct psi_net *net, uv_loop_t *loop, const struct psi_net_ops *ops, void *ctx,
                                struct psi_err *err);
/** Share one scratch with other nets: for loops that usually take turns on one thread, so that it stays in cache. Before the
 * first turn. */
void psi_net_share(struct psi_net *net);
/**
 * Set the TLS context of TCP connections that are made from now on; NULL: plain. Older ones stay: psi_net_recheck().
 *
 * tls     the net takes a reference of its own.
 * crc     segments carry CRCs although TLS finds damaged bytes.
 * Errors  PS_RESOURCE_EXHAUSTED: nothing has changed.
 */
PSI_MUST ps_status psi_net_set_tls(struct psi_net *net, struct psi_tls *tls, bool crc, struct psi_err *err);
/** Handshakes of accepted connections. */
void psi_net_handshakes(const struct psi_net *net, struct psi_handshakes *out);
/** Close each connection that the net's context would not let in now: its line is gone or has expired, its certificate has
 * expired or is refused, or it is plain TCP and the net is not. ops->refused says PSI_TLS_REVOKED, also for dialled ones;
 * ops->closed follows. Call it after psi_net_set_tls(), and now and then. Returns the number closed. Not from within ops. */
size_t psi_net_recheck(struct psi_net *net);
/** Begin and end a turn of a net that shares. While another turn, of any thread, has the shared scratch, the net uses its own. */
void psi_net_enter(struct psi_net *net);
void psi_net_leave(struct psi_net *net);
/** Carry out effects, and deliver events that arise meanwhile, until there are none. Not from within ops. */
void psi_net_settle(struct psi_net *net);
/** End every connection in good order: the core is told that it is closed, what has not been sent is dropped, the peer sees the
 * end of the stream, and the connection closes when the peer's end arrives or PSI_LINK_LINGER_MS pass. */
void psi_net_finish(struct psi_net *net);
/** Tell the queues how much of their holds the kernel has taken. Call it before a tick of the core. */
void psi_net_note_sent(struct psi_net *net);
bool psi_net_sent_all(const struct psi_net *net);
/** Close everything now: dials never report, and each connection that the core still has gets its closed event. Running look-ups
 * are left to themselves. Call psi_net_fini() when the loop has no handle left. */
void psi_net_close(struct psi_net *net);
/** Free net; every handle must be closed. */
void psi_net_fini(struct psi_net *net);

/** A connection was put at the end of net->lingers, with a deadline. */
void psi_net_arm_linger(struct psi_net *net);
/** net->again has got a connection. */
void psi_net_arm_again(struct psi_net *net);

#endif
