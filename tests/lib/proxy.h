/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP proxy on loopback that breaks things on purpose: it cuts connections after random numbers of bytes (reset or orderly),
 * half-closes, swallows replies and then cuts, flips bits, delays, and splits what it forwards. One thread; all choices derive
 * from a seed. Or it is a long way: every byte takes a fixed time, and the proxy reads along how often somebody waited for an
 * answer before asking on.
 */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct test_proxy;

/** All choices derive from seed. Failures end the test. */
struct test_proxy *test_proxy_new(uint64_t seed);
/** A new listening port whose connections go to upstream ("127.0.0.1:port"); out: its own address, 64 bytes. Before run. */
void test_proxy_door(struct test_proxy *p, const char *upstream, char *out);
/** Each direction takes this long. Before run; without trouble only. */
void test_proxy_delay(struct test_proxy *p, unsigned delay_ms);
/**
 * Round trips until the last answer to requests of op (enum ps_op) that has been delivered. A request is of round trip n + 1 when
 * the latest answer that the client had then, on any of its connections, was of n; an answer is of its request's. Only with a
 * delay. Any thread.
 */
unsigned test_proxy_round_trips(const struct test_proxy *p, uint8_t op);
/** Requests of op that have come. Only with a delay. Any thread. */
unsigned test_proxy_requests(const struct test_proxy *p, uint8_t op);
/** Start the thread. It is calm: it forwards and nothing else. */
void test_proxy_run(struct test_proxy *p);
/** Begin or end making trouble; connections that are there take part. Any thread. */
void test_proxy_trouble(struct test_proxy *p, bool on);
/** Connections that the proxy has ended on its own so far. Any thread. */
unsigned test_proxy_cuts(const struct test_proxy *p);
/** Print how often each kind of trouble was made. */
void test_proxy_print(const struct test_proxy *p);
/** Closes everything. */
void test_proxy_free(struct test_proxy *p);

#endif
