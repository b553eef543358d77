/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that looks for what comes next without sleeping: when it does, and when it does not. Times are so short or so long that
 * the machine's load does not matter. */
#define _GNU_SOURCE 1 /* sched_setaffinity */
#include "net_test.h"

#include <sched.h>

enum { LONG_NS = INT32_MAX }; /* no wait of a test is longer */

/* As psi_spin_set() does on two CPUs; the test may have one. */
static struct bed *spinning_bed(uint64_t ns)
{
    struct bed *bed = bed_new();
    bed_connect(bed, true, 0);
    psi_spin_set(&bed->net.spin, 1);
    bed->net.spin.ns = ns;
    psi_spin_go_on(&bed->net.spin);
    assert_false(bed->net.spin.on); /* nothing has happened yet */
    bed->net.spin.quiet_ns = uv_hrtime();
    return bed;
}

static void exchange(struct bed *bed)
{
    unsigned frames = bed->b.frames;
    small_push(&bed->a, "ping", 4);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->b.frames > frames);
    (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
}

TEST(it_spins_after_bytes_that_came_soon)
{
    struct bed *bed = spinning_bed(LONG_NS);
    exchange(bed);
    assert_true(bed->net.spin.on);
    assert_int_equal(uv_backend_timeout(&bed->loop), 0);
    psi_spin_rest(&bed->net.spin); /* the loop is left ... */
    assert_int_not_equal(uv_backend_timeout(&bed->loop), 0);
    psi_spin_go_on(&bed->net.spin); /* ... and waits again */
    assert_true(bed->net.spin.on);
    bed->net.spin.quiet_ns -= LONG_NS; /* time is over */
    (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
    assert_false(bed->net.spin.on);
    psi_spin_stir(&bed->net.spin); /* the owner's own work begins it as well */
    (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
    assert_true(bed->net.spin.on);
    psi_spin_set(&bed->net.spin, 0);
    assert_false(bed->net.spin.on);
    exchange(bed);
    assert_false(bed->net.spin.on);
    bed_free(bed);
}

TEST(waits_that_are_long_end_it)
{
    struct bed *bed = spinning_bed(1);
    for (int i = 0; i < 16; i++) {
        exchange(bed);
    }
    assert_int_equal(bed->net.spin.score, 0);
    bed->net.spin.ns = LONG_NS;
    psi_spin_stir(&bed->net.spin);
    (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
    assert_false(bed->net.spin.on);
    exchange(bed); /* one that is short */
    assert_true(bed->net.spin.on);
    bed_free(bed);
}

static bool awake; /* what the owner of the loop was told last */

static void note_awake(void *ctx)
{
    awake = ((struct bed *)ctx)->net.spin.on;
}

/* Who submits work wakes the loop up unless its owner has seen it spin. */
TEST(it_ends_before_the_owner_looks)
{
    struct bed *bed = spinning_bed(LONG_NS);
    struct psi_net_ops ops = bed_ops;
    ops.prepare = note_awake;
    bed->net.ops = &ops;
    exchange(bed);
    assert_true(bed->net.spin.on);
    unsigned frames = bed->b.frames;
    small_push(&bed->a, "ping", 4);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->b.frames > frames);
    bed->net.spin.ns = 1; /* that was late */
    bed->net.spin.score = 1;
    for (int turns = 0; turns < 3; turns++) {
        (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
        assert_true(!awake || bed->net.spin.on);
    }
    assert_int_equal(bed->net.spin.score, 0);
    assert_false(bed->net.spin.on);
    bed_free(bed);
}

TEST(a_look_that_was_late_ends_it)
{
    struct bed *bed = spinning_bed(LONG_NS);
    exchange(bed);
    assert_true(bed->net.spin.on);
    bed->net.spin.look_ns = 0; /* others had the CPU */
    (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
    assert_false(bed->net.spin.on);
    bed_free(bed);
}

TEST(the_middle_of_a_large_frame_begins_none)
{
    struct bed *bed = spinning_bed(LONG_NS);
    struct stream stream;
    stream_push(&bed->a, &stream, TEST_FRAME_BYTES, 7);
    psi_net_settle(&bed->net);
    RUN_UNTIL(bed, bed->b.bytes > 0);
    psi_spin_rest(&bed->net.spin);
    uint64_t left = TEST_FRAME_BYTES;
    for (unsigned turns = 0; bed->b.link->in.body_left > 2 * PSI_NET_TURN_BYTES / 3; turns++) {
        turn(bed);
        assert_true(bed->b.link->in.body_left <= left);
        left = bed->b.link->in.body_left;
        assert_false(bed->net.spin.on && left > PS_SEGMENT_BYTES);
    }
    RUN_UNTIL(bed, bed->b.frames == 1);
    (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
    assert_true(bed->net.spin.on);
    bed_free(bed);
    free(stream.payload);
}

TEST(on_one_cpu_never)
{
    cpu_set_t all;
    cpu_set_t one;
    struct bed *bed = bed_new();
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    psi_spin_set(&bed->net.spin, 50);
    assert_int_equal(bed->net.spin.ns, 0);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    psi_spin_set(&bed->net.spin, 50);
    assert_int_equal(bed->net.spin.ns, CPU_COUNT(&all) > 1 ? 50000 : 0);
    bed_free(bed);
}
