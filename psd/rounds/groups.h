/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups at the directory (docs/PROTOCOL.md "Rounds", DESIGN §7): who takes part, when a round closes, what each owner has to do.
 * The owners' side is psd/rounds/rounds.h. The directory remembers no group: after a restart it asks the owners.
 *
 * group.c decides: it is pure, and maps the members and owners of one group to the next phase. group_orders.c sends the owners
 * the decisions, one order per owner at a time, and takes in their answers and lists. groups.c has the requests of sessions,
 * group_text.c the texts for people.
 *
 * An event only notes what has happened and sets t->rounds_moved. At the event's end psd_groups_turn() decides, sends orders and
 * ends requests until nothing changes. What a group does next depends on its state alone, never on which event came last. An
 * order that was lost with its connection is therefore simply sent again.
 */
#ifndef PSD_DIRECTORY_ROUNDS_H
#define PSD_DIRECTORY_ROUNDS_H

#include "rounds.h"

#include "psd/base/orders.h"
#include "psd/session/wait.h"

enum { PSD_LEADS = 17 /* a lead of 0, of 1 .. 15, of 16 and more */ };

enum psd_group_phase {
    PSD_GROUP_SETTING,    /* the owners are being told of the group */
    PSD_GROUP_RECOVERING, /* after a restart of the directory: not all owners have listed yet */
    PSD_GROUP_COLLECTING,
    PSD_GROUP_PREPARING,
    PSD_GROUP_COMMITTING, /* the round is decided, and owners are told to commit it */
    PSD_GROUP_FAILED,     /* ends with the next SYNC */
    PSD_GROUP_ENDING,     /* the owners are being told to drop the group, which is freed afterwards */
    PSD_GROUP_PHASES
};

struct psd_group_member {
    /* volatile: */
    struct psi_list link; /* in group->members, sorted by task index */
    uint64_t id;
    uint8_t session[16];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    bool active;   /* takes part in the round under way; a member that is not active enters later */
    bool complete; /* its STEP of this round has come */
    bool taken;    /* its contribution is part of the attempt */
    bool lost;     /* its session holds no lease */
    bool resigned; /* its LEAVE said that the worker is lost, not finished */
    bool leaving;  /* becomes gone as soon as its contribution has been applied */
    bool left;     /* its worker has finished its data and left */
    bool vacant;   /* the place is kept for a successor, at the owners too, and no session has it */
    /* with staleness: the session has not reported its steps to this directory. They are not below `steps` */
    bool unknown;
    bool by_beat; /* with staleness: `steps` came with beats of the session, and no STEP has come since */
    bool gone;    /* it is freed when no owner has it any more */
    /* its session was closed while it alone was at work. Its process has got grace_ms, once, to open another session */
    bool excused;
    uint64_t process;  /* psd_group_process() of its session; 0: not known */
    uint64_t since_ms; /* when its state last changed */
    /* until this time its session may still come (an owner named the member, or it is excused); 0: no such limit */
    uint64_t grace_ms;
    uint64_t last_taken; /* the last round whose values have its contribution; 0: none */
    uint64_t steps;      /* with staleness: steps that its worker has done */
    bool *at;            /* [owner_count]: the owner at this index has the member */
    struct psi_err err;  /* why its JOIN or STEP fails; code PS_OK: no failure */
};

enum psd_group_at { PSD_GROUP_NOT_THERE, PSD_GROUP_OTHER /* a group of another generation */, PSD_GROUP_THERE };

struct psd_group_owner {
    /* volatile: */
    bool part;            /* it has variables of the group */
    enum psd_group_at at; /* which group of the container the owner has, as far as we know */
    bool told;            /* the list that is being received has named the group */
    bool prepared, ready; /* prepared: something is built there. ready: what is built is the round of the current attempt */
    uint64_t committed;
    uint32_t awaited; /* awaited and over: what the owner's list says of the group */
    bool over;
    bool lost;     /* its complete list lacked its part of the group */
    uint8_t asked; /* the operation of the order that has no answer yet; 0: no order is on its way */
    uint64_t ask_id, asked_attempt, asked_member;
};

/* A member that is freed. Its session may wake up and repeat a STEP that has not been answered. */
struct psd_group_past {
    /* volatile: */
    uint64_t member;     /* id of the member; 0: no member */
    uint64_t last_taken; /* last round that had a contribution of the member */
};

/* The learning rate that SET_RATE asks for, for all variables of a group. */
struct psd_group_rate {
    /* volatile: */
    uint64_t token; /* token of the client's SET_RATE; 0: no change is asked for */
    double rate;    /* 0: each optimizer's own learning rate applies again */
    uint64_t until_ms;
};

struct psd_group {
    /* volatile: */
    struct psi_list link; /* task->groups */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t generation;
    struct psd_sync_options options;
    enum psd_group_phase phase;
    uint64_t round; /* the round under way */
    /* the global step that its owner last reported; while COMMITTING it may already include the round under way */
    uint64_t step;
    uint64_t attempt; /* number of the attempt that is PREPARING or COMMITTING */
    /* PREPARING, COMMITTING: 1 + global step that the round is built at; 0: not known, by a directory that found it decided */
    uint64_t round_step;
    uint32_t workers; /* how many members must join before the rounds open: full less gone */
    uint32_t full;    /* how many members must join if no worker has finished before */
    uint32_t gone;    /* how many of `full` have finished and will not come */
    bool used;        /* a member has joined since the group began to wait for members */
    bool over;        /* a member has finished, and since then neither a round was closed nor a training was begun */
    bool opened, failing;
    bool anew;              /* all members have left, and psd_training_over() is still to be called */
    struct psi_err failure; /* the reason, while failing or FAILED */
    bool noted;             /* psd_chief_note_failure() has been called for this failure */
    struct psi_list members;
    struct psi_u64_map by_id;           /* member id -> struct psd_group_member */
    uint32_t member_count, owner_count; /* owner_count: the number of peers */
    struct psd_group_owner *owners;     /* [owner_count], by peer index */
    struct psi_list waiters;            /* struct psd_need of waiting SYNC, JOIN, STEP and LEAVE requests */
    struct psd_group_past *past;        /* [PS_MEMBERS_MAX], a ring of freed members that had contributed */
    uint32_t past_count;                /* how many members have been put into `past`, modulo 2^32 */
    uint64_t since_ms;                  /* when the group began to collect the round, or to wait for members */
    /* rate_asked: for the next attempt, until it expires. rate_taken: the rate that the current attempt sends to the owners */
    struct psd_group_rate rate_asked, rate_taken;
    uint64_t rate_done; /* token of the last change that all owners have committed with a round */
    /* no round closes before this time, because a client is setting rates at each task; 0: no hold */
    uint64_t hold_until_ms;
    uint64_t dropped;
    uint64_t leads[PSD_LEADS];
};

/* ---- group.c: decisions ---- */
/** The container's group; NULL: the container has none. */
struct psd_group *psd_group_find(const struct psd_task *t, const char *container);
/** seed: random, seeds the group's map. */
struct psd_group *psd_group_new(uint32_t owner_count, const char *container, uint64_t seed);
void psd_group_free(struct psd_group *g);
/** Make g a new group of this generation, without members or known owners. */
void psd_group_begin(struct psd_group *g, uint64_t generation, const struct psd_sync_options *o, uint32_t workers);
/** A member that is not active yet; NULL: no memory. */
struct psd_group_member *psd_group_member_new(struct psd_group *g, uint64_t id, const uint8_t session[16], const char *job,
                                              uint32_t task, uint64_t now_ms);
void psd_group_member_free(struct psd_group *g, struct psd_group_member *m);
struct psd_group_member *psd_group_member(const struct psd_group *g, uint64_t id);
/** True if the values contain the member's contribution to this round, which must be the last round of its STEPs. Known for all
 * present members and the last PS_MEMBERS_MAX freed ones. */
bool psd_group_took(const struct psd_group *g, uint64_t member, uint64_t round);
/** A hash of the session's host and pid, never 0. */
uint64_t psd_group_process(const struct psd_record *r);
/** The member, other than m, that has the job and task of m and is not gone; NULL: none. */
struct psd_group_member *psd_group_at_place(const struct psd_group *g, const struct psd_group_member *m);
/** The next member after `after` (NULL: the first) with the job and task of m, gone or not, other than m; NULL: no more. */
struct psd_group_member *psd_group_neighbour(const struct psd_group *g, const struct psd_group_member *m,
                                             const struct psd_group_member *after);
/** The JOIN of m has come: m will take its place from the member that has it, and other places of the same session are left. */
void psd_group_displace(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** The JOIN of m has failed. The place that m was to take stays open; with on_loss `fail` that counts as a loss. */
void psd_group_give_up(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** How many more members must join before the rounds open; 0: they are open. */
uint32_t psd_group_awaited(const struct psd_group *g);
/** Set how many workers have finished before the rounds opened and will not come. */
void psd_group_without(struct psd_group *g, uint32_t gone);
/** m leaves for good. If its contribution is complete, the contribution still counts. */
void psd_group_leave(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** True if m alone is at work and the others may have finished without it. If m were lost, the training would begin anew. */
bool psd_group_is_last(const struct psd_group *g, const struct psd_group_member *m);
/** Note whether the session of m holds a lease. */
void psd_group_seen(struct psd_group *g, struct psd_group_member *m, bool alive, uint64_t now_ms);
/** Let the group fail, as soon as no decided round is half committed. The first reason is kept. */
void psd_group_fail(struct psd_group *g, const struct psi_err *err);
/** An owner lacks a contribution that m reported as complete: the attempt ends. */
void psd_group_missing(struct psd_group *g, struct psd_group_member *m, const struct psi_err *err);
/** Take the next step that follows from the state of g; true if g has changed. next_attempt: a number not used before. */
bool psd_group_decide(struct psd_group *g, uint64_t next_attempt, uint64_t now_ms);
/** The number of active members; *out_complete: how many of them are complete. */
uint32_t psd_group_count(const struct psd_group *g, uint32_t *out_complete);
/** How many complete members close a round now. */
uint32_t psd_group_needed(const struct psd_group *g);
/** With staleness: the steps of the slowest member whose steps are known. */
uint64_t psd_group_slowest(const struct psd_group *g);
/** With staleness: some member has not reported its steps to this directory. No member may go ahead until it has. */
bool psd_group_is_unknown(const struct psd_group *g);
/** Note the steps that a beat of m's session has reported. */
void psd_group_told(struct psd_group_member *m, uint64_t steps);
/** With staleness: m waits in its STEP because it is too far ahead of the slowest member. */
bool psd_group_is_ahead(const struct psd_group *g, const struct psd_group_member *m);
/** True if no owner has the group and no order is on its way. */
bool psd_group_is_nowhere(const struct psd_group *g);
void psd_group_check_invariants(const struct psd_group *g);

/* ---- group_orders.c: owners ---- */
/** Send each owner the order that it needs next. */
void psd_group_tell(struct psd_task *t, struct psd_group *g);
/** Encode an order about a group as a frame. */
void psd_group_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** Take in the owner's answer (err NULL: OK), or the loss of its connection (r NULL). PS_FLAG_MORE: the list in the answer goes
 * on. */
void psd_group_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                        const struct psi_err *err);
/** The list of the owner at p: its begin, one item (a group, an owner or a member), its end. */
void psd_groups_list_begin(struct psd_task *t, const struct psd_peer *p);
ps_status psd_groups_list_item(struct psd_task *t, const struct psd_peer *p, const char *container, const ps_v1_ListItem *item,
                               struct psi_err *err) PSI_MUST;
void psd_groups_list_end(struct psd_task *t, struct psd_peer *p);
/** Append the groups of this task to its own list. */
void psd_groups_list_add(const struct psd_task *t, struct psd_list *l);
/** The connection of p is lost, and with it the order that was on its way. */
void psd_groups_owner_lost(struct psd_task *t, const struct psd_peer *p);

/* ---- groups.c: JOIN, STEP, LEAVE ---- */
/** Let all groups decide, at the end of an event. */
void psd_groups_turn(struct psd_task *t);
/** End graces and holds whose time is over. */
void psd_groups_tick(struct psd_task *t);
/** The container is reset: its group ends, and so do the requests that wait for the group. */
void psd_groups_reset(struct psd_task *t, const char *container);
void psd_groups_fini(struct psd_task *t);
void psd_groups_check_invariants(const struct psd_task *t);
ps_status psd_group_hang(struct psd_task *t, struct psd_group *g, struct psd_wait *w, struct psi_err *err) PSI_MUST;

/* ---- group_training.c: who has finished ---- */
/** Handle w, a SYNC: continue the training of this id, or begin a new one. finished: w's worker has finished it. Returns how many
 * workers have finished the training. */
uint32_t psd_training_begin(struct psd_task *t, const struct psd_wait *w, const char *container, uint64_t id, bool finished);
/** The id of the container's training; 0: none is known. */
uint64_t psd_training_id(const struct psd_task *t, const char *container);
/** True if all members have finished the training of this id, and the next one has begun or is about to. False for id 0. */
bool psd_training_is_over(const struct psd_task *t, const char *container, uint64_t id);
/** True if this worker had finished the previous training, which is over. */
bool psd_training_had_finished(const struct psd_task *t, const char *container, const char *job, uint32_t task);
/** This worker takes part in the training; true if it had finished the training before. */
bool psd_training_join(struct psd_task *t, const char *container, const char *job, uint32_t task);
void psd_training_finish(struct psd_task *t, const char *container, const char *job, uint32_t task);
/** All workers have finished, or another training begins. */
void psd_training_over(struct psd_task *t, const char *container);
void psd_trainings_fini(struct psd_task *t);

/* ---- group_text.c: texts for people, and ROUNDS ---- */
/** What the group waits for: "/job:worker/task:1, at work for 3.2 s". */
const char *psd_group_missing_text(const struct psd_task *t, const struct psd_group *g, char *buf, size_t n);
const char *psd_sync_options_text(const struct psd_sync_options *o, char *buf, size_t n);
void psd_group_describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
void psd_group_expire(struct psd_task *t, struct psd_wait *w);
ps_status psd_sync_options_parse(const ps_v1_SyncOptions *m, struct psd_sync_options *out, struct psi_err *err) PSI_MUST;
void psd_sync_options_to_msg(const struct psd_sync_options *o, ps_v1_SyncOptions *out);

/** FAILED_PRECONDITION if the variable is in a group that has not ended. */
ps_status psd_group_delete_check(const struct psd_task *t, const struct psd_name *n, struct psi_err *err) PSI_MUST;

#endif
