/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole cluster in this process (libpsd): each task has a bound socket on a free port, so the spec is complete before the first
 * one starts. For tests of the public API that need no process of their own. Failures end the test.
 */
#ifndef TEST_SERVERS_H
#define TEST_SERVERS_H

#include <psd.h>

enum { TEST_SERVERS_MAX = 8 };

struct test_servers {
    int count;
    psd_server *server[TEST_SERVERS_MAX]; /* jobs by name, tasks in order: ps 0, ps 1, worker 0, ... */
    char spec[TEST_SERVERS_MAX * 32 + 64];
};

/** shape: "ps=2,worker=3", jobs sorted by name. All tasks run when it returns. */
void test_servers_start(struct test_servers *t, const char *shape);
/** The same with options that tweak has changed (o->job says whose); NULL: none. */
void test_servers_start_with(struct test_servers *t, const char *shape, void (*tweak)(psd_server_options *o));
/** End all. */
void test_servers_stop(struct test_servers *t);

#endif
