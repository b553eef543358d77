/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds at one owner (docs/ARCHITECTURE.md: The life of one round). A group has the trainable variables of one container and its
 * global step, which may be on several tasks; this file is about one owner's variables. The directory decides when a round
 * closes, and psd/rounds/rounds.h carries out the directory's orders.
 *
 * A round at an owner has three steps. The CONTRIBUTEs of each member (changes BEGIN, SEGMENT) fill the member's area for each
 * variable. psd_rounds_build(), called for a piece at a time, adds the gradients by ascending task index of their members,
 * divides the sum once by their number, and makes new values and slots from this average; the old ones stay in use. The change
 * FLIP replaces the old values by the new ones, for all variables at once, and drops all contributions. A replay of changes
 * builds at the FLIP.
 *
 * All memory is reserved by requests that can be refused: the change ROUNDS reserves one copy of values and slots, ROUND_JOIN one
 * gradient of each variable. For a variable by rows a member reserves rows instead, and there is no copy (overlay.h). A member
 * that replaces an earlier member takes over its memory. Contributions and rounds need no further memory.
 *
 * With a limit on norms (max_norm) the averages are made once before the new values are built, to add up their squares. With
 * max_norm_each, each variable's own sum gives its factor. Otherwise the owner stops at PSD_BUILD_SUMMED and answers the PREPARE
 * with its sums; a BUILD then brings the joint factor, which the directory has computed from the sums of all owners. The
 * optimizer multiplies the average by the factor, as it multiplies the gradient of a push by the push's scale.
 *
 * Order: the sum starts with the first member's gradient times its scale. Each further gradient is multiplied and added, in the
 * variable's dtype. Then the sum is divided, and the optimizer runs with scale 1, or the factor. Slices, segments and order of
 * arrival change no bit of the result.
 *
 * A group of mode STALENESS only remembers members and options for the directory; pushes change its variables as usual. */
#ifndef PSD_ROUNDS_H
#define PSD_ROUNDS_H

#include "common/limits.h"
#include "common/list.h"
#include "common/squares.h"
#include "record.h"

enum psd_sync_mode { PSD_SYNC_NONE, PSD_SYNC_ROUNDS, PSD_SYNC_STALENESS };
/* What the sum of a row's gradients is divided by. TAKEN: the number of members in the round. HAD: the number of members that
 * sent the row. */
enum psd_rows_mean { PSD_ROWS_MEAN_TAKEN, PSD_ROWS_MEAN_HAD };
enum psd_on_loss { PSD_ON_LOSS_WAIT, PSD_ON_LOSS_SHRINK, PSD_ON_LOSS_FAIL };

/* Options of a group, set by the session that sets up the model (chief). Owners keep them to report them to the directory. */
struct psd_sync_options {
    /* remembered: */
    uint32_t mode;          /* enum psd_sync_mode */
    uint32_t workers;       /* number of workers that train; 0: all workers of the cluster spec */
    uint32_t replicas;      /* number of members whose contributions close a round; 0: all active members */
    uint32_t on_loss;       /* enum psd_on_loss */
    uint32_t staleness;     /* STALENESS: number of steps by which a member may be ahead of the slowest one */
    uint32_t max_norm_each; /* 1: max_norm limits each variable by itself; 0: all variables together */
    double max_norm;        /* limit of the norm of averages; 0: no limit */
    uint32_t rows_per_step; /* most rows that one member may contribute to one variable in one round */
    uint32_t rows_mean;     /* enum psd_rows_mean */
};

struct psd_owner {
    /* remembered: */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
};

/* The contribution of one member to one variable. */
struct psd_area {
    /* remembered: */
    /* the gradient so far, in the variable's dtype; by rows: with the layout in overlay.c. NULL: the group's mode is STALENESS */
    void *memory;
    float scale;   /* scale of the contribution; set when it is complete */
    uint64_t rows; /* by rows: number of rows; set when the contribution is complete */
    bool complete;
    struct psd_progress *from; /* derived: mutation that fills `memory` now; NULL: no mutation does */
    uint64_t next;             /* volatile: by rows: how many rows of the contribution are averaged already */
};

struct psd_member {
    struct psi_list link; /* derived: link in psd_rounds.members, by ascending task index */
    /* remembered: */
    uint64_t id; /* random number, a new one at each JOIN */
    uint8_t session[16];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    uint64_t round;         /* round of the newest complete contribution to some variable; 0: no contribution so far */
    uint64_t taken;         /* last committed round that included the member's contribution; 0: no round did */
    struct psd_area *areas; /* [part_count] */
};

struct psd_part {
    const struct psd_variable *variable; /* remembered: */
    bool by_rows;                        /* remembered: members contribute rows */
    struct psd_rounds *rounds;           /* derived: */
    uint64_t rows_max;                   /* derived: by rows: most rows that a member may contribute to a round */
    /* volatile: by rows: new rows of a round lie in a table of their own, the overlay (overlay.h), until they are copied to the
     * variable's own memory */
    uint64_t fresh; /* number of rows in the overlay; grows while the round is built */
    uint64_t home;  /* if in_force: how many rows of the overlay, from the first on, were copied to the variable's own memory */
    bool in_force;  /* the round is committed: readers get the rows that the overlay has from the overlay */
    /* volatile: second copy of value and slots, in which the next values are built. NULL: psd_part_has_copy() is false */
    void *value;
    void *slots[PSD_OPTIM_SLOTS_MAX];
    /* records by which the checkpoint being written copies these arrays (kept.h); NULL: it needs no copy */
    struct psd_kept *kept[1 + PSD_OPTIM_SLOTS_MAX];
    struct psd_sums sums;
};

/* State of the new values of the round that is being closed. */
enum psd_build {
    PSD_BUILD_NONE,
    PSD_BUILD_MISSING, /* not built: `missing` says which contributions are missing */
    PSD_BUILD_SUMS,    /* averages are being computed, and the squares of their elements added up */
    PSD_BUILD_SUMMED,  /* `sums` are complete; a BUILD or COMMIT must bring the joint factor for max_norm */
    PSD_BUILD_GOES,    /* new values are being built */
    PSD_BUILD_READY    /* the new values are complete; the old values are still in use */
};

/* A member whose contributions are missing, so that the new values of a round cannot be built. */
struct psd_missing {
    /* volatile: */
    uint64_t member;
    const struct psd_variable *variable; /* one of the variables without the contribution; NULL: no such member here */
    uint32_t count;                      /* number of variables without the member's contribution */
};

struct psd_rounds {
    /* remembered: */
    uint64_t generation; /* random number from the directory */
    struct psd_sync_options options;
    /* from the directory's last order: how many members must join before the first round begins; 0: it has begun */
    uint32_t awaited;
    /* from the directory's last order: a member has reported the end of its training since the last committed round */
    bool over;
    uint64_t committed;              /* last committed round (0: no round); contributions are collected for the next round */
    float factor;                    /* factor by which max_norm scaled all averages of the last committed round; 0: no factor */
    const struct psd_variable *step; /* variable of the global step; NULL: another task has it */
    struct psi_list members;         /* struct psd_member */
    struct psd_part *parts;          /* [part_count] by ascending creation of their variables */
    uint32_t part_count;
    uint32_t owner_count; /* number of tasks of the group, this task included */
    struct psd_owner *owners;
    /* derived: */
    const struct psd_container *container;
    uint32_t member_count;
    /* volatile: how far this task is with the current round, and which order (PREPARE, BUILD or COMMIT) it follows */
    enum psd_build build;
    /* life: random number of the directory process that sent the order; attempt: its attempt to close the round */
    uint64_t life, attempt;
    bool decided; /* true: the directory's decision has come, and the round is committed as soon as `build` is READY */
    /* GOES, READY: true if a SET_RATE takes effect with this round; `rate` is the new learning rate; 0: each optimizer's own */
    bool set_rate;
    double rate;
    float round_factor;  /* factor by which max_norm scales all averages of this round; 0: no factor, or not known yet */
    uint64_t round_step; /* GOES, READY: 1 + global step at which the round is built; 0: each variable's highest step is used */
    uint32_t source_count;
    /* from SUMS on: members whose contributions are taken, by ascending task index */
    const struct psd_member *sources[PS_MEMBERS_MAX];
    uint32_t share_count;
    /* members whose memory holds overlays in force: rows of the last round, not all copied to their variables yet */
    const struct psd_member *shares[PS_MEMBERS_MAX];
    uint32_t missing_count;
    struct psd_missing missing[PS_MEMBERS_MAX];
    uint32_t part;                     /* SUMS, GOES: index in `parts` of the variable that is being summed up or built */
    uint64_t done;                     /* SUMS, GOES: number of this variable's elements that the present pass has done */
    struct psi_squares squares;        /* SUMS: sum of the squares of this variable's average, over the elements done */
    double *sums;                      /* [part_count], with max_norm: sums of squares of the averages, from SUMMED or GOES on */
    bool measured;                     /* GOES: the first pass over this variable has computed its norms; the second goes on */
    struct psd_optim_norms norms;      /* GOES: norms of this variable, over the elements that the first pass has done */
    struct psd_optim_scalars *scalars; /* [part_count] GOES, READY: optimizers' scalars, captured when building began */
    /* link in psd_task.building, while psd_rounds_build() has values to build or rows to copy to their variables */
    struct psi_list building;
    /* connection that waits for the answer to a PREPARE, BUILD or COMMIT, with the request's id and op; NULL: none waits */
    void *ask_conn;
    uint64_t ask_id;
    uint8_t ask_op;
};

/** True if v is in a group of mode ROUNDS, so that gradients for v are contributions to a round. v may be any variable. */
bool psd_variable_in_rounds(const struct psd_variable *v);
/** True if a change of v would be lost now: the closing round has built or is building new values of v, or rows of the last round
 * will still be copied over v's own memory. */
bool psd_variable_is_built(const struct psd_variable *v);
/** True if v is in a group, or is the global step of a group. */
bool psd_variable_in_group(const struct psd_variable *v);
/** Check that v can be in rounds: a float variable that has a value and an optimizer. FAILED_PRECONDITION, INVALID_ARGUMENT. */
ps_status psd_part_check(const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** Check that members can contribute rows to v, which has passed psd_part_check(). INVALID_ARGUMENT, UNIMPLEMENTED. */
ps_status psd_part_rows_check(const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** True if new values of p's variable are built in a copy of the variable; false: in an overlay, or not at all (STALENESS). */
bool psd_part_has_copy(const struct psd_part *p);
/** Check that v can be the global step: one integer element that has a value. INVALID_ARGUMENT, FAILED_PRECONDITION. */
ps_status psd_step_check(const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** The step in v, for which psd_step_check() has returned PS_OK. */
uint64_t psd_step_value(const struct psd_variable *v);
/** Find the member of g with this id. NULL: there is no such member. */
const struct psd_member *psd_member_find(const struct psd_rounds *g, uint64_t member);
/** Find the member that is task `task` of job `job`. NULL: there is no such member. */
const struct psd_member *psd_member_at(const struct psd_rounds *g, const char *job, uint32_t task);
/** True if m has contributed to all of the group's variables here in the current round. */
bool psd_member_is_complete(const struct psd_rounds *g, const struct psd_member *m);
/** Find the area for the member's contribution to v. NULL: the contribution is dropped, because its round has ended or the member
 * is not in the group. The caller refuses a round that has not begun. */
struct psd_area *psd_area_find(const struct psd_variable *v, uint64_t member, uint64_t round);
/** Bytes of g's copies of values and slots, and of the memory for all members' contributions. */
uint64_t psd_rounds_memory_bytes(const struct psd_rounds *g);
/** Bytes of the records of all groups and members, computed anew to check what the budget has counted. */
uint64_t psd_rounds_record_bytes(const struct psd_store *s);
uint64_t psd_member_memory_bytes(const struct psd_rounds *g);

/* ---- memory for changes (commit.h) ---- */
struct psd_part_def {
    /* volatile: on a stack */
    uint64_t creation; /* creation of a variable that is in no group */
    uint64_t by_rows;  /* 1: members contribute rows; 0: whole gradients. 64 bits wide, so that the struct has no padding */
};
struct psd_rounds_def {
    /* volatile: on a stack */
    struct psd_sync_options options;
    uint32_t awaited;
    uint64_t generation;
    const struct psd_part_def *parts; /* by ascending creation */
    uint32_t count;
    uint32_t owner_count;
    const struct psd_owner *owners;
    const struct psd_variable *step; /* NULL: another task has the global step */
};
/** Bytes of the copies of values and slots that a group of this definition needs. */
uint64_t psd_rounds_copy_bytes(const struct psd_store *s, const struct psd_rounds_def *def);
ps_status psd_rounds_reserve(struct psd_store *s, const struct psd_container *c, const struct psd_rounds_def *def,
                             struct psd_rounds **out, struct psi_err *err) PSI_MUST;
ps_status psd_member_reserve(struct psd_store *s, const struct psd_rounds *g, struct psd_member **out,
                             struct psi_err *err) PSI_MUST;

/* ---- building (volatile: nothing remembered changes) ---- */
/** True if max_norm limits the norm of all averages together: the directory then gives each round a factor for all variables. */
bool psd_sync_is_joint(const struct psd_sync_options *o);
/** Begin to build new values for the current round from the contributions of these members. A member named twice counts once.
 * g->build becomes MISSING if contributions are missing, SUMS if norms have a limit and `factor` is 0, otherwise GOES. Without a
 * variable to build it becomes READY; SUMMED if only a joint factor is missing. What was built earlier from exactly these members
 * is kept in two cases: the round is decided and lacks no joint factor; or scalars of optimizers and factor have not changed.
 * decided: the round will certainly be committed. rate: learning rate to build with, which the variables keep after the commit;
 * 0: the optimizers' own rates; NULL: the rates in force. step: 1 + global step of the round; 0: not known. factor: joint factor
 * by which max_norm scales all averages; 0: not known, or no joint limit. */
void psd_rounds_build_begin(struct psd_rounds *g, const uint64_t *members, uint32_t count, bool decided, const double *rate,
                            uint64_t step, float factor);
/** True if g sums up averages, or builds new values: psd_rounds_build() must be called until it returns true. */
bool psd_rounds_is_building(const struct psd_rounds *g);
/** Do about `bytes` of memory traffic: first copy rows of the last round from overlays to their variables' own memory; when none
 * are left, sum up or build. True: nothing is left to do. */
bool psd_rounds_build(struct psd_rounds *g, uint64_t bytes);
void psd_rounds_build_end(struct psd_rounds *g);
/** True if new rows of the last round lie in an overlay, and are not yet copied to the variable's own memory. */
bool psd_rounds_are_not_home(const struct psd_rounds *g);
/** Copy all rows of all overlays in force to the memory of their variables, in one call. */
void psd_rounds_settle(struct psd_rounds *g);

void psd_rounds_check_invariants(const struct psd_rounds *g);

#endif
