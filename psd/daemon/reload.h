/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP in the daemon: read the configuration file again, and change what may change while it runs. Main thread only. */
#ifndef PSD_RELOAD_H
#define PSD_RELOAD_H

#include "common/log.h"
#include "live.h"

struct psd_reload {
    struct psd_settings *settings; /* in force; reload replaces what it notes of the file */
    int argc;                      /* of main; keeps */
    char **argv;
    struct psi_log log;
    psd_server *const *servers;    /* [count]; keeps */
    struct psd_live *const *lives; /* [count]; keeps */
    uint32_t count;
};

/** Read the file again, put its changes in force at every task, and log them. */
void psd_reload(struct psd_reload *r);

#endif
