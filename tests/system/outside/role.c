/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stranger's program: parameter server or worker, by its flag. Built by test_install.sh from the installed files only.
 *   role --job_name ps        serves one task at a free port, prints the address, ends when its standard input does
 *   role --target ADDRESS     pushes ten gradients and prints the variable's first value
 */
#include <ps.h>
#include <psd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int serve(void)
{
    psd_server_options options;
    psd_server_options_init(&options);
    options.listen = "127.0.0.1:0";
    options.key_file = getenv("PSD_KEY_FILE");
    psd_server *server = NULL;
    char error[512];
    if (psd_server_start(&options, &server, error, sizeof(error)) != PS_OK) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    printf("%s\n", psd_server_address(server));
    fflush(stdout);
    while (getchar() != EOF) {
    }
    psd_server_stop(server, 1000);
    psd_server_wait(server);
    psd_server_free(server);
    return 0;
}

static int work(int argc, char **argv)
{
    ps_session *session = ps_session_open_args(&argc, argv, "ten pushes");
    ps_param *w = ps_param_get(session, "w", PS_SHAPE(2, 3), ps_constant(8.0), ps_sgd(0.5));
    ps_session_ready(session);
    for (int step = 0; step < 10; step++) {
        float *gradient = (float *)ps_param_grad(w);
        for (int i = 0; gradient != NULL && i < 6; i++) {
            gradient[i] = 1.0F;
        }
        ps_push(session, w);
        ps_step_done(session);
    }
    ps_pull(session);
    printf("%.1f after %lld steps\n", (double)((float *)ps_param_value(w))[0], (long long)ps_global_step(session));
    return ps_session_close(session);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--job_name") == 0 && strcmp(argv[2], "ps") == 0) {
        return serve();
    }
    return work(argc, argv);
}
