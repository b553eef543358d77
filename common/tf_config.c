/* SPDX-License-Identifier: Apache-2.0 */
/* TF_CONFIG: {"cluster": {"ps": [...], "worker": {"1": ...}, "chief": [...]}, "task": {"type": "worker", "index": 1}}. Kubeflow's
 * TFJob with enableDynamicWorker writes "sparseCluster" instead: a worker's has itself and the ps tasks, a ps task's only itself.
 * Unknown keys are ignored, as by TensorFlow. Errors name the place: no JSON, a wrong type, an unknown task. */
#include "cluster.h"

#include "cluster_internal.h"
#include "json.h"
#include "name.h"

#include <stdio.h>
#include <string.h>

static ps_status wrong_type(const char *place, const json_t *value, const char *wanted, struct psi_err *err)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s is %s, it must be %s", place, psi_json_type_name(value), wanted);
}

static ps_status put_json(struct psi_cluster *c, uint32_t job, uint32_t task, const json_t *address, struct psi_err *err)
{
    return json_is_string(address)
               ? psi_cluster_job_put(c, job, task, json_string_value(address), json_string_length(address), err)
               : psi_fail(err, PS_INVALID_ARGUMENT, "/job:%s/task:%u is %s, it must be a string", c->jobs[job].name, task,
                          psi_json_type_name(address));
}

/* Add a job: tasks is a list of addresses, or an object of indices and addresses. */
static ps_status add_json_job(struct psi_cluster *c, const char *name, json_t *tasks, struct psi_err *err)
{
    uint32_t job = 0;
    const char *key = NULL;
    json_t *address = NULL;
    ps_status st = psi_cluster_job_begin(c, name, strlen(name), &job, err);
    if (st != PS_OK) {
        return st;
    }
    if (!json_is_array(tasks) && !json_is_object(tasks)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s' is %s, it must be a list of addresses", name,
                        psi_json_type_name(tasks));
    }
    size_t count = json_array_size(tasks);
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        st = put_json(c, job, (uint32_t)i, json_array_get(tasks, i), err);
    }
    json_object_foreach(tasks, key, address)
    {
        uint32_t task = 0;
        if (st == PS_OK && !psi_task_index_read(key, strlen(key), &task)) {
            char quoted[PSI_QUOTE_MAX];
            return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s': %s is no task index from 0 to %d", name,
                            psi_quote(quoted, sizeof(quoted), key, strlen(key)), PS_TASKS_MAX - 1);
        }
        st = st == PS_OK ? put_json(c, job, task, address, err) : st;
    }
    return st;
}

static bool read_index(const json_t *value, uint32_t *out)
{
    if (json_is_integer(value)) {
        json_int_t v = json_integer_value(value);
        *out = (uint32_t)v;
        return v >= 0 && v < PS_TASKS_MAX;
    }
    const char *text = json_string_value(value);
    return text != NULL && psi_task_index_read(text, json_string_length(value), out);
}

static ps_status read_task(const struct psi_cluster *c, bool has_cluster, bool sparse, json_t *task, struct psi_cluster_self *out,
                           struct psi_err *err)
{
    struct psi_cluster_self self = {.known = true};
    if (!json_is_object(task)) {
        return wrong_type("task", task, "an object with type and index", err);
    }
    const json_t *type = json_object_get(task, "type");
    const json_t *index = json_object_get(task, "index");
    if (!json_is_string(type)) {
        return wrong_type("task.type", type, "a string, the name of a job", err);
    }
    ps_status st = psi_job_name_check(json_string_value(type), json_string_length(type), err);
    if (st != PS_OK) {
        psi_err_prefix(err, "task.type");
        return st;
    }
    memcpy(self.job, json_string_value(type), json_string_length(type));
    if (!read_index(index, &self.task)) {
        char shown[PSI_QUOTE_MAX] = "";
        if (json_is_string(index)) {
            psi_quote(shown, sizeof(shown), json_string_value(index), json_string_length(index));
        } else if (json_is_number(index)) {
            (void)snprintf(shown, sizeof(shown), "%.17g", json_number_value(index));
        }
        return psi_fail(err, PS_INVALID_ARGUMENT, "task.index is %s, it must be a whole number from 0 to %d",
                        shown[0] != '\0' ? shown : psi_json_type_name(index), PS_TASKS_MAX - 1);
    }
    if (!has_cluster) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "task is given, cluster is not");
    }
    bool listed = psi_cluster_num_tasks(c, self.job) > 0;
    if (!listed && psi_cluster_job_index(c, self.job) >= 0 && strcmp(self.job, "evaluator") != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "task.type is '%s', a job of the cluster without tasks", self.job);
    }
    if (!listed && strcmp(self.job, "evaluator") != 0) {
        char list[256];
        return psi_fail(err, PS_INVALID_ARGUMENT, "task.type is '%s', which is no job of the cluster; it has %s", self.job,
                        psi_cluster_job_list(c, list, sizeof(list)));
    }
    if (sparse && strcmp(self.job, "ps") == 0 && self.task > 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "sparseCluster has the own address of ps task %u only: give all by --ps_hosts",
                        self.task);
    }
    if (listed && psi_cluster_task_address(c, self.job, self.task) == NULL) {
        char list[PSI_TASK_LIST_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "task.index is %u, job '%s' has tasks %s", self.task, self.job,
                        psi_cluster_task_list(c, self.job, list, sizeof(list)));
    }
    *out = self;
    return PS_OK;
}

static ps_status read_config(struct psi_cluster *c, json_t *root, struct psi_cluster_self *out_self, struct psi_err *err)
{
    if (!json_is_object(root)) {
        return wrong_type("the text", root, "an object", err);
    }
    json_t *whole = json_object_get(root, "cluster");
    json_t *cluster = whole != NULL ? whole : json_object_get(root, "sparseCluster");
    json_t *task = json_object_get(root, "task");
    bool has_cluster = json_object_size(cluster) > 0;
    if (cluster != NULL && !json_is_object(cluster)) {
        return wrong_type(whole != NULL ? "cluster" : "sparseCluster", cluster, "an object of job names and address lists", err);
    }
    const char *job = NULL;
    json_t *list = NULL;
    json_object_foreach(cluster, job, list)
    {
        ps_status st = add_json_job(c, job, list, err);
        if (st != PS_OK) {
            psi_err_prefix(err, whole != NULL ? "cluster" : "sparseCluster");
            return st;
        }
    }
    if (task == NULL || (json_is_object(task) && json_object_size(task) == 0)) {
        return PS_OK;
    }
    return read_task(c, has_cluster, whole == NULL, task, out_self, err);
}

ps_status psi_cluster_parse_tf_config(struct psi_cluster *c, const char *json, struct psi_cluster_self *out_self,
                                      struct psi_err *err)
{
    json_t *root = NULL;
    ps_status st = psi_json_parse("TF_CONFIG", json, strlen(json), &root, err);
    if (st != PS_OK) {
        return st;
    }
    struct psi_cluster work;
    struct psi_cluster_self self = {0};
    psi_cluster_init(&work);
    st = psi_cluster_copy(&work, c, err);
    if (st == PS_OK) {
        st = read_config(&work, root, &self, err);
    }
    json_decref(root);
    if (st != PS_OK) {
        psi_err_prefix(err, "TF_CONFIG");
        psi_cluster_fini(&work);
        return st;
    }
    psi_cluster_fini(c);
    *c = work;
    *out_self = self;
    return PS_OK;
}
