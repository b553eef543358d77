/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpsd: run tasks of a cluster inside a process. C11 and C++17. The daemon psd is a user of this header.
 *
 * A server is one task: one thread, one event loop, its own variables and listening sockets. A process may have several, of one
 * cluster or of many. libpsd takes no signals (its threads block them all), never exits and never prints.
 *
 *   psd_server_options o;
 *   psd_server_options_init(&o);
 *   o.cluster_spec = "ps=127.0.0.1:2222;worker=127.0.0.1:2223";
 *   psd_server *server;
 *   char error[512];
 *   if (psd_server_start(&o, &server, error, sizeof(error)) != PS_OK) ...
 *   ...
 *   psd_server_stop(server, 10000);
 *   psd_server_free(server);
 */
#ifndef PSD_H
#define PSD_H

#include "ps_calls.h"
#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psd_server psd_server;

/** One log line (logfmt, no newline); level 0 debug, 1 info, 2 warning, 3 error. On the task's thread; must not block for long
 * and must not call psd_server_wait or psd_server_free. */
typedef void (*psd_server_log_fn)(void *ctx, int level, const char *line);
/** Something happened to the server. On the task's thread; may call psd_server_address and psd_server_stop. */
typedef void (*psd_server_event_fn)(void *ctx, psd_server *server);
/** Setting i for `psctl config`: false when there is none. On the task's thread; the texts stay valid while the server lives. */
typedef bool (*psd_server_config_fn)(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value,
                                     const char **help, bool *reloadable);

/* Three of psd_call_functions of ps_calls.h, for a table that is linked with this library; INVALID_ARGUMENT: call is NULL. */
PS_API bool psd_call_cancelled(const psd_call *call);
PS_API ps_status psd_call_again(psd_call *call);
PS_API ps_status psd_call_finish(psd_call *call, ps_status st, size_t out_bytes, const char *error);

/** A setting that is a text. */
enum { PSD_TEXT_BYTES_MAX = 511 };
typedef struct psd_text {
    char text[PSD_TEXT_BYTES_MAX + 1];
} psd_text;

/**
 * The settings of a task that are numbers, and `recover`, one row each: type and field of psd_server_options; name, kind and
 * bounds of psd's flag and of its line in psd.conf; default, as in the field and as text; whether it may change while the task
 * runs; help. The field, its default, the flag, the file, `psctl config` and psd_server_set() come from the row. A program may go
 * beyond the bounds of the flag: times from 1 ms.
 */
#define PSD_SERVER_SETTINGS(ROW)                                                                                                 \
    ROW(bool, insecure_any_peer, "insecure_any_peer", BOOL, 0, 1, false, "false", false,                                         \
        "Listen on addresses that other machines reach, without a key file and certificates: everybody who reaches the port "    \
        "can read and change everything.")                                                                                       \
    ROW(uint64_t, memory_budget_bytes, "memory_budget", BYTES, 0, INT64_C(1) << 50, 0, "0", true,                                \
        "Values, slots, staging, and the records of all that the tasks of this process have; 0: 80 % of the cgroup's or the "    \
        "machine's "                                                                                                             \
        "memory.")                                                                                                               \
    ROW(int64_t, lease_ms, "lease", TIME, 100, PSD_DAY_MS, 10000, "10s", false,                                                  \
        "A session that says nothing for so long loses its place.")                                                              \
    ROW(int64_t, beat_ms, "beat", TIME, 10, PSD_DAY_MS, 2500, "2.5s", false,                                                     \
        "How often an idle connection says that it lives; shorter than the lease.")                                              \
    ROW(int64_t, hello_deadline_ms, "hello_deadline", TIME, 50, PSD_DAY_MS, 5000, "5s", false,                                   \
        "A new connection that has not said who it is by then is closed.")                                                       \
    ROW(int64_t, drain_ms, "drain", TIME, 0, PSD_DAY_MS, 10000, "10s", true,                                                     \
        "On SIGTERM and `psctl shutdown`: time for what is in progress.")                                                        \
    ROW(uint32_t, sessions_max, "sessions_max", COUNT, 1, 4096, 4096, "4096", true, "Sessions per task.")                        \
    ROW(uint32_t, spin_us, "spin_us", COUNT, 0, 1000, 50, "50", true,                                                            \
        "Microseconds that a task looks for the next request before it sleeps, where the last ones came that fast and it may "   \
        "run on several CPUs; 0: it sleeps at once.")                                                                            \
    ROW(uint32_t, events_max, "events_max", COUNT, 0, 4096, 256, "256", true,                                                    \
        "Events that each task keeps in memory for `psctl events`, at most 600 bytes each; the oldest go. 0: none are kept.")    \
    ROW(int64_t, session_keep_ms, "session_keep", TIME, 1000, PSD_DAY_MS, 600000, "10min", true,                                 \
        "How long a session that is away is remembered, so that it can go on without doing anything twice.")                     \
    ROW(bool, refuse_nonfinite, "refuse_nonfinite", BOOL, 0, 1, true, "true", true,                                              \
        "Refuse gradients with NaN or infinity, also when the push's scale makes it.")                                           \
    ROW(bool, exit_when_done, "exit_when_done", BOOL, 0, 1, false, "false", false,                                               \
        "End with status 0 when every trainer has said that the job is done (ps_session_job_done).")                             \
    ROW(uint32_t, checkpoint_seconds, "checkpoint_seconds", COUNT, 0, 1000000, 600, "600", true,                                 \
        "With checkpoint_dir, as the next seven: seconds from one checkpoint to the next, where anything has changed, the "      \
        "first one when a worker has said a global step, or a chief that the model is ready; 0: none by time. The directory "    \
        "task's counts, as for the next three.")                                                                                 \
    ROW(uint32_t, checkpoint_steps, "checkpoint_steps", COUNT, 0, 1000000000, 0, "0", true,                                      \
        "A checkpoint after so many global steps as well; 0: none.")                                                             \
    ROW(uint32_t, max_to_keep, "max_to_keep", COUNT, 0, 10000, 5, "5", true,                                                     \
        "Checkpoints that are kept; older ones go. 0: all are kept, also when a disk is full.")                                  \
    ROW(uint32_t, keep_checkpoint_every_hours, "keep_checkpoint_every_hours", COUNT, 0, 100000, 0, "0", true,                    \
        "The last checkpoint of each span of so many hours is kept for good; 0: none.")                                          \
    ROW(uint64_t, checkpoint_memory_bytes, "checkpoint_memory", BYTES, 1048576, INT64_C(1) << 50, 268435456, "256MiB", true,     \
        "Copies that a checkpoint may take while it is written; pushes that need more of them wait for the disk.")               \
    ROW(int, restore, "restore", RESTORE, -1000000000, 2, 0, "auto", true,                                                       \
        "What the tasks begin with where nothing lives: auto: the newest checkpoint, or, where a file of it is damaged, the "    \
        "next older one, or nothing; where a part of it is missing, they do not begin; latest: the newest one, or they do not "  \
        "begin, also where there is none; a number: that one, or they do not begin; none: nothing. The directory task's "        \
        "counts.")                                                                                                               \
    ROW(psd_text, recover, "recover", RECOVER, 0, PSD_TEXT_BYTES_MAX, (psd_text){"partial"}, "partial", true,                    \
        "When a task comes back and others live: partial: it loads the newest checkpoint, the others keep what they have; cut: " \
        "all go back to it, as in rounds always. Containers may differ: partial,model=cut. The directory task's counts.")        \
    ROW(bool, spread, "spread", BOOL, 0, 1, false, "false", true,                                                                \
        "Where nothing lives, and tasks have come or gone since the checkpoint was saved that is loaded: it is dealt anew over " \
        "all of them, by its size, and saved so. The directory task's counts.")                                                  \
    ROW(int, log_level, "log_level", LEVEL, 0, 4, 1, "info", true,                                                               \
        "Log lines on standard error from this level on; those of the audit at each but off.")
/* The rights that the roles of keys have where a program says nothing else; `psctl key new` prints these rows. */
#define PSD_RIGHTS_OF_ROLES                                                                                                      \
    "role:ps *,@cluster train member; role:worker *,@cluster train member; role:admin *,@cluster all; role:monitor *,@cluster "  \
    "look"
#define PSD_SERVER_FIELD(type, field, ...) type field;
enum { PSD_DAY_MS = 24 * 60 * 60 * 1000 };

typedef struct psd_server_options {
    size_t struct_bytes; /* filled by psd_server_options_init */
    /* the cluster: all NULL means that this task is the only one, at its own address */
    const char *cluster_spec; /* "ps=h:p,h:p;worker=h:p" */
    const char *ps_hosts;     /* "h:p,h:p": the cluster as two host lists; not together with cluster_spec */
    const char *worker_hosts;
    const char *cluster_name; /* "psd"; clients that name another cluster are refused */
    const char *job;          /* "ps" */
    uint32_t task_index;
    /* where it listens */
    uint32_t unix_mode;    /* of Unix socket files, 0600 */
    const char *listen;    /* "h:p,unix:PATH"; port 0: any free one. NULL: the task's address in the cluster, or
                              127.0.0.1:2222. With Unix sockets only, they are added to that address. */
    const int *listen_fds; /* inherited listening sockets instead of addresses; taken over from psd_server_start on */
    size_t listen_fd_count;
    PSD_SERVER_SETTINGS(PSD_SERVER_FIELD)
    /* what the program hears */
    psd_server_log_fn log; /* NULL: nothing is logged */
    /* what the task can decide alone is decided; it may still wait for other tasks; may be NULL */
    psd_server_event_fn ready;
    psd_server_event_fn ended;       /* the task has ended, by psd_server_stop or by a client's request; may be NULL */
    psd_server_config_fn config_row; /* NULL, and config_set too: what psd_server_set() can change, with psd's names,
                                           and checkpoint_dir */
    void *ctx;                       /* handed to each function of this structure, serving too */
    const void *calls_before[4];     /* NULL; where `calls` was in headers without attach() */
    uint32_t call_threads;           /* compute threads, made at the first call; 1 */
    uint32_t calls_max;              /* queued and running; above it RESOURCE_EXHAUSTED; 64 */
    const char *devices;             /* "CPU:0" and more, as "CPU:0,GPU:0": what psctl devices shows of this task */
    /** A client wants to change a setting that may change (`psctl config set`): PS_OK when it is in force. NULL: none of
     * config_row may. On the task's thread; log level and limits go through psd_server_set(). */
    ps_status (*config_set)(void *ctx, psd_server *server, const char *name, const char *value, char *error, size_t error_bytes);
    /** Directory for checkpoints: the task's part of it is JOB-INDEX below it, made where it is missing, and locked by the
     * server. NULL or "": the task has none. */
    const char *checkpoint_dir;
    /* once, after ready: all tasks that it waited for are there, and clients are served; may be NULL */
    psd_server_event_fn serving;
    psd_call_table calls; /* empty: the task runs no calls */
    /* Who may connect, and what they may do (docs/SECURITY.md). With a key file or a certificate every TCP socket of the task is
     * TLS 1.3, those of loopback and listen_fds included; with one of them or with rights, whoever has no row has no rights.
     * NULL or "": not given. psd_server_reload() reads the files again. */
    const char *key_file; /* each line is a client or task that may connect; the first line of role ps that says `use` is what
                             this task shows to others, or else the first `use` line */
    const char *tls_cert; /* PEM: the task's certificate, with the URI psd://CLUSTER/JOB/INDEX, and its chain, */
    const char *tls_key;  /* its private key, */
    const char *tls_ca;   /* the authority that signs certificates of peers. Certificate, key and authority: all three or none */
    const char *tls_refused; /* URIs and serials of certificates that are refused, one a line */
    const char *rights; /* rows: "key:ann model read; role:ps @cluster member"; "": none. NULL, and rights_file too, with a key
                           file: PSD_RIGHTS_OF_ROLES */
    const char *rights_file; /* more rows, one a line */
    bool tls_crc;            /* CRCs of values under TLS as well, which has checksums of its own */
} psd_server_options;
/**
 * Let OpenSSL zero all memory that it frees in this process. OpenSSL 3.0 does not: what a handshake makes of a key, which is as
 * good as the key, stays in freed memory until other data comes to lie there. A core of the program may have it.
 *
 * For programs, because it replaces OpenSSL's allocator for everything in the process that uses the same OpenSSL. psd calls
 * it.
 * Where OpenSSL is in use already it changes nothing. Not for a program that closes this library with dlclose(): OpenSSL stays.
 *
 * Thread   any; before the first server with a key or certificate.
 */
PS_API void psd_server_wipe_freed(void);
/** Defaults. Any thread. */
PS_API void psd_server_options_init(psd_server_options *options);

/**
 * Start one task. When it returns the sockets listen and connections are taken; options borrows. Blocks for name look-ups.
 * error gets the reason, in words for the person who chose the options. *out_server is written on PS_OK only; owns:
 * psd_server_free. Any thread.
 * Errors: INVALID_ARGUMENT (option, address, job or task not in the cluster, a symbolic link in checkpoint_dir), ALREADY_EXISTS
 * (address or checkpoint_dir in use), PERMISSION_DENIED (address not allowed, checkpoint_dir somebody else's), UNAVAILABLE (host
 * name does not resolve), NOT_FOUND (where checkpoint_dir is to be), DATA_LOSS (its disk fails), RESOURCE_EXHAUSTED.
 */
PS_API ps_status psd_server_start(const psd_server_options *options, psd_server **out_server, char *error, size_t error_bytes);
/** Where it listens, with the real port: "127.0.0.1:2222", "[::1]:2222" or "unix:PATH"; until psd_server_free. Any thread. */
PS_API const char *psd_server_address(const psd_server *server);
/** The session target of this task, "psd://127.0.0.1:2222"; until psd_server_free. Any thread. */
PS_API const char *psd_server_target(const psd_server *server);
/**
 * A server of its own cluster: task 0 of job `local`, on a free port of 127.0.0.1, which nothing else knows. Two of them share
 * nothing; what they hold ends with them. It takes the key file that a session of this process finds (PSD_KEY_FILE,
 * ~/.config/psd/key, /etc/psd/psd.keys), because that session never speaks plain text. TensorFlow:
 * tf.train.Server.create_local_server(). Errors and ownership as psd_server_start.
 */
PS_API ps_status psd_server_create_local(psd_server **out_server, char *error, size_t error_bytes);
/**
 * psd_server_create_local() with options: a call table, so that the server executes operations (ps_ops_table()), a
 * checkpoint_dir, a log, limits.
 *
 * options  filled by psd_server_options_init(), or NULL; borrows. listen may name another free port (port 0) or Unix sockets; job
 *          may be left as it is, or "local". A cluster, another job, a task other than 0, and sockets of the caller are
 *          INVALID_ARGUMENT: a local server is the only task of its own cluster.
 */
PS_API ps_status psd_server_create_local_with(const psd_server_options *options, psd_server **out_server, char *error,
                                              size_t error_bytes);
/** Block until the server has ended, by psd_server_stop() or a client's request (`psctl shutdown`): tf.train.Server.join().
 * Another name of psd_server_wait(). */
PS_API void psd_server_join(psd_server *server);
/** Change a setting while it runs, by its field's name (PSD_SERVER_SETTINGS: those that may). Any thread; from the task's own
 * thread (callbacks of the options) it holds at once, from others soon. Errors: NOT_FOUND (its text lists what can change),
 * INVALID_ARGUMENT (the range; `recover`). */
PS_API ps_status psd_server_set(psd_server *server, const char *name, int64_t value, char *error, size_t error_bytes);
/** psd_server_set() with the value as the flag takes it ("64MiB", "2.5s", "partial,model=cut"): also `recover`, which is no
 * number. */
PS_API ps_status psd_server_set_text(psd_server *server, const char *name, const char *text, char *error, size_t error_bytes);
/**
 * Read the key file, the certificates and rights_file again, all of them or none: an error names the file and the line, and what
 * was in force stays. Then connections whose key or certificate is no longer good are closed (PS_REASON_REVOKED).
 *
 * rights   instead of psd_server_options.rights; NULL: the rows that are in force. Borrows.
 *
 * Thread   any. Blocks for files. What was read is in force soon after the call.
 * Errors   those of psd_server_start for these files.
 */
PS_API ps_status psd_server_reload(psd_server *server, const char *rights, char *error, size_t error_bytes);
/** "/job:ps/task:0". Valid until psd_server_free. Any thread. */
PS_API const char *psd_server_name(const psd_server *server);
/** Let it finish what is in progress, at most drain_ms (0: end at once), then end. Returns at once; any thread, any number of
 * times; the earliest end counts. */
PS_API void psd_server_stop(psd_server *server, int64_t drain_ms);
/** Block until it has ended, calls that run included (their cancel is called; a run() that goes on all the same delays it). A
 * write that the disk does not finish delays it by 5 s at most: what it needs is left behind until the write has ended, and so is
 * the lock of checkpoint_dir. Not on the task's thread. */
PS_API void psd_server_wait(psd_server *server);
/** What a server holds: as of the last 50 ms. turns counts on as long as its thread is alive and not stuck. */
typedef struct psd_server_counts {
    uint64_t turns;
    uint32_t connections, sessions, variables;
    uint32_t reserved;
} psd_server_counts;
/** Any thread; zeros after its end. counts_bytes: sizeof(*out_counts). */
PS_API void psd_server_get_counts(const psd_server *server, psd_server_counts *out_counts, size_t counts_bytes);
/** True when it has ended. Any thread. */
PS_API bool psd_server_has_ended(const psd_server *server);
/** The server has ended, and its last checkpoint could not be saved although something had changed. The log line
 * last_checkpoint_lost says why. False before its end. Any thread. */
PS_API bool psd_server_has_lost(const psd_server *server);
/** Stop at once if it still runs, wait, free. NULL is fine. Not on the task's thread. */
PS_API void psd_server_free(psd_server *server);
/** libpsd's version, "0.1.0". Any thread. */
PS_API const char *psd_server_version(void);

#ifdef __cplusplus
}
#endif
#endif
