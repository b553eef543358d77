/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine, and whoever started us, provide: memory, inherited sockets. */
#ifndef PSD_MACHINE_H
#define PSD_MACHINE_H

#include "common/status.h"

/** Bytes of memory that this process may use: the lowest limit of its cgroups (version 1 or 2), or the machine's memory. Never
 * 0. Any thread. */
uint64_t psd_machine_memory_bytes(void);

/** Make the allocator give back free memory at the end of its heap, and join each small piece with its neighbours when it is
 * freed. By default glibc keeps twice the largest piece that was ever freed there (at most 64 MiB), in every thread, and
 * psd_machine_give_back() does not reach it. By default it joins small pieces only when a large one is asked for: after 500,000
 * names have gone, that event takes 20 ms or more. It acts on the whole process: for programs, not for libraries. Call it before
 * the first thread starts. */
void psd_machine_keep_little(void);

/** Give pages back to the system that the allocator keeps and nobody uses, if the system has such a call. Any thread. */
void psd_machine_give_back(void);

#define PSD_INHERITED_FIRST 3 /* first descriptor of sd_listen_fds(3) */
/** The number of sockets inherited by the LISTEN_FDS and LISTEN_PID protocol of sd_listen_fds(3); 0: none, or for another
 * process. Errors: INVALID_ARGUMENT when the variables make no sense. Does not change the environment. */
PSI_MUST ps_status psd_inherited_sockets(size_t *out_count, struct psi_err *err);

#endif
