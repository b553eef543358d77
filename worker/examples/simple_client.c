/* SPDX-License-Identifier: Apache-2.0 */
/* One variable x: initialise it if asked to, add one, print it. All programs that name the same container and scope share one x,
 * whichever server of the cluster they connect to. */
#include <getopt.h>
#include <ps.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: simple_client TARGET [init] [--scope NAME] [--container NAME] [--reset] [--timeout SECONDS]\n"
    "TARGET: HOST:PORT or grpc://HOST:PORT of any server of the cluster. init: x = 0 first. --scope: x is NAME/x.\n"
    "--reset: empty the container, and nothing else unless init is given.\n";
static const struct option flags[] = {{"scope", 1, NULL, 's'},   {"container", 1, NULL, 'c'}, {"reset", 0, NULL, 'r'},
                                      {"timeout", 1, NULL, 't'}, {"help", 0, NULL, 'h'},      {NULL, 0, NULL, 0}};

static ps_status increment(ps_session *s, const char *scope, bool init)
{
    const float one = 1;
    float value = 0;
    ps_variable *x = NULL;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec), spec.name = "x", spec.dtype = PS_F32; /* a scalar, initially zero */
    ps_status st = ps_variable_scope_push(s, scope, PS_REUSE_AUTO);
    st = st == PS_OK ? ps_variable_get(s, &spec, &x) : st;
    st = st == PS_OK && init ? ps_variable_init(x, true) : st;
    st = st == PS_OK ? ps_variable_assign_add(x, &one, sizeof(one), &value, sizeof(value)) : st;
    if (st == PS_OK) {
        printf("%.1f\n", (double)value);
    }
    return st;
}

int main(int argc, char **argv)
{
    bool reset = false;
    const char *scope = NULL;
    ps_session *s = NULL;
    ps_session_options options;
    ps_session_options_init(&options), options.log_level = PS_LOG_WARN;
    for (int flag = 0; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (flag == 'h' || flag == '?' || (flag == 't' && strtol(optarg, NULL, 10) < 1)) {
            return fputs(usage, flag == 'h' ? stdout : stderr) < 0 || flag != 'h' ? 2 : 0;
        }
        reset = reset || flag == 'r';
        scope = flag == 's' ? optarg : scope;
        options.container = flag == 'c' ? optarg : options.container;
        options.operation_timeout_ms = flag == 't' ? 1000 * strtol(optarg, NULL, 10) : options.operation_timeout_ms;
    }
    const bool init = optind + 2 == argc && strcmp(argv[optind + 1], "init") == 0;
    if (optind + 1 != argc && !init) {
        return fputs(usage, stderr), 2;
    }
    options.target = argv[optind];
    ps_status st = ps_session_open(&options, &s, NULL, 0);
    st = st == PS_OK && reset ? ps_reset(s) : st;
    st = st == PS_OK && (init || !reset) ? increment(s, scope, init) : st;
    if (st != PS_OK) {
        fprintf(stderr, "simple_client: %s: %s\n", ps_status_name(st), ps_last_error());
    }
    ps_session_close(s);
    return st == PS_OK ? 0 : 1;
}
