/* SPDX-License-Identifier: Apache-2.0 */
/* worker/psctl/cmd_workers.c: for how long a session that is gone is shown. */
#include "test.h"
#include "../../../worker/psctl/psctl.h"

TEST(test_for_how_long_the_gone_are_shown)
{
    ps_session_info s = {.connected = true, .heard_ms = UINT64_MAX};
    assert_true(psctl_shows_session(&s, false)); /* a task that hangs on a connection is not gone */
    s.connected = false;
    assert_false(psctl_shows_session(&s, false));
    assert_true(psctl_shows_session(&s, true));
    s.heard_ms = 60000;
    assert_false(psctl_shows_session(&s, false));
    s.heard_ms = 59999;
    assert_true(psctl_shows_session(&s, false));
    s.heard_ms = 0;
    assert_true(psctl_shows_session(&s, false));
}
