/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: real server cores (psd_task) and real client cores (psi_client) in one thread, over a network, a clock and a
 * scheduler that are all drawn from one seed, so that every run can be repeated.
 *
 *   sim_run()  draws the knobs of a seed (knobs.c) -> makes a world (world.c) -> repeats: choose one of the events that can
 * happen now (step.c: bytes arrive, a write goes on, a tick, a program starts a call, a fault), carry it out, carry out the
 * effects of the core it went to (node.c), look at the oracles (oracle.c, birth.c) -> faults end, everything must finish -> last
 * checks.
 *
 * net.c      byte streams with frame boundaries, delays, cuts, half-open connections, backlog
 * node.c     tasks and clients: events, effects, restarts
 * disks.c    the disks of tasks, on disk.c;  twin.c: two processes of one task
 * saves.c    clients that ask for checkpoints, and that all goes back to one
 * fewer.c    at the end the cluster begins again with fewer ps tasks, out of their disks
 * race.c     resets, creations, pushes and dying tasks in every order
 * program.c  what a client does: get, ready, work, end, come back;  call.c: one request, from start to its callback
 * work.c     calls that tasks run;  barrier.c: programs that wait for each other
 * queues.c   queues, compared with those of TensorFlow's rules (queue_ref.h), and a ledger of their elements
 * shares.c   a work queue, and a ledger of its items
 * sums.c     an accumulator, compared with one of plain numbers
 * rounds.c   programs that train in rounds, and a ledger of rounds and members
 * train.c    training programs of several threads, by the machine of training; train_queue.c: their queue
 * identity.c who has which right, and a thief
 * own.c      sessions' containers: who gets at them, and that nothing of them stays
 * chief.c    candidates for the lease of a chief, and what chiefs may do to a model
 * replay.c   the changes of a task's life, replayed into an empty one
 * checkpoint.c  cuts, and what is loaded of them;  back.c: what comes back of them is what was there
 * oracle.c   values against the ledger of calls;  birth.c: variables' lives, two owners, mixed models
 *
 * A broken rule ends the run by sim_fail(), whose text says what was lost, doubled or mixed.
 */
#ifndef SIM_H
#define SIM_H

#include "../../../common/cluster.h"
#include "../../../common/rng.h"
#include "../../../psd/optim/optim.h"
#include "../../../psd/task.h"
#include "worker/core/core.h"

#include <setjmp.h>
#include <stdio.h>

enum {
    SIM_TASKS_MAX = 5,
    SIM_PROGRAMS_MAX = 9,
    SIM_VARS_MAX = 12,
    SIM_CONNS_MAX = 256,
    SIM_CALLS_MAX = 64,  /* of one program at a time */
    SIM_DIGITS_MAX = 31, /* pushes of one variable */
    SIM_STRINGS_MAX = 3, /* elements of a register of strings */
    SIM_BOUNDARIES_MAX = 256,
    SIM_READ_MAX = 128 << 10 /* one read of a shell */
};
#define SIM_NEVER UINT64_MAX

struct sim;
struct sim_conn;
struct psd_change;
struct psd_queue;
struct psd_record;
struct sim_train;
struct psd_variable;
struct ref_queue;

/* ---- knobs: what a seed is about ---- */
enum sim_fault {
    SIM_FAULT_CUT,          /* both sides learn soon */
    SIM_FAULT_CUT_BOUNDARY, /* the same, exactly at (or a byte beside) the n-th boundary from now */
    SIM_FAULT_HALF_OPEN,    /* one side learns late or never */
    SIM_FAULT_PAUSE_DIR,    /* one direction stands still */
    SIM_FAULT_STOP_TASK,    /* SIGSTOP ... SIGCONT */
    SIM_FAULT_STOP_CLIENT,
    SIM_FAULT_SLOW_TICK,    /* a node gets bytes but no tick */
    SIM_FAULT_RESTART_TASK, /* empty, at once or after a while */
    SIM_FAULT_KILL_CLIENT,
    SIM_FAULT_PARTITION, /* no new connections between two nodes, the old one is cut */
    SIM_FAULT_RESET,     /* a program empties the container */
    SIM_FAULT_TWIN,      /* one of the two processes of a task is away from the directory for a while */
    SIM_FAULT_POWER,     /* all tasks end at the same time */
    SIM_FAULT_INTERRUPT, /* what the threads of a program wait for, half of what is out, ends */
    SIM_FAULT_COUNT
};

enum sim_profile {
    SIM_CALM,
    SIM_SESSION,
    SIM_FRAMES,
    SIM_DIRECTORY,
    SIM_CHIEFS,
    SIM_BOUNDARY,
    SIM_QUEUES, /* eight programs at two queues (queues.c), at a work queue (shares.c) or an accumulator (sums.c) */
    SIM_ROUNDS, /* workers that train in rounds (rounds.c) */
    SIM_LEASE,  /* candidates for the lease of a chief (chief.c) */
    SIM_OWN,    /* containers of sessions (own.c) */
    SIM_RACE,   /* rounds of a reset, a creation, a push and a dying task, in every order (race.c) */
    SIM_PROFILE_COUNT
};

struct sim_knobs {
    enum sim_profile profile;
    uint32_t ps_tasks, other_tasks; /* other: a task of job worker that holds a pinned variable */
    uint32_t programs;
    bool workers_listed; /* otherwise every session is a chief */
    bool second_chief;
    bool static_chief;   /* LEASE: some sessions of worker 0 claim nothing, and initialise under a number that they take */
    bool twin;           /* task 1 has two processes at one address; the second one is the last of sim.task */
    bool moves;          /* tasks other than the directory listen at any port, another one in each life (moves.c) */
    bool trains;         /* ROUNDS: programs train by the machine of training (train.c); also asynchronously */
    bool train_queue;    /* programs that train use a queue (train_queue.c) */
    bool monitor;        /* a program that finds, lists, creates and deletes "tmp" */
    bool disks;          /* each task has a disk */
    bool fewer;          /* ... and at the end the cluster begins again with fewer ps tasks */
    bool spread;         /* ... which deal what is saved over all of them */
    bool beside;         /* ... beside another profile than the races: back.c looks, and optimizers have slots */
    const char *recover; /* ... and who goes back to the cut where one does; NULL: as ever */
    uint32_t save_in;    /* ... and at one tick of the directory in n a checkpoint is wanted */
    bool asks;           /* disks: clients ask for checkpoints, and for restores of some, saves.c */
    bool shares;         /* QUEUES: a work queue instead of the two others */
    bool sums;           /* QUEUES: an accumulator instead */
    bool rows;           /* half of what pushes and adds does so to some rows, and half of what reads gathers */
    bool imports; /* some sessions of chiefs give registers their values and end, as psctl import does; some end in between */
    uint32_t vars;
    uint32_t frame_bytes; /* PS_FRAME_BODY_MAX of the cores */
    bool large;           /* one variable of three frames and a bit */
    bool crc;
    uint64_t fault_from_ms, fault_until_ms;
    uint32_t fault_every_ms;
    uint32_t fault_weight[SIM_FAULT_COUNT];
    uint32_t delay_ms;                        /* of bytes, at most */
    uint32_t pipe_bytes;                      /* what the kernel takes */
    uint64_t memory_bytes;                    /* budget of each task; 0: plenty */
    uint32_t unplaced_in;                     /* one read in n of a client is not to where the values belong; 0 never */
    uint32_t small_read_in, boundary_read_in; /* one read in n is small, ends at a boundary; 0 never */
    uint32_t short_write_in;                  /* one write in n is taken in part */
    uint32_t advance_in;                      /* time goes on after one event in n */
    uint32_t operation_ms, ready_ms;
    uint32_t short_deadline_in; /* one call in n gets a deadline of 1 to 300 ms */
    uint32_t depth;             /* calls of a program at a time */
    uint32_t calls_many;        /* after so many calls they come slowly */
    uint32_t think_ms;
    uint32_t backlog_survives_in; /* of a restart: one in n is lost; 0 never */
    uint32_t lease_ms, beat_ms, hello_ms, segment_ms, session_keep_ms;
    uint32_t pushes_max, buffers_max;
    uint32_t init_slice_bytes; /* every INIT is made in slices of this; 0: at once */
    bool few_sessions;         /* a place for each program and one more: dead sessions must give way */
    /* what follows from the faults: */
    bool may_lose;           /* variables may be lost: restarts, resets */
    bool may_forget;         /* records may be dropped: session_keep is short, or restarts */
    bool may_refuse;         /* pushes_max is small */
    bool quiet;              /* nothing breaks a connection */
    bool restarts_directory; /* and no other task */
    bool polite;             /* sessions end with GOODBYE, nobody is killed */
    bool slow_links;         /* pauses hit what the directory says to the other tasks, and may outlast leases */
};

/* ---- network ---- */
struct sim_parser {
    uint8_t head[PS_FRAME_HEADER_BYTES];
    uint32_t have, meta_left, body_left, segment_left, segment_whole;
};
struct sim_pipe {
    uint8_t *data;
    size_t head, len, capacity;
    uint64_t written, delivered; /* stream offsets */
    uint64_t limit;              /* bytes from here on are lost; SIM_NEVER: none */
    uint64_t ready_at, paused_until;
    bool fin;         /* the writer has closed */
    bool stuck;       /* lost bytes are not even taken: a half-open connection with full buffers */
    uint32_t trigger; /* cut at this many boundaries from now; 0: not armed */
    int trigger_shift;
    uint64_t cut_at;
    struct sim_parser parser;
    uint64_t boundary[SIM_BOUNDARIES_MAX];
    uint32_t boundary_first, boundary_count;
};
enum sim_end_state { SIM_END_NONE, SIM_END_DIALING, SIM_END_BACKLOG, SIM_END_OPEN, SIM_END_LINGER, SIM_END_CLOSED };
struct sim_end {
    struct sim_conn *conn;
    uint32_t side; /* 0: dialled, 1: accepts */
    bool is_task;
    uint32_t node; /* task or program */
    uint32_t life; /* of the node when the end was made */
    enum sim_end_state state;
    struct psi_link *link;
    const uint8_t *hold;
    size_t hold_bytes, hold_sent;
    bool write_turn, room; /* more to send; the writable event is due */
    uint64_t linger_until, learn_at;
    uint64_t heard_at; /* last byte; the opening counts */
};
struct sim_conn {
    struct sim *sim;
    uint64_t id;
    struct sim_end end[2];
    struct sim_pipe pipe[2]; /* [i]: from end i */
    bool cut;
    bool refused;     /* the dial will fail */
    uint32_t to_life; /* moves: of the dialled task when the dial began: a later life listens elsewhere */
    uint64_t dial_at;
    uint32_t table_index; /* of the dialled task in the client's table */
    enum psd_dial dial;   /* of a task */
};

/* ---- nodes ---- */
enum { SIM_WORKS_MAX = 256 };
/* A call that a task runs. */
struct sim_work {
    uint64_t id; /* of the core's effect */
    struct sim_op *op;
    const void *in;
    void *out;
    size_t come; /* bytes of its input that were there when it began */
    bool awaits; /* the rest of its input is still to come */
    uint64_t end_at;
    bool cancelled;
    bool writes;          /* it is to write a register of its task */
    struct sim_op *write; /* the ledger's entry of that, from its draft on; NULL: none */
    void *room;           /* the draft, until it is published */
    bool publishing;
};
struct sim_task {
    struct sim *sim;
    char job[16];
    uint32_t index;
    char address[32];
    bool same_job;         /* as the directory's */
    bool gone;             /* for good */
    bool settled;          /* it has read the directory's answer to its list, on its newest connection */
    struct psd_task *core; /* NULL: down */
    uint32_t life;         /* counts starts */
    uint64_t up_at;        /* down: when it starts */
    uint64_t stopped_until, next_tick;
    uint64_t resumed_at; /* sim_resumes(): the latest end of a standstill or of a slow tick, past or to come */
    char limit[16];      /* its setting that may change */
    uint64_t kill_at;    /* it drains (SIGTERM) and ends when drained, or then; 0: it does not */
    uint64_t died_at;    /* when it was last killed or ended; 0: never */
    bool ready;
    struct psd_task_config config;     /* of this life, as the next three */
    struct psi_buf changes;            /* encoded; max 0: they have been replayed */
    struct sim_checkpoint *checkpoint; /* NULL: none goes */
    uint64_t checkpoint_in;            /* events until the next one */
    uint64_t cut_number;               /* of the last cut of its core, in this life */
    size_t cut_changes;                /* bytes of changes before that */
    uint64_t load_number;              /* that is loaded from its disk */
    uint64_t placed;                   /* psd_beside.placed of its core, as of its last event */
    uint64_t loads;                    /* checkpoint that it loads, or has loaded last */
    struct sim_work work[SIM_WORKS_MAX];
    uint32_t work_count;
    uint64_t counter;
    struct sim_task_disk *disk; /* its disk, of all its lives; NULL: the world has none */
};

enum sim_program_state { SIM_OFF, SIM_CLUSTER, SIM_GET, SIM_FIRST_VALUES, SIM_READY, SIM_WORK, SIM_END, SIM_RESET, SIM_GOODBYE };
enum sim_role { SIM_CHIEF, SIM_WORKER, SIM_MONITOR, SIM_FINAL };
#define SIM_STATIC "static"
struct sim_program {
    struct sim *sim;
    uint32_t index;
    enum sim_role role;
    char job[16];
    uint32_t task;
    struct psi_client *core; /* NULL: off */
    uint32_t life;           /* counts sessions, of all programs */
    uint64_t begun_ms;       /* this session */
    uint64_t ended_ms;       /* the session before, by itself or killed */
    uint64_t chief_number;   /* LEASE: of the session before, which was not killed */
    bool leases;             /* trains: the chief of its job has a lease */
    bool is_static;          /* ... this one claims no lease, and its HELLO says SIM_STATIC */
    bool stop_ok;            /* it has told everybody to stop, also itself ... */
    uint32_t stop_task;      /* ... at this one of sim.task ... */
    uint32_t stop_life;      /* ... which was in this life */
    enum sim_program_state state;
    uint64_t start_at, next_call_at;
    uint64_t stopped_until, next_tick;
    uint64_t resumed_at; /* as a task's */
    bool in_start;
    bool wants_reset, ended_ok;
    uint32_t calls_out;  /* calls that are not done */
    uint32_t set, todo;  /* variables of this session, and those not got yet: bits */
    uint32_t failures;   /* in a row */
    uint32_t work_ok;    /* calls of this session that ended OK */
    uint32_t asked_vars; /* programs end: tasks asked what is in progress there */
    bool initialised_tmp, ready_out;
    struct psi_var *var[SIM_VARS_MAX];
    uint32_t order[SIM_VARS_MAX]; /* of gets */
    uint64_t work_until;
    uint32_t dials[SIM_TASKS_MAX + SIM_PROGRAMS_MAX];
    uint64_t heard_at[SIM_TASKS_MAX]; /* when bytes of it last reached that task */
    struct sim_call *calls[SIM_CALLS_MAX];
};

/* ---- variables, calls, births ---- */
#define SIM_CONTAINER "localhost" /* of the model */
#define SIM_OTHER "other"         /* of the monitor's variable, in most seeds: there a name of the model's is another variable */
enum sim_var_kind {
    SIM_VAR_PUSH,     /* f64 or f32, SGD with rate 1: the sum of 4^k over the pushes and additions applied */
    SIM_VAR_COUNTER,  /* i64, ADD of 4^k */
    SIM_VAR_STEP,     /* i64 global_step, ADD of 1 */
    SIM_VAR_REGISTER, /* f64 or strings (text.c), ASSIGN and INIT_FROM of a tag in all elements */
    SIM_VAR_HYPER,    /* chief sessions only: the rate is 1 + session / 1024 */
    SIM_VAR_QUEUE,    /* queues.c */
    SIM_VAR_ROUND,    /* rounds.c: f64 or f32, SGD with rate 1; or i64, the global step of the rounds */
    SIM_VAR_MODEL,    /* chief.c: f64, SGD with rate 1: a tag times 2^20, and the number of pushes */
    SIM_VAR_MOVED,    /* moved.c: f64, LAMB or LARS, pushes and assigns of numbers */
    SIM_VAR_TMP       /* as PUSH; made, given first values, deleted, and reset with its container by the monitor */
};
struct sim_var {
    char name[24], device[32];
    bool unpinned; /* new sessions leave the device out */
    const char *container;
    enum sim_var_kind kind;
    ps_dtype dtype, wire; /* wire: of pushes and pulls; values are small enough to be exact in it */
    bool atomic;
    bool by_rows; /* ROUND: members contribute some of its elements, each a row */
    uint64_t elements;
    struct psi_part part; /* count 0: it is no part of a table */
    uint32_t digits_max, digits_used;
    struct sim_op *digit[SIM_DIGITS_MAX];
    struct psi_queue_spec queue; /* QUEUE */
    bool closed;                 /* QUEUE: it has been, in one of its lives */
    bool lost;                   /* ghost: trained values were lost while others lived */
    uint64_t lost_event;
};

/* A push all of which has come, and that moves its variable in slices. */
struct sim_moved {
    const struct psd_number *number; /* NULL: there is none */
    uint64_t creation;
    double *value, *want; /* behind the last segment; and what is to come of it. NULL: no slice is made yet */
    bool over;            /* its last slice was carried out by the change before */
};

enum sim_op_state { SIM_OP_PENDING, SIM_OP_DONE, SIM_OP_KILLED };
/* The ledger's entry of one call. */
struct sim_op {
    uint64_t id;
    uint32_t program, life;
    enum psi_request_kind kind;
    struct sim_var *var;   /* NULL: none */
    const char *container; /* RESET */
    uint32_t digit;
    uint64_t from, to; /* PUSH, ADD and those of rows: the elements that it is for */
    double tag;        /* REGISTER: of this ASSIGN */
    int64_t add;       /* STEP, COUNTER; of an accumulator: the step */
    uint64_t creation; /* of the variable when the call was started */
    uint64_t started_event, done_event, started_ms, done_ms, deadline_ms;
    uint64_t floor_version; /* highest version of a call that had ended by then */
    int64_t floor_value;    /* COUNTER and STEP: the same of values */
    enum sim_op_state state;
    ps_status status;
    ps_applied applied;
    uint64_t version;
    bool exact;
    bool one_segment; /* its values travel in one */
    int64_t result;   /* ADD: the new value; pull of a counter: the value */
    double pulled;    /* REGISTER, uniform pull: the tag */
    /* CALL */
    uint32_t task;                           /* where */
    bool ran, fails, early;                  /* early: of the row that begins before all of its input has come */
    uint64_t count;                          /* of its task's calls it was this one; ENQUEUE: elements; WORK_END: the epoch */
    size_t in_bytes, out_room, result_bytes; /* of a call: what goes in, the room of its caller, what has come out */
    uint64_t member, round;                  /* STEP, LEAVE, PUSH in rounds: whose, and for which; JOIN: that it was told */
    uint32_t directory_life;                 /* STEP: when it began */
    /* BARRIER: which, and the count */
    uint32_t gate, of;
    uint64_t first;  /* ENQUEUE: number of its first element in the ledger */
    uint64_t number; /* DEQUEUE: of the request, when it has been answered; WORK_END: serial of the item; LEASE: of the chief that
                        it is given by */
    bool cancel;     /* QUEUE_CLOSE; WORK_END: gives it back; ENQUEUE to a work queue: another fill than before */
};
struct sim_call {
    struct psi_request req;   /* first: a request is its call */
    struct psi_var_name name; /* DELETE */
    struct sim_op *op;
    struct sim_program *program;
    uint32_t slot;
    uint8_t *src, *dst;
    size_t bytes;
    struct psi_rows *rows; /* of some rows: src of the request */
    struct psi_enqueue put;
    struct psi_dequeue take;
    struct psi_work_end end;
    struct psi_sync sync; /* READY of rounds */
    struct psi_stepped stepped;
    struct psi_readied readied; /* LEASE */
    /* administration */
    struct psi_setting setting;  /* CONFIG_SET */
    struct psi_saved_name saved; /* CHECKPOINT_RESTORE */
    const char *container;       /* CHECKPOINT_RESTORE: of this one alone, where saved.container_count is 1 */
    struct psi_barrier barrier;
    char limit[16];
    uint32_t task_life; /* of the task that is asked when it began, 0: not known which */
    uint32_t listed, listed_self;
    char last[256];
    uint64_t last_ms;
};

/* One life of a variable at a task. */
struct sim_birth {
    uint64_t creation;
    struct sim_var *var;
    uint32_t task, task_life;
    uint64_t born_event, died_event; /* died: SIM_NEVER while alive */
    bool alive, seen, initialised, sealed;
    bool confirmed, stale; /* of two processes of one task: the directory takes it to be here, at the other one since */
    bool placed;           /* out of a checkpoint ... */
    bool restored;         /* ... with a value: what its task had before, it may have; from base_version on it is its own */
    uint64_t base_version, base_step;
    int taint;            /* 1: first values while others were trained; 2: trained values were lost before */
    struct sim_op *giver; /* REGISTER: whose ASSIGN gave it its first value; NULL: none did */
    uint64_t given_event, given_ms, trained_event, trained_ms; /* first value, first version above 0 */
    uint64_t half_of; /* creation of another one that had been given its value, and a chief that saw it initialised this one */
    uint64_t version;
    uint64_t done_version; /* highest of a mutation that ended OK */
    int64_t done_value;
    uint64_t first, last;  /* first and last element as last seen, PUSH and TMP */
    bool by_restart;       /* how it died */
    uint64_t chief_number; /* HYPER: highest seen */
    double trained;        /* ROUND: what its elements are to be; by rows: what they would be if all had each of them */
    double *rows;          /* ROUND, by rows: what each is to be; from malloc() */
    double tag;            /* MODEL: as last seen */
    uint64_t sealed_event; /* MODEL: since when it must not change; 0: it may */
    uint64_t summed;       /* 1 + the version of which `sum` is the CRC, at a moment without a push in progress; 0: of none */
    uint32_t sum;
};
enum { SIM_HYPERS_MAX = 512 };
/* Which rate was seen in force under which chief number. */
struct sim_hyper {
    uint64_t creation, number;
    double rate;
};
enum { SIM_EXACT_MAX = 512 };
/* An exact pull that showed part of a push: that push must have ended torn, there. */
struct sim_partial {
    struct sim_op *pull, *push;
    uint64_t creation, elements;
};

enum { SIM_STOPS_MAX = 64 };

enum { SIM_QUEUES_MAX = 4, SIM_QUEUE_ENDS = 1024, SIM_ELEMENT_KEYS = 24 };
/* A queue of a task, and what it would be by TensorFlow's rules. */
struct sim_queue {
    struct ref_queue *ref; /* NULL: none */
    struct sim_var *var;
    uint64_t creation;
    uint32_t handle, task;
};
/* A request has ended in this event, and its elements are its client's or went back. */
struct sim_queue_end {
    uint64_t life, number, creation;
    bool give_back;
};
enum sim_place { SIM_PLACE_NONE, SIM_PLACE_QUEUE, SIM_PLACE_TAKEN, SIM_PLACE_GONE };
enum sim_told { SIM_TOLD_NOTHING, SIM_TOLD_IN, SIM_TOLD_OUT };
/* A request of a session. */
struct sim_element_key {
    uint32_t life;
    uint64_t number;
};
/* The ledger's entry of an element. */
struct sim_element {
    struct sim_op *put;
    uint64_t creation; /* of its queue */
    uint64_t number;   /* of the request that put it in, and ... */
    uint32_t life;     /* ... of its session; 0: none did */
    enum sim_place place;
    enum sim_told told; /* to the program that enqueued it */
    bool dead;          /* its queue is gone */
    uint32_t got_count, back_count;
    struct sim_element_key got[SIM_ELEMENT_KEYS];  /* programs that were given it */
    struct sim_element_key back[SIM_ELEMENT_KEYS]; /* ... and lost it, by the end of their lease or their own */
};

enum { SIM_SHARES_MAX = 20, SIM_SHARE_EPOCHS = 3, SIM_SHARE_LOST = 64, SIM_SHARES_OVER = 8 };
/* The ledger's entry of an item of the work queue. */
struct sim_share {
    enum sim_place place;      /* GONE: done in this epoch */
    struct sim_element_key by; /* who holds it, or did last */
    bool got;                  /* he was told so */
    uint32_t again;            /* it came back in this epoch */
    uint32_t done_by[SIM_SHARE_EPOCHS];
    uint32_t lost_count;
    struct sim_element_key lost[SIM_SHARE_LOST]; /* those it was taken from, by the end of their lease or their own */
};
/* The work queue as it is to be. */
struct sim_shares {
    uint32_t count, epochs;
    uint64_t creation; /* 0: nobody has seen it; as the rest */
    uint32_t put, epoch;
    bool filled;
    struct sim_share item[SIM_SHARES_MAX];
};
enum { SIM_WAITING_MAX = 256 };
/* What was taken of the accumulator, once or again. */
enum { SIM_SUM_ROWS = 4 };
/* Rows of a gradient, a sum or a mean: those that are there, what each of their elements is, and how many gradients have them. A
 * dense one is row 0, with count 0. */
struct sim_sum_rows {
    bool has[SIM_SUM_ROWS];
    double value[SIM_SUM_ROWS];
    uint64_t count[SIM_SUM_ROWS];
};
struct sim_result {
    uint64_t creation, count; /* count: gradients in it */
    struct sim_sum_rows rows;
    enum sim_place place;      /* QUEUE: it came back; GONE: a program has it for good */
    struct sim_element_key by; /* TAKEN: by which request */
    int64_t order;             /* QUEUE: the lowest is taken next */
    uint32_t got_count, lost_count;
    struct sim_element_key got[SIM_ELEMENT_KEYS];  /* programs that were given it */
    struct sim_element_key lost[SIM_ELEMENT_KEYS]; /* ... and those it was taken from, by the end of their lease or their own */
};
/* The accumulator as it is to be. */
struct sim_sums {
    uint64_t creation; /* 0: nobody has seen it; as the rest */
    uint64_t count;
    int64_t step, front;
    struct sim_sum_rows sum;
    uint32_t waiting_count;
    struct sim_element_key waiting[SIM_WAITING_MAX]; /* takes, the first one first */
};
/* What the ledgers had of a work queue or an accumulator then. */
struct sim_saved_work {
    struct sim_shares shares;
    struct sim_sums sums;
    size_t result_count;
    enum sim_place place[]; /* [result_count] */
};
/* What a task had of a variable at the cut of a checkpoint. */
struct sim_saved {
    uint64_t number;               /* 0: of none any more */
    uint32_t task, directory_life; /* task: of sim.task */
    struct sim_var *var;
    bool initialised, sealed, closed; /* closed: a queue */
    uint64_t version, torn;           /* torn: pushes that were being applied */
    struct psd_optim_state powers;
    double rate;
    uint64_t bytes;    /* of value and slots */
    uint32_t sum;      /* ... their CRC */
    double trained;    /* ROUND: as of sim_birth */
    double *rows;      /* ROUND by rows: copy of sim_birth.rows, from malloc(); NULL: not by rows */
    uint64_t *element; /* QUEUE: those that sessions have taken, and those that are in it */
    size_t taken, element_count;
    struct sim_saved_work *work; /* QUEUE: the same of others */
};
/* A session at a work queue. */
struct sim_holder {
    uint32_t life, epoch;
    bool filled, out; /* a call is */
    bool done;        /* it has said that the item is, or tried to */
    uint64_t serial;  /* of what it holds; 0: nothing */
    uint64_t until;
};

enum { SIM_ROUND_MEMBERS = 16 };
/* The ledger's entry of a round that some owner has flipped. */
struct sim_round {
    uint64_t generation, round;
    uint32_t count;
    uint64_t member[SIM_ROUND_MEMBERS]; /* whose contributions it took */
    int64_t step;                       /* global step after it; -1: its owner has not flipped it yet */
    uint64_t at;                        /* 1 + global step that the first owner built it at */
    uint32_t life;                      /* of the directory, when the first owner flipped it */
    float factor;                       /* of its averages, at the first owner */
};
/* ... of a member. */
struct sim_member {
    uint64_t id, generation;
    uint32_t index;
    uint64_t from;        /* the first round that it was told; 0: none yet */
    uint64_t stepped;     /* highest round of a STEP that it has begun, with all that belongs to it; staleness: steps */
    uint64_t complete;    /* round for which the directory has it as complete, or had when the member went; 0: none */
    uint32_t life;        /* ... of that directory */
    bool left, succeeded; /* a LEAVE of it, a later JOIN of its index has begun */
};
/* A session in rounds. */
struct sim_trainer {
    bool joined, leaves, failed;
    uint32_t pushed;  /* variables that have been pushed to in this round */
    uint32_t forgets; /* variables that it says STEP without, until it is told so */
    uint64_t until;   /* then it leaves */
    uint64_t pauses;  /* until then it computes; the others wait longer than a lease */
    uint64_t read;    /* round in which it has read a variable by rows */
};

enum { SIM_CHIEFS_MAX = 512 };
/* The lease of the chief. */
struct sim_lease {
    struct {
        uint64_t number;
        uint8_t session[16];
        uint32_t task;         /* of job worker */
        double rate;           /* that this session asks for; 0: it had gone by then, or was ready and left what was in force */
    } numbers[SIM_CHIEFS_MAX]; /* that directories have given */
    uint32_t numbers_count;
    uint32_t directory_life; /* that gave the last one: ... */
    uint64_t held_number;
    uint8_t held_by[16];
    char held_job[16];
    uint32_t held_task;
    uint64_t held_until_ms;       /* ... of a life that is over: until then, as it knew */
    uint64_t seen[SIM_TASKS_MAX]; /* by the owner in this life: the highest number that it followed */
    bool whole;                   /* after the last event all variables were sealed */
    uint32_t freeze;              /* 1 + a program that the next fault is about; 0: none */
};
/* A session that may be the chief. */
struct sim_candidate {
    uint64_t number; /* under which it gives values, or empties the container; 0: neither */
    double tag;      /* of these values */
    uint32_t gives, given;
    bool planned, at_once, fails;
    uint64_t watched; /* its SEALs under this number have been looked at */
    bool asks;        /* STATIC: for its number, and the directory hears it late */
};

/* A RESET or DELETE that may take effect. */
struct sim_wipe {
    struct sim_op *op;
    struct sim_var *var; /* DELETE; NULL: all of op->container */
};

enum { SIM_RACE_STEPS = 4, SIM_RACE_ORDERS = 24 };
/* RACE profile: where its round is, and what came of it. */
struct sim_race {
    uint32_t order, step; /* of the round */
    uint32_t orders;      /* bits: those that were carried out in full */
    bool whole;           /* every step of this round could be taken */
    uint64_t reset_ok, reset_refused, reset_late, push_lost, created;
};

/* BOUNDARY profile: what the call is about */
enum sim_boundary_var {
    SIM_BOUNDARY_LARGE,  /* three frames */
    SIM_BOUNDARY_NARROW, /* three frames of bfloat16 */
    SIM_BOUNDARY_ATOMIC, /* a frame */
    SIM_BOUNDARY_ATOMIC_NARROW,
    SIM_BOUNDARY_STRINGS,
    SIM_BOUNDARY_EMPTY /* a frame without a body */
};

/* Memory for values whose call is over. */
struct sim_freed {
    uint8_t *dst;
    size_t bytes;
    uint64_t op;
};
enum { SIM_FREED_MAX = 16 };
struct sim {
    uint64_t seed, rng;
    struct sim_knobs k;
    bool verbose;
    bool healing, ending;
    bool identities;
    uint32_t table; /* identities: which table of rights is in force */
    uint64_t thief_connection, count_stolen, count_denied, count_tables;
    uint64_t now, event, steps;
    uint64_t next_fault, reset_wanted_at;
    bool kill_directory;     /* with the next fault: ROUNDS, in the middle of a COMMIT */
    uint64_t factor_attempt; /* ROUNDS: last attempt of the directory that was seen with a factor */
    bool rounds_failed;      /* ROUNDS: the directory has ended rounds for another reason than a lost part */
    struct psi_cluster cluster;
    struct sim_freed freed[SIM_FREED_MAX]; /* a ring */
    uint32_t freed_next;
    uint32_t task_count, program_count;
    struct sim_task task[SIM_TASKS_MAX];
    struct sim_program program[SIM_PROGRAMS_MAX];
    uint64_t blocked_until[SIM_PROGRAMS_MAX + SIM_TASKS_MAX][SIM_TASKS_MAX]; /* [node][task]: no dial succeeds */
    uint32_t session_count;
    struct sim_conn *conn[SIM_CONNS_MAX];
    uint32_t conn_count;
    uint64_t conn_next;
    struct sim_var var[SIM_VARS_MAX];
    struct sim_moved moved[SIM_TASKS_MAX]; /* of each task */
    uint32_t var_count;
    double tag_next;
    struct sim_op **op;
    size_t op_count, op_capacity;
    struct sim_birth *birth;
    size_t birth_count, birth_capacity;
    struct sim_partial partial[SIM_EXACT_MAX];
    uint32_t partial_count;
    struct sim_wipe wipe[SIM_EXACT_MAX];
    uint32_t wipe_count;
    struct sim_op *stop[SIM_STOPS_MAX];
    uint32_t stop_count;
    uint32_t limit_next; /* CONFIG_SET: the values are 1, 2, ... */
    struct sim_hyper hyper[SIM_HYPERS_MAX];
    uint32_t hyper_count;
    uint8_t *scratch;
    uint8_t *fill; /* bytes of the largest variable, for building gradients */
    size_t fill_bytes;
    jmp_buf failed;
    char why[960];
    double tags[SIM_STRINGS_MAX]; /* what sim_values() found */
    uint64_t mixed_event;         /* the last event after which part of the model was live and part had no values */
    uint64_t quiet_since;         /* programs end: since when no call is out but VARS; 0: some is */
    bool unclean;                 /* a session ended and may have left a push in progress */
    uint64_t count_sliced;        /* pushes that moved a value in slices (moved.c) */
    uint64_t count_grains;        /* checkpoints that have put rows back (checkpoint.c) */
    uint64_t count_ok, count_failed, count_cuts, count_restarts, count_resumed, count_gave_way, count_slices, count_written,
        count_early, count_early_cut, count_replayed, count_loaded;
    struct sim_saves *saves; /* saves.c; NULL: none yet */
    uint64_t count_saves_ok, count_saves_failed, count_restores_ok;
    bool had_table; /* a directory has had the parts of a table */
    uint64_t count_disk_ops, count_disk_cuts, count_checkpoints, count_unchanged, count_came_back, count_fewer, count_spread,
        count_older, count_back_slots, count_back_elements;
    bool back_everywhere;    /* what was placed last goes back everywhere: recover is not partial */
    char back_of[160];       /* the containers of what was placed last, as the directory has logged them */
    struct sim_saved *saved; /* back.c */
    size_t saved_count, saved_capacity;
    uint64_t older;          /* setting `restore`: this number; 0: auto */
    bool checkpoint_spoilt;  /* a task could not read one: an older one may come back */
    bool start_refused;      /* ... and no other one was whole: until somebody says that it does not matter */
    uint64_t checkpoint_rng; /* of its own: worlds without checkpoints are as they were */
    uint64_t cut_boundary;   /* BOUNDARY profile: the boundary to cut at, counted from the first */
    uint32_t cut_side;
    int cut_shift;
    uint64_t boundary_seen[2];
    bool boundary_armed;
    enum psi_request_kind boundary_kind; /* PSI_REQ_NONE: another profile */
    enum sim_boundary_var boundary_var;
    struct sim_race race;
    struct sim_queue queue[SIM_QUEUES_MAX];
    struct sim_queue_end queue_end[SIM_QUEUE_ENDS];
    uint32_t queue_end_count;
    struct sim_element *element;
    uint64_t element_count, element_capacity;
    uint64_t count_held; /* ... of queues whose elements wait for a cut */
    uint64_t count_compared, count_taken, count_back, count_again;
    struct sim_shares shares;
    struct sim_sums sums;
    struct sim_result *result;
    size_t result_count, result_capacity;
    uint64_t count_gradients, count_stale, count_results, count_results_back;
    struct sim_holder holder[SIM_PROGRAMS_MAX];
    uint64_t shares_over[SIM_SHARES_OVER]; /* creations of it all of whose epochs are over: a ring */
    struct psi_sync sync;                  /* ROUNDS: how programs train */
    struct sim_round *round;
    struct sim_member *member;
    size_t round_count, round_capacity, member_count, member_capacity;
    struct sim_trainer trainer[SIM_PROGRAMS_MAX];
    struct sim_train *train[SIM_PROGRAMS_MAX]; /* of the program's last session; NULL: none */
    uint64_t session_marks[2], count_train_made, count_train_broken, count_train_early, count_train_back, count_train_hooks,
        count_train_gates, count_train_elements, count_train_queue_lost;
    uint64_t readying_marks, count_train_restores, count_train_emptied;
    uint64_t train_marks, gets_marks, count_train_calls, count_train_steps, count_train_cut, count_train_ends;
    struct sim_lease lease; /* LEASE */
    struct sim_candidate candidate[SIM_PROGRAMS_MAX];
    uint64_t count_chiefs, count_takeovers, count_stops, count_restored, count_emptied, count_other;
    uint64_t count_flips, count_steps, count_dropped, count_places_lost, count_late, count_recovered, count_forgot, count_ahead,
        count_no_room;
    uint64_t count_shares_done, count_shares_back, count_shares_over;
    struct sim_own *own; /* OWN */
    uint64_t count_own_made, count_own_read, count_own_denied, count_own_guessed, count_own_reset, count_own_lapsed,
        count_own_lost;
    bool twin_leads;                       /* where the address of the two processes leads: to the second one */
    uint64_t count_moved, count_strangers; /* moves: starts at another address; dials that met another task than was meant */
    uint64_t twin_turns, twin_dropped;     /* the place went to the other one; variables that a return cost */
    uint64_t twin_life;                    /* that has it */
    uint64_t directory_began;              /* event */
    uint64_t twin_by[SIM_VARS_MAX];        /* life of the process of the two that the directory takes to have it; 0: neither */
};

struct sim_options {
    uint64_t seed;
    bool verbose;
    uint32_t frame_bytes; /* PS_FRAME_BODY_MAX that the cores were built with */
    bool large;           /* every seed has a variable of three frames */
    bool race;            /* RACE profile */
    bool queues;          /* QUEUES profile */
    bool rounds;          /* ROUNDS profile */
    bool trains;          /* rounds: training programs of several threads, train.c */
    bool lease;           /* LEASE profile */
    bool own;             /* OWN profile */
    bool twin;            /* DIRECTORY profile, task 1 has two processes */
    bool moves;           /* DIRECTORY profile, tasks come back at other addresses */
    bool disks;           /* each task has a disk, disks.c */
    bool beside;          /* ... and what comes back of it is compared with what was there, back.c; not with twins */
    bool asks;            /* disks: clients ask for checkpoints, saves.c */
    bool identities;      /* who has which right is a table, and there is a thief: identity.c */
    /* BOUNDARY profile: one call of this kind on a variable of three frames, one cut */
    bool boundary;
    enum psi_request_kind boundary_kind;
    enum sim_boundary_var boundary_var;
    uint32_t boundary_side; /* 0: of the client's bytes, 1: of the task's */
    uint64_t boundary_index;
    int boundary_shift;
};
struct sim_summary {
    uint64_t disk_ops, disk_cuts;                 /* operations answered; power cuts */
    uint64_t checkpoints;                         /* saved */
    uint64_t unchanged;                           /* not made, for nothing was new */
    uint64_t saves_ok, restores_ok, saves_failed; /* asked for by clients */
    uint64_t came_back;                           /* variables, out of one */
    uint64_t in_parts;                            /* 1: a directory has had the parts of a table */
    uint64_t sliced;                              /* pushes that moved a value in slices (moved.c) */
    uint64_t grains;                              /* checkpoints that have put rows back (checkpoint.c) */
    uint64_t back_slots;                          /* of these variables, the ones with slots */
    uint64_t back_elements;                       /* elements of queues */
    uint64_t fewer;                               /* clusters that began again with fewer tasks: 0 or 1 */
    uint64_t spread;                              /* of these clusters, the ones that dealt what was saved over all tasks */
    uint64_t older; /* of these clusters, the ones that once took an older checkpoint than the newest */
    uint64_t events, ok, failed, cuts, restarts, gave_way, slices, written, early, early_cut, replayed, loaded, virtual_ms;
    uint64_t boundaries[2];                          /* BOUNDARY profile: boundaries that passed in each direction */
    struct sim_race race;                            /* RACE profile */
    uint64_t elements, taken, back, again, compared; /* QUEUES profile: went back; came twice; comparisons with the reference */
    uint64_t held;                                   /* ... while elements waited for a cut */
    uint64_t shares_done, shares_back, shares_over;  /* ... items done, taken from a session; all epochs over */
    uint64_t gradients, stale, results,
        results_back;        /* ... gradients that count, that came too late; results, taken from a session */
    uint64_t ahead, no_room; /* ... and steps before others, JOINs without room */
    uint64_t flips, steps, dropped, places_lost, late, recovered, forgot; /* ROUNDS profile: flips; STEPs OK, of these not
                                   taken, lost their place; too late; OK from another directory; without all pushes */
    uint64_t chiefs, takeovers, stops, restored, emptied, other; /* LEASE profile: numbers given, to another one than before;
                                   READYs that found nothing, that went on after values were given; half a model; another rate */
    uint64_t gets_marks;                                         /* trains: ways of gets */
    uint64_t readying_marks, train_restores, train_emptied;      /* trains: ways of readying, restore functions, emptied models */
    uint64_t train_marks, train_calls, train_steps, train_cut, train_ends; /* trains: ways taken; calls over, steps that count;
                                   interrupts; sessions that were closed beside their threads, and held nothing */
    uint64_t session_marks[2], train_made, train_broken, train_early, train_back, train_hooks, train_gates, train_elements,
        train_queue_lost; /* ways of monitored sessions; recoveries that succeeded; broken steps;
      attempts before the chief's; calls in a callback; moments of hooks; barriers passed; elements
      that threads have taken; sessions that were lost with their queue */
    uint64_t own_made, own_read, own_denied, own_guessed, own_reset, own_lapsed,
        own_lost; /* OWN profile: variables made; read by others; refused without the key; reset, of these of a session that
                     lives; lost with their task */
    uint64_t twin_turns, twin_dropped;
    uint64_t moved, strangers;       /* moves: starts at another address; dials that met another task than was meant */
    uint64_t stolen, denied, tables; /* identities: HELLOs with another identity's session; requests refused; tables replaced */
};

/** Run one seed. Returns true when every rule held; otherwise why (>= 1024 bytes) says which was broken. */
bool sim_run(const struct sim_options *options, struct sim_summary *out, char *why);
/** The number in this variable of the environment; fallback when it is absent or empty. */
uint64_t sim_number_of(const char *name, uint64_t fallback);
/** Skips the case when SEED says one of another; own says what to do here. */
void sim_skip_seed(const char *own);

/* ---- knobs.c ---- */
void sim_knobs_draw(struct sim *s, const struct sim_options *options);
/** True if rows are pushed to a variable of several blocks, in a world whose tasks take cuts. */
bool sim_grains(const struct sim *s);
void sim_vars_draw(struct sim *s);
/** ROUNDS: in some worlds make the first two variables the parts of a table by rows. even: they have as many rows. */
void sim_parts_by_rows(struct sim *s, bool even);
bool sim_has_parts(const struct sim *s);

/* ---- world.c ---- */
void sim_fail(struct sim *s, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t sim_below(struct sim *s, uint64_t bound);
uint64_t sim_range(struct sim *s, uint64_t low, uint64_t high); /* both included */
bool sim_one_in(struct sim *s, uint32_t n);                     /* 0: never */
void *sim_alloc(size_t bytes);                                  /* zeroed; aborts when there is no memory */

void sim_run_until(struct sim *s, uint64_t time);
/** s->cluster, with the ps tasks that there are. */
void sim_cluster_make(struct sim *s);
/** A session of the last program begins, works and ends well. */
void sim_final_run(struct sim *s);

/* After so long without calls every client knows which of its connections are dead, and has told the tasks what it gave up. */
uint64_t sim_quiet_ms(const struct sim *s);

/* ---- step.c ---- */
/** One event, or time goes on. */
void sim_step(struct sim *s);
void sim_fault_now(struct sim *s);
void sim_heal(struct sim *s);

/* ---- identity.c: nothing happens in a world without identities ---- */
/** psd_task_config.identify. */
void sim_identify(void *task, const struct psi_link *link, struct psi_identity *out);
/** A core was made, or there is a new table. */
void sim_identity_begin(struct sim *s, struct sim_task *t);
/** Beside a fault: the thief comes, and maybe the table is replaced before. */
void sim_identity_step(struct sim *s);

/* ---- disks.c: the disks of tasks; nothing happens in a world without ---- */
/** Before the core is made. */
void sim_disks_open(struct sim *s, struct sim_task *t);
/** The core asks: PSD_EFFECT_DISK. */
void sim_disks_ask(struct sim *s, struct sim_task *t, const struct psd_disk_op *op);
/** Its oldest operation may be over now; else *out_next is no later than when it may. */
bool sim_disks_due(const struct sim *s, const struct sim_task *t, uint64_t *out_next);
void sim_disks_done(struct sim *s, struct sim_task *t);
void sim_disks_tick(struct sim_task *t);
/** A task has written this line. */
void sim_disks_logged(struct sim *s, const struct psd_effect *log);
/** A call has failed because of what disks do. */
bool sim_disks_cause(const struct sim *s, const struct sim_call *call);
/** The task's process ends, perhaps with its machine's power. */
void sim_disks_end(struct sim *s, struct sim_task *t);
/** Of a published file: bytes that were read; its size. 0: there is none. */
uint64_t sim_disks_read(const struct sim_task *t, const struct psd_disk_file *file, uint64_t offset, void *to, uint64_t n);
uint64_t sim_disks_size(struct sim *s, const struct sim_task *t, const struct psd_disk_file *file);
void sim_disks_free(struct sim_task *t);
/** The directory that t has left is removed on all disks. */
void sim_disks_forget(struct sim *s, struct sim_task *t);

/* ---- back.c: what comes back of a checkpoint is what its task had at the cut ---- */
/** t's core has begun a cut, t->cut_number. */
void sim_back_note(struct sim *s, const struct sim_task *t);
/** How often something of a checkpoint has come to live there; it did so in this event. */
uint64_t sim_back_count(const struct sim_task *t);
bool sim_back_now(const struct sim_task *t);
/** What the checkpoint that t loads, or has just loaded, has of it; fails where it has nothing. */
const struct sim_saved *sim_back_find(struct sim *s, const struct sim_task *t, const struct sim_var *v);
/** All of t has been looked at after an event. */
void sim_back_look(struct sim *s, const struct sim_task *t);
/** q comes back: all that was in it at the cut, in that order; first what was taken and not acknowledged. */
void sim_back_queue(struct sim *s, const struct sim_task *t, struct sim_queue *q, const struct psd_queue *real);
/** It is reported as saved. */
void sim_back_saved(struct sim *s, uint64_t number);
void sim_back_free(struct sim *s);

/* ---- fewer.c ---- */
/** Nobody calls any more. */
void sim_fewer(struct sim *s);

/* ---- race.c ---- */
/** The next step of the round; sets s->next_fault. */
void sim_race_step(struct sim *s);
/** A call has ended: what a RESET says of who is missing is compared with who is. */
void sim_race_done(struct sim *s, const struct sim_op *op, const char *text);

/* ---- queues.c ---- */
void sim_queues_draw(struct sim *s);
/** A change of t, before it is carried out. */
void sim_queues_change(struct sim *s, struct sim_task *t, const struct psd_change *c);
/** After each event of t. */
void sim_queues_poll(struct sim *s, struct sim_task *t);
void sim_queues_restart(struct sim *s, const struct sim_task *t);
void sim_queues_check_end(struct sim *s);
void sim_queues_free(struct sim *s);
/** The next call of p. */
void sim_queue_work(struct sim *s, struct sim_program *p);
void sim_queue_prepare(struct sim *s, struct sim_call *call);
/** Its end; false: it is none of a queue. */
bool sim_queue_done(struct sim *s, const struct sim_call *call);
/** psi_dequeue.room of a call. */
ps_status sim_queue_room(struct psi_dequeue *d, const struct ps_dequeue_result *got, uint8_t **out, struct psi_err *err);
/** The session has ended, or said GOODBYE. */
bool sim_session_over(const struct sim *s, uint32_t life);
/** r has no connection, and was away for a lease. */
bool sim_lease_over(const struct sim *s, const struct sim_task *t, const struct psd_record *r);

/** The number of a new element in the ledger, which op puts in. */
uint64_t sim_element_new(struct sim *s, struct sim_op *op);

/* ---- sums.c: the same for an accumulator ---- */
void sim_sums_draw(struct sim *s);
void sim_sums_change(struct sim *s, struct sim_task *t, const struct psd_change *c);
void sim_sums_look(struct sim *s, const struct psd_variable *v);
/** It has come back as it was then. */
void sim_sums_back(struct sim *s, const struct psd_variable *v, const struct sim_saved *was);
void sim_sums_check_end(struct sim *s);
void sim_sums_work(struct sim *s, struct sim_program *p);
void sim_sums_prepare(struct sim *s, struct sim_call *call);
void sim_sums_done(struct sim *s, const struct sim_call *call);
void sim_sums_free(struct sim *s);

/* ---- rounds.c ---- */
/** SGD, or momentum, which has a slot, whose rate follows the global step. */
const ps_optimizer *sim_rounds_optimizer(bool slot);
void sim_rounds_draw(struct sim *s);
/** A change of t, before it is carried out. */
void sim_rounds_change(struct sim *s, struct sim_task *t, const struct psd_change *c);
/** After an event of t. */
void sim_rounds_poll(struct sim *s, const struct sim_task *t);
/** The value of one of its variables. */
void sim_rounds_look(struct sim *s, const struct sim_birth *b, const void *value);
/** A variable by rows is born. from: rows that it comes back with; NULL: zeros. */
void sim_rounds_born(struct sim_birth *b, const double *from);
/** A copy of the rows, from malloc(); NULL: there are none. */
double *sim_rounds_copy(const struct sim_birth *b);
/** Value (which 0) or slot of a variable as it is in force, whether its new rows are home or not. Until the next call. */
const void *sim_in_force(const struct psd_variable *v, uint32_t which);
/** The rows of a CONTRIBUTE_ROWS of this call. */
void sim_rounds_rows(struct sim *s, struct sim_call *call);
void sim_rounds_check_end(struct sim *s);
void sim_rounds_free(struct sim *s);
/** A session of p begins. */
void sim_rounds_begin(struct sim *s, struct sim_program *p);
/** The next call of p. */
void sim_rounds_work(struct sim *s, struct sim_program *p);
/** Of each element, in the round that p is in. */
double sim_rounds_gradient(const struct sim *s, const struct sim_program *p);
/** READY of p, with or without rounds. */
void sim_rounds_prepare(struct sim *s, struct sim_call *call);
/** The end of a call; false: it is none that is judged here. */
bool sim_rounds_done(struct sim *s, const struct sim_call *call);

/* ---- train.c, train_queue.c; nothing happens in a world that does not train ---- */
void sim_train_queue_draw(struct sim *s);
/** A session of p begins. */
void sim_train_begin(struct sim *s, const struct sim_program *p);
/** One of p's threads goes on. */
void sim_train_work(struct sim *s, struct sim_program *p);
/** A request of p has ended. */
void sim_train_done(struct sim *s, struct sim_program *p, const struct sim_call *call);
/** A session of p ends by itself. */
void sim_train_ended(struct sim *s, struct sim_program *p);
/** True if the chief of its job has a lease: the program's next session is monitored. */
bool sim_train_leases(struct sim *s, const struct sim_program *p);
/** The number that the program's session has had as the chief; 0: it was none. */
uint64_t sim_train_chief_number(const struct sim *s, const struct sim_program *p);
/** What a session that becomes ready says in its requests; and that no change of a restore function may do. */
void sim_ready_prepare(const struct sim *s, struct sim_call *call);
void sim_ready_change(struct sim *s, const struct psd_change *c);
void sim_trains_free(struct sim *s);

/* ---- moved.c ---- */
const ps_optimizer *sim_moved_optimizer(const struct sim *s);
/** Has this seed such a variable? */
bool sim_moved_draw(const struct sim *s);
/** A change of t, before it is carried out. */
void sim_moved_change(struct sim *s, const struct sim_task *t, const struct psd_change *c);
/** t has ended. */
void sim_moved_end(struct sim *s, const struct sim_task *t);

/* ---- chief.c ---- */
void sim_chief_draw(struct sim *s);
/** A change of t, before it is carried out. */
void sim_chief_change(struct sim *s, struct sim_task *t, const struct psd_change *c);
/** t is about to end. */
void sim_chief_restart(struct sim *s, const struct sim_task *t);
/** The value of one of its variables; full: all of it. */
void sim_chief_look(struct sim *s, struct sim_birth *b, const void *value, bool full);
void sim_chief_dies(struct sim *s, const struct sim_birth *b, bool by_restart);
/** All of a task has been looked at. */
void sim_chief_looked(struct sim *s);
/** A session of p begins. */
void sim_chief_begin(struct sim *s, struct sim_program *p);
/** p has got its variables, or was told that nothing is live. */
void sim_chief_give(struct sim *s, struct sim_program *p);
/** The next call of p, which is ready. */
void sim_chief_work(struct sim *s, struct sim_program *p);
void sim_chief_prepare(struct sim *s, struct sim_call *call);
/** The end of a call; false: it is none that is judged here. */
bool sim_chief_done(struct sim *s, const struct sim_call *call);
/** ... and what p does then; false: as any other program. */
bool sim_chief_next(struct sim *s, struct sim_program *p, const struct sim_call *call);
/** The learning rate that the session asks for. */
double sim_chief_rate(const struct sim_program *p);
/** May a READY say that the chief wants other hyperparameters? */
bool sim_chief_other(const struct sim *s, const struct sim_call *call);
/** After each event of p. */
void sim_chief_watch(struct sim *s, const struct sim_program *p);
/** A fault of its own, now; false: none is due. */
bool sim_chief_fault(struct sim *s);
/** Before the last program: where the cluster spec prefers another one, a task loses what it has of the model. */
void sim_chief_last(struct sim *s);

/* ---- own.c: containers of sessions; nothing happens in another profile than OWN ---- */
void sim_own_draw(struct sim *s);
/** A session of p begins; p was killed, and its callbacks come no more; p's core is freed. */
void sim_own_begin(struct sim *s, const struct sim_program *p);
void sim_own_killed(struct sim *s, const struct sim_program *p);
void sim_own_gone(struct sim *s, const struct sim_program *p);
/** As sim_calls_late(). */
void sim_own_late(struct sim *s, const struct sim_program *p);
/** The next call of p, which is ready; false: one of those that every program makes. */
bool sim_own_work(struct sim *s, struct sim_program *p);
/** After each event of t, before its variables are looked at. */
void sim_own_look(struct sim *s, const struct sim_task *t);
/** Around a look at all variables of t. */
void sim_own_looking(struct sim *s);
void sim_own_looked(struct sim *s, const struct sim_task *t);
/** One of these variables; false: it is in no session's container. */
bool sim_own_variable(struct sim *s, const struct sim_task *t, const char *container, const char *name, uint64_t creation,
                      const void *value, size_t value_bytes);
/** t is about to end. */
void sim_own_restart(struct sim *s, const struct sim_task *t);
/** All programs are gone, for long enough. */
void sim_own_check_end(struct sim *s);
void sim_own_free(struct sim *s);

/* ---- shares.c: the same for a work queue ---- */
void sim_shares_draw(struct sim *s);
void sim_shares_change(struct sim *s, struct sim_task *t, const struct psd_change *c);
void sim_shares_look(struct sim *s, const struct psd_variable *v);
/** It has come back as it was then. */
void sim_shares_back(struct sim *s, const struct psd_variable *v, const struct sim_saved *was);
void sim_shares_check_end(struct sim *s);
void sim_shares_work(struct sim *s, struct sim_program *p);
void sim_shares_prepare(struct sim *s, struct sim_call *call);
/** May op, which is over, have failed as it did? */
bool sim_shares_cause(struct sim *s, const struct sim_op *op);
void sim_shares_done(struct sim *s, const struct sim_call *call);

/* ---- saves.c: clients that ask for checkpoints; nothing happens in a world without ---- */
bool sim_saves_draw(struct sim *s, const struct sim_program *p, enum psi_request_kind *out_kind);
bool sim_saves_is(const struct sim_op *op);
void sim_saves_prepare(struct sim *s, struct sim_call *call);
/** One of these calls has ended. */
void sim_saves_done(struct sim *s, struct sim_call *call);
/** t is about to be killed; is at the end of an event; the directory has logged this event of a checkpoint. */
void sim_saves_killed(struct sim *s, const struct sim_task *t);
void sim_saves_look(struct sim *s, const struct sim_task *t);
void sim_saves_logged(struct sim *s, const char *event, uint64_t number);
/** The directory has logged that all tasks place this checkpoint; text: its log line. sim.back_of is set. */
void sim_saves_restored(struct sim *s, const char *text, uint64_t number);
void sim_saves_free(struct sim *s);

/* ---- claims.c ---- */
/** It has ended because another process is the worker that its program says it is. */
bool sim_claim_refused(const struct sim_call *call);
/** The directory has refused p for good, because another process is that worker: no task hears of the end of p's session. */
bool sim_claim_lost(const struct sim_program *p);
/** Another program was that worker. */
void sim_claim_check(struct sim *s, const struct sim_call *call);
void sim_claims_look(struct sim *s, const struct sim_task *t);

/* ---- twin.c ---- */
/** t is one of the two processes of one task. */
bool sim_twin_is(const struct sim *s, const struct sim_task *t);
/** It has the place; also true of any other task. */
bool sim_twin_served(const struct sim *s, const struct sim_task *t);
void sim_twin_log(struct sim_task *t, const char *event);
/* ---- moves.c ---- */
/** True if the world has the task at port 0. */
bool sim_moves_is(const struct sim *s, const struct sim_task *t);
/** The task starts: it gets an address, and the cluster that its process was started with. */
void sim_moves_start(struct sim *s, struct sim_task *t, struct psd_task_config *config, struct psi_cluster *cluster);
/** The task that is number i of the client's table; NULL: none. */
struct sim_task *sim_task_named(struct sim *s, const struct psi_client *c, uint32_t i);
/** The process that a dial to a task reaches. */
uint32_t sim_twin_pick(struct sim *s, uint32_t task);
/** One of the two loses the directory. */
void sim_twin_fault(struct sim *s);
/** Faults end: one of the two is stopped. */
void sim_twin_end(struct sim *s);
/** A new directory. */
void sim_twin_forget(struct sim *s);
/** After each event of t. */
void sim_twin_look(struct sim *s, const struct sim_task *t);
/** Nothing is promised of b. */
bool sim_twin_may_drop(const struct sim *s, const struct sim_birth *b);
/** One of the two had it in this life of the directory, and has it no more. */
bool sim_twin_had(const struct sim *s, const struct sim_var *v);
/** Whatever t has is no promise: a start has something placed there, and it has not listed since. */
bool sim_task_waits(const struct sim *s, const struct sim_task *t);

/* ---- replay.c: what a task remembers is the fold of its changes ---- */
/** A life begins. */
void sim_replay_begin(struct sim_task *t, const struct psd_task_config *config);
/** It ends: its changes, replayed, give what its core remembers. Once for each life. */
void sim_replay_end(struct sim *s, struct sim_task *t);
/** A task as t was when it began. */
struct psd_task *sim_replay_empty(struct sim *s, const struct sim_task *t);
/** What the first `bytes` of t's changes give is what was loaded. */
void sim_replay_compare(struct sim *s, const struct sim_task *t, size_t bytes, const struct psd_task *loaded);

/* ---- checkpoint.c: cuts at random instants, written while the task goes on, and loaded ---- */
/** After each event of t, whose core runs. */
void sim_checkpoint_look(struct sim *s, struct sim_task *t);
/** Before a change of t: a push of rows that begins may bring the next cut forward, so that the rows change while it is made. */
void sim_checkpoint_change(struct sim_task *t, const struct psd_change *c);
/** Before a change of t is noted, and after each event: its core may have begun a cut. */
void sim_checkpoint_note(struct sim_task *t);
/** t's disk has a part of a checkpoint that is reported as saved: it loads, and is what t was at the cut. */
void sim_checkpoint_saved(struct sim *s, struct sim_task *t, uint64_t number);
/** No checkpoint is made, for this one has all that the tasks have: so it is. */
void sim_checkpoint_unchanged(struct sim *s, struct sim_task *t, uint64_t number);
/** Its core goes. */
void sim_checkpoint_drop(struct sim *s, struct sim_task *t);

/* ---- net.c ---- */
struct sim_conn *sim_conn_new(struct sim *s, bool by_task, uint32_t node, uint32_t task);
void sim_conn_sweep(struct sim *s); /* free those that are over */
void sim_conn_cut(struct sim *s, struct sim_conn *c, uint64_t learn0_ms, uint64_t learn1_ms);
void sim_end_write(struct sim *s, struct sim_end *e);
void sim_end_hold(struct sim *s, struct sim_end *e);
void sim_end_update(struct sim *s, struct sim_end *e);
/** The shell closes: the peer will see the end of the stream; the link is freed by sim_end_release(), now or later. */
void sim_end_close(struct sim *s, struct sim_end *e, bool unread_lost);
/** Free the link of a closed end. Queued frames end here, which may have effects: settle the node afterwards. */
void sim_end_release(struct sim_end *e);
void sim_end_drop(struct sim *s, struct sim_end *e); /* the process is gone: no core call */
size_t sim_pipe_room(const struct sim *s, const struct sim_pipe *p);
void sim_older_check(struct sim *s, const struct sim_end *e, const bool *open_before);
bool sim_pipe_readable(const struct sim_pipe *p);
size_t sim_pipe_read(struct sim *s, struct sim_end *e, uint8_t **out, size_t *out_placed);
void sim_half_open_check(struct sim *s, const struct sim_end *e);
/** Until then a task or a program stands still, or its tick does: an earlier end does not move the one that is known. */
static inline void sim_resumes(uint64_t *resumed_at, uint64_t at_ms)
{
    *resumed_at = at_ms > *resumed_at ? at_ms : *resumed_at;
}
const char *sim_end_name(const struct sim *s, const struct sim_end *e, char buf[32]);

/* ---- node.c ---- */
bool sim_task_running(const struct sim *s, const struct sim_task *t);
bool sim_program_running(const struct sim *s, const struct sim_program *p);
bool sim_end_running(const struct sim *s, const struct sim_end *e);
void sim_task_start(struct sim *s, struct sim_task *t);
void sim_task_kill(struct sim *s, struct sim_task *t, uint64_t up_at);
void sim_task_settle(struct sim *s, struct sim_task *t);
void sim_program_settle(struct sim *s, struct sim_program *p);
void sim_client_kill(struct sim *s, struct sim_program *p); /* SIGKILL */
void sim_client_end(struct sim *s, struct sim_program *p);  /* in good order */
void sim_client_start(struct sim *s, struct sim_program *p);
void sim_release(struct sim *s, struct sim_end *e);
void sim_node_settle(struct sim *s, const struct sim_end *e);
void sim_dial_result(struct sim *s, struct sim_conn *c);
void sim_accept(struct sim *s, struct sim_end *e);
void sim_deliver(struct sim *s, struct sim_end *e);
void sim_closed(struct sim *s, struct sim_end *e);
void sim_writable(struct sim *s, struct sim_end *e);
void sim_task_tick(struct sim *s, struct sim_task *t);
void sim_program_tick(struct sim *s, struct sim_program *p);

/* ---- program.c ---- */
bool sim_program_wants(const struct sim *s, const struct sim_program *p);
void sim_program_act(struct sim *s, struct sim_program *p);
void sim_program_done(struct sim *s, struct sim_program *p, struct sim_call *call);
/** Its session ends as soon as its calls have. */
void sim_program_end_soon(struct sim *s, struct sim_program *p, uint32_t pause_ms);

/* ---- call.c ---- */
/** Start a call; NULL where the core refused it (the program's state says that this may happen). */
struct sim_op *sim_call_start(struct sim *s, struct sim_program *p, enum psi_request_kind kind, struct sim_var *var,
                              uint32_t timeout_ms);
void sim_calls_forget(struct sim *s, struct sim_program *p); /* the process was killed */
void sim_calls_late(struct sim *s, struct sim_program *p);   /* every deadline is kept */

/* ---- admin.c: calls that look at tasks and sessions, and what they may show ---- */
/** One of them for p; false: none now. */
bool sim_admin_draw(struct sim *s, const struct sim_program *p, enum psi_request_kind *out_kind);
/** True where its kind is one of them: req is filled in. */
bool sim_admin_prepare(struct sim *s, struct sim_call *call);
/** May the call fail with FAILED_PRECONDITION? */
bool sim_admin_may_not(const struct sim_call *call);
/** It has ended, whatever its kind. */
void sim_admin_done(struct sim *s, struct sim_call *call);
/** psd_task_config.config_row and config_set of t. */
bool sim_config_row(void *task, uint32_t i, const char **name, const char **value, const char **default_value, const char **help,
                    bool *reloadable);
ps_status sim_config_set(void *task, const char *name, const char *value, char *error, size_t error_bytes);

/* ---- work.c: calls of a task's table ---- */
const char *sim_work_name(void *shell, uint32_t row);
bool sim_work_early(void *shell, uint32_t row);
/** The ledger's entry of an ASSIGN that no program has made, of the variable's life that is there. */
struct sim_op *sim_write_new(struct sim *s, struct sim_var *var, uint64_t creation);
/** The task dies, and what its calls write with it. */
void sim_works_kill(struct sim *s, struct sim_task *t);
void sim_work_begin(struct sim *s, struct sim_task *t, const struct psd_effect *effect);
void sim_work_cancel(struct sim *s, struct sim_task *t, const struct psd_effect *effect);
/** One can end now; *out_next: when another can, where that is earlier. */
bool sim_work_due(const struct sim *s, const struct sim_task *t, uint64_t *out_next);
void sim_work_end(struct sim *s, struct sim_task *t);
void sim_work_prepare(struct sim *s, struct sim_call *call);
/** The end of a CALL; false: the failure is to be judged as any other's. */
bool sim_work_check(struct sim *s, const struct sim_call *call);

/* ---- barrier.c ---- */
/** p comes to one of them now. */
bool sim_barrier_draw(struct sim *s, const struct sim_program *p, uint32_t *out_timeout_ms);
void sim_barrier_prepare(struct sim *s, struct sim_call *call);
/** Its end, good or not. */
void sim_barrier_check(struct sim *s, const struct sim_call *call);

/* ---- oracle.c ---- */
/** What the call's result says against what is known. call->op has the result. */
void sim_check_done(struct sim *s, struct sim_call *call);
/** All that a task holds of a variable against the ledger. */
struct sim_op *sim_find_tag(struct sim *s, const struct sim_var *v, double tag);
void sim_check_values(struct sim *s, struct sim_birth *b, const void *value, size_t bytes);
void sim_check_end(struct sim *s);
/** Bytes of an element as the oracles read it. */
size_t sim_width(const struct sim_var *v);
/* text.c */
/** The value for a tag; returns its bytes. blob has room for psi_blob_bytes_max(). */
size_t sim_text_fill(const struct sim_var *v, uint64_t tag, uint8_t *blob);
/** What the oracles read of a value: itself, or the tags of its strings. bytes: of the value, or of the buffer it was pulled to.
 */
const void *sim_values(struct sim *s, const struct sim_var *v, const void *value, size_t bytes);
uint64_t sim_element(struct sim *s, const struct sim_var *v, const void *value, uint64_t i);
size_t sim_var_bytes(const struct sim_var *v);
const char *sim_kind_name(enum psi_request_kind kind);
const char *sim_op_text(const struct sim_op *op, char buf[200]);

/* ---- birth.c ---- */
struct sim_birth *sim_birth_find(struct sim *s, uint64_t creation);
struct sim_var *sim_var_named(struct sim *s, const char *container, const char *name);
void sim_births_poll(struct sim *s, struct sim_task *t);
void sim_births_restart(struct sim *s, struct sim_task *t); /* before its core is freed */
void sim_check_ready(struct sim *s, struct sim_program *p);
void sim_check_reset(struct sim *s, const struct sim_op *op);

#endif
