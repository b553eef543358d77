/* SPDX-License-Identifier: Apache-2.0 */
/* worker/psctl/cmd_workers.c: for how long a session that is gone is shown. */
#include "test.h"
#include "../../../worker/psctl/psctl.h"

#include <stdio.h>

static bool shown(const ps_session_info *s, bool all)
{
    return psctl_shows_session(s, 1, 0, all);
}

TEST(test_for_how_long_the_gone_are_shown)
{
    ps_session_info s = {.connected = true, .heard_ms = UINT64_MAX};
    assert_true(shown(&s, false)); /* a task that hangs on a connection is not gone */
    s.connected = false;
    assert_false(shown(&s, false));
    assert_true(shown(&s, true));
    s.heard_ms = 60000;
    assert_false(shown(&s, false));
    s.heard_ms = 59999;
    assert_true(shown(&s, false));
    s.heard_ms = 0;
    assert_true(shown(&s, false));
}

/* Each recovery of a program makes its session anew: what was before is no other worker that is gone. */
TEST(test_sessions_of_one_process)
{
    ps_session_info s[4] = {{.pid = 7, .job = "worker", .host = "a", .heard_ms = 3000},
                            {.pid = 7, .job = "worker", .host = "a", .heard_ms = 2000},
                            {.pid = 7, .job = "worker", .host = "b", .heard_ms = 9000},
                            {.pid = 7, .job = "worker", .host = "a", .heard_ms = 2000}};
    const bool want_gone[4] = {false, true, true, false}, want_connected[4] = {false, false, true, true};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(psctl_shows_session(s, 4, i, false), want_gone[i]);
        assert_true(psctl_shows_session(s, 4, i, true));
    }
    s[3].connected = true;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(psctl_shows_session(s, 4, i, false), want_connected[i]);
    }
    s[3].task = 1; /* another worker */
    assert_true(psctl_shows_session(s, 4, 1, false));
}
