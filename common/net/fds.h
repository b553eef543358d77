/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of this process's descriptors of connections and loops, so that a child made by fork() can close its copies. A
 * number is noted after the descriptor was opened, and dropped before it is closed, so that a noted number is never another
 * descriptor's. Any thread. Numbers of PSI_FDS_MAX and more are not noted: a child keeps their copies. */
#ifndef PSI_NET_FDS_H
#define PSI_NET_FDS_H

#include <uv.h>

enum { PSI_FDS_MAX = 65536 };

void psi_fds_note(int fd);
void psi_fds_drop(int fd);
void psi_fds_note_loop(const uv_loop_t *loop);
void psi_fds_drop_loop(const uv_loop_t *loop);
/** Call in a child of fork(): closes its copies of the noted descriptors. Does nothing in the parent. Async-signal-safe. */
void psi_fds_after_fork_child(void);

#endif
