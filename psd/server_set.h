/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that may change while a server runs (psd_server_set). */
#ifndef PSD_SERVER_SET_H
#define PSD_SERVER_SET_H

#include "psd/settings/settings.h"

/* Values given by other threads and not yet in force. Under the server's mutex. */
struct psd_server_sets {
    bool given[PSD_ROWS];
    psd_server_options values; /* of the rows in given */
};

/** Put the values in force that other threads have given. On the task's thread. */
void psd_server_sets_apply(psd_server *s);
/** psd_server_config_fn and psd_server_options.config_set for a program without its own; server is a psd_server. On the task's
 * thread. A value's text is valid until the next call. */
bool psd_server_row(void *server, uint32_t i, const char **name, const char **value, const char **default_value,
                    const char **help, bool *reloadable);
PSI_MUST ps_status psd_server_row_set(void *server, const char *name, const char *value, char *error, size_t error_bytes);
/** The calling thread is the task's thread of s from now on. */
void psd_server_is_mine(const psd_server *s);
/** Connections that a server may have at a time: its sessions and some more, within the limit of open files. */
uint32_t psd_server_connections_max(uint32_t sessions_max);

#endif
