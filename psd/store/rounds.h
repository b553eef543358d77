/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds at one owner (DESIGN §7). A group is the trainable variables of one container and its global step, which may be on
 * several tasks; here is the part of one owner. The directory decides when a round closes. psd/rounds/rounds.h has what an owner
 * decides.
 *
 * The life of a round here: CONTRIBUTE of each member (BEGIN, SEGMENT) fills the member's area of each variable ->
 * psd_rounds_build(), a piece at a time: gradients are added by ascending task index of their members, divided once by their
 * number, and give new values and slots beside those in use -> FLIP: the new ones replace the old ones, for all variables of the
 * group at once, and all contributions are dropped. A replay builds at the FLIP.
 *
 * Memory is reserved where it can be refused: one copy of values and slots with ROUNDS, one gradient of each variable with
 * ROUND_JOIN. A member that takes another's place takes over its memory. Contributions and rounds need no further memory.
 *
 * Bits: the sum starts with the first member's gradient times its scale. Each further gradient is multiplied and added, in the
 * variable's dtype. Then one division, then the optimizer with scale 1. Slices, segments and the order of arrival change no bit.
 *
 * A group of staleness only remembers members and options for the directory: its variables are pushed to as usual.
 */
#ifndef PSD_ROUNDS_H
#define PSD_ROUNDS_H

#include "common/limits.h"
#include "common/list.h"
#include "record.h"

enum psd_sync_mode { PSD_SYNC_NONE, PSD_SYNC_ROUNDS, PSD_SYNC_STALENESS };
enum psd_on_loss { PSD_ON_LOSS_WAIT, PSD_ON_LOSS_SHRINK, PSD_ON_LOSS_FAIL };

/* The chief's options of a group. The directory checks and follows them; owners remember them for the next directory. */
struct psd_sync_options {
    /* remembered: */
    uint32_t mode; /* enum psd_sync_mode */
    uint32_t workers;
    uint32_t replicas; /* contributions that close a round; 0: one of each worker */
    uint32_t on_loss;  /* enum psd_on_loss */
    uint32_t staleness;
};

/* A task that has variables of a group. */
struct psd_owner {
    /* remembered: */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
};

/* The contribution of one member to one variable. */
struct psd_area {
    /* remembered: */
    void *memory; /* as long as the value, in its dtype; filled as far as the contribution has come. NULL: staleness */
    float scale;  /* set once complete */
    bool complete;
    struct psd_progress *from; /* derived: push that fills the area now; NULL: none */
};

struct psd_member {
    struct psi_list link; /* derived: in the group, by ascending task index */
    /* remembered: */
    uint64_t id; /* random; new at each JOIN */
    uint8_t session[16];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    uint64_t round;         /* of the last contribution that came whole; 0: none */
    uint64_t taken;         /* last round that took the member's contribution; 0: none */
    struct psd_area *areas; /* [part_count] */
};

struct psd_part {
    const struct psd_variable *variable; /* remembered: */
    struct psd_rounds *rounds;           /* derived: */
    /* volatile: the other copy, where the next values are built */
    void *value;
    void *slots[PSD_OPTIM_SLOTS_MAX];
    struct psd_kept *kept[1 + PSD_OPTIM_SLOTS_MAX]; /* of these arrays, which were in use at the instant of a cut (kept.h) */
    struct psd_sums sums;
};

/* What an owner has built for the round that closes. */
enum psd_build {
    PSD_BUILD_NONE,
    PSD_BUILD_MISSING, /* a contribution is missing: see `missing` */
    PSD_BUILD_GOES,
    PSD_BUILD_READY /* the new values are complete, the old ones still in use */
};

/* A member that has not contributed to a variable. */
struct psd_missing {
    /* volatile: */
    uint64_t member;
    const struct psd_variable *variable; /* one of the variables; NULL: the member is not known here */
    uint32_t count;
};

struct psd_rounds {
    /* remembered: */
    uint64_t generation; /* random, by the directory */
    struct psd_sync_options options;
    /* members that must still join before the group opens, in the directory's last order; 0: it is open */
    uint32_t awaited;
    bool over;                       /* a member has finished, and no round has closed since, in the directory's last order */
    uint64_t committed;              /* last round that is committed, 0: none; the next one is being collected */
    const struct psd_variable *step; /* variable of the global step; NULL: it is at another task */
    struct psi_list members;         /* struct psd_member */
    struct psd_part *parts;          /* by ascending creation of their variables */
    uint32_t part_count;
    uint32_t owner_count; /* tasks of the group, this one too */
    struct psd_owner *owners;
    /* derived: */
    const struct psd_container *container;
    uint32_t member_count;
    /* volatile: the last PREPARE or COMMIT for the current round */
    enum psd_build build;
    uint64_t life, attempt; /* of the directory that asked, and its attempt */
    bool decided;           /* committed as soon as it is READY */
    bool set_rate; /* GOES, READY: built with `rate`, which the variables get at the flip. rate 0: their optimizers' own */
    double rate;
    uint64_t round_step; /* GOES, READY: 1 + global step that it is built at; 0: each variable's highest so far */
    uint32_t source_count;
    const struct psd_member *sources[PS_MEMBERS_MAX]; /* GOES, READY: who is taken, by ascending task index */
    uint32_t missing_count;
    struct psd_missing missing[PS_MEMBERS_MAX];
    uint32_t part;                     /* GOES: index of the part that is being built */
    uint64_t done;                     /* GOES: elements of that part that are built in this pass */
    bool measured;                     /* GOES: that part's optimizer needs norms, and this pass is the last one */
    struct psd_optim_norms norms;      /* GOES: of that part, as far as the first pass has come */
    struct psd_optim_scalars *scalars; /* [part_count]: GOES, READY: captured when building began */
    struct psi_list building;          /* GOES: in a list of the task */
    /* psd/rounds/rounds.c: connection of a PREPARE or COMMIT that waits for its answer; NULL: none */
    void *ask_conn;
    uint64_t ask_id;
    uint8_t ask_op;
};

/** Pushes to v are contributions. v may be any variable. */
bool psd_variable_in_rounds(const struct psd_variable *v);
/** New values of v are being built, or are READY. A change of its value now would be lost. */
bool psd_variable_is_built(const struct psd_variable *v);
/** v is in a group, or is its global step. */
bool psd_variable_in_group(const struct psd_variable *v);
/** Check that v can be in rounds: a float variable with a value and an optimizer. FAILED_PRECONDITION, INVALID_ARGUMENT. */
ps_status psd_part_check(const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** Check that v can count the steps: one integer, with a value. */
ps_status psd_step_check(const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** The value of v, which counts steps. */
uint64_t psd_step_value(const struct psd_variable *v);
/** NULL: the group has no such member. */
const struct psd_member *psd_member_find(const struct psd_rounds *g, uint64_t member);
/** The member in the place of this job and task. NULL: nobody. */
const struct psd_member *psd_member_at(const struct psd_rounds *g, const char *job, uint32_t task);
/** m has contributed to all variables of the group here in the current round. */
bool psd_member_is_complete(const struct psd_rounds *g, const struct psd_member *m);
/** The area for the member's contribution to v. NULL: the contribution is dropped, because its round is over or the member is not
 * in the group. The caller refuses a round that has not begun. */
struct psd_area *psd_area_find(const struct psd_variable *v, uint64_t member, uint64_t round);
/** Bytes that the group and its members have reserved. */
uint64_t psd_rounds_memory_bytes(const struct psd_rounds *g);
/** Budget bytes of the records of all groups and members, counted anew. */
uint64_t psd_rounds_record_bytes(const struct psd_store *s);
uint64_t psd_member_memory_bytes(const struct psd_rounds *g);

/* ---- memory for changes (commit.h) ---- */
struct psd_rounds_def {
    /* volatile: on a stack */
    struct psd_sync_options options;
    uint32_t awaited;
    uint64_t generation;
    const uint64_t *creations; /* of its variables, ascending; none is in another group */
    uint32_t count;
    uint32_t owner_count;
    const struct psd_owner *owners;
    const struct psd_variable *step; /* NULL: at another task */
};
ps_status psd_rounds_reserve(struct psd_store *s, const struct psd_container *c, const struct psd_rounds_def *def,
                             struct psd_rounds **out, struct psi_err *err) PSI_MUST;
ps_status psd_member_reserve(struct psd_store *s, const struct psd_rounds *g, struct psd_member **out,
                             struct psi_err *err) PSI_MUST;

/* ---- building (volatile: nothing remembered changes) ---- */
/** Begin to build new values from the contributions of these members to the current round. build becomes GOES, READY if nothing
 * is left to do, or MISSING. The scalars are captured now; if decided and these members' values are already built, those stay. A
 * member named twice counts once. rate: a learning rate that replaces those in force; the caller makes it permanent at the flip;
 * 0: the optimizers' own; NULL: those in force. step: 1 + global step of the round; 0: not known. */
void psd_rounds_build_begin(struct psd_rounds *g, const uint64_t *members, uint32_t count, bool decided, const double *rate,
                            uint64_t step);
/** Build until about `bytes` of memory were moved. True: READY. */
bool psd_rounds_build(struct psd_rounds *g, uint64_t bytes);
void psd_rounds_build_end(struct psd_rounds *g);

void psd_rounds_check_invariants(const struct psd_rounds *g);

#endif
