/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake device: a kernel plugin for tests (libpsworker_fake.so, not installed) that computes on the CPU as a GPU would: later,
 * elsewhere, and in an order that only events decide.
 *
 * Each stream is a thread; before each piece of work it sleeps for a time drawn from the seed. Addresses fault when the host uses
 * them. Memory is poisoned (NaN, -1) when it is made and when it is freed. Whatever the contract of kernels.h forbids ends the
 * process with a text: a copy from or to memory that is not pinned, memory freed while work uses it, an address outside of
 * buffers, a device closed with buffers left. Work can be made to fail, and memory to be short.
 */
#ifndef PSK_FAKE_H
#define PSK_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psk_fake_settings {
    uint64_t seed;         /* PSK_FAKE_SEED */
    uint32_t delay_us_max; /* before a piece of work; PSK_FAKE_DELAY_US */
    uint32_t devices;      /* PSK_FAKE_DEVICES; 1 */
    size_t memory_bytes;   /* of a device that is opened from now on; PSK_FAKE_MEMORY */
    int64_t fail_at;       /* this operation from now on fails after it was submitted; 0: none; PSK_FAKE_FAIL_AT */
    const char *warning;   /* of the properties; NULL: none */
    int64_t refuse_at;     /* this submission of work from now on is refused; 0: none */
    bool no_pinned;        /* the host's memory cannot be pinned */
    int64_t unmarked_at;   /* this event from now on is not recorded; 0: none */
    /* counted since the plugin was loaded */
    uint64_t runs, copies_in, copies_out;
};

/** For tests in the same process: dlsym("psk_fake"). To be changed while nothing is under way. */
struct psk_fake_settings *psk_fake(void);

#endif
