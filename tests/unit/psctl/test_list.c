/* SPDX-License-Identifier: Apache-2.0 */
/* common/cli/list.c: a list in JSON is whole, or the program says that it has no memory, whichever allocation fails. */
#include "test.h"

#include "common/cli/list.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct row {
    char name[8];
    uint32_t count;
    bool good;
};
static const struct cli_column columns[] = {
    {.heading = "NAME", .key = "name", CLI_FIELD(CLI_TEXT, struct row, name)},
    {.heading = "COUNT", .key = "count", CLI_FIELD(CLI_U32, struct row, count)},
    {.heading = "GOOD", .key = "good", CLI_FIELD(CLI_BOOL, struct row, good)},
};
static int64_t left; /* allocations before the one that fails; below 0: none fails any more */

static void *fail_some(size_t n)
{
    return left-- == 0 ? NULL : malloc(n);
}

/* Write the list to fd, with allocation `fails` failing. Exits with 2 where none has failed. */
static void list_in_child(int fd, int64_t fails)
{
    static const struct row rows[] = {{"a", 1, true}, {"b", 2, false}};
    struct cli_list l;
    FILE *to = fdopen(fd, "w");
    left = fails;
    json_set_alloc_funcs(fail_some, free);
    PSI_IGNORE(freopen("/dev/null", "w", stderr)); /* what it says there is not compared */
    cli_json_to(to);
    cli_json_object(NULL);
    cli_list_begin(&l, "rows", columns, CLI_COUNT(columns), true);
    for (size_t i = 0; i < CLI_COUNT(rows); i++) {
        cli_list_add(&l, &rows[i]);
    }
    cli_list_end(&l, NULL);
    cli_json_end();
    (void)fclose(to);
    _exit(left < 0 ? 0 : 2);
}

TEST(test_a_list_is_whole)
{
    static const char whole[] = "{\"rows\":[{\"name\":\"a\",\"count\":1,\"good\":true},"
                                "{\"name\":\"b\",\"count\":2,\"good\":false}]}\n";
    int code = 0;
    for (int64_t fails = 0; code != 2; fails++) {
        int fds[2], status = 0;
        char text[512];
        size_t have = 0;
        assert_int_equal(pipe(fds), 0);
        const pid_t child = fork();
        if (child == 0) {
            (void)close(fds[0]);
            list_in_child(fds[1], fails);
        }
        (void)close(fds[1]);
        for (ssize_t n = 1; n > 0; have += (size_t)n) {
            n = read(fds[0], text + have, sizeof(text) - 1 - have);
            assert_true(n >= 0);
        }
        (void)close(fds[0]);
        text[have] = '\0';
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        code = WEXITSTATUS(status);
        if (code != 1) {
            assert_string_equal(text, whole);
        }
    }
}
