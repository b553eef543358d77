/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that may change while a server runs (psd_server_set). */
#ifndef PSD_SERVER_SET_H
#define PSD_SERVER_SET_H

#include "psd.h"

enum { PSD_SETS = 6 };
/* Values given by other threads and not in force yet; under the server's mutex. */
struct psd_server_sets {
    bool given[PSD_SETS];
    int64_t value[PSD_SETS];
};

/** On the task's thread: what other threads have given is in force. */
void psd_server_sets_apply(psd_server *s);
/** The calling thread is that of s, from now on. */
void psd_server_is_mine(const psd_server *s);
/** How many connections a server may have at a time: its sessions and some, within the limit of open files. */
uint32_t psd_server_connections_max(uint32_t sessions_max);

#endif
