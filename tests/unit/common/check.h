/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with its prerequisites, and what the unit tests of common/ share. */
#ifndef TESTS_UNIT_COMMON_CHECK_H
#define TESTS_UNIT_COMMON_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/status.h"

#include <stdio.h>
#include <string.h>

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The call gave PS_OK; otherwise its text is shown. */
#define assert_ok(call_, err_)                                                                                                   \
    do {                                                                                                                         \
        ps_status st_ = (call_);                                                                                                 \
        if (st_ != PS_OK) {                                                                                                      \
            fail_msg("%s: %s: %s", #call_, ps_status_name(st_), (err_)->text);                                                   \
        }                                                                                                                        \
    } while (0)

/* The call gave this status, err has it too, and err's text contains part. */
#define assert_fails(call_, status_, err_, part_)                                                                                \
    do {                                                                                                                         \
        (err_)->code = PS_OK;                                                                                                    \
        (err_)->text[0] = '\0';                                                                                                  \
        ps_status st_ = (call_);                                                                                                 \
        if (st_ != (status_) || (err_)->code != (status_) || strstr((err_)->text, (part_)) == NULL) {                            \
            fail_msg("%s gave %s '%s', expected %s with '%s'", #call_, ps_status_name(st_), (err_)->text,                        \
                     ps_status_name(status_), (part_));                                                                          \
        }                                                                                                                        \
    } while (0)

#endif
