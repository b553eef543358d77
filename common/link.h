/* SPDX-License-Identifier: Apache-2.0 */
/* One connection as the pure cores (psd task, client session) see it, and the contract between a core and its shell.
 *
 * The shell (libuv in psd/server.c and worker/io.c, the simulator in tests/sim) turns what happens into events, which are calls
 * of the core's functions, one at a time. After an event and before the next one, the shell carries out all effects:
 *   - for each dirty link, one for which the shell must do something: the list at the end of this file
 *   - the core's other effects (dial, log, shut down ...): psd/task.h and worker/core/core.h.
 *
 * Before it reads, the shell may ask where the next bytes belong (psi_reader_places() of link->in), read them to there, report
 * how many came (psi_reader_placed()), and give the bytes behind them, if any, to the core in the bytes event. No other event
 * may come in between: the places may be a caller's memory, which is the caller's again after any event. */
#ifndef PSI_LINK_H
#define PSI_LINK_H

#include "outq.h"

struct psi_link {
    struct psi_reader in;
    struct psi_outq out;
    struct psi_list dirty; /* place in the core's list of dirty links: the shell must do something for each of them */
    void *shell;           /* the shell's connection; the core never uses it */
    void *owner;           /* the core's object for this connection */
    uint64_t name;         /* number of the link, for logs and replay; newer links have higher numbers */
    uint64_t bytes_in;
    bool closing; /* effect: close this connection. The core does not use the link any more, and gets no event for it. The shell
                     frees the link with psi_link_free() once its handles are closed */
    bool close_after_flush; /* with `closing`: first send the queue, for at most PSI_LINK_LINGER_MS */
    bool paused;            /* effect: do not read (true) or read (false) */
    bool want_buffer;       /* one reason for `paused`: the reader needs a segment buffer, and none is free */
};
enum { PSI_LINK_LINGER_MS = 1000 };

/** Make a link with an empty queue, which refuses frames whose body has more than body_limit bytes. NULL: no memory. */
struct psi_link *psi_link_new(void *shell, uint64_t name, uint32_t body_limit);
/** Drop the queue and free the link; NULL is fine. */
void psi_link_free(struct psi_link *link);

/* Effects of a dirty link, in this order:
 *   closing               -> the shell closes; it calls nothing of the core for this link any more
 *   psi_outq_ready(out)   -> compose, write, psi_outq_accepted(); repeat while everything is taken, up to a bound per loop turn.
 *                         Once a hold (bytes that were not taken) is written: psi_outq_held_written(), the writable event
 *   paused                -> stop or start reading */

#endif
