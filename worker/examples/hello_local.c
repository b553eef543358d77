/* SPDX-License-Identifier: Apache-2.0 */
/* A server inside this program, a session with it, and a text that travels there and back: the shortest whole program.
 * TensorFlow: server = tf.train.Server.create_local_server(); tf.Session(server.target). */
#include <ps.h>
#include <psd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Store the text in a string variable of the server, read it back and print it. */
static ps_status hello(ps_session *s, const char *text)
{
    ps_variable *v = NULL;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec); /* a scalar */
    spec.name = "hello";
    spec.dtype = PS_STRING;
    size_t offsets[2] = {0, 0};
    char *back = (char *)malloc(PS_STRING_BYTES_MAX + 1);
    ps_status st = back != NULL ? ps_variable_get(s, &spec, &v) : PS_RESOURCE_EXHAUSTED;
    st = st == PS_OK ? ps_variable_assign_strings(v, &text, NULL, 1) : st;
    st = st == PS_OK ? ps_variable_read_strings(v, back, PS_STRING_BYTES_MAX + 1, offsets, 1, NULL) : st;
    if (st == PS_OK) {
        printf("%s\n", back);
    }
    free(back);
    return st;
}

int main(int argc, char **argv)
{
    const char *text = argc > 1 ? argv[1] : "Hello, distributed TensorFlow!";
    char error[512] = "";
    psd_server *server = NULL;
    ps_session *s = NULL;
    ps_session_options options;
    int help = argc == 2 && strcmp(text, "--help") == 0;
    if (help || argc > 2) {
        fputs("usage: hello_local [TEXT]\n", help ? stdout : stderr);
        return help ? 0 : 2;
    }
    ps_status st = psd_server_create_local(&server, error, sizeof(error));
    ps_session_options_init(&options);
    options.log_level = PS_LOG_WARN;
    if (st == PS_OK) {
        options.target = psd_server_target(server);
        st = ps_session_open(&options, &s, error, sizeof(error));
    }
    if (st == PS_OK) {
        st = hello(s, text);
        snprintf(error, sizeof(error), "%s", ps_last_error());
    }
    if (st != PS_OK) {
        fprintf(stderr, "hello_local: %s: %s\n", ps_status_name(st), error);
    }
    ps_session_close(s);
    psd_server_free(server);
    return st == PS_OK && fflush(stdout) == 0 ? 0 : 1;
}
