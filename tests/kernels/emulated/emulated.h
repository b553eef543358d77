/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA plugin on the host: its own sources, over a runtime and a cuBLAS of some functions each (libpsworker_emulated.so, for
 * tests, not installed; devices "emulated:N"). The threads of a kernel's block are coroutines that meet where the kernel has them
 * meet, in an order drawn anew each time: index arithmetic, ends, exchange between threads and the host half are what runs on a
 * card. Not emulated: the memory model, speed, and streams, which run at the call (the fake device has streams).
 *
 * What a card would not forgive ends the process with a text: memory that is not the device's, an exchange that not all lanes of
 * a warp reach, an address that a vector load may not have, memory left at the end.
 */
#ifndef EMULATED_H
#define EMULATED_H

#include <stddef.h>
#include <stdint.h>

struct emulated_settings {
    uint64_t seed;       /* of the order of threads */
    size_t memory_bytes; /* that cudaMalloc gives in all */
    int64_t fail_at;     /* this kernel or product from now on fails after its start, and CUDA with it; 0: none */
    uint32_t processors; /* of devices that are opened from now on */
    int driver;          /* version; 0: there is none */
    uint64_t launches;   /* so far */
    size_t used_bytes;   /* of memory_bytes */
    size_t pinned_bytes; /* of cudaHostAlloc, now */
    uint64_t resets;     /* cudaDeviceReset so far */
};

/** For tests in the same process: dlsym("emulated"). To be changed while nothing is under way. */
__attribute__((visibility("default"))) struct emulated_settings *emulated(void);

#endif
