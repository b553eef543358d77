/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call table whose `ps.run` executes runs of plans, for tests of the client: each call is on one compute thread until it ends,
 * and reads and delivers by blocking calls of a session that the test opens. What each run was is kept. A test can have runs
 * fail, wait, or end without an answer.
 */
#ifndef TESTS_LIB_RUN_EXECUTOR_H
#define TESTS_LIB_RUN_EXECUTOR_H

#include <psd.h>

#include <pthread.h>
#include <ps.h>

enum { RUN_KEPT_MAX = 64 };

/* What came of one run. */
struct run_kept {
    size_t in_bytes, out_bytes;
    uint32_t inputs, rows, outputs;
    uint32_t variables;    /* inputs that were read from variables */
    uint64_t began, ended; /* numbers of events in the executors of a test, from 1 on */
    char variable[256];    /* the last one that was read */
    char rows_text[512];   /* "split reduce_sum print" */
};

struct run_executor {
    psd_call_table table;
    psd_call_row row;
    ps_session *session; /* for variables; NULL: none is read or changed */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct run_kept kept[RUN_KEPT_MAX];
    uint32_t count;       /* runs with rows or outputs */
    uint32_t probes;      /* runs without */
    const char *fail_row; /* rows of this name fail with ABORTED */
    uint32_t together;    /* a run waits until so many are inside, of executors that share `meeting` */
    struct run_meeting *meeting;
    struct run_found *found; /* variables that runs have looked up */
};
/* Where runs of several executors wait for each other. */
struct run_meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t inside;
};

void run_executor_init(struct run_executor *e);
/** After its server and its session have ended. */
void run_executor_fini(struct run_executor *e);
void run_meeting_init(struct run_meeting *m);

#endif
