/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of ps_interrupt() share: a call in a thread of its own. Included by one .c file each. */
#ifndef INTERRUPT_TEST_H
#define INTERRUPT_TEST_H

#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* A call in a thread of its own, and how it ended. */
struct waiter {
    ps_status (*call)(struct waiter *w);
    ps_session *s;
    ps_queue *q;
    ps_accumulator *a;
    ps_work *work;
    ps_variable *v;
    pthread_t thread;
    atomic_bool over;
    ps_status status;
    ps_reason reason;
    char text[600];
};

static inline void *waiter_main(void *arg)
{
    struct waiter *w = arg;
    w->status = w->call(w);
    w->reason = ps_last_reason();
    (void)snprintf(w->text, sizeof(w->text), "%s", ps_last_error());
    atomic_store(&w->over, true);
    return NULL;
}

static inline void waiter_start(struct waiter *w)
{
    atomic_store(&w->over, false);
    assert_int_equal(pthread_create(&w->thread, NULL, waiter_main, w), 0);
}

static inline void waiter_join(struct waiter *w, ps_reason reason)
{
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    if (w->status != PS_CANCELLED || w->reason != reason) {
        fail_msg("%s, %s: '%s'", ps_status_name(w->status), ps_reason_name(w->reason), w->text);
    }
}

#endif
