/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine and whoever started us provide: memory, inherited sockets. */
#ifndef PSD_MACHINE_H
#define PSD_MACHINE_H

#include "common/status.h"

/** Memory that this process may use: the lowest limit of its cgroups (version 1 or 2), or the machine's. Never 0. Any thread. */
uint64_t psd_machine_memory_bytes(void);

/**
 * From now on the allocator gives back what is free at the end of its memory. glibc otherwise keeps twice the largest piece that
 * was ever freed there (at most 64 MiB), in every thread, and psd_machine_give_back() does not reach it. And each small piece is
 * joined with its neighbours when it is freed. glibc otherwise joins all of them when a large piece is asked for: after 500,000
 * names have gone, that one event takes 20 ms or more. For a program, not for a library: it is for the whole process. Call it
 * before the first thread starts.
 */
void psd_machine_keep_little(void);

/** Pages that the allocator keeps and nobody uses go back to the system, where it can do that. Any thread. */
void psd_machine_give_back(void);

#define PSD_INHERITED_FIRST 3 /* sd_listen_fds(3): descriptors count from here */
/**
 * Number of inherited sockets by the LISTEN_FDS and LISTEN_PID protocol of sd_listen_fds(3); 0 when there are none or they are
 * for another process. Errors: INVALID_ARGUMENT when the variables make no sense. Does not change the environment.
 */
PSI_MUST ps_status psd_inherited_sockets(size_t *out_count, struct psi_err *err);

#endif
