/* SPDX-License-Identifier: Apache-2.0 */
/* The server object of libpsd, for server.c (runs), server_start.c (starts), server_secure.c (keys and certificates) and
 * server_set.c (changes settings). Fields belong to the task's thread unless they are marked. */
#ifndef PSD_SERVER_H
#define PSD_SERVER_H

#include "psd.h"

#include "psd/shell/calls.h"
#include "psd/shell/disk.h"
#include "common/buf.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/net/conn.h"
#include "common/net/listener.h"
#include "psd/shell/listen.h"
#include "psd/shell/log.h"
#include "server_secure.h"
#include "server_set.h"
#include "task.h"

#include <pthread.h>
#include <stdatomic.h>

enum psd_server_tick { PSD_TICK_MS = 50 /* the core wants a tick at least every 100 ms */ };

enum psd_phase { PSD_RUNNING, PSD_DRAINING, PSD_FINISHING, PSD_CLOSING };

struct psd_server_dial {
    struct psd_server *server;
    bool failed; /* the connection could not be opened; tell_failed_dial() tells the core after the present event */
    char why[PSI_ERR_TEXT_MAX];
};

struct psd_server {
    /* options in force; pointers in them to the caller's memory are valid only in psd_server_start() */
    struct psd_server_options o;
    struct psi_log log;
    struct psd_server_log peer_log;
    char name[PSI_TASK_NAME_MAX];
    char address[PS_ADDRESS_BYTES_MAX + 1];
    bool any_port; /* the cluster spec gives this task port 0: it tells the directory on which port it listens */
    char target[PS_ADDRESS_BYTES_MAX + 8];
    struct psd_task *task;
    struct psd_listen listen;
    struct psi_listener *listeners[PSD_LISTEN_MAX];
    uv_loop_t loop;
    struct psi_net net;
    struct psd_calls calls;
    struct psd_server_call_texts {
        struct psi_buf cluster_spec;
        char job[PS_JOB_BYTES_MAX + 1];
        char cluster_name[PS_JOB_BYTES_MAX + 1];
        char devices[128];
    } call_texts;
    psd_call_task call_task;
    struct psd_disk *disk; /* NULL: the task has no checkpoint_dir */
    uv_timer_t tick;
    uv_idle_t work; /* runs in each turn of the loop while the core has work */
    uv_async_t wake;
    uint64_t ticked_ms, full_logged_ms;
    uint32_t connections_max;
    uint64_t forgotten;    /* psd_task_forgotten() when free memory was last given back to the system */
    uint64_t gave_back_ms; /* when free memory was last given back to the system */
    enum psd_phase phase;
    uint64_t end_ms; /* from DRAINING on: when the server ends, even if not all is sent */
    struct psd_server_dial dials[PSD_DIALS];
    pthread_t thread;
    bool thread_joinable; /* under mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool loop_open;              /* under mutex: other threads may signal `wake` */
    bool stop_asked;             /* under mutex */
    uint64_t stop_end_ms;        /* under mutex: the earliest end that any caller asked for */
    bool ended;                  /* under mutex */
    struct psd_server_sets sets; /* under mutex */
    struct psd_secure secure;
    char row_text[PSD_ROW_TEXT_BYTES];
    char checkpoint_dir[768]; /* the option, as clients are told it, cut if too long; "": the task saves no checkpoints */
    atomic_bool lost;         /* result of psd_server_has_lost() */
    /* for psd_server_get_counts(). turns: number of ticks so far, which rises unless the thread is stuck */
    _Atomic uint64_t turns;
    _Atomic uint32_t connections, sessions, variables;
};

/* ---- server.c ---- */
extern const struct psi_net_ops psd_server_net_ops;
extern const struct psi_listener_ops psd_server_listener_ops;
uint64_t psd_server_now_ms(void);
void psd_server_on_tick(uv_timer_t *timer);
void psd_server_on_wake(uv_async_t *async);
/** Close every handle of the loop, so that uv_run() ends, and cancel running calls. */
void psd_server_loop_close(struct psd_server *s);
void *psd_server_thread(void *server);

#endif
