/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables in rounds at one owner (DESIGN §7): its part of a group, which is the trainable variables of one container and the
 * variable of the global step, wherever they are. Who decides when a round closes is the directory; what an owner decides itself
 * is in psd/rpc/rounds.c.
 *
 * The life of a round here: CONTRIBUTE of each member (BEGIN, SEGMENT) into its area of each variable -> psd_rounds_build(), a
 * piece at a time: gradients are added by ascending task index of their members, divided once by their number, and give new
 * values and slots beside those in use, which stay as they are -> FLIP: both change places, for all variables of the group at
 * once, and all that was contributed is dropped. A replay, which has built nothing, builds at the FLIP.
 *
 * Memory is reserved where it can be refused: one copy of values and slots with ROUNDS, one gradient of each variable with
 * ROUND_JOIN; a member that takes another's place takes its memory. No contribution and no round needs any.
 *
 * Bits: the sum starts with the first member's gradient times its scale, each further one is multiplied and added, in the
 * variable's dtype; then one division, then the optimizer with scale 1. Slices, segments and the order of arrival do not show.
 *
 * A group of staleness remembers members and options for the directory; its variables are pushed to as ever, nothing is built.
 */
#ifndef PSD_ROUNDS_H
#define PSD_ROUNDS_H

#include "common/limits.h"
#include "common/list.h"
#include "record.h"

enum psd_sync_mode { PSD_SYNC_NONE, PSD_SYNC_ROUNDS, PSD_SYNC_STALENESS };
enum psd_on_loss { PSD_ON_LOSS_WAIT, PSD_ON_LOSS_SHRINK, PSD_ON_LOSS_FAIL };

/* What the chief says of a group. The directory checks it, and acts by it; owners remember it for the next directory. */
struct psd_sync_options {
    /* remembered: */
    uint32_t mode;     /* enum psd_sync_mode */
    uint32_t workers;  /* N */
    uint32_t replicas; /* R; 0: all */
    uint32_t on_loss;  /* enum psd_on_loss */
    uint32_t staleness;
};

/* A task that has variables of a group. */
struct psd_owner {
    /* remembered: */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
};

/* What one member contributes to one variable. */
struct psd_area {
    /* remembered: */
    void *memory; /* as much as the value, in its dtype; as far as it has come. NULL: staleness */
    float scale;  /* complete */
    bool complete;
    struct psd_progress *from; /* derived: what fills it now; NULL: nothing */
};

/* A session that takes part. */
struct psd_member {
    struct psi_list link; /* derived: of the group, by ascending task index */
    /* remembered: */
    uint64_t id; /* random; new at each JOIN */
    uint8_t session[16];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    uint64_t round;         /* of the last contribution that came whole; 0: none has */
    uint64_t taken;         /* the last round that took what it contributed; 0: none */
    struct psd_area *areas; /* [part_count] */
};

/* A variable of a group. */
struct psd_part {
    const struct psd_variable *variable; /* remembered: */
    struct psd_rounds *rounds;           /* derived: */
    /* volatile: the other copy, where the next values are built */
    void *value;
    void *slots[PSD_OPTIM_SLOTS_MAX];
    struct psd_kept *kept[1 + PSD_OPTIM_SLOTS_MAX]; /* of these, which were in use at the instant of a cut: kept.h */
    struct psd_sums sums;
};

/* What an owner makes of the round that closes. */
enum psd_build {
    PSD_BUILD_NONE,    /* nothing */
    PSD_BUILD_MISSING, /* it cannot: `missing` says what has not been contributed */
    PSD_BUILD_GOES,    /* there is more to do */
    PSD_BUILD_READY    /* the new values are there, the old ones in use */
};

/* A member that has not contributed to a variable. */
struct psd_missing {
    /* volatile: */
    uint64_t member;
    const struct psd_variable *variable; /* one of them; NULL: the member is not known here */
    uint32_t count;                      /* of such variables */
};

struct psd_rounds {
    /* remembered: */
    uint64_t generation; /* random, by the directory */
    struct psd_sync_options options;
    uint32_t awaited;                /* as the directory said it last: members until it opens; 0: it is open */
    bool over;                       /* likewise: somebody has finished, and no round has been closed since */
    uint64_t committed;              /* round, 0: none; the one that is collected is the next */
    const struct psd_variable *step; /* of the global step; NULL: it is at another task */
    struct psi_list members;         /* struct psd_member */
    struct psd_part *parts;          /* by ascending creation of their variables */
    uint32_t part_count;
    uint32_t owner_count; /* tasks of the group, this one too */
    struct psd_owner *owners;
    /* derived: */
    const struct psd_container *container;
    uint32_t member_count;
    /* volatile: what was asked for last, of the round that is collected */
    enum psd_build build;
    uint64_t life, attempt; /* of the directory that asked */
    bool decided;           /* it is committed as soon as it is READY */
    bool set_rate;          /* GOES, READY: built with `rate`, which the variables get at the flip; 0: their optimizers' own */
    double rate;
    uint32_t source_count;
    const struct psd_member *sources[PS_MEMBERS_MAX]; /* GOES, READY: who is taken, by ascending task index */
    uint32_t missing_count;
    struct psd_missing missing[PS_MEMBERS_MAX];
    uint32_t part;                     /* GOES: of the next elements */
    uint64_t done;                     /* ... of which so many are there */
    struct psd_optim_scalars *scalars; /* [part_count]: GOES, READY: of that moment */
    struct psi_list building;          /* of the task: GOES */
    void *ask_conn;                    /* psd/rpc/rounds.c: where a PREPARE or COMMIT waits for its answer; NULL: none does */
    uint64_t ask_id;
    uint8_t ask_op;
};

/** Pushes to v are contributions. v may be any variable. */
bool psd_variable_in_rounds(const struct psd_variable *v);
/** New values of v are being built, or are there: what changes the value now would be lost. */
bool psd_variable_is_built(const struct psd_variable *v);
/** v is a variable of a group, or its global step. */
bool psd_variable_in_group(const struct psd_variable *v);
/** May v be in rounds: a float variable with a value and an optimizer. FAILED_PRECONDITION, INVALID_ARGUMENT. */
ps_status psd_part_check(const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** May v count the steps: one integer, with a value. */
ps_status psd_step_check(const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** Its value. */
uint64_t psd_step_value(const struct psd_variable *v);
/** NULL: it is not one of the group. */
const struct psd_member *psd_member_find(const struct psd_rounds *g, uint64_t member);
/** Who has this place, of which there is one for each job and task; NULL: nobody. */
const struct psd_member *psd_member_at(const struct psd_rounds *g, const char *job, uint32_t task);
/** It has contributed to all variables of the group here, in the round that is collected. */
bool psd_member_is_complete(const struct psd_rounds *g, const struct psd_member *m);
/** Where the member's contribution to v, in rounds, goes now; NULL: nowhere, it is dropped: its round is over, or the member is
 * not one of the group. A round that has not begun is the caller's to refuse. */
struct psd_area *psd_area_find(const struct psd_variable *v, uint64_t member, uint64_t round);
/** Of all that the group has reserved, members too. */
uint64_t psd_rounds_memory_bytes(const struct psd_rounds *g);
/** What the records of all groups and of their members take of the budget, counted anew. */
uint64_t psd_rounds_record_bytes(const struct psd_store *s);
/** What a member reserves. */
uint64_t psd_member_memory_bytes(const struct psd_rounds *g);

/* ---- memory for changes (commit.h) ---- */
/* A group, as it begins. */
struct psd_rounds_def {
    /* volatile: on a stack */
    struct psd_sync_options options;
    uint32_t awaited;
    uint64_t generation;
    const uint64_t *creations; /* of its variables, ascending; none of them is in another one */
    uint32_t count;
    uint32_t owner_count;
    const struct psd_owner *owners;
    const struct psd_variable *step; /* NULL: at another task */
};
ps_status psd_rounds_reserve(struct psd_store *s, const struct psd_container *c, const struct psd_rounds_def *def,
                             struct psd_rounds **out, struct psi_err *err) PSI_MUST;
ps_status psd_member_reserve(struct psd_store *s, const struct psd_rounds *g, struct psd_member **out,
                             struct psi_err *err) PSI_MUST;

/* ---- what is built (volatile: changes nothing that is remembered) ---- */
/** New values out of what these members have contributed, in the round that is collected; with the scalars of this moment, or,
 * decided, those of what was built for the same members before. build is GOES, READY where it is all there, or MISSING. Ids that
 * come twice count once. rate: a learning rate in place of those in force, 0: the optimizers' own; NULL: those in force. The
 * caller sets it for good at the flip. */
void psd_rounds_build_begin(struct psd_rounds *g, const uint64_t *members, uint32_t count, bool decided, const double *rate);
/** About `bytes` of memory more. True when it is READY. */
bool psd_rounds_build(struct psd_rounds *g, uint64_t bytes);
/** NONE. */
void psd_rounds_build_end(struct psd_rounds *g);

void psd_rounds_check_invariants(const struct psd_rounds *g);

#endif
