/* SPDX-License-Identifier: Apache-2.0 */
/* The chiefs of containers: a chief is the session that sets the container's model up, and has a lease for this. The directory
 * gives each new chief a higher number than all before. For each container a task remembers the highest number seen, and the
 * session with this number; the directory also remembers which session has the lease. A reset of a container keeps its chief. */
#ifndef PSD_CHIEFS_H
#define PSD_CHIEFS_H

#include "common/limits.h"
#include "common/map.h"
#include "common/status.h"

struct psd_chief {
    /* remembered: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t number;     /* highest number seen or given; 0: a session has asked to be chief, and none has become it */
    char text[96];       /* name of the session with `number`, for errors; "": not known */
    uint8_t session[16]; /* directory: the session that last became chief (got the lease); zeros: no session */
    /* volatile: */
    uint64_t asked_ms; /* directory: when a session first asked in vain to be chief; 0: never */
    /* directory: `number` comes from a checkpoint that was loaded while no session was the container's chief */
    bool saved;
    uint64_t cut;       /* serial of the last cut (state saved for a checkpoint: cut.h) that contains this record */
    uint8_t failed[16]; /* directory: session of the chief under which the container's rounds failed last */
};

/* Budget bytes of a record with its map entry. A full budget refuses no record: without a chief training would stop. */
enum { PSD_CHIEF_BYTES = sizeof(struct psd_chief) + 24 + PSI_MAP_ENTRY_BYTES };

/** Find the record of the container's chief. NULL: this task knows no chief of the container. */
const struct psd_chief *psd_chief_find(const struct psi_map *chiefs, const char *container);
/** Directory: true if a session is noted as the container's chief (psd_chief.session). */
bool psd_chief_is_given(const struct psd_chief *chief);
/** Allocate a record for one more container. instead: the record will replace the record of another container, so PS_CHIEFS_MAX
 * is not checked. RESOURCE_EXHAUSTED: no memory, or PS_CHIEFS_MAX records exist. */
ps_status psd_chief_reserve(struct psi_map *chiefs, const char *container, bool instead, struct psd_chief **out,
                            struct psi_err *err) PSI_MUST;
void psd_chief_asked(const struct psd_chief *chief, uint64_t now_ms);
/** Set psd_chief.saved; chief NULL: do nothing. */
void psd_chief_note_saved(const struct psd_chief *chief);
/** Directory: note that synchronous rounds have failed under the present chief; chief NULL: do nothing. */
void psd_chief_note_failure(const struct psd_chief *chief);
/** True if the present chief is the one that psd_chief_note_failure() has noted. */
bool psd_chief_has_failed(const struct psd_chief *chief);
/** The highest chief number seen for the container; 0: this task has seen no number. */
uint64_t psd_chief_number(const struct psi_map *chiefs, const char *container);
void psd_chiefs_fini(struct psi_map *chiefs);

#endif
