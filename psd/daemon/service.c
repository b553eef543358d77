/* SPDX-License-Identifier: Apache-2.0 */
/* What the service manager hears from the daemon.
 *
 * Happy path: READY=1 is sent when all tasks are ready; STATUS when counts have changed, at most every 5 s; WATCHDOG=1 while
 * every task's loop runs; RELOADING=1 and READY=1 around a SIGHUP; STOPPING=1 with the time that the drain may take. Failure:
 * while a task's loop stands still, the status names the task, and no WATCHDOG=1 is sent, so the manager restarts the daemon. */
#include "service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void psd_service_init(struct psd_service *s, psd_server *const *servers, uint64_t *turns, uint32_t count)
{
    memset(s, 0, sizeof(*s));
    s->servers = servers;
    s->turns = turns;
    s->count = count;
    psd_notify_open(&s->notify, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* Write a status such as "serving /job:ps/task:0 at 127.0.0.1:2222, 12 variables, 3 sessions" */
static void format_status(const struct psd_service *s, char *buf, size_t n)
{
    uint64_t variables = 0;
    uint64_t sessions = 0;
    uint32_t serving = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        psd_server_counts counts;
        psd_server_get_counts(s->servers[i], &counts, sizeof(counts));
        if (!psd_server_has_ended(s->servers[i])) {
            serving++;
            variables += counts.variables;
            sessions += counts.sessions;
        }
    }
    char rest[96];
    (void)snprintf(rest, sizeof(rest), "%" PRIu64 " variable%s, %" PRIu64 " session%s", variables, plural(variables), sessions,
                   plural(sessions));
    if (s->count == 1) {
        (void)snprintf(buf, n, "serving %s at %s, %s", psd_server_name(s->servers[0]), psd_server_address(s->servers[0]), rest);
    } else {
        (void)snprintf(buf, n, "serving %" PRIu32 " of %" PRIu32 " tasks, %s to %s, %s", serving, s->count,
                       psd_server_name(s->servers[0]), psd_server_name(s->servers[s->count - 1]), rest);
    }
}

static void send_status(struct psd_service *s, const char *before)
{
    char text[PSD_STATUS_BYTES_MAX + 32];
    (void)snprintf(text, sizeof(text), "%sSTATUS=%s", before, s->status);
    psd_notify_send(&s->notify, text);
}

void psd_service_ready(struct psd_service *s, uint64_t now_ms)
{
    if (s->phase != PSD_SERVICE_STARTING || !psd_notify_wanted(&s->notify)) {
        return;
    }
    s->phase = PSD_SERVICE_READY;
    s->status_ms = now_ms + PSD_STATUS_MS;
    s->watchdog_ms = now_ms + (uint64_t)s->notify.watchdog_ms; /* the manager expects the first WATCHDOG=1 counted from READY=1 */
    format_status(s, s->status, sizeof(s->status));
    send_status(s, "READY=1\n");
}

void psd_service_reloading(struct psd_service *s, bool begins, uint64_t now_ms)
{
    char text[64] = "READY=1";
    if (s->phase != PSD_SERVICE_READY) {
        return;
    }
    if (begins) {
        /* rounded up: MONOTONIC_USEC must not be before the manager's request for the reload */
        (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, (now_ms + 1) * 1000);
    }
    psd_notify_send(&s->notify, text);
}

void psd_service_stopping(struct psd_service *s, int64_t at_most_ms)
{
    char text[PSD_STATUS_BYTES_MAX];
    if (s->phase == PSD_SERVICE_STOPPING) {
        return;
    }
    s->phase = PSD_SERVICE_STOPPING;
    (void)snprintf(text, sizeof(text),
                   "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64 "\nSTATUS=draining for at most %" PRId64 ".%03" PRId64 " s",
                   at_most_ms * 1000, at_most_ms / 1000, at_most_ms % 1000);
    psd_notify_send(&s->notify, text);
}

/* Find the first task whose event loop stood still since the last call of this function. Returns its index; -1: there is none. */
static int64_t stuck(struct psd_service *s)
{
    int64_t found = -1;
    for (uint32_t i = 0; i < s->count; i++) {
        psd_server_counts counts;
        psd_server_get_counts(s->servers[i], &counts, sizeof(counts));
        if (counts.turns == s->turns[i] && !psd_server_has_ended(s->servers[i]) && found < 0) {
            found = i;
        }
        s->turns[i] = counts.turns;
    }
    return found;
}

static void watchdog(struct psd_service *s, uint64_t now_ms)
{
    int64_t task = stuck(s);
    s->watchdog_ms = now_ms + (uint64_t)s->notify.watchdog_ms;
    if (task < 0) {
        psd_notify_send(&s->notify, "WATCHDOG=1");
    } else {
        (void)snprintf(s->status, sizeof(s->status), "%s does not turn: no WATCHDOG=1", psd_server_name(s->servers[task]));
        send_status(s, "");
    }
}

static void status(struct psd_service *s, uint64_t now_ms)
{
    char text[PSD_STATUS_BYTES_MAX];
    s->status_ms = now_ms + PSD_STATUS_MS;
    format_status(s, text, sizeof(text));
    if (strcmp(text, s->status) != 0) {
        memcpy(s->status, text, sizeof(text));
        send_status(s, "");
    }
}

int psd_service_turn(struct psd_service *s, uint64_t now_ms)
{
    if (!psd_notify_wanted(&s->notify) || s->phase == PSD_SERVICE_STARTING) {
        return -1;
    }
    uint64_t next = UINT64_MAX;
    if (s->notify.watchdog_ms > 0) {
        if (now_ms >= s->watchdog_ms) {
            watchdog(s, now_ms);
        }
        next = s->watchdog_ms;
    }
    if (s->phase == PSD_SERVICE_READY) {
        if (now_ms >= s->status_ms) {
            status(s, now_ms);
        }
        next = s->status_ms < next ? s->status_ms : next;
    }
    if (next == UINT64_MAX) {
        return -1;
    }
    return next - now_ms < INT32_MAX ? (int)(next - now_ms) : INT32_MAX;
}

void psd_service_fini(struct psd_service *s)
{
    psd_notify_close(&s->notify);
}
