/* SPDX-License-Identifier: Apache-2.0 */
/* What psd tells the service manager that started it: the protocol of sd_notify(3), without its library. Main thread only. */
#ifndef PSD_NOTIFY_H
#define PSD_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct psd_notify {
    int fd; /* -1: no service manager listens */
    socklen_t to_bytes;
    struct sockaddr_un to;
    int64_t watchdog_ms; /* longest time between two WATCHDOG=1; 0: not asked for */
};

/**
 * socket_name    NOTIFY_SOCKET: a path, or @NAME for an abstract socket; NULL: none.
 * watchdog_usec  WATCHDOG_USEC, half of which becomes watchdog_ms; NULL: none.
 * watchdog_pid   WATCHDOG_PID: process that the watchdog is for; NULL: this one.
 * A value that makes no sense counts as absent: a service manager's mistake must not keep the daemon from serving.
 */
void psd_notify_open(struct psd_notify *n, const char *socket_name, const char *watchdog_usec, const char *watchdog_pid);
/** A service manager listens. */
bool psd_notify_wanted(const struct psd_notify *n);
/** Send assignments, one a line ("READY=1\nSTATUS=serving"). Never blocks, never fails: what cannot be delivered is lost. */
void psd_notify_send(const struct psd_notify *n, const char *lines);
void psd_notify_close(struct psd_notify *n);
/** True if fd goes to the journal: JOURNAL_STREAM (may be NULL) names its device and inode. Lines may then begin with a
 * priority, "<4>". */
bool psd_notify_journal(const char *journal_stream, int fd);
/** "<3>" to "<7>" of an enum psi_log_level. */
const char *psd_notify_priority(int level);

#endif
