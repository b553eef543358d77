/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a file of events for TensorBoard. */
#ifndef PSI_WORKER_EVENTS_H
#define PSI_WORKER_EVENTS_H

#include "common/status.h"
#include "event.pb.h"

#define PSI_EVENTS_DIR_BYTES_MAX 3800 /* limit of a directory's path, so that the file's path fits PATH_MAX */

struct psi_events {
    bool open;
    int fd;
    char path[4096];
    uint8_t *buffer; /* records that psi_events_flush() has not written yet */
    size_t used;
    uint64_t written; /* bytes of the file: whole records only */
};

/** Make the directory with its parents, and in it a new file with the version record. The caller has zeroed or closed e. After an
 * error e is closed: RESOURCE_EXHAUSTED (no memory), or an error of the system (psi_fail_errno()). */
ps_status psi_events_open(struct psi_events *e, const char *dir, uint64_t unix_ms, struct psi_err *err) PSI_MUST;
/** Add a record to the buffer. If the buffer has no room, it is written first. Errors: as psi_events_flush(). */
ps_status psi_events_put(struct psi_events *e, const psi_events_Event *event, struct psi_err *err) PSI_MUST;
/** Write the buffer to the file. After an error of a write, the file lacks all records since the last flush. */
ps_status psi_events_flush(struct psi_events *e, struct psi_err *err) PSI_MUST;
/** Close without writing the buffer. A closed e is allowed. */
void psi_events_close(struct psi_events *e);

#endif
