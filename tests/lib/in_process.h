/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers of libpsd in the test's own process: a cluster whose ports were bound before, so that every server and every session
 * knows all addresses. For cmocka tests; asserts.
 */
#ifndef TESTS_LIB_IN_PROCESS_H
#define TESTS_LIB_IN_PROCESS_H

#include <psd.h>

enum { IN_PROCESS_MAX = 8, IN_PROCESS_SPEC_BYTES = 512 };

struct in_process {
    char spec[IN_PROCESS_SPEC_BYTES]; /* "local=127.0.0.1:1,127.0.0.1:2" */
    uint32_t count;
    struct {
        char job[16];
        uint32_t task;
        int fd;             /* bound and listening until its server has it; -1 then */
        psd_server *server; /* NULL: not started */
    } tasks[IN_PROCESS_MAX];
};

/** Bind the ports of jobs, "ps=2,worker=1". */
void in_process_init(struct in_process *p, const char *jobs);
/** Start task i; the options may be changed by tweak (NULL: defaults). */
psd_server *in_process_start(struct in_process *p, uint32_t i, void (*tweak)(psd_server_options *o));
void in_process_start_all(struct in_process *p);
void in_process_fini(struct in_process *p);
/** Descriptors that this process has open. */
int in_process_descriptors(void);

#endif
