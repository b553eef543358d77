/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace: work of the program's threads, and the session's exchanges with tasks, during some time. worker/files/trace.c writes
 * it to a file. There are two kinds. The recorder traces a step of a session:
 *   psi_trace_begin() -> psi_trace_span() and the core's exchanges -> psi_trace_end(), which calls over() and frees the trace
 * A session has one trace at a time. A session without a trace pays one test of a pointer.
 *
 * A run of a plan makes its own trace, unknown to the recorder:
 *   psi_trace_init() -> psi_trace_add() and psi_exchanges_add() -> psi_trace_write() of worker/files/files.h -> psi_trace_fini()
 */
#ifndef PSI_WORKER_TRACE_H
#define PSI_WORKER_TRACE_H

#include "worker/core/core.h"

enum { PSI_SPAN_NAME_BYTES = PS_NAME_BYTES_MAX + 1, PSI_SPANS_MAX = 1 << 17 };
/* A span of work of one thread. The spans of a thread nest. */
struct psi_span {
    uint64_t begun_ns, ended_ns; /* by the clock of psi_io_now_ns(); begun_ns may be before the trace */
    uint32_t thread;             /* number of the thread, by gettid() */
    const char *cat;             /* a constant: "call" for a call of the session, "layer" for an operation of a layer, ... */
    char name[PSI_SPAN_NAME_BYTES];
};

struct psi_trace;
/** Writes the trace, which has ended. Called once, on the thread that ends it. */
typedef void (*psi_trace_over_fn)(struct psi_trace *t);
struct psi_trace {
    /* set by the caller of psi_trace_begin() or psi_trace_init(): */
    const char *root; /* name and category ("step") of a span as long as the trace, on the thread that began the trace */
    psi_trace_over_fn over;
    void *ctx;
    bool of_step; /* ps_step_done() ends the trace; in the file the thread's time between spans is called "program" */
    /* for the recorder: */
    ps_session *session;
    struct psi_list link; /* link in the list of all traces of the process */
    uint32_t thread;
    bool entered; /* psi_trace_enter() was called */
    uint64_t begun_ns, ended_ns;
    struct psi_span *spans;
    size_t span_count, span_capacity;
    uint64_t left_out; /* number of spans for which there was no room */
    struct psi_exchanges exchanges;
};

/** Initialise a trace that begins now, on this thread, without the recorder: no lock protects it, psi_trace_span() ignores it. */
void psi_trace_init(struct psi_trace *t, ps_session *s, const char *root);
/** Add a span. Without memory, or beyond PSI_SPANS_MAX, the span is left out and counted. cat: a constant; name is copied. */
void psi_trace_add(struct psi_trace *t, uint32_t thread, const char *cat, const char *name, uint64_t begun_ns, uint64_t ended_ns);
void psi_trace_fini(struct psi_trace *t);
/**
 * Begin a trace of session s. Blocks until the loop thread has started to record exchanges.
 *
 * t        root, over, ctx and of_step are set, the rest is zeroed; from psi_calloc(). With PS_OK the recorder owns it, and frees
 *          it after over().
 *
 * Errors   FAILED_PRECONDITION (s has one), those of a call
 */
ps_status psi_trace_begin(ps_session *s, struct psi_trace *t, struct psi_err *err) PSI_MUST;
/** End the trace of s if its psi_trace.of_step equals of_step: nothing more is added, and over() runs. Blocks briefly. While
 * another thread recovers the session, over() does not run: a later psi_trace_end(), or the session's end, calls it. */
void psi_trace_end(ps_session *s, bool of_step);
/** In a recovery, on its thread: let the new core of s continue the trace. */
void psi_trace_again(ps_session *s);
/** Call when the io of s has been closed: end the trace of s, if there is one. */
void psi_trace_close(ps_session *s);
/* ---- span.c ---- */
/** The present time, for psi_trace_span(); 0: s is not traced. Any thread; s may be NULL. */
uint64_t psi_trace_now(const ps_session *s);
/** Add a span of the calling thread since begun_ns. Does nothing if begun_ns is 0 or s no longer has a trace. name is copied. */
void psi_trace_span(ps_session *s, const char *name, uint64_t begun_ns);
/** Make t the trace of s. No spans are added yet: that begins with psi_trace_enter(). False: s has another trace. */
bool psi_trace_claim(struct psi_trace *t, ps_session *s) PSI_MUST;
/** Let psi_trace_span() add spans to t from now on, unless t is stopped. */
void psi_trace_enter(struct psi_trace *t);
/** The trace of s, if it is not stopped; NULL: s has no such trace. */
struct psi_trace *psi_trace_running(ps_session *s);
/** Accept no more spans for the trace of s. Returns the trace; NULL: s has no trace, or one with another of_step. */
struct psi_trace *psi_trace_stop(ps_session *s, bool of_step);
/** Remove t from the session and from the list of all traces. */
void psi_trace_leave(struct psi_trace *t, ps_session *s);

#endif
