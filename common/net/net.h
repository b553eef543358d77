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
 * requests from other threads). All functions: loop thread only. Holds of connections are
 * written by calls that may raise SIGPIPE: who runs the loop blocks it, always, or while there are some (ops->holds, net->holds).
 */
#ifndef PSI_NET_H
#define PSI_NET_H

#include "../link.h"
#include "../list.h"
#include "spin.h"

#include <uv.h>

enum {
    PSI_NET_SCRATCH_BYTES = (256 << 10) + 4096, /* one read: four segments with their CRCs, and a head */
    PSI_NET_TURN_BYTES = 2 << 20,         /* read, and written, in a loop turn, by the connections that were busy in the last */
    PSI_NET_TURN_LEAST_BYTES = 256 << 10, /* ... one; then the others get theirs */
    PSI_NET_LOOP_FILES = 4,               /* that libuv 1.44 opens for a loop: epoll, a pipe for signals, a wake-up */
    PSI_NET_FIRST_LOOP_FILES = 2          /* and for a process's first one: a pipe */
};

/* What the owner of a core provides. Called on the loop thread, one at a time. */
struct psi_net_ops {
    /* n bytes arrived on link, behind those of psi_reader_placed(), 0 maybe; borrows p. Not called while link->paused. */
    void (*bytes)(void *ctx, struct psi_link *link, const uint8_t *p, size_t n);
    /* The connection ended (why: for logs). The core must let go of link before this returns; the net frees it. Not called for a
     * link that the core has marked closing. */
    void (*closed)(void *ctx, struct psi_link *link, const char *why);
    /* Bytes of link's queue were taken by the system. */
    void (*writable)(void *ctx, struct psi_link *link);
    /* Carry out all effects of the core: psi_conn_update() for each dirty link, then the others. */
    void (*drain)(void *ctx);
    /* A connection is gone altogether, its descriptor is free. May be NULL. */
    void (*released)(void *ctx);
    /* The loop is about to wait for its descriptors. May be NULL. */
    void (*prepare)(void *ctx);
    /* A hold is about to be written, by a call that may raise SIGPIPE. May be NULL. */
    void (*holds)(void *ctx);
};

struct psi_net_mailbox; /* where look-up threads leave their results (dial.c) */

struct psi_net {
    uv_loop_t *loop;
    const struct psi_net_ops *ops;
    void *ctx;
    uint8_t *scratch;        /* 64-aligned, PSI_NET_SCRATCH_BYTES + 64; pages are touched by the first reads only */
    uint8_t *own_scratch;    /* scratch, but for a turn that has the shared one */
    bool shares;             /* psi_net_share() */
    uint64_t turn;           /* loop turns so far */
    uint32_t busy;           /* connections that read or wrote in the last turn */
    uint32_t busy_now;       /* ... in this one */
    struct psi_list conns;   /* all connections */
    struct psi_list events;  /* connections with an event for the core that arose while effects were carried out */
    struct psi_list again;   /* connections that have more to send than one turn allows */
    struct psi_list lingers; /* connections that must end by conn->deadline_ms; in that order */
    struct psi_list dials;
    struct psi_net_mailbox *mailbox; /* NULL before the first look-up */
    uv_check_t check;                /* counts turns */
    uv_idle_t idle;                  /* runs while again is not empty */
    uv_timer_t linger_timer;
    uv_prepare_t prepare;
    uint32_t conn_count;
    uint32_t holds; /* connections whose transport has a hold */
    bool settling, closing;
    struct psi_spin spin; /* off: psi_spin_set() */
};

/** A program may have been started with standard input, output or error closed; libuv ends the process when one of its own
 *  descriptors gets such a number. Fills them with /dev/null. Before uv_loop_init() and before sockets are made. Any thread. */
void psi_net_keep_stdio(void);
/** That many descriptors more can be had. Any thread. RESOURCE_EXHAUSTED: says the smallest limit of open files that works. */
PSI_MUST ps_status psi_net_files_check(uint32_t count, struct psi_err *err);
/** How many psi_net_loop_init() takes now. Any thread. */
uint32_t psi_net_loop_files(void);
/** uv_loop_init(), after psi_net_files_check() of what it takes and of `more`: libuv ends the process where the first loop has
 * too few descriptors. RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_net_loop_init(uv_loop_t *loop, uint32_t more, struct psi_err *err);
/** Ready to use; ops and ctx are kept. RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_net_init(struct psi_net *net, uv_loop_t *loop, const struct psi_net_ops *ops, void *ctx,
                                struct psi_err *err);
/** A loop of many that run in turns on one thread, as a rule: they read into one scratch, which stays in cache. Before the first
 * turn. */
void psi_net_share(struct psi_net *net);
/** Begin and end of a turn of one that shares. Another turn, of this thread or another one, may have the scratch: then its own.
 */
void psi_net_enter(struct psi_net *net);
void psi_net_leave(struct psi_net *net);
/** Carry out effects until there are none; deliver what arose meanwhile. Not from within ops. */
void psi_net_settle(struct psi_net *net);
/** Every connection ends in good order: the core is told that it is closed, what it had queued is dropped where it has not gone
 *  out, the peer sees the end of the stream, and the connection closes when the peer's end arrives or PSI_LINK_LINGER_MS pass. */
void psi_net_finish(struct psi_net *net);
/** Tell the queues how much of their holds the kernel has taken: before a tick of the core. */
void psi_net_note_sent(struct psi_net *net);
/** No connection has anything left to send. */
bool psi_net_sent_all(const struct psi_net *net);
/** Close everything now: dials never report, each connection that the core still has gets its closed event. Look-ups are left
 *  to themselves. When the loop has no handle left, psi_net_fini(). */
void psi_net_close(struct psi_net *net);
/** Free; every handle must be closed. */
void psi_net_fini(struct psi_net *net);

/* for conn.c */
/** The connection at the end of net->lingers has a deadline. */
void psi_net_arm_linger(struct psi_net *net);
/** net->again is not empty. */
void psi_net_arm_again(struct psi_net *net);

#endif
