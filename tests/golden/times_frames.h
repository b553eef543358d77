/* SPDX-License-Identifier: Apache-2.0 */
/* Frames with flag TIMES, for the golden files. */
#ifndef TESTS_GOLDEN_TIMES_FRAMES_H
#define TESTS_GOLDEN_TIMES_FRAMES_H

#include "dtypes.h"

#include "psd/state.h"

static inline uint64_t golden_clock_ns(void *shell)
{
    static uint64_t now_ns;
    (void)shell;
    return now_ns += 1000;
}

static inline void push_times(struct wire *out)
{
    static const float g[3] = {1, 1, 1};
    const struct fc c = {.crc = true, .times = true};
    const struct fc_part part = {.op = PS_OP_PUSH,
                                 .dtype = PS_F32,
                                 .number = 3,
                                 .handle = 5,
                                 .total = 3,
                                 .payload = g,
                                 .payload_bytes = sizeof(g),
                                 .scale = 1,
                                 .first = true,
                                 .last = true};
    fc_part_frame(&c, out, &part);
}

static inline void times_scene(struct scene *s, struct wire *out)
{
    scene_init(s);
    s->c.task->core->config.clock_ns = golden_clock_ns;
    s->c.times = true;
    s->c.conn->tap = out;
}

/* A push that is applied, and one that is refused. */
static inline void push_times_replies(struct wire *out)
{
    struct scene s;
    static const float g[3] = {1, 1, 1};
    times_scene(&s, out);
    assert_int_equal(fc_push(&s.c, PS_OP_PUSH, &s.w, g, 1, 0).status, PS_OK);
    assert_int_equal(fc_push(&s.c, PS_OP_PUSH, &s.w, g, -1, 0).status, PS_INVALID_ARGUMENT);
    shell_net_fini(&s.net);
}

/* A list, and values. */
static inline void times_answers(struct wire *out)
{
    struct scene s;
    float v[3];
    times_scene(&s, out);
    assert_int_equal(fc_beat(&s.c, -1, NULL).status, PS_OK);
    assert_int_equal(fc_pull(&s.c, &s.w, 0, 3, v).status, PS_OK);
    shell_net_fini(&s.net);
}

#endif
