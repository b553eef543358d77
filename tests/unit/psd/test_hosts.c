/* SPDX-License-Identifier: Apache-2.0 */
/* psd/shell/hosts.c: which peers are hosts of the cluster, by literal addresses and by names that are looked up meanwhile. */
#include "psd/shell/hosts.h"
#include "test.h"

#include "common/net/dial.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_S = 30, BEGIN_MS = 1000 };

/* What the names have now: "a.example" 10.0.0.<a_has>, and "b.example" 10.0.1.1 and an IPv6 address. */
static atomic_int a_has, looked, held;
static atomic_bool a_fails, holds;

static ps_status resolve(const struct psi_address *a, struct psi_sockaddr out[PSI_RESOLVE_MAX], size_t *out_count,
                         struct psi_err *err)
{
    const bool is_a = strcmp(a->host, "a.example") == 0;
    char literal[64];
    struct psi_address address;
    atomic_fetch_add(&looked, 1);
    for (atomic_store(&held, 1); atomic_load(&holds);) {
        const struct timespec moment = {.tv_nsec = 1000000};
        (void)nanosleep(&moment, NULL); /* sleep: a name server that does not answer */
    }
    if (is_a && atomic_load(&a_fails)) {
        return psi_fail(err, PS_UNAVAILABLE, "no such host");
    }
    (void)snprintf(literal, sizeof(literal), is_a ? "10.0.0.%d:1" : "10.0.1.1:1", atomic_load(&a_has));
    *out_count = is_a ? 1 : 2;
    if (psi_address_parse(literal, true, &address, err) != PS_OK || !psi_sockaddr_literal(&address, &out[0]) ||
        psi_address_parse("[fd00::7]:1", true, &address, err) != PS_OK || !psi_sockaddr_literal(&address, &out[1])) {
        return PS_INTERNAL;
    }
    return PS_OK;
}

static struct psd_hosts *hosts_of(const char *spec)
{
    struct psi_cluster c = {0};
    struct psi_err err = {0};
    struct psd_hosts *h = NULL;
    atomic_store(&a_has, 1);
    atomic_store(&looked, 0);
    atomic_store(&held, 0);
    atomic_store(&a_fails, false);
    atomic_store(&holds, false);
    assert_ok(psi_cluster_parse(&c, spec, &err), &err);
    assert_ok(psd_hosts_new(&c, resolve, &h, &err), &err);
    psi_cluster_fini(&c);
    return h;
}

/* Wait for the look-up thread. */
static void comes(struct psd_hosts *h, const char *peer, bool wanted, uint64_t now_ms)
{
    const time_t until = time(NULL) + PATIENCE_S;
    while (psd_hosts_have(h, peer, now_ms) != wanted) {
        const struct timespec moment = {.tv_nsec = 1000000};
        assert_true(time(NULL) < until);
        (void)nanosleep(&moment, NULL); /* sleep: the look-up thread tells nobody */
    }
}

#define SPEC "ps=127.0.0.5:1,[::1]:2,a.example:3;worker=a.example:4,b.example:5,unix:/tmp/s"

TEST(test_literal_addresses)
{
    struct psd_hosts *h = hosts_of("ps=127.0.0.5:1,[::1]:2,unix:/tmp/s");
    assert_true(psd_hosts_have(h, "127.0.0.5:51234", BEGIN_MS));
    assert_true(psd_hosts_have(h, "[::1]:51234", BEGIN_MS));
    assert_true(psd_hosts_have(h, "[::ffff:127.0.0.5]:51234", BEGIN_MS));
    assert_false(psd_hosts_have(h, "127.0.0.6:51234", BEGIN_MS));
    psd_hosts_look_up(h, BEGIN_MS);
    assert_int_equal(atomic_load(&looked), 0); /* there is no name */
    psd_hosts_free(h);
    psd_hosts_free(NULL);
}

/* Each name is looked up once, and both have their addresses then. */
TEST(test_names_are_looked_up)
{
    struct psd_hosts *h = hosts_of(SPEC);
    assert_true(psd_hosts_have(h, "127.0.0.5:9", BEGIN_MS));
    assert_int_equal(atomic_load(&looked), 0); /* nobody was a stranger */
    comes(h, "10.0.0.1:51234", true, BEGIN_MS);
    assert_true(psd_hosts_have(h, "10.0.1.1:7", BEGIN_MS));
    assert_true(psd_hosts_have(h, "[fd00::7]:7", BEGIN_MS));
    for (int i = 0; i < 50; i++) { /* so soon nothing is looked up again */
        const struct timespec moment = {.tv_nsec = 1000000};
        assert_false(psd_hosts_have(h, "10.0.0.2:51234", BEGIN_MS + PSD_HOSTS_LOOK_MS - 1));
        (void)nanosleep(&moment, NULL); /* sleep: a thread that should not be there looks names up meanwhile */
        assert_int_equal(atomic_load(&looked), 2);
    }
    psd_hosts_free(h);
}

/* Look-ups until `count` more names than now were resolved: each begins when the one before has ended. */
static void look_ups(struct psd_hosts *h, int count, uint64_t *now_ms)
{
    const time_t until = time(NULL) + PATIENCE_S;
    for (const int wanted = atomic_load(&looked) + count; atomic_load(&looked) < wanted;) {
        assert_true(time(NULL) < until);
        *now_ms += PSD_HOSTS_LOOK_MS;
        psd_hosts_look_up(h, *now_ms);
    }
}

/* A host that has another address is found again; a name that fails keeps what it had. */
TEST(test_names_change)
{
    struct psd_hosts *h = hosts_of(SPEC);
    uint64_t now_ms = BEGIN_MS;
    comes(h, "10.0.0.1:51234", true, now_ms);
    atomic_store(&a_has, 2);
    now_ms += PSD_HOSTS_LOOK_MS;
    comes(h, "10.0.0.2:51234", true, now_ms);
    assert_false(psd_hosts_have(h, "10.0.0.1:51234", now_ms));
    atomic_store(&a_fails, true);
    look_ups(h, 5, &now_ms); /* two of both names, so at least one has ended */
    assert_true(psd_hosts_have(h, "10.0.0.2:51234", now_ms));
    psd_hosts_free(h);
}

static void *free_hosts(void *h)
{
    psd_hosts_free(h);
    return NULL;
}

/* Who frees it does not wait for a name server that does not answer; the look-up frees what it has. */
TEST(test_freed_while_looking)
{
    struct psd_hosts *h = hosts_of(SPEC);
    const time_t until = time(NULL) + PATIENCE_S;
    pthread_t thread;
    atomic_store(&holds, true);
    psd_hosts_look_up(h, BEGIN_MS);
    while (atomic_load(&held) == 0) {
        assert_true(time(NULL) < until);
    }
    assert_false(psd_hosts_have(h, "10.0.0.1:51234", BEGIN_MS));
    assert_int_equal(pthread_create(&thread, NULL, free_hosts, h), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&looked), 1);
    atomic_store(&holds, false);
}
