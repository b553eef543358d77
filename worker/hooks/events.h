/* SPDX-License-Identifier: Apache-2.0 */
/* A file of events for TensorBoard, as it is written. */
#ifndef PSI_WORKER_EVENTS_H
#define PSI_WORKER_EVENTS_H

#include "common/status.h"
#include "event.pb.h"

#define PSI_EVENTS_DIR_BYTES_MAX 3800 /* of a directory's name, so that the file's fits PATH_MAX */

struct psi_events {
    bool open;
    int fd;
    char path[4096];
    uint8_t *buffer;  /* records that are not in the file yet */
    size_t used;      /* of it */
    uint64_t written; /* bytes of the file: whole records */
};

/** Make the directory, with those above it, and a new file in it with its version record. e is all zero, or closed. Errors: what
 * the system says (psi_fail_errno()), RESOURCE_EXHAUSTED; e is closed then. */
ps_status psi_events_open(struct psi_events *e, const char *dir, uint64_t unix_ms, struct psi_err *err) PSI_MUST;
/** Add a record; it is in the file after psi_events_flush(), or when many have come. Errors: as the next. */
ps_status psi_events_put(struct psi_events *e, const psi_events_Event *event, struct psi_err *err) PSI_MUST;
/** Errors: as a write of the file; what was added since the last one is not in the file. */
ps_status psi_events_flush(struct psi_events *e, struct psi_err *err) PSI_MUST;
/** What was not flushed is gone. One that is closed is fine. */
void psi_events_close(struct psi_events *e);

#endif
