/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop that looks for what comes next without sleeping: where answers come within some microseconds, waking a thread up costs
 * more than they do.
 *
 * It spins for `ns` after bytes, or after work of its owner, where the last waits for bytes were mostly shorter than that. Each
 * look gives the CPU away (sched_yield()), and a look that was late ends the spin: others want the CPU. Loop thread only.
 */
#ifndef PSI_NET_SPIN_H
#define PSI_NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* All 0 but for the handle: off. */
struct psi_spin {
    uint64_t ns;         /* 0: never */
    uint64_t quiet_ns;   /* since when nothing has happened */
    uint64_t look_ns;    /* the last look */
    uint64_t bytes_ns;   /* of this turn: when the first bytes came */
    unsigned score;      /* of the last waits; 0: they were too long */
    bool bytes, stirred; /* in this turn */
    bool on;             /* the handle runs: the loop does not sleep */
    uv_idle_t handle;
};

void psi_spin_init(struct psi_spin *spin, uv_loop_t *loop);
/** The handle closes with the loop's others. */
void psi_spin_close(struct psi_spin *spin);
/** For so many microseconds; 0, or a thread that may run on one CPU only: never. */
void psi_spin_set(struct psi_spin *spin, uint32_t us);
/** The owner did something that an answer may follow. */
void psi_spin_stir(struct psi_spin *spin);
/** Bytes have come that more may follow, or something to be done. */
void psi_spin_bytes(struct psi_spin *spin);
/** The loop is left, by who runs it in turns: no spin before psi_spin_go_on() or something new. */
void psi_spin_rest(struct psi_spin *spin);
/** The next turn waits: where the last thing has just happened it spins on. */
void psi_spin_go_on(struct psi_spin *spin);
/** The loop is about to wait for its descriptors: before, and after, what the owner does then. */
void psi_spin_look(struct psi_spin *spin);
void psi_spin_anew(struct psi_spin *spin);

#endif
