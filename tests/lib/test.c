/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test.h: main() of a test program. Constructors register its cases before it; here they become cmocka's. What a case leaves to
 * be taken back runs as part of it when it succeeds, so that a failure in there counts, and as cmocka's tear-down when it fails.
 */
#include "test.h"

#include "common/mem.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

enum { CASES_MAX = 64 };

struct later {
    struct later *next;
    void (*fn)(void *arg);
    void *arg;
};

static struct CMUnitTest cases[CASES_MAX];
static void (*runs[CASES_MAX])(void);
static size_t case_count;
static void (*before_each)(void), (*before_all)(void);
static struct later *of_case, *of_program;
static bool in_case;

static void finish(struct later **laters)
{
    while (*laters != NULL) {
        struct later l = **laters;
        free(*laters);
        *laters = l.next;
        l.fn(l.arg);
    }
}

static void run_case(void **state)
{
    in_case = true;
    if (before_each != NULL) {
        before_each();
    }
    runs[(size_t)(uintptr_t)*state]();
    finish(&of_case);
}

static int end_case(void **state)
{
    (void)state;
    psi_mem_fail_after(-1);
    finish(&of_case);
    in_case = false;
    return 0;
}

static int begin_all(void **state)
{
    (void)state;
    if (before_all != NULL) {
        before_all();
    }
    return 0;
}

static int end_all(void **state)
{
    (void)state;
    finish(&of_program);
    return 0;
}

void tests_add(const char *name, void (*run)(void))
{
    if (case_count == CASES_MAX) {
        abort();
    }
    runs[case_count] = run;
    cases[case_count] = (struct CMUnitTest){.name = name, .test_func = run_case, .teardown_func = end_case};
    cases[case_count].initial_state = (void *)(uintptr_t)case_count; /* NOLINT(performance-no-int-to-ptr) an index */
    case_count++;
}

void tests_before(void (*run)(void), bool all)
{
    *(all ? &before_all : &before_each) = run;
}

void test_later(void (*fn)(void *arg), void *arg)
{
    struct later **laters = in_case ? &of_case : &of_program;
    struct later *l = malloc(sizeof(*l));
    assert_non_null(l);
    *l = (struct later){.next = *laters, .fn = fn, .arg = arg};
    *laters = l;
}

void *test_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    assert_non_null(memory);
    test_later(free, memory);
    return memory;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_dir(void *path)
{
    (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *test_path(const char *directory, const char *name)
{
    size_t room = strlen(directory) + strlen(name) + 2;
    char *path = test_alloc(room);
    (void)snprintf(path, room, "%s/%s", directory, name);
    return path;
}

const char *test_dir(void)
{
    const char *base = getenv("TMPDIR");
    size_t room = strlen(base != NULL ? base : "/tmp") + sizeof("/psd-test-XXXXXX");
    char *path = test_alloc(room);
    (void)snprintf(path, room, "%s/psd-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    test_later(remove_dir, path);
    return path;
}

int main(void)
{
    return _cmocka_run_group_tests("tests", cases, case_count, begin_all, end_all);
}
