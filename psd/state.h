/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one task: no functions. One thread; no part of it is shared with another task.
 */
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
    PSD_ROLE_DIRECTORY = 2, /* the connection we dialled */
    PSD_ROLE_SOURCE = 3,    /* a connection we dialled, as a client: psd/checkpoint/source.h */
    PSD_ROLE_SELF = 4       /* directory: what it orders of its own task, base/loop.h */
};

/* How far the list of a task's names is on this connection, or at the task, the answer to it. The allowed transitions are a table
 * in directory/tasklink.c. */
enum psd_list_stage {
    PSD_LIST_NONE,  /* nothing has come on this connection */
    PSD_LIST_COMES, /* part of the list has come, with nothing to drop so far */
    PSD_LIST_DROPS, /* part of the list has come, and the task has to drop names */
    PSD_LIST_AGAIN, /* the list has ended with names to drop: the task drops them and lists again */
    PSD_LIST_TAKEN, /* the list has ended with nothing to drop: the task is connected */
    PSD_LIST_STAGES
};

/* Does another process run as this task? The allowed transitions are a table in directory/tasklink.c. */
enum psd_twin {
    PSD_TWIN_NONE, /* not as far as this process knows */
    /* the directory has refused this process in favour of another one; until a list of this process is answered */
    PSD_TWIN_DISPLACED,
    PSD_TWIN_FIRST, /* the directory that refused this process has gone, and a later life of it prefers the other process */
    PSD_TWINS
};

/* Cached rights of a connection on one container. */
struct psd_allowed {
    /* volatile: */
    uint64_t of;     /* psd_container.number + 1; 0: an empty entry */
    unsigned rights; /* enum psi_right */
};
enum { PSD_ALLOWED_KEPT = 8 /* containers of each connection: most have one or two */ };

/* A denial for the log: to whom, for want of which right. */
struct psd_denial {
    /* volatile: */
    uint64_t of;        /* hash of identity and missing right; 0: an empty entry */
    uint64_t logged_ms; /* when the last line was written */
    uint64_t count;     /* denials since that line */
};
enum { PSD_DENIALS_KEPT = 64, PSD_DENIAL_LOG_MS = 60000 /* between two lines about one denial */ };

struct psd_conn {
    /* volatile: */
    struct psi_identity who;                      /* identity of the peer, set at HELLO */
    struct psd_allowed allowed[PSD_ALLOWED_KEPT]; /* index: number of the container % PSD_ALLOWED_KEPT */
    struct psi_link *link;
    struct psi_list all;       /* task->conns */
    struct psd_record *record; /* role client, after HELLO */
    struct psd_peer *peer;     /* role task and directory */
    enum psd_role role;
    bool hello_done, closing;
    enum psd_list_stage list; /* roles task and directory */
    bool returned;            /* role task: its list may be stale, see tasklink.c */
    bool begun;               /* role directory: its last answer to a BEAT says that the tasks of the job have begun */
    bool discard;             /* the body of the current frame is read and dropped */
    bool resend;              /* at the end of the current frame the recorded outcome is sent again */
    bool paused_out;          /* the connection is not read because its out queue is long */
    uint64_t opened_ms, heard_ms, beat_sent_ms;
    uint64_t segment_begun_ms;            /* when the buffer was lent that holds half a segment */
    uint64_t segment_moved_ms;            /* when the last PS_SEGMENT_PROGRESS_BYTES of that segment had come */
    uint32_t segment_seen;                /* bytes of that segment at segment_moved_ms */
    uint64_t paused_since_ms;             /* when link->paused last changed; 0: never */
    uint64_t last_first;                  /* highest sequence number of a FIRST frame on this connection */
    const struct psd_number *number;      /* push family: the number that the current frame belongs to */
    uint64_t frame_offset;                /* element at which the current frame began */
    uint64_t payload_left;                /* payload bytes of the current frame still to come, without padding */
    uint32_t pulls;                       /* streamed replies in the out queue */
    uint64_t copy_bytes;                  /* bytes of streamed replies that are copies */
    uint64_t counted_out;                 /* how much of link->out.sent_bytes is in the task's counter already */
    uint64_t taken_bytes, stuck_since_ms; /* bytes that the kernel had taken at the last tick; since when it takes none */
    struct psi_buf body;                  /* control frames */
    /* the work whose input the current frame's body is read into; NULL: the body goes into `body` */
    struct psd_work *brings;
    struct psi_buf order;      /* role directory: items of the earlier frames of a list that goes on */
    uint64_t order_id;         /* id of the request that `order` belongs to */
    const struct psd_row *row; /* of the current frame, psd/rpc/requests.h; NULL: its operation is not known */
    struct psd_slow *slow;     /* an unfinished INIT of this connection, which is not read meanwhile */
    /* in task->held while a push of this connection waits for the memory of a cut; the connection is not read meanwhile */
    struct psi_list held;
    uint64_t held_beat_ms;
    /* in task->listings while a list of this connection goes on (session/listing.c); the connection is not read meanwhile */
    struct psi_list listing;
    const struct psd_listing *listing_of; /* what kind of list goes on */
    uint64_t listing_id, listing_cursor, listing_beat_ms;
    void *listing_at;     /* position for psd_listing.step; owned */
    struct psi_list full; /* in task->full while too many replies of this connection wait; the connection is not read meanwhile */
    /* in task->followers while the EVENTS of this connection waits for an event of this number or a higher one (base/events.c) */
    struct psi_list following;
    uint64_t following_id, following_next, following_until_ms;
    /* bytes that came before reading stopped, from rest_at on, congruent to their position in the stream modulo 8 */
    struct psi_buf rest;
    size_t rest_at;
    uint64_t counted_bytes; /* bytes counted in the task's budget, see psd_conn_count() */
    bool counts_queue;      /* counted_bytes includes the replies that wait */
    bool own_buffer;        /* link->in.buffer is not the task's memory, because the peer of the connection is not known yet */
    uint64_t next_id;       /* id of the next request that this task sends */
    struct psi_list timed;  /* struct psd_timed: requests whose replies say how long they took (base/times.h) */
    uint32_t timed_count;
    struct psd_timed *timing; /* the entry in `timed` of the current frame's request; NULL: the request is not timed */
    uint64_t rest_ns;         /* t->came_ns of the first byte of `rest` */
    char text[96];            /* the peer's name, for logs */
};

/* Another task of the cluster, as seen from here. */
struct psd_peer {
    /* volatile: */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task, index;
    bool own_job; /* a task of the directory's job */
    bool self;
    bool waits;     /* directory, and each task of itself: not told yet what it begins with, so it serves nobody (beside.h) */
    bool listed;    /* directory: its list on the current connection is complete; of this task itself always true */
    bool heard;     /* directory: the task has listed since this directory started; of this task itself always true */
    uint32_t share; /* directory: progress that the task reports, of writing or loading its part of a checkpoint, in millionths */
    bool changed;   /* directory: the task reports changes that are in no checkpoint */
    /* directory: number of the checkpoint that has all of the task's changes. 0: no checkpoint has them, or the task began empty
     * and has no changes */
    uint64_t saved;
    uint64_t settled_life; /* directory: life of the process whose list came last and had nothing to drop; 0: none */
    uint64_t missing_since_ms;
    uint64_t features;               /* directory: PS_FEATURE_* in its last HELLO */
    uint64_t life;                   /* directory: life in its last HELLO; 0: none has come */
    char host[PS_JOB_BYTES_MAX + 2]; /* directory: host in its last HELLO */
    uint32_t pid;                    /* directory: pid in its last HELLO */
    uint32_t restarts;               /* directory: how many other lives of the task have come before */
    char conflict[256];              /* directory: another process that runs as this task; read by psd_peer_conflict() */
    struct psd_conn *conn;
    struct psi_list asks;                /* struct psd_ask, sent on the current connection */
    uint64_t conflict_ms, conflict_life; /* when that other process came last, and its life */
    /* directory, session/job.c: */
    bool trained;               /* a session of the task has trained */
    bool done;                  /* the last session of the task that trained has said that the job is done */
    uint8_t done_session[16];   /* the session that has said JOB_DONE */
    uint8_t newest_session[16]; /* the last session that the task began */
    char newest_container[PS_CONTAINER_BYTES_MAX + 1]; /* the default container of newest_session */
    bool done_older;   /* an older process of the task has said JOB_DONE, which counts only if the newest process is gone */
    bool counts_older; /* done_older counts now, until the newest process is heard again */
    bool told_done;    /* directory: the task has been told that the job is done */
};

/* A request from the directory to a task, not yet answered. */
struct psd_ask {
    /* volatile: */
    struct psi_list link;
    uint64_t id;
    uint8_t op;
    struct psi_list waiters; /* psd/session/wait.h; empty: the client has gone, the answer is only recorded */
    uint32_t item, owner;    /* item: index in the request's list; owner: peer index */
    uint64_t number;         /* number of a checkpoint */
    bool made_again;         /* TASK_DELETE: a later creation of the same name was answered before this request */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
};

struct psd_create {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
    struct psd_definition definition;
    struct psi_queue_spec *queue; /* checked; NULL: a variable */
    uint8_t key[PSI_KEY_BYTES];   /* if the container is a session's */
    uint32_t requested;           /* peer index */
    uint32_t order;               /* as psd_variable.order */
    bool pinned, created, done;
    uint32_t owner;
    ps_status status;
    ps_reason reason;
    uint32_t retry_after_ms;
    char *text; /* reason of a refusal; may be NULL */
};

/* A call, from its admission until the shell reports its end. */
struct psd_work {
    /* volatile: */
    struct psi_list link;    /* task->works */
    struct psi_list waiters; /* empty: nobody waits for it any more */
    uint64_t id;
    void *in, *out; /* staged: in_bytes, and out_room bytes */
    uint32_t in_bytes, out_room;
    uint32_t come;            /* bytes of `in` that have come */
    struct psd_conn *bringer; /* the connection that reads more bytes into `in`; NULL: none */
    uint32_t row;             /* in the call table */
    bool begun;               /* the shell has the call: all of its input has come */
    bool cancelled;
    struct psi_identity who; /* the caller's identity: the call reads and writes variables with its rights */
    struct psi_list drafts;  /* psd_draft */
};

/* A value that a call writes, not yet that of the variable: rpc/drafts.c. */
struct psd_draft {
    /* volatile: */
    struct psi_list link;                /* in psd_work.drafts */
    const struct psd_variable *variable; /* with a reference */
    void *memory;                        /* staged, of the size of the variable's value */
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

/* A log line about several variables, not yet written: base/batch.c. */
struct psd_batch {
    /* volatile: */
    int level;
    uint32_t count;          /* variables; 0: no line waits */
    const char *event, *key; /* constants; key: the name of `detail` in the line */
    uint64_t begun_ms, last_ms;
    char peer[96];
    char var[PS_NAME_BYTES_MAX + 1]; /* the first variable */
    char detail[PSI_OPTIMIZER_TEXT_MAX];
};

struct psd_task {
    /* remembered: */
    uint64_t position; /* of the last change */
    struct psd_store store;
    struct psi_map records; /* session -> struct psd_record */
    uint64_t chief_number;  /* highest chief number seen or given, of all containers */
    struct psi_map chiefs;  /* container -> struct psd_chief */
    struct psd_directory names;
    struct psd_resets resets; /* directory */
    /* derived: */
    uint32_t progress_count;
    /* volatile: */
    psd_change_cb consume; /* called with each change; NULL: no listener */
    void *consume_ctx;
    struct psd_task_config config;
    struct psi_rights *rights; /* owned; NULL: everybody may do everything */
    struct psd_denial denials[PSD_DENIALS_KEPT];
    struct psi_cluster cluster;
    char name[PSI_TASK_NAME_MAX];
    uint64_t random_key[2], random_count;
    uint64_t now_ms, started_ms, last_tick_ms;
    uint64_t came_ns;         /* when the bytes came that are being dispatched, by config.clock_ns; 0: not noted */
    uint64_t stamps_until_ms; /* came_ns is noted until this time */
    uint32_t timed_count;     /* timed requests of all connections */
    struct psd_batch batch;
    uint64_t record_cursor; /* where in records the next tick continues */
    uint64_t life;
    /* records of sessions without a connection, the longest silent first; silent_empty: those with nothing to remember */
    struct psi_list silent, silent_empty;
    uint64_t room_none_ms[3]; /* by enum psd_room: when nothing could be freed */
    struct psd_counters count;
    uint64_t rate_pushes, rate_bytes, rate_at_ms;
    double pushes_per_second, bytes_per_second;
    /* volatile: connections */
    struct psi_list conns, dirty, effects;
    struct psi_list ended; /* connections that something may still refer to, until the end of the event */
    struct psi_list dead;  /* ended connections that nothing refers to */
    uint32_t conn_count;
    bool crowded; /* the shell accepts no further connection for now */
    uint64_t next_link_name;
    bool draining;
    bool served;        /* a variable or a queue was used since the last look */
    bool forgets_names; /* directory: a reset may have names that can be forgotten */
    /* volatile: free lists and pools */
    struct psi_list free_progress, free_pulls;
    struct psd_wait *free_waits;
    uint32_t free_wait_count;
    struct psi_out_scratch scratch; /* shared by all connections */
    uint8_t **free_buffers;
    uint32_t free_buffer_count, buffer_count;
    /* volatile: what waits */
    struct psd_wait **deadlines; /* session/wait.h: heap of open requests with a deadline, the earliest first */
    uint32_t deadline_count, deadline_capacity;
    uint32_t wait_count;          /* of all sessions */
    struct psi_map presences;     /* name of a task that some request waits for -> struct psd_presence */
    struct psi_map barriers;      /* container \0 name -> struct psd_barrier of rpc/barrier.c */
    bool barriers_stale;          /* the set of sessions with a lease has changed in this event */
    struct psi_map steps;         /* directory: container -> struct psd_step_of (session/steps.h) */
    uint64_t went_back_ms;        /* directory: when all tasks last went back to a checkpoint; 0: never */
    struct psi_list moved_queues; /* psd_queue: requests that wait there may have their turn at the end of the event */
    bool queues_held;             /* moved_queues waits for a cut */
    struct psi_list works;        /* psd_work: calls that the shell runs */
    struct psi_list copies;       /* psd_copy of calls that the shell runs, the next one first */
    struct psi_list publishes;    /* psd_publish that wait for the memory of a cut, the longest waiting first */
    uint32_t work_count;
    uint64_t work_next;
    struct psi_list disk_asks; /* disk operations that the shell runs, the oldest first */
    uint32_t disk_ask_count;
    uint64_t disk_ask_next;
    ps_reason disk_reason; /* reason of the disk operation that ended last */
    struct psi_list full;  /* connections with requests that wait until replies are out, the longest waiting first */
    struct psi_list held;  /* connections of pushes that wait for the memory of a cut (rpc/held.c), the longest waiting first */
    struct psi_list followers; /* connections whose EVENTS waits (base/events.c), the longest waiting first */
    struct psd_events *events; /* base/events.c; NULL: nothing has happened */
    struct psi_list listings;  /* connections of lists that go on (session/listing.c), the next one first */
    struct psi_list emptying;  /* containers whose variables are dropped in slices (owner/emptying.c), the oldest first */
    struct psi_list rate_sets; /* SET_RATEs of many variables (rounds/rate.c), the oldest first */
    struct psi_list slow;      /* INITs of large variables (rpc/slow.c), the oldest first */
    struct psi_list building;  /* psd_rounds whose new values are being built (rounds/rounds.c) */
    bool rounds_moved;         /* a group may have changed: the directory looks at all groups at the end of the event */
    struct psi_list groups;    /* directory: struct psd_group (rounds/groups.h) */
    struct psi_list trainings; /* directory: struct psd_training of rounds/group_training.c */
    uint32_t training_count;
    uint64_t attempts; /* directory: attempts to close a round so far */
    /* directory: above every psd_variable.order that it has given or seen, except its own variables' */
    uint32_t next_order;
    struct psd_shards *shards; /* checkpoint/shards.h; NULL: no disk */
    struct psd_saver *saver;   /* checkpoint/saver.h; NULL: not the directory, or no disk */
    struct psd_beside *beside; /* checkpoint/beside.h; NULL: no disk */
    struct psd_loader *loader; /* checkpoint/loader.h; NULL: not the directory */
    bool loading;              /* directory: tasks are loading or placing what they begin with */
    const char *refused;       /* directory: why waiting tasks do not begin; NULL: they may */
    const char *delayed;       /* directory: why the start could not be loaded yet; NULL: no failure so far */
    /* at the end of the event: list to the directory again, because this task's content was replaced */
    bool list_again;
    /* task.c: make an empty task with this configuration that serves nobody, and free it */
    ps_status (*beside_new)(struct psd_task *t, struct psd_task **out, struct psi_err *err);
    void (*beside_free)(struct psd_task *beside);
    /* volatile: the end of a job (rpc/job.c) */
    bool job_done, ending; /* ending: this task exits because the job is done */
    uint64_t job_done_ms;  /* when this task heard that the job is done */
    uint32_t dones;        /* directory: sessions that have said JOB_DONE */
    struct psi_map owners; /* directory: psd_record.own -> struct psd_record (directory/own.c) */
    /* PSD_EFFECT_READY and PSD_EFFECT_SERVING were emitted. given_up: the task ends because it cannot begin */
    bool said_ready, said_serving, given_up;
    /* volatile: cluster */
    const struct psd_order_kind *orders; /* volatile: by operation, base/orders.h */
    struct psd_conn *loop;               /* directory: the connection to its own task, base/loop.h */
    struct psi_list looped;              /* frames on that connection */
    void *loop_read;                     /* the frame that is being carried out, owned */
    struct psd_peer *peers;
    uint32_t peer_count, self, directory; /* peer indexes */
    bool is_directory;
    uint64_t chief_own; /* directory: the last chief number that this life has given */
    uint64_t
        challenge; /* directory: the last challenge number for a rival of a trainer; starts at a number that no other life uses */
    /* volatile: at other tasks: the connection to the directory */
    bool dialling, fenced;
    uint64_t dial_at_ms, directory_heard_ms;
    uint32_t dial_failures;
    uint64_t left_lives[16];
    uint32_t left_count;
    uint64_t directory_life;
    enum psd_twin twin;
    uint64_t let_past_life; /* PSD_TWIN_FIRST: life of that directory */
    uint64_t refusal_logged_ms;
    ps_status refusal; /* the status in that line */
};

#endif
