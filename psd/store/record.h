/* SPDX-License-Identifier: Apache-2.0 */
/* The record of one session at one task (DESIGN §8): the outcomes of its last PS_WINDOW sequence numbers and the results of its
 * waiting requests. Exactly once rests on it: a number that is not here was never received, and a number that is here is never
 * applied again. */
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
    PSD_PUSH_ROWS, /* this and what follows: of some rows (common/rows.h) */
    PSD_SCATTER_ADD,
    PSD_SCATTER_SUB,
    PSD_SCATTER_UPDATE
};

struct psd_area;

/* A mutation in progress. Taken from a free list. */
struct psd_progress {
    struct psi_list link; /* derived: in the record, the oldest first */
    /* remembered: */
    const struct psd_variable *variable; /* holds one reference */
    struct psd_optim_scalars scalars;
    uint64_t total; /* elements; strings: bytes of the blob; of rows: rows. All counts of elements of a mutation count these */
    void *staging;  /* ASSIGN, to slots as well, and gradients that take effect as a whole: what has come, in the variable's
                       dtype; undefined behind that. Rows that are staged: each behind its index, as they travel */
    uint64_t staging_bytes;
    uint64_t number;
    float scale;
    uint8_t kind;
    uint8_t wire; /* ps_dtype of its frames */
    bool init_only;
    uint64_t chief_number;  /* ASSIGN: number of the chief that gives it; 0: not as a chief. To a slot of Adam: bits of its power,
                               f64 */
    uint64_t member, round; /* CONTRIBUTE */
    uint64_t highest;       /* of rows: index of the last one; 0 without rows */
    uint64_t last_index;    /* of rows: index of the last row that has come; UINT64_MAX: none has */
    uint64_t step;          /* PUSH, PUSHPULL, PUSH_ROWS: as ps_push_step.step */
    /* volatile: */
    uint64_t from;         /* as ps_push_meta.version */
    struct psd_kept *kept; /* keeps staging (kept.h); NULL: no cut does */
    /* derived: */
    struct psd_area *area; /* CONTRIBUTE: where it goes (rounds.h); NULL: it is dropped */
    uint32_t unit;         /* bytes of an element as it travels, of a row with its index */
};

struct psd_number {
    /* remembered: */
    uint64_t number; /* 0: this place is empty */
    uint64_t offset; /* elements applied or staged */
    uint64_t position, version, incarnation;
    struct psd_progress *progress;
    char *text;      /* refused: its text, owned; may be NULL */
    uint8_t state;   /* enum ps_number_state: APPLIED, REFUSED, IN_PROGRESS, ABANDONED */
    uint8_t applied; /* ps_applied of a refused or abandoned one */
    uint8_t status;  /* ps_status of a refused one */
    uint8_t result_bytes;
    uint16_t reason; /* ps_reason of a refused one; 0: as status says */
    uint8_t result[PS_RESULT_BYTES_MAX];
};

enum { PSD_STEPS_KEPT = 5 };

/* A beat that said a global step. */
struct psd_step {
    /* volatile: */
    uint64_t at_ms, step;
};

/* A session that was refused the place of another one. */
struct psd_rival {
    /* volatile: */
    uint8_t session[16];
    uint64_t number; /* number made when this session first asked; 0: no rival */
};
enum { PSD_RIVALS_KEPT = 4 /* for each holder; of more, the session whose number is the oldest gives way */ };

struct psd_record {
    /* remembered: */
    uint8_t session[16];
    uint64_t name;                        /* random, never 0 */
    char who[PSI_IDENTITY_TEXT_BYTES];    /* identity that made the session; "": not known, from a checkpoint of an older psd */
    struct psi_list progress;             /* struct psd_progress */
    struct psi_list attempts;             /* struct psd_attempt of queue.h, the oldest first */
    struct psd_number numbers[PS_WINDOW]; /* place = number % PS_WINDOW */
    /* derived: */
    uint64_t highest; /* highest number seen */
    uint32_t progress_count;
    uint32_t text_bytes; /* of refusals */
    uint64_t cut;        /* volatile: serial of the last cut that has the record (cut.h) */
    /* volatile: the connection, and who the session is */
    uint64_t connection;    /* highest connection number */
    void *conn;             /* its connection now, NULL when there is none */
    struct psi_list silent; /* in a list of the task, while there is no connection */
    struct psi_list shown;  /* struct psd_shown of the containers whose keys the session has shown (shown.h) */
    uint64_t idle_since_ms;
    bool just_silent;            /* its connection ended since the clock last moved */
    bool away;                   /* without a connection, and its lease is over: what it had of queues has gone back */
    bool guest;                  /* let in above the limit: the record goes with its connection */
    uint64_t begun_ms, heard_ms; /* when the record was made; when the session was last heard of, while there is no connection */
    bool stopping;               /* the answer to its next beat tells it to stop */
    bool done;                   /* directory: the session has said that the job is done */
    uint32_t step_count;         /* entries of steps, the newest last */
    struct psd_step steps[PSD_STEPS_KEPT];
    char step_of[PS_CONTAINER_BYTES_MAX + 1]; /* container of the global step; "": the client does not say it */
    struct psi_u64_map waits;                 /* request number -> struct psd_wait of psd/session/wait.h */
    char job[PS_JOB_BYTES_MAX + 1];
    char host[PS_JOB_BYTES_MAX + 2];
    char program[PS_JOB_BYTES_MAX + 2];
    char container[PS_CONTAINER_BYTES_MAX + 1];
    struct psd_own {
        char container[PSI_SESSION_CONTAINER_BYTES - 1]; /* its own container, without a NUL; all 0: it has not said one */
        uint8_t key[PSI_KEY_BYTES];
    } own;
    uint32_t task, pid;
    uint64_t lease_until_ms;                   /* directory: until when it is a member */
    bool member;                               /* directory: it was a member at the last tick, so its task counts as up */
    char chief_of[PS_CONTAINER_BYTES_MAX + 1]; /* directory: container that its last beat asked about; empty: none */
    uint64_t chief_ready; /* directory: number of the chief under which the session has made the model ready; 0: it has not */
    /* directory, bounded staleness: id of the session's member, 0: none; its steps, as the session's beats say */
    uint64_t round_member, round_steps;
    char rival[96];                     /* directory: the last other process that was refused the place of this session */
    uint64_t rival_ms, rival_logged_ms; /* when that process was refused; when the log last said so. 0: never */
    struct psd_rival rivals[PSD_RIVALS_KEPT];
    /* directory: the newest number made for a rival, and the newest one that a beat of this session brought back. 0: none */
    uint64_t challenge, proved;
};
enum { PSD_RECORD_TEXT_BYTES = 8 << 10 }; /* of all texts; the oldest go first: most clients have heard them */
/* bytes of a record at most, with its entry in the map of all records and the first tables of its own map */
#define PSD_RECORD_BYTES (sizeof(struct psd_record) + PSD_RECORD_TEXT_BYTES + PSI_MAP_ENTRY_BYTES + PSI_MAP_LEAST_BYTES)

/** True for mutations of rows: PUSH_ROWS, SCATTER. */
static inline bool psd_push_is_rows(uint8_t kind)
{
    return kind >= PSD_PUSH_ROWS;
}
static inline bool psd_push_is_gradient(uint8_t kind)
{
    return kind == PSD_PUSH || kind == PSD_PUSH_PULL || kind == PSD_CONTRIBUTE || kind == PSD_PUSH_ROWS;
}
/** The optimizer runs for a push of this kind. */
static inline bool psd_push_is_applied(uint8_t kind)
{
    return kind == PSD_PUSH || kind == PSD_PUSH_PULL || kind == PSD_PUSH_ROWS;
}
/** The slot that a kind ASSIGN_SLOT_n assigns, n; 0: another kind. */
static inline uint32_t psd_push_slot(uint8_t kind)
{
    return kind >= PSD_ASSIGN_SLOT_1 && kind <= PSD_ASSIGN_SLOT_LAST ? 1u + kind - PSD_ASSIGN_SLOT_1 : 0;
}
/** An assign to the value or to a slot: it takes effect as a whole, at its end. */
static inline bool psd_push_is_assign(uint8_t kind)
{
    return kind == PSD_ASSIGN || psd_push_slot(kind) != 0;
}
/** True if the mutation changes v segment by segment or, if v is atomic, all at once from staging: a gradient for the optimizer,
 * rows, or an ADD of more than one segment. */
static inline bool psd_push_streams(uint8_t kind, const struct psd_variable *v)
{
    return psd_push_is_applied(kind) || psd_push_is_rows(kind) || (kind == PSD_ADD && v->bytes > PS_SEGMENT_BYTES);
}
/** True if segments of a dense gradient for v, in any dtype, may end within a row, while its optimizer needs whole rows. */
static inline bool psd_push_cuts_rows(uint8_t kind, const struct psd_variable *v)
{
    return v->row_elements > 1 && (kind == PSD_PUSH || kind == PSD_PUSH_PULL) &&
           PS_SEGMENT_BYTES / sizeof(double) % v->row_elements != 0;
}
/** True if a mutation of v takes effect as a whole, and not segment by segment: v is atomic, its optimizer needs norms of the
 * whole gradient, segments would cut rows, or v has one segment, of which readers never see a part of a mutation, while rows with
 * their indices may need more than one. */
static inline bool psd_push_is_whole(uint8_t kind, const struct psd_variable *v)
{
    return v->atomic || (psd_push_is_rows(kind) && v->bytes <= PS_SEGMENT_BYTES) || psd_push_cuts_rows(kind, v) ||
           (psd_push_is_applied(kind) && psi_optimizer_is_whole(v->optimizer.kind));
}
/** True if part of p may have been applied before its end. */
static inline bool psd_progress_streams(const struct psd_progress *p)
{
    return psd_push_streams(p->kind, p->variable) && !psd_push_is_whole(p->kind, p->variable);
}

/** True if n is in progress and part of it has been applied. However n ends, the variable then gets a new version. */
static inline bool psd_number_is_torn(const struct psd_number *n)
{
    return n->progress != NULL && psd_progress_streams(n->progress) && n->offset > 0;
}

/** All of p is gathered in staging, and takes effect with its last byte. */
static inline bool psd_progress_stages(const struct psd_progress *p)
{
    return psd_push_is_assign(p->kind) || (psd_push_streams(p->kind, p->variable) && psd_push_is_whole(p->kind, p->variable));
}

/** Bytes of staging that p needs. 0 for a variable without elements. */
static inline uint64_t psd_progress_staging_bytes(const struct psd_progress *p)
{
    const struct psd_variable *v = p->variable;
    return !psd_progress_stages(p)     ? 0
           : psd_push_is_rows(p->kind) ? p->total * p->unit
           : v->dtype == PS_STRING     ? p->total
                                       : psd_variable_bytes_of(v, psd_push_slot(p->kind));
}
/** Bytes of staging that the first n elements of p take. */
static inline uint64_t psd_progress_staged_bytes(const struct psd_progress *p, uint64_t n)
{
    const struct psd_variable *v = p->variable;
    return n * (psd_push_is_rows(p->kind) ? p->unit : v->dtype == PS_STRING ? 1 : v->element_bytes);
}

/** NULL: no memory. */
struct psd_record *psd_record_new(const uint8_t session[16], uint64_t name);
/** Nothing of r may be in progress; its attempts and waits are gone. NULL is fine. */
void psd_record_free(struct psd_record *r);
/** The entry of `number`. NULL: the record does not know it. */
const struct psd_number *psd_record_find(const struct psd_record *r, uint64_t number);
/** True if `number` may begin. False if it is PS_WINDOW or more below the highest one, so that its place may hold a newer number,
 * or if the window would lose a number in progress. */
bool psd_record_admits(const struct psd_record *r, uint64_t number);
/** The session as text for logs: "/job:worker/task:1@host:42", "psctl@host:42". */
const char *psd_record_text(const struct psd_record *r, char *buf, size_t n);
/** Note a beat with this global step, 0 to INT64_MAX, of this container. */
void psd_record_beat(struct psd_record *r, uint64_t now_ms, uint64_t step, const char *container);
/** The last global step that the session reported, + 1; 0: none. Steps reported up to since_ms do not count, because the model
 * was restored then; nor does the last step of a session that ends for that reason. */
uint64_t psd_record_step(const struct psd_record *r, uint64_t since_ms);
/** Global steps per second that the session's beats show: from the first to the last beat kept (PSD_STEPS_KEPT). 0: fewer than
 * two beats, or the last one is older than stale_ms. A step lower than the one before begins anew. */
double psd_record_steps_per_second(const struct psd_record *r, uint64_t now_ms, uint64_t stale_ms);
void psd_record_check_invariants(const struct psd_record *r);

#endif
