/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that may change while a server runs (psd_server_set). */
#ifndef PSD_SERVER_SET_H
#define PSD_SERVER_SET_H

#include "psd/settings/settings.h"

/* Values given by other threads and not in force yet; under the server's mutex. */
struct psd_server_sets {
    bool given[PSD_ROWS];
    psd_server_options values; /* of those */
};

/** On the task's thread: what other threads have given is in force. */
void psd_server_sets_apply(psd_server *s);
/** psd_server_config_fn, and psd_server_options.config_set, of a program without any; server is the server. On the task's thread.
 * The text of a value is valid until the next call. */
bool psd_server_row(void *server, uint32_t i, const char **name, const char **value, const char **default_value,
                    const char **help, bool *reloadable);
PSI_MUST ps_status psd_server_row_set(void *server, const char *name, const char *value, char *error, size_t error_bytes);
/** The calling thread is that of s, from now on. */
void psd_server_is_mine(const psd_server *s);
/** How many connections a server may have at a time: its sessions and some, within the limit of open files. */
uint32_t psd_server_connections_max(uint32_t sessions_max);

#endif
