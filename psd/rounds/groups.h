/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups at the directory (docs/PROTOCOL.md "Rounds", DESIGN §7): who takes part, when a round closes, what each owner is to do.
 * What an owner makes of that is psd/rounds/rounds.h. Nothing here is remembered: a directory that restarts asks the owners.
 *
 * Three layers. group.c decides: pure, members and owners of one group in, its next phase out. group_orders.c tells the
 * owners what is decided, one order at a time and owner, and takes their answers and lists in. groups.c, sync.c are the
 * requests of sessions, group_text.c is what people are told.
 *
 * An event only notes what has happened and sets t->rounds_moved. At its end psd_groups_turn() decides, tells and ends requests
 * until nothing moves: what a group does next depends on its state alone, never on which event came last. So an order that was
 * lost with its connection is simply sent again.
 */
#ifndef PSD_DIRECTORY_ROUNDS_H
#define PSD_DIRECTORY_ROUNDS_H

#include "rounds.h"

#include "psd/base/orders.h"
#include "psd/session/wait.h"

enum { PSD_LEADS = 17 /* 0, 1 .. 15, more */ };

enum psd_group_phase {
    PSD_GROUP_SETTING,    /* its owners are told of it */
    PSD_GROUP_RECOVERING, /* a directory that has restarted: owners have not listed yet */
    PSD_GROUP_COLLECTING,
    PSD_GROUP_PREPARING,
    PSD_GROUP_COMMITTING, /* decided */
    PSD_GROUP_FAILED,     /* until the next SYNC */
    PSD_GROUP_ENDING,     /* its owners are told; then it is gone */
    PSD_GROUP_PHASES
};

struct psd_group_member {
    /* volatile: */
    struct psi_list link; /* of its group, by task index */
    uint64_t id;
    uint8_t session[16];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    bool active;         /* of the round under way; otherwise it enters later */
    bool complete;       /* its STEP of this round has come */
    bool taken;          /* of the attempt */
    bool lost;           /* its session holds no lease */
    bool resigned;       /* LEAVE that is a loss */
    bool leaving;        /* goes as soon as what it contributed is in the values */
    bool left;           /* it goes of its own will, because its data are over */
    bool vacant;         /* its place is kept for a successor, at the owners too, and nobody has it */
    bool unknown;        /* staleness: its session has not said its steps to this directory. They are not below `steps` */
    bool by_beat;        /* staleness: beats of its session have said its steps, and no STEP has come since */
    bool gone;           /* freed when no owner has it any more */
    bool excused;        /* its session was closed while it alone was at work: grace_ms, once, for its process to make another */
    uint64_t process;    /* of its session, a hash; 0: not known */
    uint64_t since_ms;   /* when that last changed */
    uint64_t grace_ms;   /* told by an owner, or excused: its session may take until then to come; 0: it has come */
    uint64_t last_taken; /* round; 0: none */
    uint64_t steps;      /* staleness */
    bool *at;            /* [peer_count]: this owner has it */
    struct psi_err err;  /* why its JOIN, or its STEP, ends; code OK: it does not */
};

enum psd_group_at { PSD_GROUP_NOT_THERE, PSD_GROUP_OTHER /* of another generation */, PSD_GROUP_THERE };

struct psd_group_owner {
    /* volatile: */
    bool part;            /* of the group */
    enum psd_group_at at; /* the container's group there, as far as we know */
    bool told;            /* it was in the list that comes */
    bool prepared, ready; /* something is built there; ... and it is what the attempt needs */
    uint64_t committed;
    uint32_t awaited; /* as it lists it; so over */
    bool over;
    bool lost;     /* it has listed, and its part is gone */
    uint8_t asked; /* op on its way, 0: none */
    uint64_t ask_id, asked_attempt, asked_member;
};

/* A member that is freed. Its session may wake up and repeat a STEP that has not been answered. */
struct psd_group_past {
    /* volatile: */
    uint64_t member;     /* id of the member; 0: no member */
    uint64_t last_taken; /* last round that had a contribution of the member */
};

/* A learning rate for all variables of a group, as SET_RATE asks for it. */
struct psd_group_rate {
    /* volatile: */
    uint64_t token; /* of the client's change; 0: no change is asked for */
    double rate;    /* the learning rate; 0: the optimizers' own again */
    uint64_t until_ms;
};

/* A group. */
struct psd_group {
    /* volatile: */
    struct psi_list link; /* task->groups */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t generation;
    struct psd_sync_options options;
    enum psd_group_phase phase;
    uint64_t round;   /* under way */
    uint64_t step;    /* the global step, as its owner said it last: while COMMITTING it may be that of the round under way */
    uint64_t attempt; /* of PREPARING, COMMITTING */
    uint32_t workers; /* members until it opens */
    uint32_t full;    /* members until it opens if nobody has left before */
    uint32_t gone;    /* of these; they will not come */
    bool used;        /* somebody has joined, since it was to open */
    bool over;        /* one has finished, and no round has been closed, or has begun anew, since */
    bool opened, failing;
    bool anew;              /* all have left: the next training begins; to be noted */
    struct psi_err failure; /* failing, FAILED: why */
    bool noted;             /* failing: psd_chief_note_failure() has been called */
    struct psi_list members;
    struct psi_u64_map by_id;           /* id -> struct psd_group_member */
    uint32_t member_count, owner_count; /* owner_count: peers */
    struct psd_group_owner *owners;     /* [owner_count], by peer */
    struct psi_list waiters;            /* struct psd_need of SYNC, JOIN, STEP, LEAVE */
    struct psd_group_past *past;        /* [PS_MEMBERS_MAX], a ring: members that were taken and are freed */
    uint32_t past_count;                /* how many members went into `past` so far, modulo 2^32 */
    uint64_t since_ms;                  /* when the round began to be collected */
    /* rate_asked: for the next attempt, while its client asks. rate_taken: goes with this attempt */
    struct psd_group_rate rate_asked, rate_taken;
    uint64_t rate_done; /* token of the last change that a round has taken to all owners */
    /* no round is closed before this time, because rates are being set at each task; 0: rounds close at any time */
    uint64_t hold_until_ms;
    uint64_t dropped;
    uint64_t leads[PSD_LEADS];
};

/* ---- group.c: decisions ---- */
/** The group of this container; NULL: it has none. */
struct psd_group *psd_group_find(const struct psd_task *t, const char *container);
/** seed: random, of its map. */
struct psd_group *psd_group_new(uint32_t owner_count, const char *container, uint64_t seed);
void psd_group_free(struct psd_group *g);
/** Another generation in its place: no member, no owner. */
void psd_group_begin(struct psd_group *g, uint64_t generation, const struct psd_sync_options *o, uint32_t workers);
/** A member that is in no place yet; NULL: no memory. */
struct psd_group_member *psd_group_member_new(struct psd_group *g, uint64_t id, const uint8_t session[16], const char *job,
                                              uint32_t task, uint64_t now_ms);
void psd_group_member_free(struct psd_group *g, struct psd_group_member *m);
struct psd_group_member *psd_group_member(const struct psd_group *g, uint64_t id);
/** The values have what the member contributed to this round, the last one for which it said STEP. Known of all members that
 * there are, and of the last PS_MEMBERS_MAX that were freed since the directory was started. */
bool psd_group_took(const struct psd_group *g, uint64_t member, uint64_t round);
/** Host and pid of a session, as `process` of its member; never 0. */
uint64_t psd_group_process(const struct psd_record *r);
/** Who has this place besides m, and is not gone; NULL: nobody. */
struct psd_group_member *psd_group_at_place(const struct psd_group *g, const struct psd_group_member *m);
/** The next one of the place of m, gone or not, but m; after NULL: the first one. NULL: no more. */
struct psd_group_member *psd_group_neighbour(const struct psd_group *g, const struct psd_group_member *m,
                                             const struct psd_group_member *after);
/** m, whose JOIN has come, takes the place of whoever has it, and ends what its session was before. */
void psd_group_displace(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** The JOIN of m has come to nothing. A place that it was to take stays open; with `fail` that is a loss. */
void psd_group_give_up(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** Members that it waits for until it opens; 0: it is open. */
uint32_t psd_group_awaited(const struct psd_group *g);
/** Before it opens: so many of its members will not come. */
void psd_group_without(struct psd_group *g, uint32_t gone);
/** It leaves for good, with what it contributed where that is complete. */
void psd_group_leave(struct psd_group *g, struct psd_group_member *m, uint64_t now_ms);
/** The others have finished and may have done so without m, which alone is at work: were it lost, all would begin anew. */
bool psd_group_is_last(const struct psd_group *g, const struct psd_group_member *m);
/** Its session holds a lease, or none. */
void psd_group_seen(struct psd_group *g, struct psd_group_member *m, bool alive, uint64_t now_ms);
/** It cannot go on: as soon as nothing that is decided is half done. The first reason counts. */
void psd_group_fail(struct psd_group *g, const struct psi_err *err);
/** An owner lacks what m says that it contributed: the attempt is over. */
void psd_group_missing(struct psd_group *g, struct psd_group_member *m, const struct psi_err *err);
/** What follows from its state; true: it has changed. next_attempt: a number that has not been used. */
bool psd_group_decide(struct psd_group *g, uint64_t next_attempt, uint64_t now_ms);
/** Active members, and of them those that are complete. */
uint32_t psd_group_count(const struct psd_group *g, uint32_t *out_complete);
/** Complete members that close a round now. */
uint32_t psd_group_needed(const struct psd_group *g);
/** Staleness: steps of the slowest member, of those members whose steps are known. */
uint64_t psd_group_slowest(const struct psd_group *g);
/** Staleness: some member has not said its steps to this directory. No member goes on before that. */
bool psd_group_is_unknown(const struct psd_group *g);
/** The beats of m's session say its steps. */
void psd_group_told(struct psd_group_member *m, uint64_t steps);
/** Staleness: it waits in its STEP, for it is too far ahead of the slowest. */
bool psd_group_is_ahead(const struct psd_group *g, const struct psd_group_member *m);
/** No owner has it, or is asked. */
bool psd_group_is_nowhere(const struct psd_group *g);
void psd_group_check_invariants(const struct psd_group *g);

/* ---- group_orders.c: owners ---- */
/** Tell the owners what they are to do next; true: something was done here at once. */
bool psd_group_tell(struct psd_task *t, struct psd_group *g);
/** An order about a group as a frame. */
void psd_group_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** The owner at p has answered (err NULL: OK) or its connection is gone (r NULL). PS_FLAG_MORE: the answer's list goes on. */
void psd_group_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                        const struct psi_err *err);
/** The list of p begins; an item of it with a group, an owner or a member; it is over and has been taken in. */
void psd_groups_list_begin(struct psd_task *t, const struct psd_peer *p);
ps_status psd_groups_list_item(struct psd_task *t, const struct psd_peer *p, const char *container, const ps_v1_ListItem *item,
                               struct psi_err *err) PSI_MUST;
void psd_groups_list_end(struct psd_task *t, const struct psd_peer *p);
/** Behind the names of our own list. */
void psd_groups_list_add(const struct psd_task *t, struct psd_list *l);
/** The connection of p is gone, and what was asked on it. */
void psd_groups_owner_lost(struct psd_task *t, const struct psd_peer *p);

/* ---- rounds.c: JOIN, STEP, LEAVE ---- */
/** The end of an event. */
void psd_groups_turn(struct psd_task *t);
/** Time passes. */
void psd_groups_tick(struct psd_task *t);
/** The container is reset: its group, and what waits for it, ends. */
void psd_groups_reset(struct psd_task *t, const char *container);
void psd_groups_fini(struct psd_task *t);
void psd_groups_check_invariants(const struct psd_task *t);
/** w waits for g from now on. */
ps_status psd_group_hang(struct psd_task *t, struct psd_group *g, struct psd_wait *w, struct psi_err *err) PSI_MUST;

/* ---- group_training.c: who has finished ---- */
/** SYNC, which is w, begins a training, or goes on with the one that has this number. How many have finished it. */
uint32_t psd_training_begin(struct psd_task *t, const struct psd_wait *w, const char *container, uint64_t id, bool finished);
/** Its number; 0: none is known. */
uint64_t psd_training_id(const struct psd_task *t, const char *container);
/** All members have finished the training of this number, and the next training is to begin, or has begun. Number 0: never. */
bool psd_training_is_over(const struct psd_task *t, const char *container, uint64_t id);
/** This worker had finished the training before this one. That training is over. */
bool psd_training_had_finished(const struct psd_task *t, const char *container, const char *job, uint32_t task);
/** It takes part. True: it had finished. */
bool psd_training_join(struct psd_task *t, const char *container, const char *job, uint32_t task);
void psd_training_finish(struct psd_task *t, const char *container, const char *job, uint32_t task);
/** All have finished, or another one begins. */
void psd_training_over(struct psd_task *t, const char *container);
void psd_trainings_fini(struct psd_task *t);

/* ---- group_text.c: in words, ROUNDS ---- */
/** What the group waits for: "/job:worker/task:1, at work for 3.2 s". */
const char *psd_group_missing_text(const struct psd_task *t, const struct psd_group *g, char *buf, size_t n);
const char *psd_sync_options_text(const struct psd_sync_options *o, char *buf, size_t n);
void psd_group_describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
void psd_group_expire(struct psd_task *t, struct psd_wait *w);
ps_status psd_sync_options_parse(const ps_v1_SyncOptions *m, struct psd_sync_options *out, struct psi_err *err) PSI_MUST;
void psd_sync_options_to_msg(const struct psd_sync_options *o, ps_v1_SyncOptions *out);

/** FAILED_PRECONDITION: it is in a group of its container, that goes on. */
ps_status psd_group_delete_check(const struct psd_task *t, const struct psd_name *n, struct psi_err *err) PSI_MUST;

#endif
