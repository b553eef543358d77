/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one ps task: structs only, no functions. Only the task's thread uses it; tasks in a process share nothing. */
#ifndef PSD_STATE_H
#define PSD_STATE_H

#include "common/link.h"
#include "common/log.h"
#include "common/msg.h"
#include "psd/store/commit.h"
#include "task.h"

#define PSD_NO_PEER UINT32_MAX

enum psd_role {
    PSD_ROLE_CLIENT = 0,
    PSD_ROLE_TASK = 1,
    PSD_ROLE_DIRECTORY = 2, /* a connection that this task opened to the directory (the first ps task) */
    /* a connection that this task opened to another task, to load its part of a checkpoint (checkpoint/source.h) */
    PSD_ROLE_SOURCE = 3,
    PSD_ROLE_SELF = 4 /* only in the directory's process: its in-memory connection to itself as a ps task, base/loop.h */
};

/* After it connects, a task sends the directory the list of its variables' names, and the directory answers which names to drop.
 * At the directory: how far the list has come; at the task: how far the answer has. directory/tasklink.c has the transitions. */
enum psd_list_stage {
    PSD_LIST_NONE,
    PSD_LIST_COMES, /* part of the list has come, with nothing to drop so far */
    PSD_LIST_DROPS, /* part of the list has come, and the task has to drop names */
    PSD_LIST_AGAIN, /* the list has ended with names to drop: the task drops these names and sends its list again */
    PSD_LIST_TAKEN, /* the list has ended without names to drop: the task is connected */
    PSD_LIST_STAGES
};

/* Whether another process runs as this task. directory/tasklink.c has the table of transitions. */
enum psd_twin {
    PSD_TWIN_NONE, /* no other process is known */
    /* the directory has refused this process, because another runs as this task; ends when a directory accepts this process */
    PSD_TWIN_DISPLACED,
    /* DISPLACED, and then the directory was restarted: this process has closed its first connection to the new directory process,
     * so that the other process of this task can connect first */
    PSD_TWIN_FIRST,
    PSD_TWINS
};

/* An entry of a connection's cache: its rights on one container. */
struct psd_allowed {
    /* volatile: */
    uint64_t of;     /* psd_container.number + 1; 0: the entry is empty */
    unsigned rights; /* enum psi_right */
};
enum { PSD_ALLOWED_KEPT = 8 /* entries of this cache in a connection, which mostly uses one or two containers */ };

/* A refused access that was logged. It is remembered so that an equal refusal is not logged again within PSD_DENIAL_LOG_MS. */
struct psd_denial {
    /* volatile: */
    uint64_t of; /* hash of the refused identity and the right that it lacks; 0: the entry is empty */
    uint64_t logged_ms;
    uint64_t count; /* refusals since the last log line */
};
enum { PSD_DENIALS_KEPT = 64, PSD_DENIAL_LOG_MS = 60000 /* ms between two log lines about one denial */ };

struct psd_conn {
    /* volatile: */
    struct psi_identity who;                      /* identity of the peer, set at HELLO */
    struct psd_allowed allowed[PSD_ALLOWED_KEPT]; /* [psd_container.number % PSD_ALLOWED_KEPT] */
    struct psi_link *link;
    struct psi_list all;       /* link in task->conns */
    struct psd_record *record; /* role client: the session that this connection belongs to, set by HELLO */
    struct psd_peer *peer;     /* roles task and directory */
    enum psd_role role;
    bool hello_done, closing;
    enum psd_list_stage list;
    /* role task: the peer's process was away, or refused as a second one: it may have missed deletes, so its list is checked */
    bool returned;
    bool begun;   /* role directory: the directory's last answer to a BEAT said that all tasks of the job serve */
    bool discard; /* the rest of the current frame's body is dropped as it comes */
    /* the current frame repeats an operation that is finished: after its last byte the recorded outcome is sent again */
    bool resend;
    bool paused_out; /* nothing is read from the peer, because it takes its replies too slowly */
    uint64_t opened_ms, heard_ms, beat_sent_ms;
    uint64_t segment_begun_ms; /* when the connection got a buffer for its unfinished segment */
    /* when the unfinished segment last grew by PS_SEGMENT_PROGRESS_BYTES, or, before that, when it began */
    uint64_t segment_moved_ms;
    uint32_t segment_seen;    /* bytes of the unfinished segment that had arrived at segment_moved_ms */
    uint64_t paused_since_ms; /* when reading from the peer was last paused or resumed (link->paused); 0: never */
    uint64_t last_first;      /* highest sequence number of any operation that began on this connection */
    /* record of the current frame's sequence number (PUSH, ASSIGN and others have one); NULL: the frame has none */
    const struct psd_number *number;
    uint64_t frame_offset; /* index of the first element in the current frame */
    uint64_t payload_left; /* payload bytes of the current frame still to come, without padding */
    uint32_t pulls;        /* number of streamed replies in the send queue */
    /* bytes of memory that the streamed replies in the send queue hold as copies of values */
    uint64_t copy_bytes;
    uint64_t counted_out; /* how much of link->out.sent_bytes psd_task.count.bytes_out has already */
    /* bytes that the kernel had taken from the send queue at the last tick, and the time since when it has taken no more */
    uint64_t taken_bytes, stuck_since_ms;
    struct psi_buf body;
    /* the call that takes the body of the current frame as its input; NULL: the body goes into `body` */
    struct psd_work *brings;
    struct psi_buf order; /* role directory: body of an order, kept until its last frame has come */
    uint64_t order_id;
    const struct psd_row *row; /* row of psd/rpc/requests.h for the current frame; NULL: its operation is unknown */
    struct psd_slow *slow;     /* an INIT from this connection that is carried out in slices; nothing is read until its end */
    /* linked in task->held while a push of this connection waits (rpc/held.c); meanwhile nothing more is read */
    struct psi_list held;
    uint64_t held_beat_ms;
    /* linked in task->listings while a listing request is answered in slices (session/listing.c); meanwhile nothing is read */
    struct psi_list listing;
    const struct psd_listing *listing_of;
    uint64_t listing_id, listing_cursor, listing_beat_ms;
    void *listing_at; /* position where the next slice of the answer begins; owned, made by psd_listing.step */
    /* linked in task->full while too many replies wait to be sent; meanwhile nothing more is read */
    struct psi_list full;
    /* linked in task->followers while an EVENTS request waits for the event with number following_next */
    struct psi_list following;
    uint64_t following_id, following_next, following_until_ms;
    /* bytes that came after reading stopped. The first is at index rest_at, chosen so that 8-byte fields stay aligned */
    struct psi_buf rest;
    size_t rest_at;
    uint64_t counted_bytes; /* bytes of memory that this connection uses in the task's budget: psd_conn_count() */
    bool counts_queue;
    /* link->in.buffer was allocated for this connection alone: shared buffers are only for peers that have said HELLO */
    bool own_buffer;
    uint64_t next_id;
    struct psi_list timed; /* struct psd_timed of requests whose replies report how long they took (base/times.h) */
    uint32_t timed_count;
    struct psd_timed *timing; /* entry in `timed` of the current frame's request; NULL: it is not timed */
    uint64_t rest_ns;         /* t->came_ns (arrival time) of the first byte in `rest` */
    char text[96];            /* the peer's name, for logs */
};

struct psd_peer {
    /* volatile: */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task, index;
    bool own_job;             /* the task is in the job of the directory, normally "ps" */
    bool any_port;            /* the cluster spec gives the task port 0: it listens on any free port */
    char *address;            /* directory task: address that the task reported in HELLO; NULL: the one in the cluster spec */
    uint64_t address_life;    /* with any_port: random number ("life") of the process that listens at `address`; 0: not known */
    uint64_t address_version; /* directory task: value of psd_task.address_version after this task last reported its address */
    bool self;
    /* the directory has not let the task begin yet, empty or with a checkpoint, so it serves no client (checkpoint/beside.h). The
     * directory keeps this for every task, any other task only for itself */
    bool waits;
    /* directory task: the task's list of names has come completely on this connection; true for the directory itself */
    bool listed;
    /* directory task: the task has sent its list since this directory process began; true for the directory's own task */
    bool heard;
    uint32_t share; /* directory task: how much of its part of a checkpoint the task has written or loaded, in millionths */
    bool changed;   /* directory task: the task has reported that it has changes which no checkpoint has saved */
    /* directory task: newest checkpoint with all content of the task; 0: none, or the task began empty and is unchanged */
    uint64_t saved;
    /* directory task: random number (life) of the last process of this task whose list was accepted; 0: no list was */
    uint64_t settled_life;
    uint64_t missing_since_ms;
    uint64_t features; /* directory task: PS_FEATURE_* bits of the task's last HELLO */
    uint64_t life;     /* directory task: random number of the task's process, from its last HELLO; 0: no HELLO has come */
    char host[PS_JOB_BYTES_MAX + 2];
    uint32_t pid;
    uint32_t restarts;  /* directory task: number of processes that ran as this task before the present one */
    char conflict[256]; /* directory task: text of psd_peer_conflict() about another process that claims to be this task */
    struct psd_conn *conn;
    /* struct psd_ask: requests sent to the peer that it has not answered, the oldest first */
    struct psi_list asks;
    uint64_t conflict_ms, conflict_life; /* when the other process last sent HELLO, and its random number (life) */
    /* directory, session/job.c: */
    bool trained; /* a session of this task has trained: the job is done only when this task has reported JOB_DONE */
    bool done;    /* the last training session of the task has reported the end of its work (JOB_DONE) */
    uint8_t done_session[16];
    uint8_t newest_session[16];
    char newest_container[PS_CONTAINER_BYTES_MAX + 1]; /* default container of newest_session */
    bool done_older; /* an older process of the task has sent JOB_DONE, which does not count while the newest process is alive */
    bool counts_older; /* the older process's JOB_DONE counts now: the newest is gone. False again when the newest comes back */
    bool told_done;    /* directory task: the task was told (by TASK_DONE) that the job is done */
};

/* A request of the directory that a task has not answered yet. */
struct psd_ask {
    /* volatile: */
    struct psi_list link;
    uint64_t id;
    uint8_t op;
    struct psi_list waiters; /* struct psd_need of client requests that wait for the answer; empty: no client waits for it */
    /* item: index in the client request's list of variables; owner: index of the asked task in `peers` */
    uint32_t item, owner;
    uint64_t number;
    bool made_again; /* TASK_DELETE: the name was created anew meanwhile, so the answer must not remove it from the directory */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
};

struct psd_create {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
    struct psd_definition definition;
    struct psi_queue_spec *queue; /* what kind of queue to create, checked; NULL: create a variable */
    uint8_t key[PSI_KEY_BYTES];   /* secret key of a session's container */
    uint32_t requested;           /* index in `peers` of the task on which the client wants the variable */
    uint32_t order;               /* value for psd_variable.order, which numbers the variables in order of their creation */
    bool pinned, created, done;
    uint32_t owner;
    ps_status status;
    ps_reason reason;
    uint32_t retry_after_ms;
    char *text; /* why the creation was refused, for people; NULL: no reason */
};

/* A call of a registered function by a client, from its admission until the shell reports its end. */
struct psd_work {
    /* volatile: */
    struct psi_list link;
    struct psi_list waiters;
    uint64_t id;
    void *in, *out; /* in: the call's input, in_bytes; out: room for its result, out_room bytes */
    uint32_t in_bytes, out_room;
    uint32_t come;            /* bytes of the input that have come so far */
    struct psd_conn *bringer; /* connection from which the input is read into `in`; NULL: no connection */
    uint32_t row;             /* index of the function in the call table */
    bool early;               /* the shell has begun the call before its whole input has come */
    bool begun;               /* the shell has the call and its whole input */
    bool cancelled;
    struct psi_identity who; /* identity of the caller: the call may access what the caller may */
    struct psi_list drafts;  /* struct psd_draft */
};

/* A new value of a variable that a call is writing and has not made visible: rpc/drafts.c. */
struct psd_draft {
    /* volatile: */
    struct psi_list link;
    const struct psd_variable *variable; /* holds a reference */
    void *memory;                        /* memory of the size of the variable's value */
};

struct psd_counters {
    /* volatile: */
    uint64_t pushes_applied, pushes_torn, pushes_refused, nonfinite, pulls, bytes_in, bytes_out, sessions_ended, denied;
};

struct psd_effect_node {
    /* volatile: */
    struct psi_list link;
    struct psd_effect effect;
};

struct psd_pull_out;
struct psd_timed;

/* A log line about one or more variables, delayed so that equal events share a line (base/batch.c). */
struct psd_batch {
    /* volatile: */
    int level;
    uint32_t count;          /* number of variables; 0: no line is pending */
    const char *event, *key; /* string constants; key: name of `detail` in the line */
    uint64_t begun_ms, last_ms;
    char peer[96];
    char var[PS_NAME_BYTES_MAX + 1];
    char detail[PSI_OPTIMIZER_TEXT_MAX];
};

enum { PSD_PLACES = 512 }; /* number of lists in psd_task.places; with 10,000 workers each has some 20 records */

struct psd_task {
    /* remembered: */
    uint64_t position; /* position of the last change */
    struct psd_store store;
    struct psi_map records; /* session -> struct psd_record */
    uint64_t chief_number;  /* highest number of any chief (a session that may initialise a container), of all containers */
    struct psi_map chiefs;  /* container -> struct psd_chief */
    struct psd_directory names;
    struct psd_resets resets; /* directory */
    /* derived: */
    uint32_t progress_count;
    /* volatile: */
    psd_change_cb consume; /* called for each change of the fields marked `remembered:`; NULL: no call */
    void *consume_ctx;
    struct psd_task_config config;
    struct psi_rights *rights; /* table of rights, owned; NULL: every peer may do all */
    struct psd_denial denials[PSD_DENIALS_KEPT];
    struct psi_cluster cluster;
    char name[PSI_TASK_NAME_MAX];
    uint64_t random_key[2], random_count;
    uint64_t now_ms, started_ms, last_tick_ms;
    uint64_t came_ns;         /* arrival time of the bytes being processed, by config.clock_ns; 0: not measured */
    uint64_t stamps_until_ms; /* came_ns is measured until then: a client has lately asked how long its requests take */
    uint32_t timed_count;
    struct psd_batch batch;
    uint64_t record_cursor;
    uint64_t life;
    bool any_ports;           /* some task of the cluster has port 0, so peers must support PS_FEATURE_ADDRESSES */
    uint64_t address_version; /* directory task: how often tasks with port 0 have reported an address */
    /* sessions without a connection, those gone longest first. silent_empty: those with no outcome that a client may ask for */
    struct psi_list silent, silent_empty;
    /* directory task: sessions that train, hashed by job, task and default container (session/claim.c) */
    struct psi_list places[PSD_PLACES];
    uint64_t room_none_ms[3]; /* [enum psd_room]: when psd_room() last searched for memory to free and found too little */
    struct psd_counters count;
    uint64_t rate_pushes, rate_bytes, rate_at_ms;
    double pushes_per_second, bytes_per_second;
    /* volatile: connections */
    struct psi_list conns, dirty, effects;
    struct psi_list ended; /* connections that ended in this event; handlers may still have pointers to them */
    struct psi_list dead;  /* ended connections to which no pointer is left: to be freed */
    uint32_t conn_count;
    bool crowded; /* the shell (psd/server.c) accepts no new connections for now, because it has as many as it may have */
    uint64_t next_link_name;
    bool draining;
    bool served;        /* since the last psd_task_tick() some client has used a variable or a queue */
    bool forgets_names; /* directory task: a reset may have left names of variables that must still be removed */
    /* volatile: free lists and pools */
    struct psi_list free_progress, free_pulls;
    struct psd_wait *free_waits;
    uint32_t free_wait_count;
    struct psi_out_scratch scratch;
    uint8_t **free_buffers;
    uint32_t free_buffer_count, buffer_count;
    /* volatile: what waits */
    struct psd_wait **deadlines; /* heap of waiting requests with a deadline, the earliest on top (session/wait.h) */
    uint32_t deadline_count, deadline_capacity;
    uint32_t wait_count;
    struct psi_map presences;     /* name of a task whose arrival some request awaits -> struct psd_presence */
    struct psi_map barriers;      /* container \0 name -> struct psd_barrier of rpc/barrier.c */
    bool barriers_stale;          /* sessions ended or arrived in this event: barriers are checked at its end */
    struct psi_map steps;         /* directory task: container -> struct psd_step_of (session/steps.h) */
    uint64_t went_back_ms;        /* directory task: when all tasks last returned to an older checkpoint; 0: never */
    struct psi_list moved_queues; /* struct psd_queue changed in this event: their waiting requests are tried again at its end */
    /* some of moved_queues must wait: they need memory that copies for a checkpoint use */
    bool queues_held;
    struct psi_list works;     /* struct psd_work: calls of registered functions that run now */
    struct psi_list copies;    /* struct psd_copy of running calls: values being copied for them, round robin */
    struct psi_list publishes; /* struct psd_publish that wait until a checkpoint frees memory, the longest waiting first */
    uint32_t work_count;
    uint64_t work_next;
    struct psi_list disk_asks; /* disk operations that the shell (psd/shell) has not finished yet, the oldest first */
    uint32_t disk_ask_count;
    uint64_t disk_ask_next;
    ps_reason disk_reason; /* enum ps_reason of the last disk operation's failure */
    struct psi_list full;  /* connections not read until their queued replies are sent, the longest waiting first */
    struct psi_list held;  /* connections of pushes that wait (rpc/held.c), the longest waiting first */
    /* struct psd_progress of complete pushes whose values are updated in slices (rpc/moves.c), the oldest first */
    struct psi_list moves;
    struct psi_list followers; /* connections whose EVENTS waits (base/events.c), the longest waiting first */
    struct psd_events *events; /* ring of the latest events for EVENTS requests (base/events.c); NULL: no event yet */
    struct psi_list listings;  /* connections with a half-answered listing request (session/listing.c), served in turn */
    struct psi_list emptying;  /* containers whose variables are being freed in slices (owner/emptying.c), the oldest first */
    struct psi_list rate_sets; /* SET_RATE requests for many variables, done in slices (rounds/rate.c), the oldest first */
    struct psi_list slow;      /* INITs of large variables (rpc/slow.c), the oldest first */
    struct psi_list building;  /* psd_rounds whose new variable values are being computed in slices (rounds/rounds.c) */
    /* directory task: facts by which groups (struct psd_group) decide have changed: all decide again at the end of the event */
    bool rounds_moved;
    /* struct psd_group, a container's workers that train in rounds; at the directory only (rounds/groups.h) */
    struct psi_list groups;
    struct psi_list trainings; /* directory task: struct psd_training of rounds/group_training.c */
    uint32_t training_count;
    uint64_t attempts; /* directory task: highest number of an attempt to close a round of synchronous training */
    /* directory task: next psd_variable.order to give, higher than all that it gave or that other tasks reported */
    uint32_t next_order;
    /* state of writing and listing this task's parts of checkpoints (checkpoint/shards.h); NULL: no disk */
    struct psd_shards *shards;
    /* state of saving a checkpoint on all tasks (checkpoint/saver.h); NULL: not the directory, or no disk */
    struct psd_saver *saver;
    /* state of loading a checkpoint into this task (checkpoint/beside.h); NULL: no disk */
    struct psd_beside *beside;
    struct psd_loader *loader; /* state of loading a checkpoint on all tasks (checkpoint/loader.h); NULL: not the directory */
    bool loading;              /* directory task: tasks are loading a checkpoint, or putting it in place (psd_loader_is_on()) */
    const char *refused;       /* directory task: why tasks that wait for content may not begin, for people; NULL: they may */
    const char *delayed;       /* directory task: why the checkpoint to start from is not loaded yet; NULL: no attempt failed */
    /* the task has carried out a TASK_PLACE: at the end of the event it sends the directory its list of names again */
    bool list_again;
    /* functions of task.c: make and free the empty task into which a checkpoint is loaded */
    ps_status (*beside_new)(struct psd_task *t, struct psd_task **out, struct psi_err *err);
    void (*beside_free)(struct psd_task *beside);
    /* volatile: the end of a job (session/job.c) */
    bool job_done, ending; /* ending: this task exits because the job is done */
    uint64_t job_done_ms;  /* when the directory told this task that the job is done */
    uint32_t dones;        /* directory task: how many trainers have reported the end of their work (session/job.c) */
    struct psi_map owners; /* directory task: container private to a session -> the session (directory/own.c) */
    /* said_ready, said_serving: the shell was told READY, SERVING. given_up: the task ends, because it cannot begin */
    bool said_ready, said_serving, given_up;
    /* volatile: cluster */
    const struct psd_order_kind *orders; /* volatile: how to handle a task's answer to each operation (base/orders.h) */
    struct psd_conn *loop;               /* directory task: in-memory connection to itself as a ps task (base/loop.h) */
    struct psi_list looped;
    void *loop_read; /* the frame of `loop` being handled; owned */
    struct psd_peer *peers;
    uint32_t peer_count, self, directory; /* self, directory: index in `peers` of this task and of the directory */
    bool is_directory;
    uint64_t chief_own; /* directory task: last number that it gave to a chief (a session that may initialise a container) */
    /* directory task: last number sent to a training session to prove that it lives, when a second process claims its task
     * (session/claim.c). The first is random, so that numbers of an earlier directory process do not match */
    uint64_t challenge;
    /* volatile: the connection to the directory, which all other tasks have */
    bool dialling;
    /* this task has emptied all its containers to begin anew, and no directory has accepted its list since */
    bool fenced;
    uint64_t dial_at_ms, directory_heard_ms;
    uint32_t dial_failures;
    uint64_t left_lives[16]; /* random numbers of earlier directory processes, with which this task must not connect again */
    uint32_t left_count;
    uint64_t directory_life; /* random number of the last directory process that answered HELLO; 0: none */
    enum psd_twin twin;
    /* with PSD_TWIN_FIRST: random number of the directory process that this process left, so that its twin can connect first */
    uint64_t let_past_life;
    uint64_t refusal_logged_ms;
    ps_status refusal; /* status in the last log line about a refused HELLO */
};

#endif
