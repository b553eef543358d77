/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a session: it gives bytes, time and requests to the session's core (psi_client), and carries out the core's
 * effects. It runs on a thread of its own, or, if config.by_caller, in psi_io_turn() on the calling thread. Everything that
 * touches the core is a psi_io_work that the loop runs; threads hand works over through one queue. "The loop thread" is the
 * thread on which the loop runs at the time.
 *
 *   psi_io_open -> psi_io_submit (any thread, any number of works), psi_io_turn (one thread at a time) -> psi_io_close */
#ifndef PSI_WORKER_IO_H
#define PSI_WORKER_IO_H

#include "worker/core/core.h"

struct psi_io;

/* Something to do on the loop thread. The owner's object embeds it and keeps it until run() is called. */
struct psi_io_work {
    struct psi_list link;
    /* Called once; must not block. The loop carries out the effects of c (bytes to send, callbacks) after the last of the works
     * that were queued together */
    void (*run)(struct psi_io_work *work, struct psi_client *c);
};

/* How many microseconds a waiting thread polls before it sleeps. The default is about the time of a quick answer, or of waking a
 * sleeping CPU. MAX: the largest value of the option. */
enum { PSI_IO_SPIN_US = 50, PSI_IO_SPIN_US_MAX = 1000 };
struct psi_io_config {
    struct psi_client_config client; /* borrowed; the core copies it */
    /* Called for a line of the core's log: level of enum psi_log_level, fields as key=value pairs. Loop thread. */
    void (*log)(void *ctx, int level, const char *event, const char *fields);
    void *log_ctx;
    bool by_caller;              /* true: no thread is made; the caller runs the loop by psi_io_turn() */
    uint32_t spin_us;            /* most microseconds of polling before the loop sleeps */
    void (*stop)(void *log_ctx); /* called once when the cluster asks this session to stop. Loop thread; NULL: no callback */
    /* Returns the TLS context of new connections; called by psi_io_open() and before each dial. The owner of tls_ctx keeps the
     * context. If tls or its result is NULL, connections are plain. */
    struct psi_tls *(*tls)(void *tls_ctx);
    void *tls_ctx;
    /* called after psi_io_poke(), and sometimes without a poke. Returns true if there was something to do. Loop thread */
    bool (*poked)(void *log_ctx, struct psi_client *c);
    /* called at the end of each event, after done() of all requests that have ended in it. Loop thread */
    void (*drained)(void *log_ctx);
};

/** Start the core and, unless by_caller, its thread, in which all signals are blocked.
 *
 * config   borrowed.
 * out_io   freed by psi_io_close().
 * Errors   as psi_client_new(); RESOURCE_EXHAUSTED: no thread, descriptors or memory. */
ps_status psi_io_open(const struct psi_io_config *config, struct psi_io **out_io, struct psi_err *err) PSI_MUST;
/** Queue a work, which the loop thread runs once, never inside this call. Any thread; never blocks, never allocates. */
void psi_io_submit(struct psi_io *io, struct psi_io_work *work);
/** Queue all works of the list (psi_io_work.link) and empty the list. They run one after the other, and the core's effects are
 * carried out after the last one. waits: the calling thread next waits for the works: with by_caller it runs them itself in
 * psi_io_turn(), and the descriptor (psi_io_fd()) need not become readable for them. */
void psi_io_submit_all(struct psi_io *io, struct psi_list *works, bool waits);
/** Make the loop call poked() soon, and end a turn in progress. Any thread or signal handler, until psi_io_close(). */
void psi_io_poke(struct psi_io *io);
/** True on the loop thread, where nothing may block. Any thread. */
bool psi_io_on_loop(const struct psi_io *io);
/** Run the loop on the calling thread until there is an event (bytes, the end of a connection, a work), for at most timeout_ms;
 * 0: do only what is due now. Raises no SIGPIPE. Only with by_caller, by one thread at a time, not in a callback of the loop. */
void psi_io_turn(struct psi_io *io, int64_t timeout_ms);
/** by_caller: a descriptor, owned by io, that is readable when psi_io_turn(io, 0) has something to do. Any thread. */
int psi_io_fd(struct psi_io *io);
/** by_caller: milliseconds until psi_io_turn() has something to do even if the descriptor is not readable. Not during a turn. */
int64_t psi_io_due_ms(struct psi_io *io);
/** End the thread and free io. No work may be queued and no request be in flight. Not on the loop thread. NULL is fine. */
void psi_io_close(struct psi_io *io);
/** Close this process's copies of the descriptors of its parent's sessions. Does nothing in the parent. Async-signal-safe. */
void psi_io_after_fork_child(void);
/** Present time in milliseconds, by the clock of the core's deadlines. Any thread. */
uint64_t psi_io_now_ms(void);
/** Present time in nanoseconds, by the clock of psi_io_now_ms(). Any thread. */
uint64_t psi_io_now_ns(void);
/** on: tell the core the time in nanoseconds before each event (psi_client_time()), as a trace needs it. Loop thread. */
void psi_io_stamp(struct psi_io *io, bool on);

#endif
