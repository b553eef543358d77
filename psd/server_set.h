/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that may change while a server runs (psd_server_set). */
#ifndef PSD_SERVER_SET_H
#define PSD_SERVER_SET_H

#include "psd/settings/settings.h"

/* Values of settings that were given, and that the task's thread must still put into force. Under the server's mutex. */
struct psd_server_sets {
    bool given[PSD_ROWS];
    psd_server_options values;
};

/** Put the values of psd_server_sets into force at the task. On the task's thread. */
void psd_server_sets_apply(psd_server *s);
/** If a program gives neither psd_server_options.config_row nor config_set, psd_server_row() stands in for config_row, and
 * psd_server_row_set() for config_set. server: a psd_server. On the task's thread. *value is valid until the next call. */
bool psd_server_row(void *server, uint32_t i, const char **name, const char **value, const char **default_value,
                    const char **help, bool *reloadable);
PSI_MUST ps_status psd_server_row_set(void *server, const char *name, const char *value, char *error, size_t error_bytes);
/** Call on the task's thread of s: from now on psd_server_set() on this thread takes effect at once, without waking the loop. */
void psd_server_is_mine(const psd_server *s);
/** How many connections a server may have: sessions_max and 64 more, but no more than the limit of open files allows. */
uint32_t psd_server_connections_max(uint32_t sessions_max);

#endif
