/* SPDX-License-Identifier: Apache-2.0 */
/* One variable x that all clients of a cluster share: initialise it when asked to, add one, print it. Whoever uses the same
 * container, through whichever server, sees the same x. */
#include <ps.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: simple_client TARGET [init] [--container NAME] [--reset] [--timeout SECONDS]\n"
                            "TARGET: address of any server of the cluster. init: x = 0 first. --reset: empty the container, and\n"
                            "nothing else unless init is given.\n";

static ps_status increment(ps_session *s, bool init)
{
    const float one = 1;
    float value = 0;
    ps_variable *x = NULL;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec); /* a scalar, zero at first */
    spec.name = "x";
    spec.dtype = PS_F32;
    ps_status st = ps_variable_get(s, &spec, &x);
    st = st == PS_OK && init ? ps_variable_init(x, true) : st;
    st = st == PS_OK ? ps_variable_assign_add(x, &one, sizeof(one), NULL, 0) : st;
    st = st == PS_OK ? ps_variable_read(x, &value, sizeof(value)) : st;
    if (st == PS_OK) {
        printf("%.1f\n", (double)value);
    }
    return st;
}

int main(int argc, char **argv)
{
    bool init = false, reset = false;
    ps_session *s = NULL;
    ps_session_options options;
    ps_session_options_init(&options);
    options.log_level = PS_LOG_WARN;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--container") == 0 && i + 1 < argc) {
            options.container = argv[++i];
        } else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc && strtol(argv[i + 1], NULL, 10) > 0) {
            options.operation_timeout_ms = (int64_t)1000 * strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--reset") == 0) {
            reset = true;
        } else if (options.target != NULL && !init && strcmp(argv[i], "init") == 0) {
            init = true;
        } else if (options.target == NULL && argv[i][0] != '-') {
            options.target = argv[i];
        } else {
            bool help = strcmp(argv[i], "--help") == 0;
            fputs(usage, help ? stdout : stderr);
            return help ? 0 : 2;
        }
    }
    if (options.target == NULL) {
        fputs(usage, stderr);
        return 2;
    }
    ps_status st = ps_session_open(&options, &s, NULL, 0);
    if (st == PS_OK && reset) {
        st = ps_reset(s);
    }
    if (st == PS_OK && (init || !reset)) {
        st = increment(s, init);
    }
    if (st != PS_OK) {
        fprintf(stderr, "simple_client: %s: %s\n", ps_status_name(st), ps_last_error());
    }
    ps_session_close(s);
    return st == PS_OK ? 0 : 1;
}
