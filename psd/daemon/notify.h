/* SPDX-License-Identifier: Apache-2.0 */
/* What psd tells the service manager that started it, by the protocol of sd_notify(3), without its library. Main thread only. */
#ifndef PSD_NOTIFY_H
#define PSD_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct psd_notify {
    int fd; /* -1: there is no service manager */
    socklen_t to_bytes;
    struct sockaddr_un to;
    int64_t watchdog_ms; /* longest time between two messages WATCHDOG=1; 0: the service manager wants none */
};

/**
 * Prepare to notify the service manager that has set these variables of psd's environment.
 *
 * socket_name    NOTIFY_SOCKET: a path, or @NAME for an abstract socket; NULL: none.
 * watchdog_usec  WATCHDOG_USEC, half of which becomes watchdog_ms; NULL: none.
 * watchdog_pid   WATCHDOG_PID: process that the watchdog is for; NULL: this one.
 * A value that makes no sense counts as absent: a service manager's mistake must not keep the daemon from serving.
 */
void psd_notify_open(struct psd_notify *n, const char *socket_name, const char *watchdog_usec, const char *watchdog_pid);
bool psd_notify_wanted(const struct psd_notify *n);
/** Send assignments, one a line ("READY=1\nSTATUS=serving"). Never blocks or fails: what cannot be delivered is lost. */
void psd_notify_send(const struct psd_notify *n, const char *lines);
void psd_notify_close(struct psd_notify *n);
/** True if fd goes to systemd's journal, by JOURNAL_STREAM (NULL: not set). Log lines may then begin with a priority, "<4>". */
bool psd_notify_journal(const char *journal_stream, int fd);
/** The journal's prefix, "<3>" to "<7>", for an enum psi_log_level. */
const char *psd_notify_priority(int level);

#endif
