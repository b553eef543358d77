/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chiefs of containers: for each container the highest chief number that this task has seen, and who has it. The
 * directory also
 * notes which session was given the lease. A chief is kept over a reset of its container, and changes in psd_commit() only.
 */
#ifndef PSD_CHIEFS_H
#define PSD_CHIEFS_H

#include "common/limits.h"
#include "common/map.h"
#include "common/status.h"

struct psd_chief {
    /* remembered: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t number;     /* highest seen or given; 0: a session has only asked for a number */
    char text[96];       /* who has the number, for errors; empty: not known */
    uint8_t session[16]; /* directory: session that was given the lease last; zeros: none */
    /* volatile: */
    uint64_t asked_ms;  /* directory: when the lease was first asked for and not granted; 0: nobody has asked */
    bool saved;         /* directory: only a checkpoint says this number, and nothing lived when that checkpoint was loaded */
    uint64_t cut;       /* serial of the last cut that has this record (cut.h) */
    uint8_t failed[16]; /* directory: session under which the container's rounds failed last */
};

/* Budget bytes of a record with its map entry. A full budget refuses no record, because a process with a model must be able
 * to go on. There are PS_CHIEFS_MAX at most. */
enum { PSD_CHIEF_BYTES = sizeof(struct psd_chief) + 24 + PSI_MAP_ENTRY_BYTES };

/** NULL: this task knows of no chief of the container. */
const struct psd_chief *psd_chief_find(const struct psi_map *chiefs, const char *container);
/** Directory: a session was given the lease in this life of the directory. */
bool psd_chief_is_given(const struct psd_chief *chief);
/** Allocate a record for one more container or, if `instead`, in place of another container's. RESOURCE_EXHAUSTED, also above
 * PS_CHIEFS_MAX. */
ps_status psd_chief_reserve(struct psi_map *chiefs, const char *container, bool instead, struct psd_chief **out,
                            struct psi_err *err) PSI_MUST;
/** Note when the lease was first asked for. */
void psd_chief_asked(const struct psd_chief *chief, uint64_t now_ms);
/** Note that only a checkpoint says the number. NULL is fine. */
void psd_chief_note_saved(const struct psd_chief *chief);
/** Directory: note that the rounds of the session that has the lease have failed. NULL is fine. */
void psd_chief_note_failure(const struct psd_chief *chief);
/** psd_chief_note_failure() has noted the session that has the lease now. */
bool psd_chief_has_failed(const struct psd_chief *chief);
/** The highest number seen for the container; 0: none. */
uint64_t psd_chief_number(const struct psi_map *chiefs, const char *container);
void psd_chiefs_fini(struct psi_map *chiefs);

#endif
