/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that looks for new events without sleeping: waking a thread costs more than some microseconds of looking. The loop spins
 * for `ns` after bytes, or after work of its owner, if the last waits for bytes were mostly shorter than that. Each look gives
 * the CPU away (sched_yield()). A late look ends the spin, because other threads want the CPU. Loop thread only. */
#ifndef PSI_NET_SPIN_H
#define PSI_NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct psi_spin {
    uint64_t ns;       /* longest spin; 0: never spin */
    uint64_t quiet_ns; /* time at which the loop had nothing more to do, and began to wait for bytes */
    uint64_t look_ns;  /* time of the last look */
    uint64_t bytes_ns; /* time of the first bytes of this turn */
    /* rises when bytes come soon after waiting begins, falls when they come late; 0: polling does not pay at present */
    unsigned score;
    bool bytes, stirred; /* bytes: some came in this turn; stirred: the owner did work in this turn */
    bool on;             /* true: the loop polls at present and does not sleep */
    uv_idle_t handle;
};

void psi_spin_init(struct psi_spin *spin, uv_loop_t *loop);
/** Stop polling for good and close the handle. *spin must stay valid until the loop has closed the handle. */
void psi_spin_close(struct psi_spin *spin);
/** Poll for up to `us` microseconds after the last work. Never polls with 0, or if the thread may run on one CPU only. */
void psi_spin_set(struct psi_spin *spin, uint32_t us);
/** Call when the owner has done work that may bring an answer soon (sent a request): the loop polls for the answer. */
void psi_spin_stir(struct psi_spin *spin);
/** Call when bytes have come: the loop polls, because more bytes, or work of the owner, may follow soon. */
void psi_spin_bytes(struct psi_spin *spin);
/** Call when the thread will not run this loop for a while: polling ends, until psi_spin_go_on() or a new event. */
void psi_spin_rest(struct psi_spin *spin);
/** Call when the thread runs this loop again: go on polling, if the loop has had nothing to do for less than psi_spin.ns. */
void psi_spin_go_on(struct psi_spin *spin);
/** Call both in each turn, before the loop waits for its descriptors. psi_spin_look() ends polling that has lasted too long; call
 * it before the owner's work. psi_spin_anew() begins to poll if bytes came or the owner did work; call it after that work. */
void psi_spin_look(struct psi_spin *spin);
void psi_spin_anew(struct psi_spin *spin);

#endif
