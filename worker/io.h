/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell of a session's core: a loop that carries bytes, time and requests to a psi_client and its effects back. It runs on a
 * thread of its own, or, where the config says by_caller, in psi_io_turn(), on whichever thread calls that. Everything that
 * touches the core is a psi_io_work, run in the loop; threads hand works over through one queue. "The loop thread" is the one
 * that the loop runs on at the time.
 *
 *   psi_io_open -> psi_io_submit (any thread, any number of works), psi_io_turn (one thread at a time) -> psi_io_close
 */
#ifndef PSI_WORKER_IO_H
#define PSI_WORKER_IO_H

#include "worker/core/core.h"

struct psi_io;

/* Something to do on the loop thread. Embedded in its owner's object, which lives until run() is called. */
struct psi_io_work {
    struct psi_list link;
    /* Once; c's effects are carried out when it, and what was queued with it, has returned. Must not block. */
    void (*run)(struct psi_io_work *work, struct psi_client *c);
};

enum { PSI_IO_SPIN_US = 50, PSI_IO_SPIN_US_MAX = 1000 }; /* some answers, or one wake-up of a sleeping CPU */
struct psi_io_config {
    struct psi_client_config client; /* borrows; the core copies */
    /* A line of the core's log: level of enum psi_log_level, fields as key=value pairs. Loop thread. */
    void (*log)(void *ctx, int level, const char *event, const char *fields);
    void *log_ctx;
    bool by_caller;              /* no thread: psi_io_turn() */
    uint32_t spin_us;            /* psi_spin_set() */
    void (*stop)(void *log_ctx); /* once: the cluster asks this session to stop. Loop thread; NULL: nobody hears of it */
    /* called after psi_io_poke(), and at times without one. Returns whether there was something to do. Loop thread */
    bool (*poked)(void *log_ctx, struct psi_client *c);
};

/**
 * Start the core and, unless by_caller, its thread, with all signals blocked in it. client borrows.
 * Errors: as psi_client_new(); RESOURCE_EXHAUSTED where the system gives no thread, descriptors or memory.
 */
ps_status psi_io_open(const struct psi_io_config *config, struct psi_io **out_io, struct psi_err *err) PSI_MUST;
/** Queue work; it runs once, later, also when it comes from the loop thread itself. Any thread; never blocks, never allocates. */
void psi_io_submit(struct psi_io *io, struct psi_io_work *work);
/** Queue these works (their links), which the list then has no more: they run together, before any effect of the first. waits:
 * the calling thread waits for them next, in turns where it is by_caller; then nobody is woken for them. */
void psi_io_submit_all(struct psi_io *io, struct psi_list *works, bool waits);
/** Have poked() called soon; a turn that is under way ends then. Any thread, and safe in a signal handler. Not while or after
 * psi_io_close() runs. */
void psi_io_poke(struct psi_io *io);
/** True on the loop thread, where nothing may block. Any thread. */
bool psi_io_on_loop(const struct psi_io *io);
/**
 * Run the loop on the calling thread: until something has happened (bytes, an end, work), at most timeout_ms; 0: what is due now.
 * It raises no SIGPIPE. by_caller only, one thread at a time, not on the loop thread.
 */
void psi_io_turn(struct psi_io *io, int64_t timeout_ms);
/** by_caller: a descriptor that is readable when psi_io_turn(io, 0) has something to do. Any thread. */
int psi_io_fd(struct psi_io *io);
/** by_caller: milliseconds until psi_io_turn() has something to do though the descriptor is silent. Not while it runs. */
int64_t psi_io_due_ms(struct psi_io *io);
/** End the thread and free all: no work may be queued any more and no request be in flight. Not on the loop thread. NULL is fine.
 */
void psi_io_close(struct psi_io *io);
/** Milliseconds of the clock that the core is told. Any thread. */
uint64_t psi_io_now_ms(void);

#endif
