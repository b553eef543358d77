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

/** Gets one log line (logfmt, no newline). level: 0 debug, 1 info, 2 warning, 3 error. Called on the task's thread: must not
 * block for long, and must not call psd_server_wait or psd_server_free. */
typedef void (*psd_server_log_fn)(void *ctx, int level, const char *line);
/** Called when the server is ready, serves or has ended. On the task's thread; may call psd_server_address, psd_server_stop. */
typedef void (*psd_server_event_fn)(void *ctx, psd_server *server);
/** Returns setting i for `psctl config`; false: no such setting. On the task's thread; the texts live as long as the server. */
typedef bool (*psd_server_config_fn)(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value,
                                     const char **help, bool *reloadable);

/* The functions of psd_call_functions (ps_calls.h), for a program linked with libpsd. INVALID_ARGUMENT: call is NULL. */
PS_API bool psd_call_cancelled(const psd_call *call);
PS_API ps_status psd_call_again(psd_call *call);
PS_API ps_status psd_call_finish(psd_call *call, ps_status st, size_t out_bytes, const char *error);

enum { PSD_TEXT_BYTES_MAX = 511 };
typedef struct psd_text {
    char text[PSD_TEXT_BYTES_MAX + 1];
} psd_text;

/** Settings of a task that are numbers, and `recover`. A row has: type and name of the field in psd_server_options; name of the
 * flag of psd and of the line in psd.conf; kind; lowest and highest value; default, as number and as text; true if it may change
 * while the task runs; help. Programs may set times down to 1 ms, even below the lowest value of the flag. */
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
/* Default of psd_server_options.rights: what a peer may do by the role of its key. `psctl key new` prints these rows. */
#define PSD_RIGHTS_OF_ROLES                                                                                                      \
    "role:ps *,@cluster train member; role:worker *,@cluster train member; role:admin *,@cluster all; role:monitor *,@cluster "  \
    "look"
#define PSD_SERVER_FIELD(type, field, ...) type field;
enum { PSD_DAY_MS = 24 * 60 * 60 * 1000 };

typedef struct psd_server_options {
    size_t struct_bytes; /* filled by psd_server_options_init */
    /* The cluster. If the three texts are NULL, the task is a cluster by itself, at its own address */
    const char *cluster_spec; /* "ps=h:p,h:p;worker=h:p" */
    const char *ps_hosts;     /* "h:p,h:p": the cluster as two host lists; not together with cluster_spec */
    const char *worker_hosts;
    const char *cluster_name; /* default "psd"; clients that name another cluster are refused */
    const char *job;          /* job of the task, default "ps" */
    uint32_t task_index;
    /* where the task listens */
    uint32_t unix_mode; /* file mode (permissions) of Unix sockets, default 0600 */
    /* "h:p,unix:PATH"; port 0: a free port. NULL: the task's address in the cluster, or 127.0.0.1:2222. If only Unix sockets are
     * given, the task also listens at the address that NULL means. */
    const char *listen;
    /* listening sockets that the program has opened, in place of addresses; the server closes them, from psd_server_start() on */
    const int *listen_fds;
    size_t listen_fd_count;
    PSD_SERVER_SETTINGS(PSD_SERVER_FIELD)
    /* callbacks to the program */
    psd_server_log_fn log; /* NULL: nothing is logged */
    /* called when the task has started as far as it can without other tasks; clients may still have to wait. May be NULL */
    psd_server_event_fn ready;
    psd_server_event_fn ended; /* called when the task has ended, for example by psd_server_stop(); may be NULL */
    /* returns the rows that `psctl config` shows. If this and config_set are NULL: PSD_SERVER_SETTINGS and checkpoint_dir */
    psd_server_config_fn config_row;
    void *ctx;                   /* first argument of each function in this structure */
    const void *calls_before[4]; /* all NULL; programs built with older headers have a call table of another form here */
    uint32_t call_threads;       /* threads that run clients' calls, created at the first call; default 1 */
    uint32_t calls_max;  /* most calls that are queued or run at a time; a further call gets RESOURCE_EXHAUSTED; default 64 */
    const char *devices; /* devices that `psctl devices` shows for this task, as "CPU:0,GPU:0"; the first is "CPU:0" */
    /** Called when a client asks to change a setting (`psctl config set`). PS_OK: the setting has changed. NULL: no setting of
     * config_row may change. On the task's thread; to change the log level or a limit it calls psd_server_set(). */
    ps_status (*config_set)(void *ctx, psd_server *server, const char *name, const char *value, char *error, size_t error_bytes);
    /** Where checkpoints lie: in the subdirectory JOB-INDEX, which the server makes if needed, and locks. NULL or "": none are
     * saved. */
    const char *checkpoint_dir;
    /* called once, after `ready`: the task no longer waits for other tasks, and serves clients; may be NULL */
    psd_server_event_fn serving;
    psd_call_table calls; /* functions that clients may call on this task; empty: clients may call nothing */
    /* Who may connect, and what they may do (docs/SECURITY.md). With a key file or a certificate every TCP socket of the task
     * speaks TLS 1.3, those of loopback and listen_fds included. With a key file, a certificate or rights, a peer has only the
     * rights that some row gives it. NULL or "": not given. psd_server_reload() reads the files again. */
    /* File with one line for each key of a client or task that may connect. Lines marked `use` are keys for its own connections:
     * the task uses the first `use` line of role ps; if there is none, the first `use` line. */
    const char *key_file;
    /* PEM file: the task's certificate, with URI psd://CLUSTER/JOB/INDEX, and its chain; needs tls_key and tls_ca. */
    const char *tls_cert;
    const char *tls_key;     /* PEM file: the certificate's private key */
    const char *tls_ca;      /* PEM file: the authority that signs certificates of peers */
    const char *tls_refused; /* file of the URIs and serials of refused certificates, one on each line */
    /* Rows of the table of rights, as "key:ann model read; role:ps @cluster member"; "": no rows. NULL: with a key file and no
     * rights_file the rows are PSD_RIGHTS_OF_ROLES. */
    const char *rights;
    const char *rights_file; /* file of further rows, one on each line */
    bool tls_crc;            /* true: values carry CRCs also under TLS, which finds damaged bytes by itself */
} psd_server_options;
/** Make OpenSSL zero all memory that it frees in this process. OpenSSL 3.0 leaves secrets of a handshake, which are as good as
 * the key, in freed memory, where a core file may show them. The program must call this itself, because it replaces OpenSSL's
 * allocator for all code in the process that uses this OpenSSL. psd calls it. It has no effect if OpenSSL is in use already. Not
 * for a program that closes this library with dlclose(): OpenSSL stays loaded.
 *
 * Thread   any; before the first server with a key or certificate. */
PS_API void psd_server_wipe_freed(void);
/** Set the defaults. Any thread. */
PS_API void psd_server_options_init(psd_server_options *options);

/**
 * Start one task. When the call returns, the sockets listen and connections are accepted.
 *
 * options     borrows.
 * out_server  written on PS_OK only; owns: psd_server_free().
 * error       [error_bytes] gets the reason, in words for the person who chose the options.
 *
 * Thread   any. Blocks for name look-ups.
 * Errors   INVALID_ARGUMENT (option, address, job or task not in the cluster, a symbolic link in checkpoint_dir), ALREADY_EXISTS
 *          (address or checkpoint_dir in use), PERMISSION_DENIED (address not allowed, checkpoint_dir somebody else's),
 *          UNAVAILABLE (host name does not resolve), NOT_FOUND (the parent of checkpoint_dir), DATA_LOSS (its disk fails),
 *          RESOURCE_EXHAUSTED
 */
PS_API ps_status psd_server_start(const psd_server_options *options, psd_server **out_server, char *error, size_t error_bytes);
/** The address where the server listens, with its real port: "127.0.0.1:2222", "[::1]:2222" or "unix:PATH". Valid until
 * psd_server_free(). Any thread. */
PS_API const char *psd_server_address(const psd_server *server);
/** The session target of this task, "psd://127.0.0.1:2222". Valid until psd_server_free(). Any thread. */
PS_API const char *psd_server_target(const psd_server *server);
/** Start a server of its own cluster: task 0 of job `local`, on a free port of 127.0.0.1. Two such servers share nothing; what
 * they hold ends with them. The server uses the key file that a session of this process finds (PSD_KEY_FILE, ~/.config/psd/key,
 * /etc/psd/psd.keys), because a session with a key never speaks plain text. TensorFlow: tf.train.Server.create_local_server().
 * Errors and ownership as psd_server_start. */
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
/** Block until the server has ended, for example by psd_server_stop() or `psctl shutdown`. Another name of psd_server_wait(), as
 * in tf.train.Server.join(). */
PS_API void psd_server_join(psd_server *server);
/** Change a setting while the server runs. name: a field of PSD_SERVER_SETTINGS whose row allows changes. Any thread; called on
 * the task's own thread (in callbacks) it takes effect at once, from other threads soon. Errors: NOT_FOUND (no such setting, or
 * only a restart changes it; the error's text lists the settings that can change), INVALID_ARGUMENT (value out of range, or the
 * value of this setting is a text and not a number: use psd_server_set_text()). */
PS_API ps_status psd_server_set(psd_server *server, const char *name, int64_t value, char *error, size_t error_bytes);
/** psd_server_set() with the value as text, in the form of psd's flag ("64MiB", "2.5s"). Also for texts, such as `recover`. */
PS_API ps_status psd_server_set_text(psd_server *server, const char *name, const char *text, char *error, size_t error_bytes);
/**
 * Read the key file, the certificates and rights_file again, all of them or none: an error names the file and the line, and
 * changes nothing. Then connections whose key or certificate is no longer good are closed (PS_REASON_REVOKED).
 *
 * rights   in place of psd_server_options.rights; NULL: the present rows. Borrows.
 *
 * Thread   any. Blocks for files. The new contents are in force soon after the call.
 * Errors   those of psd_server_start for these files.
 */
PS_API ps_status psd_server_reload(psd_server *server, const char *rights, char *error, size_t error_bytes);
/** "/job:ps/task:0". Valid until psd_server_free. Any thread. */
PS_API const char *psd_server_name(const psd_server *server);
/** Let the server finish what is in progress, for at most drain_ms (0: stop at once), and then end. Returns at once. Any thread.
 * May be called again: the earliest end counts. */
PS_API void psd_server_stop(psd_server *server, int64_t drain_ms);
/** Block until the server and its running calls have ended. Each running call gets cancel(); a run() that does not return delays
 * the end without limit. A disk write that does not finish delays it by at most 5 s: the write's memory and the lock of
 * checkpoint_dir then remain until it finishes. Do not call this on the task's thread. */
PS_API void psd_server_wait(psd_server *server);
/** Counts of a server, at most 50 ms old. turns rises every 50 ms or so, unless the server's thread is stuck. */
typedef struct psd_server_counts {
    uint64_t turns;
    uint32_t connections, sessions, variables;
    uint32_t reserved;
} psd_server_counts;
/** Get the counts. After the server's end all are 0, except turns. counts_bytes: sizeof(*out_counts). Any thread. */
PS_API void psd_server_get_counts(const psd_server *server, psd_server_counts *out_counts, size_t counts_bytes);
/** True if the server has ended. Any thread. */
PS_API bool psd_server_has_ended(const psd_server *server);
/** True if the server has ended and could not save a last checkpoint, although something had changed. The log line
 * last_checkpoint_lost says why. Any thread. */
PS_API bool psd_server_has_lost(const psd_server *server);
/** Stop the server at once if it still runs, wait, free. Not on the task's thread. */
PS_API void psd_server_free(psd_server *server);
/** libpsd's version, "0.1.0". Any thread. */
PS_API const char *psd_server_version(void);

#ifdef __cplusplus
}
#endif
#endif
