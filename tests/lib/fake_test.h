/* SPDX-License-Identifier: Apache-2.0 */
/* fake_task.h for a case of test.h: what it makes ends with it. */
#ifndef TESTS_LIB_FAKE_TEST_H
#define TESTS_LIB_FAKE_TEST_H

#include "fake_task.h"
#include "test.h"

/* The request has ended once, with this status. */
#define assert_done(request_, status_)                                                                                           \
    do {                                                                                                                         \
        const struct fake_request *request_tmp_ = (request_);                                                                    \
        if (request_tmp_->dones != 1 || request_tmp_->req.status != (status_)) {                                                 \
            fail_msg("%s: %u times, %s '%s', expected once, %s", #request_, request_tmp_->dones,                                 \
                     ps_status_name(request_tmp_->req.status), request_tmp_->err.text, ps_status_name(status_));                 \
        }                                                                                                                        \
    } while (0)

static inline void fake_end(void *f)
{
    fake_fini(f);
}

/* fake_init(), until the case's end. What its requests point to lives as long: made before it, static, or by fake_begin(). */
static inline struct fake *fake_new(const char *spec, const char *job, uint32_t task, bool crc)
{
    struct fake *f = test_alloc(sizeof(*f));
    fake_init(f, spec, job, task, crc);
    test_later(fake_end, f);
    return f;
}

#endif
