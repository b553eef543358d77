/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that a child of fork() closes: one bit for each number, changed by atomic operations. There is no lock, because in
 * the child a thread that no longer exists might hold it. Failure mode: if a thread forks after a descriptor was opened and
 * before psi_fds_note(), the child keeps its copy. */
#include "fds.h"

#include "../status.h"

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

enum { WORD_BITS = 64, WORDS = PSI_FDS_MAX / WORD_BITS };

static _Atomic(uint64_t) noted[WORDS];
static atomic_int owner; /* pid of the process that noted the descriptors; 0: nothing was noted */

static uint64_t bit_of(int fd)
{
    return UINT64_C(1) << (fd % WORD_BITS);
}

void psi_fds_note(int fd)
{
    int pid = (int)getpid();
    if (fd < 0 || fd >= PSI_FDS_MAX) {
        return;
    }
    /* another pid: this is a child of fork(). Forget the parent's numbers, which may belong to other files by now */
    if (atomic_exchange(&owner, pid) != pid) {
        for (int i = 0; i < WORDS; i++) {
            atomic_store(&noted[i], 0);
        }
    }
    (void)atomic_fetch_or(&noted[fd / WORD_BITS], bit_of(fd));
}

void psi_fds_drop(int fd)
{
    if (fd >= 0 && fd < PSI_FDS_MAX) {
        (void)atomic_fetch_and(&noted[fd / WORD_BITS], ~bit_of(fd));
    }
}

static void each_of_loop(const uv_loop_t *loop, void (*change)(int fd))
{
    change(loop->backend_fd);
    change(loop->async_io_watcher.fd);
    change(loop->async_wfd);
    change(loop->signal_pipefd[0]);
    change(loop->signal_pipefd[1]);
}

void psi_fds_note_loop(const uv_loop_t *loop)
{
    each_of_loop(loop, psi_fds_note);
}

void psi_fds_drop_loop(const uv_loop_t *loop)
{
    each_of_loop(loop, psi_fds_drop);
}

void psi_fds_after_fork_child(void)
{
    if (atomic_load(&owner) == (int)getpid()) {
        return;
    }
    for (int i = 0; i < WORDS; i++) {
        uint64_t word = atomic_exchange(&noted[i], 0);
        for (int bit = 0; word != 0; bit++, word >>= 1) {
            if ((word & 1) != 0) {
                PSI_IGNORE(close(i * WORD_BITS + bit));
            }
        }
    }
}
