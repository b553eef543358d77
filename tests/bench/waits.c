/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What 10,000 waiting requests cost those who do something else: pushes of 4 KiB, each followed by a tick, into two tasks without
 * sockets and with the same sessions, one of which has the waits, in turns. Prints the time of each and their ratio, the median
 * of the rounds, as one JSON line.
 *
 *   waits [ROUNDS]
 */
#include "fake_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* 200 ticks are shorter than a lease */
enum { ELEMENTS = 1024, WAITS = 10000, PER_SESSION = 1000, PUSHES = 200, ROUNDS_MAX = 99, TICK_MS = 20 };

struct side {
    struct shell_net net;
    struct shell_task *task;
    struct fc c, waiting[WAITS / PER_SESSION];
    ps_v1_OpenAnswer v;
    double us[ROUNDS_MAX];
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "%s\n", what);
        exit(2);
    }
}

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void start(struct side *s, bool waits)
{
    ps_status st = PS_OK;
    ps_optimizer sgd = {.kind = PS_OPT_SGD, .learning_rate = 0.5};
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer other;
    shell_net_init(&s->net);
    s->task = shell_task_new(&s->net, "ps=127.0.0.1:2222", "ps", 0, 42, 1000, NULL, &st);
    check(s->task != NULL, "no task");
    fc_init(&s->c, s->task, 1);
    check(fc_connect(&s->c) == PS_OK, "no session");
    s->v = fc_ready(&s->c, "w", PS_F32, ELEMENTS, &sgd, 0);
    fc_create_item(&m, "other", PS_F32, ELEMENTS, &sgd);
    check(fc_create(&s->c, &m, NULL) == PS_OK && fc_open(&s->c, "other", &other) == PS_OK, "no other variable");
    for (uint32_t i = 0; i < WAITS; i++) {
        struct fc *c = &s->waiting[i / PER_SESSION];
        if (i % PER_SESSION == 0) {
            fc_init(c, s->task, (uint8_t)(2 + i / PER_SESSION));
            check(fc_connect(c) == PS_OK, "no session that waits");
        }
        check(!waits || fc_wait(c, 1000 + i, other.handle, other.creation, 1, 100000000).status == FC_NONE, "it does not wait");
    }
}

/* One push and one tick, PUSHES times: microseconds for one of them. */
static double round_of(struct side *s)
{
    static const float gradient[ELEMENTS];
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = s->v.handle, .total = ELEMENTS, .scale = 1};
    struct shell_conn *conn = s->c.conn;
    double spent = 0;
    uint8_t *buffer = NULL;
    part.payload = gradient;
    for (uint32_t i = 0; i < PUSHES; i++) {
        struct wire w;
        wire_init(&w);
        part.number = s->c.next_number++;
        fc_frames(&s->c, &w, &part, 0, 0);
        if (buffer == NULL) {
            buffer = aligned_alloc(64, (w.len + 127) / 64 * 64);
            check(buffer != NULL, "memory");
        }
        uint8_t *p = buffer + conn->delivered % 64; /* congruent to the stream */
        memcpy(p, w.data, w.len);
        conn->delivered += w.len;
        s->task->now += TICK_MS;
        double began = now_us();
        psd_task_bytes(s->task->core, conn->core, p, w.len);
        psd_task_tick(s->task->core, s->task->now);
        spent += now_us() - began;
        wire_fini(&w);
    }
    free(buffer);
    shell_settle(s->task);
    for (uint32_t i = 0; i < PUSHES; i++) {
        check(fc_take(&s->c, NULL).status == PS_OK, "a push failed");
    }
    for (uint32_t i = 0; i < WAITS / PER_SESSION; i++) { /* a sign of life */
        check(fc_beat(&s->waiting[i], -1, NULL).status == PS_OK, "a session is gone");
    }
    return spent / PUSHES;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    static struct side with, without;
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 11;
    double ratios[ROUNDS_MAX];
    check(rounds >= 5 && rounds <= ROUNDS_MAX, "5 to 99 rounds");
    start(&without, false);
    start(&with, true);
    (void)round_of(&without); /* warm */
    (void)round_of(&with);
    for (uint32_t i = 0; i < rounds; i++) {
        without.us[i] = round_of(&without);
        with.us[i] = round_of(&with);
        ratios[i] = with.us[i] / without.us[i];
    }
    (void)printf(
        "{\"bench\": \"waits\", \"waits\": %d, \"push_tick_us\": %.2f, \"push_tick_with_waits_us\": %.2f, \"ratio\": %.3f, "
        "\"rounds\": %u}\n",
        WAITS, median(without.us, rounds), median(with.us, rounds), median(ratios, rounds), rounds);
    shell_net_fini(&with.net);
    shell_net_fini(&without.net);
    return 0;
}
