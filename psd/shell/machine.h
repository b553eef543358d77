/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine and the parent process provide: memory, inherited sockets. */
#ifndef PSD_MACHINE_H
#define PSD_MACHINE_H

#include "common/status.h"

/** Bytes of memory that this process may use: the lowest limit of its cgroups, or the machine's memory. Never 0. Any thread. */
uint64_t psd_machine_memory_bytes(void);

/** Make the allocator give back free memory at the end of its heap, and join each small piece with its neighbours when it is
 * freed. For main() of a program, before the first thread starts. By default glibc keeps up to 64 MiB of free memory for each
 * thread, which psd_machine_give_back() does not give back. It joins small pieces only when a large one is asked for: after
 * 500,000 names were freed, that malloc() takes 20 ms or more. */
void psd_machine_keep_little(void);

/** Give the allocator's unused pages back to the system; does nothing if the C library has no call for that. Any thread. */
void psd_machine_give_back(void);

#define PSD_INHERITED_FIRST 3 /* first descriptor of sd_listen_fds(3) */
/** The number of sockets inherited by the LISTEN_FDS and LISTEN_PID protocol of sd_listen_fds(3); 0: none, or for another
 * process. Errors: INVALID_ARGUMENT when the variables make no sense. Does not change the environment. */
PSI_MUST ps_status psd_inherited_sockets(size_t *out_count, struct psi_err *err);

#endif
