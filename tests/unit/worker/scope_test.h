/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of scopes share: servers in this process, sessions with them, variables. Included by one .c file each. */
#ifndef SCOPE_TEST_H
#define SCOPE_TEST_H

#include "test.h"
#include "ps.h"
#include "servers.h"

static struct test_servers servers;

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session_options options_now(void)
{
    ps_session_options o;
    ps_session_options_init(&o);
    o.target = psd_server_target(servers.server[0]);
    o.operation_timeout_ms = 20000;
    o.ready_timeout_ms = 20000;
    o.log = no_log;
    return o;
}

static ps_session *open_with(const ps_session_options *o)
{
    ps_session *s = NULL;
    char error[512];
    assert_int_equal(ps_session_open(o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static ps_session *open_plain(void)
{
    ps_session_options o = options_now();
    return open_with(&o);
}

static ps_variable_spec spec_of(const char *name)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(2);
    return spec;
}

static ps_variable *get_spec(ps_session *s, const ps_variable_spec *spec)
{
    ps_variable *v = NULL;
    ps_status st = ps_variable_get(s, spec, &v);
    if (st != PS_OK) {
        print_error("%s\n", ps_last_error());
    }
    assert_int_equal(st, PS_OK);
    return v;
}

static ps_variable *get(ps_session *s, const char *name)
{
    ps_variable_spec spec = spec_of(name);
    return get_spec(s, &spec);
}

static void refused(ps_session *s, const ps_variable_spec *spec, ps_status st, const char *text)
{
    ps_variable *v = NULL;
    assert_int_equal(ps_variable_get(s, spec, &v), st);
    if (strstr(ps_last_error(), text) == NULL) {
        print_error("'%s' lacks '%s'\n", ps_last_error(), text);
    }
    assert_non_null(strstr(ps_last_error(), text));
    assert_null(v);
}

static void close_ok(ps_session *s)
{
    if (ps_session_status(s) != PS_OK) {
        print_error("%s\n", ps_session_error(s));
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void stop(void *unused)
{
    (void)unused;
    test_servers_stop(&servers);
}

BEFORE_ALL
{
    test_servers_start(&servers, "ps=2,worker=2");
    test_later(stop, NULL);
}

/* with an empty cluster */
BEFORE_EACH
{
    ps_session *s = open_plain();
    assert_int_equal(ps_reset_all(s), PS_OK);
    close_ok(s);
}

#endif
