/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace: what threads of the program do, and what the session exchanges with tasks, between two moments. worker/files/trace.c
 * writes it into a file. There are two kinds.
 *
 * The recorder traces a step of a session:
 *   psi_trace_begin() -> psi_trace_span() and the core's exchanges -> psi_trace_end(): `over` writes it -> freed
 * A session has one trace at a time. A session without a trace pays one test of a pointer.
 *
 * A run of a plan makes its own trace, which nobody else knows:
 *   psi_trace_init() -> psi_trace_add() and psi_exchanges_add() -> psi_trace_write() of worker/files/files.h -> psi_trace_fini()
 */
#ifndef PSI_WORKER_TRACE_H
#define PSI_WORKER_TRACE_H

#include "worker/core/core.h"

enum { PSI_SPAN_NAME_BYTES = PS_NAME_BYTES_MAX + 1, PSI_SPANS_MAX = 1 << 17 };
/* Something that a thread did. The spans of one thread nest. */
struct psi_span {
    uint64_t begun_ns, ended_ns; /* clock of psi_io_now_ns(); begun_ns may be before the trace */
    uint32_t thread;             /* the system's number of the thread */
    const char *cat;             /* a constant: "call" of the session, "layer": an operation of a layer, ... */
    char name[PSI_SPAN_NAME_BYTES];
};

struct psi_trace;
/** Write the trace, which has ended and does not change any more. Called once, on the thread that ends it. */
typedef void (*psi_trace_over_fn)(struct psi_trace *t);
struct psi_trace {
    /* set by the caller that begins it: */
    const char *root; /* name and category of the span of the whole trace, on the thread that began it: "step" */
    psi_trace_over_fn over;
    void *ctx;
    bool of_step; /* ps_step_done() ends it; time of its thread between spans is "program" */
    /* for the recorder: */
    ps_session *session;
    struct psi_list link; /* in the list of all traces of the process */
    uint32_t thread;
    bool entered; /* psi_trace_enter() was called */
    uint64_t begun_ns, ended_ns;
    struct psi_span *spans;
    size_t span_count, span_capacity;
    uint64_t left_out; /* spans for which there was no room */
    struct psi_exchanges exchanges;
};

/** Initialise a trace of session s that begins now, on this thread; for use by one thread at a time. The recorder does not know
 * it. */
void psi_trace_init(struct psi_trace *t, ps_session *s, const char *root);
/** Add a span. Without memory, or beyond PSI_SPANS_MAX, it is left out and counted. cat: a constant; name is copied. */
void psi_trace_add(struct psi_trace *t, uint32_t thread, const char *cat, const char *name, uint64_t begun_ns, uint64_t ended_ns);
void psi_trace_fini(struct psi_trace *t);
/**
 * Begin a trace of session s. Blocks until the loop knows it.
 *
 * t        root, over, ctx and of_step are set, the rest is zeroed; from psi_calloc(). With PS_OK the recorder owns it, and frees
 *          it after over().
 *
 * Errors   FAILED_PRECONDITION (s has one), those of a call
 */
ps_status psi_trace_begin(ps_session *s, struct psi_trace *t, struct psi_err *err) PSI_MUST;
/** End the trace of s if it has one with this of_step: the core adds no more exchanges, and over() runs. Blocks shortly. While
 * another thread is recovering the session the trace stays, and ends with the session or the next such call. */
void psi_trace_end(ps_session *s, bool of_step);
/** In a recovery, on its thread: let the new core of s continue the trace. */
void psi_trace_again(ps_session *s);
/** The io of s is closed: end its trace, if there is one. */
void psi_trace_close(ps_session *s);
/* ---- span.c ---- */
/** The time, for psi_trace_span(); 0: s is not traced. Any thread; s may be NULL. */
uint64_t psi_trace_now(const ps_session *s);
/** Add a span of the calling thread since begun_ns. Does nothing if begun_ns is 0 or s has no trace any more. name is copied. */
void psi_trace_span(ps_session *s, const char *name, uint64_t begun_ns);
/** Make t the trace of s; until psi_trace_enter() no other function uses it, except psi_trace_leave(). False: s has another one.
 */
bool psi_trace_claim(struct psi_trace *t, ps_session *s) PSI_MUST;
/** From now on spans are added to t, unless it is stopped. */
void psi_trace_enter(struct psi_trace *t);
/** The trace of s that is not stopped; NULL: none. */
struct psi_trace *psi_trace_running(ps_session *s);
/** Add no more spans to the trace of s. Returns the trace; NULL: s has none with this of_step. */
struct psi_trace *psi_trace_stop(ps_session *s, bool of_step);
/** Remove t from the session: no function finds it afterwards. */
void psi_trace_leave(struct psi_trace *t, ps_session *s);

#endif
