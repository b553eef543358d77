/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chiefs of containers: for each container the highest chief number that this task has seen, and who has it; at the directory
 * also which session was given the lease. Kept over a reset of the container. Changes in psd_commit() only.
 */
#ifndef PSD_CHIEFS_H
#define PSD_CHIEFS_H

#include "common/limits.h"
#include "common/map.h"
#include "common/status.h"

struct psd_chief {
    /* remembered: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t number;     /* highest seen or given; 0: somebody has only asked for it */
    char text[96];       /* who has it: for errors; empty: not known */
    uint8_t session[16]; /* directory: that was given the lease last; zeros: none */
    /* volatile: */
    uint64_t asked_ms;  /* directory: since when, where it was not granted; 0: it was not asked for */
    bool saved;         /* directory: only a checkpoint says this number, of a time of which nothing lived when it was loaded */
    uint64_t cut;       /* the last one that has it: cut.h */
    uint8_t failed[16]; /* directory: the session under which the rounds of the container have failed last */
};

/* what one record takes of the budget, with its entry of the map. A full budget refuses none, because a process with a model
 * must be able to go on. There are PS_CHIEFS_MAX at most */
enum { PSD_CHIEF_BYTES = sizeof(struct psd_chief) + 24 + PSI_MAP_ENTRY_BYTES };

/** NULL: the container never had one, as far as this task knows. */
const struct psd_chief *psd_chief_find(const struct psi_map *chiefs, const char *container);
/** Directory: this life of it has given the lease to somebody. */
bool psd_chief_is_given(const struct psd_chief *chief);
/** Memory for one more, or, with `instead`, for one in another one's place. RESOURCE_EXHAUSTED, also above PS_CHIEFS_MAX. */
ps_status psd_chief_reserve(struct psi_map *chiefs, const char *container, bool instead, struct psd_chief **out,
                            struct psi_err *err) PSI_MUST;
/** A note: it was asked for first at that time. */
void psd_chief_asked(const struct psd_chief *chief, uint64_t now_ms);
/** A note: only a checkpoint says its number. NULL is fine. */
void psd_chief_note_saved(const struct psd_chief *chief);
/** Directory, a note: what its session has made ready is no more, for the rounds of it have failed. NULL is fine. */
void psd_chief_note_failure(const struct psd_chief *chief);
/** That is so of the session that has the lease now. */
bool psd_chief_has_failed(const struct psd_chief *chief);
/** The highest number seen for the container; 0: none. */
uint64_t psd_chief_number(const struct psi_map *chiefs, const char *container);
void psd_chiefs_fini(struct psi_map *chiefs);

#endif
