/* SPDX-License-Identifier: Apache-2.0 */
/* A server inside this program, a session with the server, and a constant that the server evaluates.
 * TensorFlow: server = tf.train.Server.create_local_server(); tf.Session(server.target).run(tf.constant(text)). */
#include <ps.h>
#include <ps_ops.h>
#include <ps_plan.h>
#include <psd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char error[512];

static void must(ps_status st)
{
    if (st != PS_OK) {
        fprintf(stderr, "hello_local: %s: %s\n", ps_status_name(st), error[0] != '\0' ? error : ps_last_error());
        exit(1);
    }
}

static void print_bytes(const char *bytes, size_t count) /* as Python prints them: b'...' */
{
    printf("b'");
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        printf(c == '\\' || c == '\'' ? "\\%c" : c >= ' ' && c <= '~' ? "%c" : "\\x%02x", c);
    }
    printf("'\n");
}

int main(int argc, char **argv)
{
    static ps_fetched out;
    ps_ops *ops = NULL;
    psd_server *server = NULL;
    ps_session *s = NULL;
    psd_server_options serve;
    ps_session_options open;
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--help") == 0)) {
        fputs("usage: hello_local [TEXT]\n", argc == 2 ? stdout : stderr);
        return argc == 2 ? 0 : 2;
    }
    must(ps_ops_new(NULL, &ops, error, sizeof(error)));
    psd_server_options_init(&serve), serve.calls = *ps_ops_table(ops); /* the server executes operations */
    must(psd_server_create_local_with(&serve, &server, error, sizeof(error)));
    ps_session_options_init(&open), open.target = psd_server_target(server), open.log_level = PS_LOG_WARN;
    must(ps_session_open(&open, &s, error, sizeof(error)));
    ps_plan *p = ps_plan_new(s); /* a list of operations, which the session's target executes */
    ps_value c = ps_plan_identity(p, ps_plan_text(p, argc > 1 ? argv[1] : "Hello distributed TensorFlow!"));
    must(ps_plan_run(p, NULL, 0, &c, 1, &out, NULL));
    print_bytes((const char *)out.data, out.bytes);
    ps_session_close(s);
    psd_server_free(server);
    ps_ops_free(ops);
    return fflush(stdout) == 0 ? 0 : 1;
}
