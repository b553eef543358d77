/* SPDX-License-Identifier: Apache-2.0 */
/* The report as one object of JSON. Failure modes: the file cannot be made or written; an older report is then untouched. */
#include "report.h"

#include "common/cli/file.h"
#include "common/cli/json.h"

#include <inttypes.h>

static json_t *object_of(const struct report *r)
{
    json_t *tasks = json_object();
    uint64_t total = 0;
    for (int i = 0; i < r->ps; i++) {
        char name[96];
        (void)snprintf(name, sizeof(name), "/job:%s/task:%u", r->tasks[i].job, (unsigned)r->tasks[i].task);
        (void)json_object_set_new(tasks, name, json_integer((json_int_t)r->tasks[i].pushes_applied));
        total += r->tasks[i].pushes_applied;
    }
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:i, s:i, s:i, s:I, s:o, s:I}", "test_accuracy", cli_json_f64(r->test_accuracy),
        "test_auc", cli_json_f64(r->test_auc), "test_loss", cli_json_f64(r->test_loss), "train_loss", cli_json_f64(r->train_loss),
        "global_step", (json_int_t)r->global_step, "epochs", cli_json_f64(r->epochs), "samples_per_second",
        cli_json_f64(r->samples_per_second), "seconds", cli_json_f64(r->seconds), "ps", r->ps, "workers", r->workers, "variables",
        r->variables, "values", (json_int_t)r->values, "pushes_applied", tasks, "pushes_applied_total", (json_int_t)total);
}

int report_write(const char *path, const struct report *r)
{
    struct cli_file file;
    if (cli_file_open(&file, path) != 0) {
        return -1;
    }
    json_t *object = object_of(r);
    bool good = json_dumpf(object, file.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && fputs("\n", file.stream) >= 0;
    json_decref(object);
    return cli_file_close(&file, good);
}
