/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop that looks for new events without sleeping: waking a thread costs more than some microseconds of looking.
 *
 * The loop spins for `ns` after bytes, or after work of its owner, if the last waits for bytes were mostly shorter than that.
 * Each look gives the CPU away (sched_yield()). A late look ends the spin: others want the CPU. Loop thread only.
 */
#ifndef PSI_NET_SPIN_H
#define PSI_NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* time of the last event */
struct psi_spin {
    uint64_t ns;       /* 0: never */
    uint64_t quiet_ns; /* since when nothing has happened */
    uint64_t look_ns;
    uint64_t bytes_ns;   /* when the first bytes of this turn came */
    unsigned score;      /* rises with short waits, falls with long ones; 0: the last waits were too long */
    bool bytes, stirred; /* in this turn */
    bool on;             /* the handle runs: the loop does not sleep */
    uv_idle_t handle;
};

void psi_spin_init(struct psi_spin *spin, uv_loop_t *loop);
/** The handle closes with the loop's other handles. */
void psi_spin_close(struct psi_spin *spin);
/** Spin for so many microseconds; 0, or a thread that may run on one CPU only: never. */
void psi_spin_set(struct psi_spin *spin, uint32_t us);
/** The owner has done something that an answer may follow. */
void psi_spin_stir(struct psi_spin *spin);
/** Bytes have come that more bytes, or work, may follow. */
void psi_spin_bytes(struct psi_spin *spin);
/** The thread that runs the loop in turns leaves it: no spin before psi_spin_go_on() or something new. */
void psi_spin_rest(struct psi_spin *spin);
/** The next turn waits: go on with a spin whose event has just happened. */
void psi_spin_go_on(struct psi_spin *spin);
/** The loop is about to wait for its descriptors; called before and after the owner's own work at that point. */
void psi_spin_look(struct psi_spin *spin);
void psi_spin_anew(struct psi_spin *spin);

#endif
