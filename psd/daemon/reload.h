/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP in the daemon: the configuration file is read again, and what may change while it runs changes. Main thread only. */
#ifndef PSD_RELOAD_H
#define PSD_RELOAD_H

#include "common/log.h"
#include "live.h"

struct psd_reload {
    struct psd_settings *settings; /* in force; what their file says becomes what it said last */
    int argc;                      /* of main; keeps */
    char **argv;
    struct psi_log log;
    psd_server *const *servers;    /* [count]; keeps */
    struct psd_live *const *lives; /* [count]; keeps */
    uint32_t count;
};

/** Read the file again, put what it changed in force at every task, say so in the log. */
void psd_reload(struct psd_reload *r);

#endif
