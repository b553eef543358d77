/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and the ClusterSpec: jobs (sorted by name), their tasks (sorted by index; indices may be missing), and the address of
 * each task. They are read from host lists, a spec string "ps=h:p,h:p;worker=1@h:p", JSON, a Python literal, or TF_CONFIG. A job
 * without tasks ("worker=", [], {}) behaves as one that is not listed. Host names are not looked up. Pure, except
 * psi_cluster_load(); one thread at a time. */
#ifndef PSI_CLUSTER_H
#define PSI_CLUSTER_H

#include "buf.h"
#include "limits.h"
#include "status.h"

#define PSI_PORT_DEFAULT 2222
#define PSI_UNIX_PATH_MAX 107
/** Size of a buffer for a task's name: "/job:" + job + "/task:" + digits + NUL. */
#define PSI_TASK_NAME_MAX (PS_JOB_BYTES_MAX + 24)
#define PSI_CLUSTER_NAME_DEFAULT "psd"
#define PSI_CLUSTER_FILE_MAX (1 << 20)
/** Size of a buffer for psi_cluster_task_list(), which cuts longer lists. */
#define PSI_TASK_LIST_MAX 96

enum psi_address_kind { PSI_ADDRESS_TCP = 1, PSI_ADDRESS_UNIX = 2 };
struct psi_address {
    enum psi_address_kind kind;
    uint16_t port;
    bool ipv6;                        /* host is an IPv6 address (without brackets) */
    char host[PS_HOST_BYTES_MAX + 1]; /* TCP: host name or literal */
    char path[PSI_UNIX_PATH_MAX + 1];
};

/** Read "host:port", "host" (port 2222), "[::1]:2222", "[::1]" or "unix:PATH", each also after "psd://" or "grpc://".
 * allow_port_zero  accept port 0 (any free port); for --listen, and for tasks of a cluster.
 * Errors  PS_INVALID_ARGUMENT that quotes the address and says what is wrong. */
PSI_MUST ps_status psi_address_parse(const char *text, bool allow_port_zero, struct psi_address *out, struct psi_err *err);
PSI_MUST ps_status psi_address_parse_n(const char *text, size_t len, bool allow_port_zero, struct psi_address *out,
                                       struct psi_err *err);
/** Write "host:port", "[v6]:port" or "unix:PATH"; n >= PS_ADDRESS_BYTES_MAX + 1. Returns buf. */
const char *psi_address_format(const struct psi_address *a, char *buf, size_t n);
/** True if both addresses are equal: one Unix path, or one port and host. Upper and lower case of host names are equal. */
bool psi_address_equal(const struct psi_address *a, const struct psi_address *b);

struct psi_cluster_task {
    uint32_t index;
    char *address; /* normalised text */
};
struct psi_cluster_job {
    char name[PS_JOB_BYTES_MAX + 1];
    uint32_t task_count;
    size_t capacity;
    struct psi_cluster_task *tasks; /* [task_count] sorted by index; NULL: no task was added */
};
struct psi_cluster {
    char name[PS_JOB_BYTES_MAX + 1]; /* the cluster's name; "psd" unless set */
    uint32_t job_count;
    struct psi_cluster_job jobs[PS_JOBS_MAX];
};

/** True for the jobs worker, chief, master and evaluator: their tasks are training programs, and hold no variables unless the
 * program also serves. Tasks of all other jobs are ps tasks. psd_job_trains() differs: it is false for evaluator. */
bool psi_job_trains(const char *job);

void psi_cluster_init(struct psi_cluster *c);
void psi_cluster_fini(struct psi_cluster *c);
PSI_MUST ps_status psi_cluster_set_name(struct psi_cluster *c, const char *name, struct psi_err *err);
PSI_MUST ps_status psi_cluster_copy(struct psi_cluster *to, const struct psi_cluster *from,
                                    struct psi_err *err); /* `to` was initialised */

/** Add a job whose tasks 0, 1, ... have the addresses of a comma-separated list. Spaces around them do not count. "": no tasks.
 * Errors  PS_INVALID_ARGUMENT: bad job name, job given twice, a bad address, an address given twice (both tasks are named), more
 * than one chief, more than PS_JOBS_MAX jobs or PS_TASKS_MAX tasks. PS_RESOURCE_EXHAUSTED: memory. c is unchanged then. */
PSI_MUST ps_status psi_cluster_add_job(struct psi_cluster *c, const char *job, const char *hosts, struct psi_err *err);
/** Add one task, and its job if that is new. A task that exists already must have this address.
 * Errors  those of psi_cluster_add_job(); c is unchanged then. */
PSI_MUST ps_status psi_cluster_add_task(struct psi_cluster *c, const char *job, uint32_t task, const char *address,
                                        struct psi_err *err);
/** Add the jobs of a text. In a spec string an entry N@ADDRESS is task N, and an entry without N the next task; jobs end with ';'
 * or a newline. A text that begins with '{' is JSON or a Python literal, {'ps': ['h:p', ...], 'worker': {1: 'h:p'}}. Lines that
 * begin with # are comments. Errors  those of psi_cluster_add_job(), with line and column; c is unchanged then. */
PSI_MUST ps_status psi_cluster_parse(struct psi_cluster *c, const char *text, struct psi_err *err);
/** psi_cluster_parse() of a text, or of the file PATH if the text is "@PATH"; a file may have PSI_CLUSTER_FILE_MAX bytes. Errors:
 * also those of psi_text_file_read(). */
PSI_MUST ps_status psi_cluster_load(struct psi_cluster *c, const char *text, struct psi_err *err);
/** True if the address has port 0: the task listens on any free port, and reports this port to the directory (first ps task). */
bool psi_address_any_port(const char *address);
/** Check that the directory's port is not 0, because the other tasks must know where to ask for addresses. A cluster without
 * tasks is PS_OK. INVALID_ARGUMENT names the directory. */
PSI_MUST ps_status psi_cluster_directory_check(const struct psi_cluster *c, struct psi_err *err);
/** Set the address on which a task really listens, for example if its port was 0. PS_INVALID_ARGUMENT: no such task. */
PSI_MUST ps_status psi_cluster_set_address(struct psi_cluster *c, const char *job, uint32_t task, const char *address,
                                           struct psi_err *err);

struct psi_cluster_self {
    bool known;
    /* this process's job: "worker", "ps", "chief", "master", "evaluator" or any job of the cluster */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
};
/** Add the jobs of TF_CONFIG's "cluster" and read its "task"; unknown keys are ignored, an index may be a string. An evaluator
 * need not be in the cluster; any other task must. No "cluster": nothing is added, and "task" must be absent.
 * Errors  as psi_cluster_add_job(); each text begins with TF_CONFIG and the place; c and *out_self are unchanged then. */
PSI_MUST ps_status psi_cluster_parse_tf_config(struct psi_cluster *c, const char *json, struct psi_cluster_self *out_self,
                                               struct psi_err *err);

uint32_t psi_cluster_job_count(const struct psi_cluster *c);
const char *psi_cluster_job_name(const struct psi_cluster *c, uint32_t job_index);
/** Index of a job in the cluster's list of jobs, which is sorted by name. -1: no such job. */
int32_t psi_cluster_job_index(const struct psi_cluster *c, const char *job);
/** Number of tasks of a job. 0: no such job, or a job without tasks. */
uint32_t psi_cluster_num_tasks(const struct psi_cluster *c, const char *job);
/** Number of tasks that train together: those of the jobs worker, chief and master. */
uint32_t psi_cluster_workers(const struct psi_cluster *c);
uint32_t psi_cluster_total_tasks(const struct psi_cluster *c);
/** The address of a task. NULL: no such task. Valid until c changes. */
const char *psi_cluster_task_address(const struct psi_cluster *c, const char *job, uint32_t task);
/** Index of the task at `position` in the job's list of tasks (0 to psi_cluster_num_tasks() - 1). The job must exist. */
uint32_t psi_cluster_task_index(const struct psi_cluster *c, const char *job, uint32_t position);
/** Position of a task in the list of all tasks, job after job. UINT32_MAX: no such task. */
uint32_t psi_cluster_task_number(const struct psi_cluster *c, const char *job, uint32_t task);
/** The names of the jobs for messages: "ps, worker"; cut with "...". n >= PS_JOB_BYTES_MAX + 8. Returns buf. */
const char *psi_cluster_job_list(const struct psi_cluster *c, char *buf, size_t n);
/** The indices of a job's tasks for messages: "0 to 3", "0, 2 to 5", "none"; cut with "...". n >= 32. Returns buf. */
const char *psi_cluster_task_list(const struct psi_cluster *c, const char *job, char *buf, size_t n);
/** Find the directory: the first task of job ps; if there is none, the first task of the first job by name. False: no tasks. */
bool psi_cluster_directory(const struct psi_cluster *c, const char **out_job, uint32_t *out_task);
/** Find the chief: the task of job chief or master; if there is none, task 0 of job worker, listed or not. False: neither. */
bool psi_cluster_chief(const struct psi_cluster *c, const char **out_job, uint32_t *out_task);
/** Append the spec string ("ps=a:1,b:1;worker=1@c:1"), which psi_cluster_parse reads back. */
PSI_MUST ps_status psi_cluster_format(const struct psi_cluster *c, struct psi_buf *out, struct psi_err *err);
/** Append JSON, which psi_cluster_parse reads back: {"ps": ["a:1", "b:1"], "worker": {"1": "c:1"}}. */
PSI_MUST ps_status psi_cluster_format_json(const struct psi_cluster *c, struct psi_buf *out, struct psi_err *err);
/** True if jobs (also those without tasks), tasks and addresses are equal. The cluster's name does not count. */
bool psi_cluster_equal(const struct psi_cluster *a, const struct psi_cluster *b);
/** FNV-1a hash of the cluster's name, a zero byte and the number of ps tasks (u32 little-endian). Peers compare it in HELLO. */
uint64_t psi_cluster_hash(const struct psi_cluster *c);
/** Write the name of a task, "/job:ps/task:1". n >= PSI_TASK_NAME_MAX. Returns buf. */
const char *psi_task_name_format(char *buf, size_t n, const char *job, uint32_t task);

#endif
