/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test program is its cases: TEST(name) { ... } defines one and registers it, main() is in test.c. What a case has made is
 * taken back when it ends, also by a failed assertion: test_later(), test_alloc(), test_dir().
 */
#ifndef TESTS_LIB_TEST_H
#define TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A case; they run in the order of the file. */
#define TEST(name_) TEST_PART_(name_, tests_add(#name_, name_))
/* Runs before each case: BEFORE_EACH { ... }, one in a program. */
#define BEFORE_EACH TEST_PART_(test_before_each_, tests_before(test_before_each_, false))
/* Runs before the first case. */
#define BEFORE_ALL TEST_PART_(test_before_all_, tests_before(test_before_all_, true))
#define TEST_PART_(name_, register_)                                                                                             \
    static void name_(void);                                                                                                     \
    __attribute__((constructor)) static void name_##_register_(void)                                                             \
    {                                                                                                                            \
        register_;                                                                                                               \
    }                                                                                                                            \
    static void name_(void)
void tests_add(const char *name, void (*run)(void));
void tests_before(void (*run)(void), bool all);

/** Calls fn(arg) when the case has ended, also a failed one, the last one first; from BEFORE_ALL: after the last case. What stood
 * on the case's stack is gone by then. */
void test_later(void (*fn)(void *arg), void *arg);
/** Zeroed memory until then. */
void *test_alloc(size_t bytes);
/** A new directory until then; what is in it goes with it. */
const char *test_dir(void);
/** "directory/name", kept until then. */
const char *test_path(const char *directory, const char *name);

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
