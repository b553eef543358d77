/* SPDX-License-Identifier: Apache-2.0 */
/* --serial: computes what --sync computes, without rounds, for comparison. Happy path: start a ps task in this process, or use
 * those of --ps_hosts or --cluster; then train (train.c) as a trainer without a task, which for each round computes the batches
 * of all W workers, and pushes the average of their gradients once. Failure modes: those of train.c; the ps task cannot start. */
#include "serial.h"

#include "cluster.h"
#include "report.h"
#include "say.h"
#include "serve.h"
#include "train.h"

#include <ps.h>
#include <psd.h>
#include <stdlib.h>
#include <string.h>

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    (void)level;
    say_line(line);
}

static int start_task(const struct flags *f, struct cluster *c, psd_server **out_server)
{
    char error[CLI_ERR_BYTES] = "";
    if (flags_given(f, "ps_hosts") || flags_given(f, "cluster")) {
        return cluster_find_tested(f, NULL, NULL, c, error) == 0 ? EXIT_DONE : say_error("%s", error);
    }
    psd_server_options o;
    psd_server_options_init(&o);
    o.listen = "127.0.0.1:0";
    o.log_level = PS_LOG_WARN;
    o.log = on_log;
    serve_who(f, &o);
    if (psd_server_start(&o, out_server, error, sizeof(error)) != PS_OK) {
        return say_error("--serial: a ps task in this process: %s", error);
    }
    c->target = strdup(psd_server_target(*out_server));
    return c->target != NULL ? EXIT_DONE : say_error("--serial: no memory");
}

int serial_run(const struct flags *f)
{
    struct cluster c = {.spec = NULL};
    const struct link none = {.child = false};
    psd_server *server = NULL;
    int status = report_check(f);
    status = status == EXIT_DONE ? start_task(f, &c, &server) : status;
    c.trainer_count = (int)f->serial;
    c.chief = true;
    status = status == EXIT_DONE ? train_run(f, &c, &none) : status;
    cluster_fini(&c);
    psd_server_free(server);
    return status;
}
