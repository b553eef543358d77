/* SPDX-License-Identifier: Apache-2.0 */
/* One task of a cluster, which serves until SIGTERM or `psctl shutdown`: start it as `local 0` and as `local 1`. Without
 * arguments TF_CONFIG names cluster and task. TF_CONFIG has TensorFlow's format, so one image of a program can serve in all
 * roles. */
#include <ps_cluster.h>
#include <ps.h>
#include <ps_ops.h>
#include <psd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *tf_config = getenv("TF_CONFIG");
    char job[PS_JOB_BYTES] = "local", error[512] = "";
    int task = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    ps_cluster_spec *spec = NULL;
    psd_server *server = NULL;
    ps_ops *ops = NULL;
    psd_server_options options;
    if (argc > 3 || (argc > 1 && argv[1][0] == '-') || (argc == 1) == (tf_config == NULL)) {
        bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
        fputs("usage: local TASK [CLUSTER]\n       TF_CONFIG={...} local\n", help ? stdout : stderr);
        return help ? 0 : 2;
    }
    ps_status st = tf_config != NULL ? ps_cluster_spec_from_tf_config(tf_config, &spec, job, sizeof(job), &task)
                                     : ps_cluster_spec_new(argc > 2 ? argv[2] : "local=localhost:2222,localhost:2223", &spec);
    snprintf(error, sizeof(error), "%s", ps_last_error());
    st = st == PS_OK ? ps_ops_new(NULL, &ops, error, sizeof(error)) : st;
    if (st == PS_OK) {
        psd_server_options_init(&options), options.calls = *ps_ops_table(ops); /* it executes operations (ps_plan.h) */
        options.cluster_spec = ps_cluster_spec_text(spec), options.job = job, options.task_index = (uint32_t)task;
        options.key_file = getenv("PSD_KEY_FILE");                      /* NULL: whoever reaches the task may do everything */
        st = psd_server_start(&options, &server, error, sizeof(error)); /* tf.train.Server(cluster, job, task) */
    }
    if (st == PS_OK) {
        printf("%s serves at %s\n", psd_server_name(server), psd_server_target(server));
        fflush(stdout);
        psd_server_join(server); /* until SIGTERM, or `psctl shutdown` */
    } else {
        fprintf(stderr, "local: %s: %s\n", ps_status_name(st), error);
    }
    psd_server_free(server);
    ps_ops_free(ops);
    ps_cluster_spec_free(spec);
    return st == PS_OK ? 0 : 1;
}
