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
    PSD_ROLE_SOURCE = 3     /* a connection we dialled, as a client: psd/checkpoint/source.h */
};

/* A list of a task's names, as the directory gets it, or its answer, as the task does. The ways between are a table in
 * directory/tasklink.c. */
enum psd_list_stage {
    PSD_LIST_NONE,  /* nothing has come on this connection */
    PSD_LIST_COMES, /* some has; so far there is nothing to drop */
    PSD_LIST_DROPS, /* some of the list has come, and the task has to drop names */
    PSD_LIST_AGAIN, /* a list with names to drop is over: the task drops them and lists again */
    PSD_LIST_TAKEN, /* it is over, with nothing to drop: the task is connected */
    PSD_LIST_STAGES
};

/* Is another process this task as well? The ways between are a table in directory/tasklink.c. */
enum psd_twin {
    PSD_TWIN_NONE,      /* not as far as this one knows */
    PSD_TWIN_DISPLACED, /* the directory has refused this one for it; until a list of this one is answered */
    PSD_TWIN_FIRST, /* the directory that refused this process is gone, and at another life of it the other process comes first */
    PSD_TWINS
};

/* What a connection may do to one container, as far as it was asked. */
struct psd_allowed {
    /* volatile: */
    uint64_t of;     /* psd_container.number + 1; 0: nothing was asked */
    unsigned rights; /* enum psi_right */
};
enum { PSD_ALLOWED_KEPT = 8 /* containers of each connection: most have one or two */ };

/* A denial that the log has, or will have: who and for want of what. */
struct psd_denial {
    /* volatile: */
    uint64_t of;        /* hash of both; 0: none */
    uint64_t logged_ms; /* when the last line was written */
    uint64_t count;     /* denials since then */
};
enum { PSD_DENIALS_KEPT = 64, PSD_DENIAL_LOG_MS = 60000 /* between two lines of one */ };

/* One connection. */
struct psd_conn {
    /* volatile: */
    struct psi_identity who;                      /* of its peer, from HELLO on */
    struct psd_allowed allowed[PSD_ALLOWED_KEPT]; /* place: number of the container % PSD_ALLOWED_KEPT */
    struct psi_link *link;
    struct psi_list all;       /* task->conns */
    struct psd_record *record; /* role client, after HELLO */
    struct psd_peer *peer;     /* role task and directory */
    enum psd_role role;
    bool hello_done, closing;
    enum psd_list_stage list; /* roles task and directory */
    bool returned;            /* role task: what it lists may be stale, tasklink.c */
    bool begun;               /* role directory: its last answer to a BEAT says that its job's tasks have begun */
    bool discard;             /* the body of the current frame is read and dropped */
    bool resend;              /* at its end the recorded outcome is sent again */
    bool paused_out;          /* not read because its queue is long */
    uint64_t opened_ms, heard_ms, beat_sent_ms;
    uint64_t segment_begun_ms;            /* half a segment lies in our buffer: when it was lent */
    uint64_t segment_moved_ms;            /* when PS_SEGMENT_PROGRESS_BYTES more of it had come */
    uint32_t segment_seen;                /* bytes of it at segment_moved_ms */
    uint64_t paused_since_ms;             /* when link->paused last changed; 0: never */
    uint64_t last_first;                  /* highest sequence number of a FIRST frame on this connection */
    const struct psd_number *number;      /* push family: the entry that the current frame belongs to */
    uint64_t frame_offset;                /* element at which the current frame began */
    uint64_t payload_left;                /* payload bytes of the current frame still to come, without padding */
    uint32_t pulls;                       /* streamed replies in its queue */
    uint64_t copy_bytes;                  /* of those that are copies */
    uint64_t counted_out;                 /* of link->out.sent_bytes, in the task's counter already */
    uint64_t taken_bytes, stuck_since_ms; /* what the kernel had taken at the last tick; since when it takes nothing */
    struct psi_buf body;                  /* control frames */
    struct psd_work *brings;              /* the current frame's body goes straight into its input; NULL: into body */
    struct psi_buf order;                 /* role directory: items of the frames before of a list that goes on */
    uint64_t order_id;                    /* request that `order` belongs to */
    const struct psd_row *row;            /* of the current frame, psd/rpc/requests.h; NULL: its operation is not known */
    struct psd_slow *slow;                /* an INIT that it waits for: it is not read */
    struct psi_list held;                 /* of the task, while a push of it waits for the memory of a cut: it is not read */
    uint64_t held_beat_ms;
    /* of the task, while a list of this connection goes on (rpc/listing.c). The connection is not read meanwhile */
    struct psi_list listing;
    const struct psd_listing *listing_of; /* what the list is of */
    uint64_t listing_id, listing_cursor, listing_beat_ms;
    void *listing_at;     /* where it is, of psd_listing.step; ours */
    struct psi_list full; /* of the task, while too many of its replies wait: it is not read */
    struct psi_buf rest;  /* not read: what had come behind one of these, from rest_at on: congruent to the stream modulo 8 */
    size_t rest_at;
    uint64_t counted_bytes; /* of the task's budget: psd_conn_count() */
    bool counts_queue;      /* counted_bytes has the replies that wait */
    bool own_buffer;        /* link->in.buffer is not the task's memory, because the peer of the connection is not known yet */
    uint64_t next_id;       /* of requests that we send on it */
    struct psi_list timed;  /* struct psd_timed: requests that are to say how long they took (base/times.h) */
    uint32_t timed_count;
    struct psd_timed *timing; /* of the request that the current frame belongs to; NULL: it is not timed */
    uint64_t rest_ns;         /* t->came_ns of the first byte of `rest` */
    char text[96];            /* who, for logs */
};

/* Another task of the cluster, as seen from here. */
struct psd_peer {
    /* volatile: */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task, index;
    bool own_job; /* of the directory's job */
    bool self;
    bool waits;     /* directory, and each task of itself: it serves nobody until it is told what it begins with, start.h */
    bool listed;    /* directory: its list on the current connection has been taken in; of this task itself always */
    bool heard;     /* directory: it has listed in this life of ours; of this task itself always */
    uint32_t share; /* directory: as it says, of its part of the checkpoint that it writes or loads, in millionths */
    bool changed;   /* directory: the task says that it has something that no checkpoint has */
    /* directory: number of the checkpoint that has all that the task has. 0: none has, or nothing was done to the task since it
     * began empty */
    uint64_t saved;
    uint64_t settled_life; /* directory: the process that listed last, when that list had nothing to drop; 0: another one */
    uint64_t missing_since_ms;
    uint64_t features;               /* directory: PS_FEATURE_* that its last HELLO said */
    uint64_t life;                   /* directory: as its last HELLO said. 0: none has come */
    char host[PS_JOB_BYTES_MAX + 2]; /* directory: as its last HELLO said */
    uint32_t pid;                    /* directory: as its last HELLO said */
    uint32_t restarts;               /* directory: other lives that were this task before, as far as it has seen */
    char conflict[256];              /* directory: another process that says that it is this task; read by psd_peer_conflict() */
    struct psd_conn *conn;
    struct psi_list asks;                /* struct psd_ask, sent on the current connection */
    uint64_t conflict_ms, conflict_life; /* when that one came last, and who it is */
    /* directory, rpc/job.c: */
    bool trained;               /* a session of the task has trained */
    bool done;                  /* the last session of the task that trained has said that the job is done */
    uint8_t done_session[16];   /* the session that said so */
    uint8_t newest_session[16]; /* the last session that the task began */
    char newest_container[PS_CONTAINER_BYTES_MAX + 1]; /* the default container of newest_session */
    bool done_older;   /* an older process of the task has said that the job is done. It counts when the newest process is gone */
    bool counts_older; /* done_older counts now, until the newest process is heard again */
    bool told_done;    /* directory: it knows that the job is done */
};

/* A request from the directory to a task that has not been answered. */
struct psd_ask {
    /* volatile: */
    struct psi_list link;
    uint64_t id;
    uint8_t op;
    struct psi_list waiters; /* psd/session/wait.h; empty: its client is gone, the answer is only recorded */
    uint32_t item, owner;    /* of the request's list; peer index */
    uint64_t number;         /* of a checkpoint */
    bool made_again;         /* TASK_DELETE: a creation of the name that was asked for after it has been answered before it */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
};

struct psd_create {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
    struct psd_definition definition;
    struct psi_queue_spec *queue; /* checked; NULL: a variable */
    uint8_t key[PSI_KEY_BYTES];   /* of a container of a session */
    uint32_t requested;           /* peer index */
    uint32_t order;               /* as of psd_variable */
    bool pinned, created, done;
    uint32_t owner;
    ps_status status;
    ps_reason reason;
    uint32_t retry_after_ms;
    char *text; /* of a refusal; may be NULL */
};

/* A call from its admission until the shell says that it is over. */
struct psd_work {
    /* volatile: */
    struct psi_list link;    /* task->works */
    struct psi_list waiters; /* empty: nobody waits for it any more */
    uint64_t id;
    void *in, *out; /* staged: in_bytes and out_room */
    uint32_t in_bytes, out_room;
    uint32_t come;            /* bytes of in that are here */
    struct psd_conn *bringer; /* its reader writes more of them; NULL: none does */
    uint32_t row;             /* of the call table */
    bool begun;               /* the shell has it: all of its input has come */
    bool cancelled;
    struct psi_identity who; /* whose call it is: what it reads and writes here is done with its rights */
    struct psi_list drafts;  /* psd_draft */
};

/* A value that a call writes, and that is in no variable yet: rpc/drafts.c. */
struct psd_draft {
    /* volatile: */
    struct psi_list link;                /* of psd_work.drafts */
    const struct psd_variable *variable; /* one reference */
    void *memory;                        /* staged for it: as many bytes as its value has */
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

/* A log line that is not written yet: base/batch.c. */
struct psd_batch {
    /* volatile: */
    int level;
    uint32_t count;          /* variables; 0: there is no such line */
    const char *event, *key; /* constants; key: of detail */
    uint64_t begun_ms, last_ms;
    char peer[96];
    char var[PS_NAME_BYTES_MAX + 1]; /* the first one */
    char detail[256];
};

struct psd_task {
    /* remembered: */
    uint64_t position; /* of the last change */
    struct psd_store store;
    struct psi_map records; /* session -> struct psd_record */
    uint64_t chief_number;  /* highest seen or given, of all containers */
    struct psi_map chiefs;  /* container -> struct psd_chief */
    struct psd_directory names;
    struct psd_resets resets; /* directory */
    /* derived: */
    uint32_t progress_count;
    /* volatile: */
    psd_change_cb consume; /* hears of each change; NULL: nobody */
    void *consume_ctx;
    struct psd_task_config config;
    struct psi_rights *rights; /* ours; NULL: nothing is asked */
    struct psd_denial denials[PSD_DENIALS_KEPT];
    struct psi_cluster cluster;
    char name[PSI_TASK_NAME_MAX];
    uint64_t random_key[2], random_count;
    uint64_t now_ms, started_ms, last_tick_ms;
    uint64_t came_ns;         /* when the bytes came that are dispatched, by config.clock_ns; 0: not noted */
    uint64_t stamps_until_ms; /* so long it is noted */
    uint32_t timed_count;     /* of all connections: requests that are to say how long they take */
    struct psd_batch batch;
    uint64_t record_cursor; /* of records, where the next tick looks on */
    uint64_t life;
    struct psi_list silent, silent_empty; /* those without a connection, the longest silent first; empty: nothing to remember */
    uint64_t room_none_ms[3];             /* by enum psd_room: when nothing could give way */
    struct psd_counters count;
    uint64_t rate_pushes, rate_bytes, rate_at_ms;
    double pushes_per_second, bytes_per_second;
    /* volatile: connections */
    struct psi_list conns, dirty, effects;
    struct psi_list ended; /* connections that something may still refer to, until the end of the event */
    struct psi_list dead;  /* ended connections that nothing refers to */
    uint32_t conn_count;
    bool crowded; /* the shell takes no further connection for now */
    uint64_t next_link_name;
    bool draining;
    bool served;        /* a variable or a queue was asked for something since the last look */
    bool forgets_names; /* directory: a reset may have names that are to be forgotten */
    /* volatile: free lists and pools */
    struct psi_list free_progress, free_pulls;
    struct psd_wait *free_waits;
    uint32_t free_wait_count;
    struct psi_out_scratch scratch; /* of all connections */
    uint8_t **free_buffers;
    uint32_t free_buffer_count, buffer_count;
    /* volatile: what waits */
    struct psd_wait **deadlines; /* rpc/wait.h: heap of those that are open and have one, the next first */
    uint32_t deadline_count, deadline_capacity;
    uint32_t wait_count;          /* of all sessions */
    struct psi_map presences;     /* task of the cluster that one waits for -> struct psd_presence */
    struct psi_map barriers;      /* container \0 name -> struct psd_barrier of rpc/barrier.c */
    bool barriers_stale;          /* who holds a lease has changed in this event */
    struct psi_map steps;         /* directory: container -> struct psd_step_of of rpc/steps.h */
    uint64_t went_back_ms;        /* directory: when all last went back to a checkpoint; 0: they have not */
    struct psi_list moved_queues; /* psd_queue: who waits there may have its turn, seen at the end of the event */
    bool queues_held;             /* moved_queues waits for a cut */
    struct psi_list works;        /* calls that the shell has */
    struct psi_list copies;       /* psd_copy, of calls that the shell has: the one whose turn it is first */
    struct psi_list publishes;    /* psd_publish, that wait for the memory of a cut, the longest waiting first */
    uint32_t work_count;
    uint64_t work_next;
    struct psi_list disk_asks; /* operations that the shell has, the oldest first */
    uint32_t disk_ask_count;
    uint64_t disk_ask_next;
    ps_reason disk_reason; /* of the disk operation that has ended last */
    struct psi_list full;  /* connections with requests that wait until replies are out, the longest waiting first */
    struct psi_list held;  /* connections of pushes that wait for the memory of a cut (rpc/held.c), the longest waiting first */
    struct psi_list listings;  /* connections of lists that go on (rpc/listing.c), the one whose turn it is first */
    struct psi_list emptying;  /* containers whose variables are dropped in slices (rpc/emptying.c), the oldest first */
    struct psi_list rate_sets; /* SET_RATEs of many variables (rpc/rate.c), the oldest first */
    struct psi_list slow;      /* INITs of large variables (rpc/slow.c), the oldest first */
    struct psi_list building;  /* psd_rounds: new values are made (rpc/rounds.c) */
    bool rounds_moved;         /* a group may have moved: the directory looks at all of them at the end of the event */
    struct psi_list groups;    /* directory: struct psd_group of directory/rounds.h */
    struct psi_list trainings; /* directory: struct psd_training of rounds/group_training.c */
    uint32_t training_count;
    uint64_t attempts;         /* directory: of closing a round, so far */
    uint32_t next_order;       /* directory: above all psd_variable.order that it has given or heard of, its own aside */
    struct psd_save *save;     /* rpc/save.h; NULL: no disk */
    struct psd_saves *saves;   /* directory/saves.h; NULL: not the directory, or no disk */
    struct psd_start *start;   /* rpc/start.h; NULL: no disk */
    struct psd_starts *starts; /* directory/starts.h; NULL: not the directory */
    bool starting;             /* directory: tasks load what they begin with, or place it */
    const char *refused;       /* directory: why those who wait for that do not begin; NULL: it is not decided so */
    const char *delayed;       /* directory: why that could not be loaded yet; NULL: it was not tried, or it is not so */
    bool list_again;           /* at the end of the event: what this task has is another thing */
    /* of task.c: a task like this one, empty, that nobody is served by; its end */
    ps_status (*beside_new)(struct psd_task *t, struct psd_task **out, struct psi_err *err);
    void (*beside_free)(struct psd_task *beside);
    /* volatile: the end of a job (rpc/job.c) */
    bool job_done, ending; /* ending: this task ends because the job is done */
    uint64_t job_done_ms;  /* since when, as this task has heard */
    uint32_t dones;        /* directory: sessions that have said so */
    struct psi_map owners; /* directory: psd_record.own -> struct psd_record (directory/own.c) */
    /* PSD_EFFECT_READY and _SERVING are out. given_up: the task ends because it does not begin */
    bool said_ready, said_serving, given_up;
    /* volatile: cluster */
    const struct psd_order_kind *orders; /* volatile: by operation, base/orders.h */
    struct psd_peer *peers;
    uint32_t peer_count, self, directory; /* peer indexes */
    bool is_directory;
    uint64_t chief_own; /* directory: the last number that this life of it has made */
    uint64_t
        challenge; /* directory: the last number that was made for a rival of a trainer; rises from one that is no other life's */
    /* volatile: other tasks: the connection to the directory */
    bool dialling, fenced;
    uint64_t dial_at_ms, directory_heard_ms;
    uint32_t dial_failures;
    uint64_t left_lives[16];
    uint32_t left_count;
    uint64_t directory_life;
    enum psd_twin twin;
    uint64_t let_past_life; /* PSD_TWIN_FIRST: of that directory */
    uint64_t refusal_logged_ms;
    ps_status refusal; /* what that line said */
};

#endif
