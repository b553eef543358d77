/* SPDX-License-Identifier: Apache-2.0 */
/* Polling by libuv's loop: while an idle handle is active, the loop does not sleep, and looks at its descriptors again and again.
 * Happy path: bytes have come; psi_spin_anew() notes how long the loop waited for them, and starts the handle. psi_spin_look()
 * checks in each turn whether `ns` are over since then, and stops the handle; the loop sleeps. Failure modes: none. */
#define _GNU_SOURCE 1
#include "spin.h"

#include "../status.h"

#include <sched.h>
#include <time.h>

enum {
    SCORE_MAX = 16,
    SCORE_LONG = 2, /* a long wait lowers the score by 2, a short one raises it by 1 */
    /* polling ends if so many ns lie between two looks: a look takes less than 1 us, so another thread has used this CPU */
    LATE_NS = 20000
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void on_idle(uv_idle_t *handle)
{
    (void)handle; /* does nothing: an active idle handle keeps the loop from sleeping */
}

static void start(struct psi_spin *spin, uint64_t now)
{
    spin->look_ns = now;
    if (!spin->on && spin->score > 0) {
        spin->on = uv_idle_start(&spin->handle, on_idle) == 0; /* fails for a handle that closes */
    }
}

void psi_spin_rest(struct psi_spin *spin)
{
    spin->on = false;
    spin->bytes = false;
    spin->stirred = false;
    PSI_IGNORE(uv_idle_stop(&spin->handle)); /* always 0 */
}

void psi_spin_init(struct psi_spin *spin, uv_loop_t *loop)
{
    *spin = (struct psi_spin){.ns = 0};
    PSI_IGNORE(uv_idle_init(loop, &spin->handle)); /* always 0 */
    uv_unref((uv_handle_t *)&spin->handle);
}

void psi_spin_close(struct psi_spin *spin)
{
    spin->ns = 0;
    psi_spin_rest(spin);
    uv_close((uv_handle_t *)&spin->handle, NULL);
}

void psi_spin_set(struct psi_spin *spin, uint32_t us)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    bool one = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) < 2; /* the call fails on > 1024 CPUs */
    spin->ns = one ? 0 : (uint64_t)us * 1000;
    spin->score = SCORE_MAX / 2;
    if (spin->ns == 0) {
        psi_spin_rest(spin);
    }
}

void psi_spin_stir(struct psi_spin *spin)
{
    spin->stirred = spin->ns > 0;
}

void psi_spin_bytes(struct psi_spin *spin)
{
    if (spin->ns > 0 && !spin->bytes) {
        spin->bytes = true;
        spin->bytes_ns = now_ns();
    }
}

void psi_spin_go_on(struct psi_spin *spin)
{
    uint64_t now = spin->ns > 0 ? now_ns() : 0;
    if (now - spin->quiet_ns < spin->ns) {
        start(spin, now);
    }
}

void psi_spin_look(struct psi_spin *spin)
{
    if (spin->on && spin->score == 0) {
        spin->on = false;
        PSI_IGNORE(uv_idle_stop(&spin->handle)); /* always 0 */
    }
    if (!spin->on || spin->bytes || spin->stirred) {
        return;
    }
    uint64_t now = now_ns();
    if (now - spin->quiet_ns >= spin->ns || now - spin->look_ns >= LATE_NS) {
        psi_spin_rest(spin);
        return;
    }
    PSI_IGNORE(sched_yield()); /* always 0 */
    spin->look_ns = now;
}

void psi_spin_anew(struct psi_spin *spin)
{
    if (!spin->bytes && !spin->stirred) {
        return;
    }
    if (spin->bytes && spin->bytes_ns - spin->quiet_ns < spin->ns) {
        spin->score += spin->score < SCORE_MAX;
    } else if (spin->bytes) {
        spin->score = spin->score > SCORE_LONG ? spin->score - SCORE_LONG : 0;
    }
    spin->bytes = false;
    spin->stirred = false;
    spin->quiet_ns = now_ns();
    /* with a score of 0, start() does not start the handle, and psi_spin_look() stops it if it runs */
    start(spin, spin->quiet_ns);
}
