/* SPDX-License-Identifier: Apache-2.0 */
/* The record of one session at one task: the outcomes of its last PS_WINDOW sequence numbers and the results of its waiting
 * requests. A mutation is applied exactly once: a number that the record does not have was never received, and a number that the
 * record has is never applied again. */
#ifndef PSD_RECORD_H
#define PSD_RECORD_H

#include "common/auth/identity.h"
#include "common/limits.h"
#include "common/list.h"
#include "proto/frame.h"
#include "variable.h"

enum psd_push_kind {
    PSD_PUSH = 1,
    PSD_PUSH_PULL,
    PSD_ASSIGN,
    PSD_ADD,
    PSD_CONTRIBUTE,
    PSD_ASSIGN_SLOT_1,
    PSD_ASSIGN_SLOT_LAST = PSD_ASSIGN_SLOT_1 + PSD_OPTIM_SLOTS_MAX - 1,
    PSD_PUSH_ROWS, /* from here on: mutations of rows (common/rows.h) */
    PSD_SCATTER_ADD,
    PSD_SCATTER_SUB,
    PSD_SCATTER_UPDATE,
    PSD_CONTRIBUTE_ROWS,
    PSD_PUSH_PULL_ROWS
};

struct psd_area;

/* A mutation in progress: elements of its body are still to come, or elements of the value are still to be changed. */
struct psd_progress {
    struct psi_list link; /* derived: link in psd_record.progress, the oldest mutation first */
    /* remembered: */
    const struct psd_variable *variable; /* holds one reference */
    struct psd_optim_scalars scalars;
    /* length of the body: number of elements; strings: bytes of the blob; rows: rows. All counts of "elements" have this unit */
    uint64_t total;
    /* memory that gathers a mutation which takes effect as a whole: the elements that have come, in the variable's dtype; rows:
     * as on the wire, each row behind its index. Bytes of elements that have not come are undefined */
    void *staging;
    uint64_t staging_bytes;
    uint64_t number;
    float scale;
    uint8_t kind;
    uint8_t wire; /* ps_dtype of its frames */
    bool init_only;
    /* ASSIGN: number of the chief that assigns; 0: no chief. ASSIGN to a slot that has a power, such as Adam's beta1^t: the
     * power, as the bits of a float64 */
    uint64_t chief_number;
    uint64_t member, round; /* CONTRIBUTE, CONTRIBUTE_ROWS */
    uint64_t highest;       /* rows: index of the last row, as the first frame says; 0 if the mutation has no rows */
    uint64_t last_index;    /* rows: index of the last row that has come; UINT64_MAX: no row has come */
    uint64_t step;          /* pushes: 1 + global step that the session has sent; 0: it has sent no step */
    /* volatile: */
    uint64_t from; /* pushes: 1 + version of the values that the gradient was computed from; 0: not known */
    /* record by which the checkpoint being written copies `staging` (kept.h); NULL: it needs no copy */
    struct psd_kept *kept;
    /* while the push changes its value in slices (rpc/moves.c): link in psd_task.moves, and the record that has the push */
    struct psi_list moves;
    struct psd_record *record;
    /* derived: */
    /* CONTRIBUTE(_ROWS): the member's memory for this gradient (rounds.h); NULL: the contribution is dropped */
    struct psd_area *area;
    uint32_t unit; /* bytes of an element on the wire; rows: bytes of a row with its index */
};

/* What a session's record knows of one sequence number: its outcome or, before that, its mutation in progress. */
struct psd_number {
    /* remembered: */
    uint64_t number; /* 0: this entry is free */
    uint64_t offset; /* elements applied or staged */
    uint64_t position, version, incarnation;
    struct psd_progress *progress;
    char *text;      /* text of a refusal, owned; NULL: no text */
    uint8_t state;   /* enum ps_number_state: APPLIED, REFUSED, IN_PROGRESS, ABANDONED */
    uint8_t applied; /* refused, abandoned: ps_applied */
    uint8_t status;  /* refused: ps_status */
    uint8_t result_bytes;
    uint16_t reason; /* refused: ps_reason; 0: the status says all */
    uint8_t result[PS_RESULT_BYTES_MAX];
};

enum { PSD_STEPS_KEPT = 5 };

/* A global step that the session has reported in a heartbeat. */
struct psd_step {
    /* volatile: */
    uint64_t at_ms, step;
};

/* A session of another process that claimed the job and task of this session, and was refused. */
struct psd_rival {
    /* volatile: */
    uint8_t session[16];
    /* challenge made when the rival first asked: a number that a heartbeat of this session must return. If the heartbeat does,
     * this session is alive, and the rival is refused for good. 0: there is no rival */
    uint64_t number;
};
enum { PSD_RIVALS_KEPT = 4 /* rivals noted for each session; a further one replaces the rival with the lowest number */ };

struct psd_record {
    /* remembered: */
    uint8_t session[16];
    uint64_t name;
    /* identity of the session's client; "": not known, because a checkpoint of an older version lacked it */
    char who[PSI_IDENTITY_TEXT_BYTES];
    struct psi_list progress;             /* struct psd_progress */
    struct psi_list attempts;             /* struct psd_attempt of queue.h, the oldest first */
    struct psd_number numbers[PS_WINDOW]; /* index = number % PS_WINDOW */
    /* derived: */
    uint64_t highest; /* highest number seen */
    uint32_t progress_count;
    uint32_t text_bytes; /* bytes of the texts of refusals */
    uint64_t cut;        /* volatile: serial of the last cut that contains the record (cut.h) */
    /* volatile: the connection, and who the session is */
    uint64_t connection; /* highest number of a connection of this session; the client numbers them, and numbers rise */
    void *conn;          /* the present connection; NULL: the session is not connected */
    /* while the session is not connected: link in psd_task.silent or silent_empty, lists of such sessions */
    struct psi_list silent;
    struct psi_list shown; /* containers whose keys the session has shown, as struct psd_shown (shown.h) */
    uint64_t idle_since_ms;
    bool just_silent; /* true from the end of the connection until the next tick */
    /* the session is not connected, its lease has ended, and the queue elements that it had taken went back to their queues */
    bool away;
    bool guest; /* the session was accepted above the limit of sessions: the record ends with its connection */
    /* begun_ms: when the record was made; heard_ms: when the session last sent anything, set only while it has no connection */
    uint64_t begun_ms, heard_ms;
    bool stopping;       /* the answer to the session's next heartbeat tells the program to stop */
    bool done;           /* directory: the session has sent JOB_DONE, because its program has finished training */
    uint32_t step_count; /* used entries of `steps`, the newest last */
    struct psd_step steps[PSD_STEPS_KEPT];
    char step_of[PS_CONTAINER_BYTES_MAX + 1]; /* container of the reported global step; "": the client reports none */
    char said[192];                           /* directory: what the session last said of its step, "loss=0.25"; "": nothing */
    /* requests that wait for their answer: request number -> struct psd_wait of psd/session/wait.h */
    struct psi_u64_map waits;
    char job[PS_JOB_BYTES_MAX + 1];
    char host[PS_JOB_BYTES_MAX + 2];
    char program[PS_JOB_BYTES_MAX + 2];
    char container[PS_CONTAINER_BYTES_MAX + 1];
    struct psd_own {
        char container[PSI_SESSION_CONTAINER_BYTES - 1]; /* the session's own container, without NUL; all 0: it has none */
        uint8_t key[PSI_KEY_BYTES];
    } own;
    uint32_t task, pid;
    uint64_t lease_until_ms; /* directory: end of the session's lease, which each heartbeat renews */
    bool member;             /* directory: at the last tick the session had a lease, so that its task counts as up */
    /* directory: the session's last heartbeat asked to become chief of this container; "": it did not ask */
    char chief_of[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t chief_ready; /* directory: chief number under which the session reported the model ready; 0: not reported */
    /* directory, from the last heartbeat: the session's id as member of a STALENESS group (0: no member), and its steps done */
    uint64_t round_member, round_steps;
    /* directory, for a session that trains: link in psd_task.places, by which a second process with the same task is found */
    struct psi_list place;
    char rival[96];                     /* directory: name of the last other process that was refused this job and task */
    uint64_t rival_ms, rival_logged_ms; /* when `rival` was refused; when this was last logged. 0: never */
    struct psd_rival rivals[PSD_RIVALS_KEPT];
    /* directory: challenge: the newest number in `rivals`; proved: the newest such number that heartbeats have returned */
    uint64_t challenge, proved;
};
enum {
    PSD_RECORD_TEXT_BYTES = 8 << 10
}; /* most bytes of the texts of refusals in a record; the oldest text is dropped first: the client has most likely read it */
/* most bytes of a record, with its entry in the map of records and the first tables of its own map */
#define PSD_RECORD_BYTES (sizeof(struct psd_record) + PSD_RECORD_TEXT_BYTES + PSI_MAP_ENTRY_BYTES + PSI_MAP_LEAST_BYTES)

static inline bool psd_push_is_rows(uint8_t kind)
{
    return kind >= PSD_PUSH_ROWS;
}
static inline bool psd_push_is_scatter(uint8_t kind)
{
    return kind >= PSD_SCATTER_ADD && kind <= PSD_SCATTER_UPDATE;
}
/** True for the gradient of a member for a round, which changes the variable when the round is closed. */
static inline bool psd_push_contributes(uint8_t kind)
{
    return kind == PSD_CONTRIBUTE || kind == PSD_CONTRIBUTE_ROWS;
}
/** True for gradients of rows that the optimizer applies at once: PUSH_ROWS, PUSHPULL_ROWS. */
static inline bool psd_push_applies_rows(uint8_t kind)
{
    return kind == PSD_PUSH_ROWS || kind == PSD_PUSH_PULL_ROWS;
}
/** True if the optimizer runs for each mutation of this kind, and not once for all contributions to a round. */
static inline bool psd_push_is_applied(uint8_t kind)
{
    return kind == PSD_PUSH || kind == PSD_PUSH_PULL || psd_push_applies_rows(kind);
}
static inline bool psd_push_is_gradient(uint8_t kind)
{
    return psd_push_is_applied(kind) || psd_push_contributes(kind);
}
/** The slot n of a kind ASSIGN_SLOT_n; 0: another kind. */
static inline uint32_t psd_push_slot(uint8_t kind)
{
    return kind >= PSD_ASSIGN_SLOT_1 && kind <= PSD_ASSIGN_SLOT_LAST ? 1u + kind - PSD_ASSIGN_SLOT_1 : 0;
}
/** True for an assign to the value or to a slot, which takes effect as a whole at its end. */
static inline bool psd_push_is_assign(uint8_t kind)
{
    return kind == PSD_ASSIGN || psd_push_slot(kind) != 0;
}
/** True if a mutation of this kind may change v segment by segment: a gradient for the optimizer, a scatter of rows, or an ADD of
 * more than one segment. If psd_push_is_whole() is true too, the mutation is gathered instead. */
static inline bool psd_push_streams(uint8_t kind, const struct psd_variable *v)
{
    return psd_push_is_applied(kind) || psd_push_is_scatter(kind) || (kind == PSD_ADD && v->bytes > PS_SEGMENT_BYTES);
}
/** True if v's optimizer needs whole rows, but segments of a dense gradient may end within a row (in some wire dtype). */
static inline bool psd_push_cuts_rows(uint8_t kind, const struct psd_variable *v)
{
    return v->row_elements > 1 && (kind == PSD_PUSH || kind == PSD_PUSH_PULL) &&
           PS_SEGMENT_BYTES / sizeof(double) % v->row_elements != 0;
}
/** True if a mutation of v is gathered, and takes effect as a whole after its last segment. Reasons: v is atomic; the optimizer
 * needs a norm of the whole gradient; segments would end within rows; or v has at most one segment, of which readers must never
 * see half a mutation, but the mutation is of rows, which may come in several segments with their indices. */
static inline bool psd_push_is_whole(uint8_t kind, const struct psd_variable *v)
{
    return v->atomic || (psd_push_is_rows(kind) && v->bytes <= PS_SEGMENT_BYTES) || psd_push_cuts_rows(kind, v) ||
           (psd_push_is_applied(kind) && psi_optimizer_is_staged(v->optimizer.kind));
}
/** True if p changes its variable segment by segment, so that some of p may be applied before its last segment comes. */
static inline bool psd_progress_streams(const struct psd_progress *p)
{
    return psd_push_streams(p->kind, p->variable) && !psd_push_is_whole(p->kind, p->variable);
}
/** True if all of p is gathered in staging, and takes effect after its last byte. */
static inline bool psd_progress_stages(const struct psd_progress *p)
{
    return psd_push_is_assign(p->kind) || (psd_push_streams(p->kind, p->variable) && psd_push_is_whole(p->kind, p->variable));
}

/** True if p's optimizer needs norms, so that passes over all elements follow p's last byte, maybe in slices (rpc/moves.c). */
static inline bool psd_progress_moves_last(const struct psd_progress *p)
{
    return !p->variable->atomic && psd_push_is_applied(p->kind) && !psd_push_is_rows(p->kind) &&
           psi_optimizer_is_whole(p->variable->optimizer.kind);
}
/** True if the whole gradient of n has come, but the passes after its last byte (psd_progress_passes()) are not over. */
static inline bool psd_number_moves(const struct psd_number *n)
{
    const struct psd_progress *p = n->progress;
    return p != NULL && p->total > 0 && n->offset == p->total && psd_progress_moves_last(p);
}
/** Number of passes over all elements after the last byte of a push whose optimizer needs norms. The last pass changes the value.
 * If the gradient was gathered, a first pass computes the norms; otherwise each segment was added to the norms when it came. */
static inline uint64_t psd_progress_passes(const struct psd_progress *p)
{
    return psd_progress_stages(p) ? 2 : 1;
}
/** Number of elements that the passes of psd_progress_passes() have processed, added up over all passes. */
static inline uint64_t psd_progress_passed(const struct psd_progress *p)
{
    return (uint64_t)p->scalars.moved;
}
/** Number of elements that are left in the present pass; 0: all passes are over. */
static inline uint64_t psd_progress_left(const struct psd_progress *p)
{
    const uint64_t passed = psd_progress_passed(p);
    return passed < p->total ? p->total - passed : psd_progress_passes(p) * p->total - passed;
}
/** True if the present pass computes the norms, and the pass that changes the value follows. */
static inline bool psd_progress_measures(const struct psd_progress *p)
{
    return psd_progress_passes(p) > 1 && psd_progress_passed(p) < p->total;
}
/** Number of elements of the value that the last pass has changed. */
static inline uint64_t psd_progress_moved(const struct psd_progress *p)
{
    return psd_progress_measures(p) ? 0 : psd_progress_passed(p) - (psd_progress_passes(p) - 1) * p->total;
}

/** True if n is in progress, and its mutation may be partly applied: psd_progress_streams() or psd_number_moves(). */
static inline bool psd_number_may_show(const struct psd_number *n)
{
    return n->progress != NULL && (psd_progress_streams(n->progress) || psd_number_moves(n));
}
/** True if n is in progress and partly applied. The end of n then gives the variable a new version, even if n is refused. */
static inline bool psd_number_is_torn(const struct psd_number *n)
{
    return psd_number_may_show(n) && n->offset > 0;
}

/** Bytes of memory in which p is gathered; 0: p is not gathered, or has no elements. */
static inline uint64_t psd_progress_staging_bytes(const struct psd_progress *p)
{
    const struct psd_variable *v = p->variable;
    return !psd_progress_stages(p)     ? 0
           : psd_push_is_rows(p->kind) ? p->total * p->unit
           : v->dtype == PS_STRING     ? p->total
                                       : psd_variable_bytes_of(v, psd_push_slot(p->kind));
}
/** Bytes that the first n elements of p take in the memory in which p is gathered. */
static inline uint64_t psd_progress_staged_bytes(const struct psd_progress *p, uint64_t n)
{
    const struct psd_variable *v = p->variable;
    return n * (psd_push_is_rows(p->kind) ? p->unit : v->dtype == PS_STRING ? 1 : v->element_bytes);
}

struct psd_record *psd_record_new(const uint8_t session[16], uint64_t name);
/** Free r, which must have nothing in progress, no attempts and no waiting requests. */
void psd_record_free(struct psd_record *r);
/** The entry of sequence number `number`. NULL: the record does not have it. */
const struct psd_number *psd_record_find(const struct psd_record *r, uint64_t number);
/** True if a request with this sequence number may begin. False if the number is PS_WINDOW or more below the highest number, as a
 * newer number may have its entry; or PS_WINDOW or more above a number in progress. 0 and UINT64_MAX: false. */
bool psd_record_admits(const struct psd_record *r, uint64_t number);
/** Write the session into buf for logs, and return buf: "/job:worker/task:1@host:42", "psctl@host:42". */
const char *psd_record_text(const struct psd_record *r, char *buf, size_t n);
/** Note a heartbeat that reports this global step (0 to INT64_MAX) of this container. */
void psd_record_beat(struct psd_record *r, uint64_t now_ms, uint64_t step, const char *container);
/** 1 + the last global step that the session reported; 0: no report counts. The reports of a session that began before since_ms,
 * the time of the last restore, count once r->steps has at least two steps, all reported after since_ms. */
uint64_t psd_record_step(const struct psd_record *r, uint64_t since_ms);
/** Global steps per second, from the first to the last report in r->steps. 0: fewer than two reports, or the last is older than
 * stale_ms. If a report has a lower step than the report before, only it and later reports count. */
double psd_record_steps_per_second(const struct psd_record *r, uint64_t now_ms, uint64_t stale_ms);
void psd_record_check_invariants(const struct psd_record *r);

#endif
