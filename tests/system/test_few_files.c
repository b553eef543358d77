/* SPDX-License-Identifier: Apache-2.0 */
/* test-transport: plain (it counts the files that a session takes) */
/*
 * The libraries in a process that may open few files more: a typed error that says how many it takes, and with so many it works.
 * libuv would end the process.
 */
#include <psd.h>
#include <ps.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORKS = 42, TOO_FEW = 43, OTHER = 44, FILES_MAX = 64 };

/* In a child: how a start goes with at most `files` open ones. What the error says is needed goes to *out_needed. */
static int attempt(int (*start)(char *error, size_t n), unsigned files, unsigned *out_needed)
{
    int status = 0;
    int ends[2];
    char error[512] = "";
    *out_needed = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit limit = {files, files};
        int st = setrlimit(RLIMIT_NOFILE, &limit) == 0 ? start(error, sizeof(error)) : OTHER;
        ssize_t n = write(ends[1], error, strlen(error));
        _exit(n < 0 ? OTHER : st == PS_OK ? WORKS : st == PS_RESOURCE_EXHAUSTED ? TOO_FEW : OTHER);
    }
    assert_int_equal(close(ends[1]), 0);
    ssize_t n = read(ends[0], error, sizeof(error) - 1);
    error[n > 0 ? n : 0] = '\0';
    assert_int_equal(close(ends[0]), 0);
    assert_true(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == OTHER) {
        fail_msg("%u files: status %x, '%s'", files, (unsigned)status, error);
    }
    if (WEXITSTATUS(status) == TOO_FEW) {
        const char *at = strstr(error, "may be open and ");
        assert_non_null(at);
        assert_non_null(strstr(error, "ulimit -n"));
        *out_needed = (unsigned)strtoul(at + strlen("may be open and "), NULL, 10);
    }
    return WEXITSTATUS(status);
}

/* From none left to as many as it takes: always the same smallest number is said, and it works with it. */
static void check(int (*start)(char *error, size_t n))
{
    unsigned said = 0;
    unsigned needed = 0;
    for (unsigned files = 5; files < FILES_MAX; files++) { /* fewer and the pipes of this test do not fit */
        if (attempt(start, files, &needed) == WORKS) {
            assert_int_equal(files, said);
            return;
        }
        assert_true(said == 0 || needed == said);
        said = needed;
    }
    fail_msg("it takes more than %d files", FILES_MAX);
}

static int start_server(char *error, size_t n)
{
    psd_server *server = NULL;
    ps_status st = psd_server_create_local(&server, error, n);
    psd_server_free(server);
    return (int)st;
}

static int open_session(char *error, size_t n)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.target = "psd://127.0.0.1:1"; /* nobody is there: the session opens all the same */
    ps_status st = ps_session_open(&o, &s, error, n);
    (void)ps_session_close(s);
    return (int)st;
}

static void a_server(void **state)
{
    (void)state;
    check(start_server);
}

static void a_session(void **state)
{
    (void)state;
    check(open_session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_server), cmocka_unit_test(a_session)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
