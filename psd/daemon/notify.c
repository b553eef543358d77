/* SPDX-License-Identifier: Apache-2.0 */
/* sd_notify(3) over one datagram socket.
 *
 * Happy path: NOTIFY_SOCKET names a Unix datagram socket; each message is one datagram of NAME=VALUE lines. Failure modes:
 * without a usable NOTIFY_SOCKET nothing is sent; while the socket is full, messages are lost. */
#include "notify.h"

#include "common/log.h"
#include "common/name.h"
#include "common/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t watchdog_ms(const char *usec, const char *pid)
{
    uint64_t period = 0;
    uint64_t who = 0;
    if (usec == NULL || !psi_number_read(usec, strlen(usec), INT64_MAX, &period) || period == 0) {
        return 0;
    }
    if (pid != NULL && (!psi_number_read(pid, strlen(pid), UINT64_MAX, &who) || who != (uint64_t)getpid())) {
        return 0;
    }
    int64_t half = (int64_t)(period / 2000u);
    return half > 0 ? half : 1;
}

void psd_notify_open(struct psd_notify *n, const char *socket_name, const char *watchdog_usec, const char *watchdog_pid)
{
    memset(n, 0, sizeof(*n));
    n->fd = -1;
    size_t len = socket_name == NULL ? 0 : strlen(socket_name);
    if (len < 2 || len >= sizeof(n->to.sun_path) || (socket_name[0] != '/' && socket_name[0] != '@')) {
        return;
    }
    n->to.sun_family = AF_UNIX;
    memcpy(n->to.sun_path, socket_name, len);
    bool abstract = socket_name[0] == '@';
    if (abstract) {
        n->to.sun_path[0] = '\0';
    }
    n->to_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (abstract ? 0 : 1));
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    n->watchdog_ms = n->fd >= 0 ? watchdog_ms(watchdog_usec, watchdog_pid) : 0;
}

bool psd_notify_wanted(const struct psd_notify *n)
{
    return n->fd >= 0;
}

void psd_notify_send(const struct psd_notify *n, const char *lines)
{
    if (n->fd >= 0) {
        PSI_IGNORE(
            sendto(n->fd, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&n->to, n->to_bytes));
    }
}

void psd_notify_close(struct psd_notify *n)
{
    if (n->fd >= 0) {
        PSI_IGNORE(close(n->fd));
    }
    n->fd = -1;
}

bool psd_notify_journal(const char *journal_stream, int fd)
{
    char expected[64];
    struct stat st;
    if (journal_stream == NULL || fstat(fd, &st) != 0) {
        return false;
    }
    (void)snprintf(expected, sizeof(expected), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return strcmp(journal_stream, expected) == 0;
}

const char *psd_notify_priority(int level)
{
    switch (level) {
    case PSI_LOG_DEBUG:
        return "<7>";
    case PSI_LOG_INFO:
        return "<6>";
    case PSI_LOG_WARN:
        return "<4>";
    default:
        return "<3>";
    }
}
