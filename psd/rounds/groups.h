/* SPDX-License-Identifier: Apache-2.0 */
/* Groups at the directory (docs/PROTOCOL.md "Rounds"). A group is the set of workers that train one container's variables in
 * synchronous rounds. The directory decides who takes part, when a round closes, and what each owner (a ps task with variables of
 * the group) has to do for it (psd/rounds/rounds.h). Groups are volatile: after a restart the directory asks the owners.
 *
 * group.c decides: pure functions map the members and owners of one group to its next phase. group_orders.c sends the decisions
 * to the owners, one order at a time, and takes in their answers. groups.c has the requests of client sessions, group_text.c the
 * texts for people. An event only sets t->rounds_moved; at its end psd_groups_turn() decides, sends orders and ends requests
 * until nothing changes. A group's next step depends on its state alone, so a lost order is sent again. */
#ifndef PSD_DIRECTORY_ROUNDS_H
#define PSD_DIRECTORY_ROUNDS_H

#include "rounds.h"

#include "psd/base/orders.h"
#include "psd/session/wait.h"

enum { PSD_LEADS = 17 /* size of psd_group.leads: one counter for each lead of 0 to 15 steps, one for 16 or more */ };

enum psd_group_phase {
    PSD_GROUP_SETTING,    /* the directory tells the owners (ps tasks with the group's variables) of the new group */
    PSD_GROUP_RECOVERING, /* the directory was restarted, and not all owners have reported yet what they have of the group */
    PSD_GROUP_COLLECTING, /* members (workers) join and contribute gradients; no attempt to close the round is under way */
    PSD_GROUP_PREPARING,  /* the owners compute the round's new values, but do not show them yet */
    PSD_GROUP_COMMITTING, /* the round is decided: owners are told to show the new values (COMMIT) */
    /* owners are told to drop the group; its requests get `failure` until a client sets up a new group (SYNC) */
    PSD_GROUP_FAILED,
    PSD_GROUP_ENDING, /* owners are told to drop the group, which is freed afterwards */
    PSD_GROUP_PHASES
};

struct psd_group_member {
    struct psi_list link; /* in group->members, sorted by task index of the worker */
    uint64_t id;          /* random */
    uint8_t session[16];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    bool active;   /* takes part in the round under way; false: waits to enter the group, or is gone */
    bool complete; /* its STEP has reported that its contribution to this round is complete */
    bool taken;    /* the current attempt to close the round includes its contribution */
    bool lost;     /* its session has no lease, and grace_ms is past; or `resigned` or `vacant` is set */
    bool resigned; /* the worker sent LEAVE with data left; it counts as lost */
    bool leaving;  /* the worker has left or is lost, but the contribution counts; the member is gone when the round ends */
    bool departed; /* its worker has finished its data and left */
    /* the session is no longer a member; the record stays so that a new session of this job and task can replace it */
    bool vacant;
    /* with staleness: true until the session tells this directory its number of steps; until then `steps` is a lower bound */
    bool unknown;
    bool by_beat; /* with staleness: `steps` comes from a BEAT of the session, not from a STEP */
    bool gone;    /* takes part no more; freed when all owners have dropped it */
    /* the session was closed while no other member was at work. Its process may open one other session before grace_ms */
    bool excused;
    uint64_t process;  /* hash of the host and pid of its session (psd_group_process()); 0: not known */
    uint64_t since_ms; /* when its present state (waiting, at work, complete, lost or gone) began */
    /* a member whose session has no lease is lost from this time on; 0: at once. Set by an owner's report, or with `excused` */
    uint64_t grace_ms;
    uint64_t last_taken; /* the last round whose values have its contribution; 0: no round */
    uint64_t steps;      /* with staleness: training steps that its worker has finished */
    bool *at;            /* array, one for each owner: true if the owner knows the member, as far as the directory knows */
    struct psi_err err;  /* why its JOIN or STEP request fails; code PS_OK: it does not fail */
};

enum psd_group_at { PSD_GROUP_NOT_THERE, PSD_GROUP_OTHER /* some group, maybe this one */, PSD_GROUP_THERE };

struct psd_group_owner {
    bool part;            /* at least one variable of the group lies on this ps task */
    enum psd_group_at at; /* whether the owner has this group, or another group of the container, as far as the directory knows */
    bool told;            /* the report that the owner is sending now has named this group */
    /* prepared: the owner may hold new values or sums of some attempt. ready: it has computed those of the present attempt */
    bool prepared, ready;
    /* with a limit on the joint norm of all averages: psd_group.sums has this owner's sums for the present attempt */
    bool summed;
    float factor;       /* factor of the owner's last committed round, as the owner reported it; 0: no factor */
    uint64_t committed; /* the last round that the owner has committed; 0: no round */
    uint32_t awaited;   /* psd_rounds.awaited and .over, as the owner reported them */
    bool over;
    bool lost;     /* the owner has variables of the group, but its report lacked the group */
    uint8_t asked; /* operation of the last order to this owner while unanswered; 0: every order is answered */
    /* of the order `asked`: its request id; the attempt that it names (0: no attempt); the id of the member that it names, or 1
     * for a TASK_ROUNDS that ends the group */
    uint64_t ask_id, asked_attempt, asked_member;
};

/* Remembers a freed member: its session may repeat a STEP whose answer it did not get. */
struct psd_group_past {
    uint64_t member;     /* 0: no member */
    uint64_t last_taken; /* last round whose values include the member's contribution */
};

/* A variable's part of the joint norm: the sum of the squares of its averaged gradient. */
struct psd_group_sum {
    double squares;
    uint32_t order; /* psd_variable.order */
    uint32_t owner; /* peer index */
};

/* A learning rate that a client sets for all variables of a group (SET_RATE). */
struct psd_group_rate {
    uint64_t token;    /* random number of the client, to recognise a repeated SET_RATE; 0: no client has asked for a rate */
    double rate;       /* the learning rate; 0: each optimizer's own learning rate applies again */
    uint64_t until_ms; /* an attempt begun after this time ignores the rate, because the client has stopped asking */
};

struct psd_group {
    struct psi_list link;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t generation;
    struct psd_sync_options options;
    enum psd_group_phase phase;
    uint64_t round; /* number of the round under way, from 1; the last closed round is round - 1 */
    /* the global step, as last reported by the ps task that has it; in COMMITTING it may already count the round under way */
    uint64_t step;
    uint64_t attempt; /* number of the attempt to close the round at all owners, while PREPARING or COMMITTING */
    /* PREPARING, COMMITTING: 1 + the global step before this round; 0: unknown, after a restart of the directory */
    uint64_t round_step;
    /* with a limit on the joint norm: the factor for all averages, sent to owners with BUILD and COMMIT; 0: not known yet */
    float factor;
    struct psi_buf sums; /* PREPARING: array of struct psd_group_sum, collected from the answers of the owners */
    uint32_t workers;    /* members that must join before the first round opens: full - gone */
    uint32_t full;       /* number of workers in the training, including the finished ones */
    uint32_t gone;       /* workers that have finished and will not come back */
    bool used;           /* some member has joined since the group was set up, or since the last training ended */
    bool over;           /* a member has finished its data, and since then no round was closed and no training begun */
    /* opened: enough members have entered, so rounds may close. failing: the group fails after the commit of a decided round */
    bool opened, failing;
    bool anew; /* a training has ended, and psd_training_over() has not been called for its end yet */
    struct psi_err failure;
    bool noted; /* psd_chief_note_failure() was called for this failure */
    struct psi_list members;
    struct psi_u64_map by_id;           /* member id -> struct psd_group_member */
    uint32_t member_count, owner_count; /* owner_count: the number of peers */
    struct psd_group_owner *owners;     /* [owner_count], by peer index */
    struct psi_list waiters;            /* requests SYNC, JOIN, STEP and LEAVE that wait, as struct psd_need */
    struct psd_group_past *past;        /* ring of PS_MEMBERS_MAX records of former members, for STEPs that they repeat */
    uint32_t past_count;                /* how many records were ever put into the ring, modulo 2^32 */
    uint64_t since_ms;                  /* when the present round began, or when the group began to wait for members */
    /* rate_asked: rate for the next attempt, unless it is too old by then. rate_taken: rate sent with the present attempt */
    struct psd_group_rate rate_asked, rate_taken;
    uint64_t rate_done; /* token of the last rate that is in force on all owners */
    /* no round closes before this time, so that a client can set a learning rate on one ps task after the other; 0: no hold */
    uint64_t hold_until_ms;
    uint64_t dropped; /* number of contributions that came too late for their round */
    /* with staleness: leads[i] counts the STEPs after which the member was i steps ahead of the slowest one */
    uint64_t leads[PSD_LEADS];
};

/* ---- group.c: decisions ---- */
struct psd_group *psd_group_find(const struct psd_task *t, const char *container);
/** Allocate a group; psd_group_begin() sets it up. seed: a random number for hashing. NULL: no memory. */
struct psd_group *psd_group_new(uint32_t owner_count, const char *container, uint64_t seed);
/** Free g and its members. Precondition: no request waits for g. */
void psd_group_free(struct psd_group *g);
/** Set g up anew: SETTING, round 1, no members, no owner with variables. workers: how many workers the training has (`full`). */
void psd_group_begin(struct psd_group *g, uint64_t generation, const struct psd_sync_options *o, uint32_t workers);
/** Add a member with an unused id; psd_group_decide() lets it enter later. NULL: no memory. */
struct psd_group_member *psd_group_member_new(struct psd_group *g, uint64_t id, const uint8_t session[16], const char *job,
                                              uint32_t task, uint64_t now_ms);
/** Remove m from g, and free m. g->past remembers m if some round has taken m's contribution. */
void psd_group_member_free(struct psd_group *g, struct psd_group_member *m);
struct psd_group_member *psd_group_member(const struct psd_group *g, uint64_t id);
/** True if the values include this member's contribution to `round`, the last round for which the member sent STEP. False also if
 * the member was freed so long ago that psd_group.past has lost its record. */
bool psd_group_took(const struct psd_group *g, uint64_t member, uint64_t round);
/** A number for the client process of a session: a hash of its host and pid, never 0. */
uint64_t psd_group_process(const struct psd_record *r);
/** Find another member of the same worker (job and task) as m that still takes part. NULL: there is none. */
struct psd_group_member *psd_group_at_place(const struct psd_group *g, const struct psd_group_member *m);
/** Walk over the other members of the same worker (job and task) as m, gone ones too. after: the previous result, or NULL to
 * begin. NULL: there are no more. */
struct psd_group_member *psd_group_neighbour(const struct psd_group *g, const struct psd_group_member *m,
                                             const struct psd_group_member *after);
/** Call when m sends JOIN. An older member of the same worker becomes gone if it is not active. An active older member becomes
 * vacant, and m will replace it; but an older member that has contributed to the round stays until the round is closed. Members
 * that m's session had before, with another job or task, leave. */
void psd_group_displace(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** Give up m, which has not entered the group yet: m is gone. Exception: m was about to replace a vacant member, so some owners
 * may know m already. Then m becomes vacant, the other member is gone, and with on_loss `fail` the group fails. */
void psd_group_give_up(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** How many members must have joined before the first round opens; 0: it is open. */
uint32_t psd_group_awaited(const struct psd_group *g);
/** Set the number of workers that have finished, which lowers the number of members to wait for. */
void psd_group_without(struct psd_group *g, uint32_t gone);
/** Call when m's worker has finished its data, or its JOIN is given up: m leaves. A complete contribution counts. */
void psd_group_leave(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** True if the loss of m would end the training: m alone is at work, a member has finished, and others may finish without m. */
bool psd_group_is_last(const struct psd_group *g, const struct psd_group_member *m);
/** Note whether m's session holds a lease (alive). If not, and its time grace_ms is over, m is lost: see options.on_loss. */
void psd_group_seen(struct psd_group *g, struct psd_group_member *m, bool alive, uint64_t now_ms);
/** Let the group fail for this reason: at once or, if a round is decided, after the round's commit. Later reasons are ignored. */
void psd_group_fail(struct psd_group *g, const struct psi_err *err);
/** Call when an owner lacks a contribution that m has reported as complete: m is no longer complete, its STEP fails with err, and
 * the attempt ends. Only in COLLECTING and PREPARING. */
void psd_group_missing(struct psd_group *g, struct psd_group_member *m, const struct psi_err *err);
/** Do the next state change that is possible. True: g has changed; call again. next_attempt: a number never used before. */
bool psd_group_decide(struct psd_group *g, uint64_t next_attempt, uint64_t now_ms);
/** The number of members in the round under way. *out_complete: how many of them have contributed to all variables. */
uint32_t psd_group_count(const struct psd_group *g, uint32_t *out_complete);
/** How many complete members a round needs to close: options.replicas, at most all active members; replicas 0: all. */
uint32_t psd_group_needed(const struct psd_group *g);
/** With staleness: the number of steps of the slowest active member whose steps are known; 0: no such member. */
uint64_t psd_group_slowest(const struct psd_group *g);
/** With staleness: true if an active member has not told this directory its steps, so that other members must wait. */
bool psd_group_is_unknown(const struct psd_group *g);
/** With staleness: take the number of steps that a heartbeat of m's session reports, if m's steps are not known yet. */
void psd_group_told(struct psd_group_member *m, uint64_t steps);
/** With staleness: true if m's STEP must wait, because m is too far ahead of the slowest member or psd_group_is_unknown(). */
bool psd_group_is_ahead(const struct psd_group *g, const struct psd_group_member *m);
/** True if the group can be freed: no ps task has it any more, and no order about it is unanswered. */
bool psd_group_is_nowhere(const struct psd_group *g);
void psd_group_check_invariants(const struct psd_group *g);

/* ---- group_sums.c: one factor that limits the joint norm of all averages ---- */
/** Remove the sums that this owner (index in psd_task.peers) has reported, because it will report them again. */
void psd_group_sums_drop(struct psd_group *g, uint32_t owner);
/** Append one variable's sum to g->sums. RESOURCE_EXHAUSTED: no memory. */
ps_status psd_group_sums_add(struct psd_group *g, const struct psd_group_sum *sum, struct psi_err *err) PSI_MUST;
/** The factor by which all averages are multiplied so that their joint norm stays within the limit. Sorts g->sums by
 * psd_group_sum.order, so that the result does not depend on the order of the answers. */
float psd_group_sums_factor(struct psd_group *g);

/* ---- group_orders.c: owners ---- */
/** Send the next order to each owner that has reported since it connected and has no unanswered order. */
void psd_group_tell(struct psd_task *t, struct psd_group *g);
/** Encode the body of order o for the ps task p into l; the caller begins and ends l. No memory: l->failed is set. */
void psd_group_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** Handle p's answer to order a. err: the answer's error; NULL: success. r: a frame of the answer, with PS_FLAG_MORE if others
 * follow; NULL: the connection was lost. An answer for a group that has ended is ignored. */
void psd_group_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                        const struct psi_err *err);
/** Take in p's report of what it has: call psd_groups_list_begin(), psd_groups_list_item() for each item (a group, then its
 * owners and members), psd_groups_list_end(). Errors of an item: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
void psd_groups_list_begin(struct psd_task *t, const struct psd_peer *p);
ps_status psd_groups_list_item(struct psd_task *t, const struct psd_peer *p, const char *container, const ps_v1_ListItem *item,
                               struct psi_err *err) PSI_MUST;
void psd_groups_list_end(struct psd_task *t, struct psd_peer *p);
/** Append what this ps task has of groups to l, its report for the directory. */
void psd_groups_list_add(const struct psd_task *t, struct psd_list *l);
/** Call when the connection to p is lost: gives up unanswered orders to p. p's next report says which p has carried out. */
void psd_groups_owner_lost(struct psd_task *t, const struct psd_peer *p);

/* ---- groups.c: JOIN, STEP, LEAVE ---- */
/** Call at the end of an event. If t->rounds_moved: lets all groups decide, answers finished requests, sends orders. */
void psd_groups_turn(struct psd_task *t);
/** Call at each tick: clears each psd_group_member.grace_ms and psd_group.hold_until_ms that is past. */
void psd_groups_tick(struct psd_task *t);
/** Call when the container is reset: frees its group; requests that wait for it end with ABORTED, reason LOST. */
void psd_groups_reset(struct psd_task *t, const char *container);
void psd_groups_fini(struct psd_task *t);
void psd_groups_check_invariants(const struct psd_task *t);
/** Let the request w (SYNC, JOIN, STEP or LEAVE) wait for g; psd_groups_turn() will answer it. RESOURCE_EXHAUSTED: no memory. */
ps_status psd_group_hang(struct psd_task *t, struct psd_group *g, struct psd_wait *w, struct psi_err *err) PSI_MUST;

/* ---- group_training.c: which workers have finished their data ---- */
/** For the SYNC request w: if the container's present training has this id, it goes on; otherwise begin a training. finished: w's
 * worker has finished its data already. Returns how many workers have finished. */
uint32_t psd_training_begin(struct psd_task *t, const struct psd_wait *w, const char *container, uint64_t id, bool finished);
uint64_t psd_training_id(const struct psd_task *t, const char *container);
/** True if all members have finished the training `id`. Id 0: false. */
bool psd_training_is_over(const struct psd_task *t, const char *container, uint64_t id);
/** True if this worker finished its data in the container's training before the present one. */
bool psd_training_had_finished(const struct psd_task *t, const char *container, const char *job, uint32_t task);
/** Note that this worker takes part again; begin a training if none is known. True: the worker was noted as finished. */
bool psd_training_join(struct psd_task *t, const char *container, const char *job, uint32_t task);
/** Note that this worker has finished its data, so rounds need not wait for it. Without memory nothing is noted. */
void psd_training_finish(struct psd_task *t, const char *container, const char *job, uint32_t task);
/** Call when a training has ended (psd_group.anew): it becomes the previous training, and the next training gets a new id. */
void psd_training_over(struct psd_task *t, const char *container);
void psd_trainings_fini(struct psd_task *t);

/* ---- group_text.c: texts for people, and the request ROUNDS ---- */
/** Write whom the group waits for into buf [n]: "/job:worker/task:1 (at work for 3.2 s)". Returns buf. */
const char *psd_group_missing_text(const struct psd_task *t, const struct psd_group *g, char *buf, size_t n);
enum { PSD_SYNC_TEXT_MAX = 192 };
/** Write the options, as people read them, into buf [n]; PSD_SYNC_TEXT_MAX bytes suffice. Returns buf. */
const char *psd_sync_options_text(const struct psd_sync_options *o, char *buf, size_t n);
/** Put into *out, for `psctl waits`, what the request w waits for and who could end the wait. Unchanged if its group is gone. */
void psd_group_describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
/** Set w->err to DEADLINE_EXCEEDED, with a text that names who is missing. The caller answers with it. */
void psd_group_expire(struct psd_task *t, struct psd_wait *w);
/** Read options from a message. INVALID_ARGUMENT: a value is unknown or out of range, or two options contradict each other. */
ps_status psd_sync_options_parse(const ps_v1_SyncOptions *m, struct psd_sync_options *out, struct psi_err *err) PSI_MUST;
void psd_sync_options_to_msg(const struct psd_sync_options *o, ps_v1_SyncOptions *out);

/** Check that a client may delete the variable n. FAILED_PRECONDITION: a group that has not ended trains it. */
ps_status psd_group_delete_check(const struct psd_task *t, const struct psd_name *n, struct psi_err *err) PSI_MUST;

#endif
