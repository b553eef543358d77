/* SPDX-License-Identifier: Apache-2.0 */
/* psd's settings.
 *
 * Happy path: the table has the defaults; flags, the file and TF_CONFIG change them. The values give one cluster, the tasks of
 * this process, and the rows for `psctl config`. A cluster may be given by --cluster, by --ps_hosts and --worker_hosts, or by
 * TF_CONFIG. A source of higher precedence (flags, then TF_CONFIG, then the file) replaces all of a lower one, so that parts of
 * two clusters are never mixed. Failure: a wrong value is INVALID_ARGUMENT with the place and what is allowed. */
#include "settings_internal.h"

#include "common/auth/rights.h"
#include "common/cluster.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/text_file.h"
#include "common/ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20, PRINT_BYTES_MAX = 1 << 20 };

static const char *const levels[] = {"debug", "info", "warn", "error", "off", NULL}; /* by enum psi_log_level */
static const char *const restores[] = {"auto", "latest", "none", NULL};              /* by enum psd_restore */

static ps_status check_allow(const char *row, struct psi_err *err)
{
    struct psi_rights *rights = NULL;
    struct psi_err why = {.code = PS_OK};
    ps_status st = psi_rights_parse(row, strlen(row), "row", &rights, &why);
    psi_rights_free(rights);
    return st == PS_OK ? PS_OK : psi_fail(err, st, "%s", strncmp(why.text, "row:1: ", 7) == 0 ? why.text + 7 : why.text);
}

#define FIELD(field_) PSI_OPTION_FIELD(struct psd_settings, field_)
#define PATH .type = PSI_OPTION_STRING, .max = PSD_PATH_BYTES_MAX, .default_text = "", .metavar = "FILE"
#define KIND_BOOL .type = PSI_OPTION_BOOL
#define KIND_BYTES .type = PSI_OPTION_BYTES
#define KIND_TIME .type = PSI_OPTION_DURATION, .unit = "s"
#define KIND_COUNT .type = PSI_OPTION_INT
#define KIND_RESTORE .type = PSI_OPTION_ENUM, .choices = restores
#define KIND_RECOVER .type = PSI_OPTION_WAYS, .choices = psi_recover_ways
#define KIND_LEVEL .type = PSI_OPTION_ENUM, .choices = levels
#define RESOLVER_ROW(name_, kind_, metavar_, help_, ...)                                                                         \
    {.name = #name_,                                                                                                             \
     .type = PSI_OPTION_##kind_,                                                                                                 \
     .flag_only = true,                                                                                                          \
     .metavar = (metavar_),                                                                                                      \
     .help = help_ ".",                                                                                                          \
     FIELD(resolver.name_),                                                                                                      \
     __VA_ARGS__},
#define AS_ROW(type_, field_, name_, kind_, min_, max_, number_, default_, live_, help_)                                         \
    {.name = (name_),                                                                                                            \
     KIND_##kind_,                                                                                                               \
     .min = (min_),                                                                                                              \
     .max = (max_),                                                                                                              \
     .default_text = (default_),                                                                                                 \
     .reloadable = (live_),                                                                                                      \
     .help = (help_),                                                                                                            \
     FIELD(server.field_)},
/* Rows of flags that are no settings come last, so that the number of a setting is the index of its row. */
static const struct psi_option rows[] = {
    {.name = "cluster",
     .letter = 'c',
     .type = PSI_OPTION_STRING,
     .max = PSD_HOSTS_BYTES_MAX,
     .default_text = "",
     .metavar = "SPEC",
     .lines = true,
     .help = "All tasks of the cluster: ps=HOST:PORT,...;worker=HOST:PORT,... or the same as JSON or a Python literal, or @FILE. "
             "PORT 0: any free port, which the task tells ps task 0; ps task 0 itself needs a port. "
             "slurm, mpi, kubernetes, torchrun, env (TF_CONFIG) or auto: variables of the environment say it, and the task. "
             "Without any cluster this task is alone, at 127.0.0.1:2222.",
     FIELD(cluster)},
    {.name = "ps_hosts",
     .type = PSI_OPTION_STRING,
     .max = PSD_HOSTS_BYTES_MAX,
     .default_text = "",
     .metavar = "HOST:PORT,...",
     .help = "Addresses of the ps tasks, instead of --cluster.",
     FIELD(ps_hosts)},
    {.name = "worker_hosts",
     .type = PSI_OPTION_STRING,
     .max = PSD_HOSTS_BYTES_MAX,
     .default_text = "",
     .metavar = "HOST:PORT,...",
     .help = "Addresses of the worker tasks, with --ps_hosts.",
     FIELD(worker_hosts)},
    {.name = "job_name",
     .type = PSI_OPTION_STRING,
     .min = 1,
     .max = PS_JOB_BYTES_MAX,
     .default_text = "ps",
     .metavar = "JOB",
     .help = "Job of this process.",
     FIELD(job_name)},
    {.name = "task_index",
     .type = PSI_OPTION_STRING,
     .min = 1,
     .max = 1023,
     .default_text = "0",
     .metavar = "N",
     .help = "Task of that job; several run in one process, each on a thread: 0-3, or 0,2.",
     FIELD(task_index)},
    {.name = "cluster_name",
     .type = PSI_OPTION_STRING,
     .min = 1,
     .max = PS_JOB_BYTES_MAX,
     .default_text = PSI_CLUSTER_NAME_DEFAULT,
     .metavar = "NAME",
     .help = "Clients that name another cluster are refused.",
     FIELD(cluster_name)},
    {.name = "listen",
     .type = PSI_OPTION_STRING,
     .max = PSD_LISTEN_BYTES_MAX,
     .default_text = "",
     .metavar = "ADDRESS,...",
     .help = "Where to listen instead of the address in the cluster: HOST:PORT (port 0: any free one); "
             "unix:PATH adds a Unix socket. With several tasks: one address each.",
     FIELD(listen)},
    {.name = "unix_mode",
     .type = PSI_OPTION_STRING,
     .min = 3,
     .max = 4,
     .default_text = "0600",
     .metavar = "MODE",
     .help = "Permissions of Unix sockets, octal.",
     FIELD(unix_mode)},
    {.name = "checkpoint_dir",
     .type = PSI_OPTION_STRING,
     .max = PSD_PATH_BYTES_MAX,
     .default_text = "",
     .metavar = "DIR",
     .help = "Directory for checkpoints. Each task has one of its own in it, JOB-INDEX, made with permissions 0700 where it is "
             "missing, and locked while the task runs.",
     FIELD(checkpoint_dir)},
    {.name = "key_file",
     PATH,
     .help =
         "Keys, a line each (psctl key new): who may connect, and what this task shows to others. Every TCP connection is then "
         "TLS, and needs a key or a certificate; also from PSD_KEY_FILE.",
     FIELD(key_file)},
    {.name = "tls_cert",
     PATH,
     .help = "Certificate of this task and its chain, PEM (psctl tls init); with tls_key and tls_ca, beside keys or instead of "
             "them.",
     FIELD(tls_cert)},
    {.name = "tls_key", PATH, .help = "Private key of tls_cert, PEM.", FIELD(tls_key)},
    {.name = "tls_ca", PATH, .help = "Authority whose certificates are accepted, PEM.", FIELD(tls_ca)},
    {.name = "tls_refused",
     PATH,
     .help = "Certificates that are refused though the authority signed them: a URI or a serial a line.",
     FIELD(tls_refused)},
    {.name = "tls_crc",
     .type = PSI_OPTION_BOOL,
     .default_text = "false",
     .help = "CRCs of values under TLS as well; its own checksums find what changes on the way.",
     FIELD(tls_crc)},
    {.name = "rights_file", PATH, .help = "More rows of allow, one a line.", FIELD(rights_file)},
    {.name = "allow",
     .type = PSI_OPTION_STRING,
     .max = PSD_ALLOW_BYTES_MAX,
     .default_text = PSD_RIGHTS_OF_ROLES,
     .list = true,
     .check = check_allow,
     .reloadable = true,
     .metavar = "ROW",
     .help = "Who may do what, a row a line, or a flag: WHO role:R, key:NAME, cert:URI or uid:N; WHERE containers, also with a "
             "final *, and @cluster, by comma; RIGHTS train, look, all, or read write create chief call save administer member. "
             "With key_file, tls_cert or a row here: who has no row has no rights. The default is in force with key_file only.",
     FIELD(allow)},
    PSD_SERVER_SETTINGS(AS_ROW){.name = "config",
                                .type = PSI_OPTION_STRING,
                                .max = 1023,
                                .default_text = "",
                                .flag_only = true,
                                .metavar = "FILE",
                                .help = "Read settings from FILE: lines of NAME = VALUE, names as here without the dashes.",
                                FIELD(config)},
    PSI_RESOLVER_ROWS(RESOLVER_ROW){
        .name = "print_config",
        .type = PSI_OPTION_BOOL,
        .default_text = "false",
        .flag_only = true,
        .help = "Print the settings in force as a configuration file and exit; what is at its default is commented out.",
        FIELD(print_config)},
    {.name = "version",
     .type = PSI_OPTION_BOOL,
     .default_text = "false",
     .flag_only = true,
     .help = "Print the version and exit.",
     FIELD(version)},
    {.name = "help",
     .letter = 'h',
     .type = PSI_OPTION_BOOL,
     .default_text = "false",
     .flag_only = true,
     .help = "Print this and exit.",
     FIELD(help)},
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == PSD_SETTINGS, "a place for each row");
_Static_assert(offsetof(struct psd_settings, server) == 0, "a row's field is at the same place in the options of a server");

static ps_status keep_texts(const struct psi_options *o, char **texts, struct psi_err *err)
{
    char *buf = psi_malloc(PSD_HOSTS_BYTES_MAX + 64);
    for (size_t i = 0; buf != NULL && i < PSD_SETTINGS; i++) {
        const char *text = psi_options_format_value(o, i, buf, PSD_HOSTS_BYTES_MAX + 64);
        texts[i] = psi_strndup(text, strlen(text));
        if (texts[i] == NULL) {
            psi_free(buf);
            buf = NULL;
        }
    }
    if (buf == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the settings");
    }
    psi_free(buf);
    return PS_OK;
}

/* Set texts[row] to the value of each row by the configuration file alone, without flags and TF_CONFIG. */
static ps_status read_alone(const char *name, const char *text, size_t len, char **texts, struct psi_err *err)
{
    uint8_t from[PSD_SETTINGS];
    struct psi_options o;
    struct psd_settings *alone = psi_calloc(1, sizeof(*alone));
    if (alone == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the settings");
    }
    psi_options_init(&o, rows, PSD_SETTINGS, alone, from);
    ps_status st = psi_options_parse_file(&o, name, text, len, err);
    if (st == PS_OK) {
        st = keep_texts(&o, texts, err);
    }
    psi_free(alone);
    return st;
}

static ps_status read_file(struct psi_options *o, struct psd_settings *s, struct psi_err *err)
{
    struct psi_buf buf;
    ps_status st = psi_text_file_read("configuration file", s->config, FILE_BYTES_MAX, &buf, err);
    const char *text = buf.data != NULL ? (const char *)buf.data : "";
    if (st == PS_OK) {
        st = psi_options_parse_file(o, s->config, text, buf.len, err);
    }
    if (st == PS_OK) {
        st = read_alone(s->config, text, buf.len, s->in_file, err);
    }
    psi_buf_fini(&buf);
    return st;
}

/* Read the digits at *p, and move *p behind them. False: there are no digits, or the number is not below PS_TASKS_MAX. */
static bool read_index(const char **p, uint32_t *out)
{
    uint32_t value = 0;
    const char *start = *p;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        value = value * 10 + (uint32_t)(**p - '0');
        if (value >= PS_TASKS_MAX) {
            return false;
        }
    }
    *out = value;
    return *p != start;
}

static ps_status add_tasks(struct psd_settings *s, uint32_t first, uint32_t last, struct psi_err *err)
{
    for (uint32_t task = first; task <= last; task++) {
        for (uint32_t i = 0; i < s->task_count; i++) {
            if (s->tasks[i] == task) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "--task_index %.64s: task %u is there twice", s->task_index, task);
            }
        }
        if (s->task_count == PSD_OWN_TASKS_MAX) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "--task_index %.64s: more than %d tasks", s->task_index, PSD_OWN_TASKS_MAX);
        }
        s->tasks[s->task_count++] = task;
    }
    return PS_OK;
}

static ps_status parse_tasks(struct psd_settings *s, struct psi_err *err)
{
    const char *p = s->task_index;
    for (;;) {
        uint32_t first = 0;
        bool good = read_index(&p, &first);
        uint32_t last = first;
        if (good && *p == '-') {
            p++;
            good = read_index(&p, &last) && last >= first;
        }
        if (!good || (*p != ',' && *p != '\0')) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "--task_index '%.64s' must be a number under %d, a range (0-3) or a list (0,2)", s->task_index,
                            PS_TASKS_MAX);
        }
        ps_status st = add_tasks(s, first, last, err);
        if (st != PS_OK || *p == '\0') {
            return st;
        }
        p++;
    }
}

static ps_status derive(struct psd_settings *s, struct psi_err *err)
{
    char *end = NULL;
    unsigned long mode = strtoul(s->unix_mode, &end, 8);
    if (*end != '\0' || s->unix_mode[0] < '0' || s->unix_mode[0] > '7' || mode > 0777) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "--unix_mode '%s' must be octal permissions such as 0600 or 0660",
                        s->unix_mode);
    }
    s->mode = (unsigned)mode;
    if (s->server.beat_ms >= s->server.lease_ms) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "--beat (%lld ms) must be shorter than --lease (%lld ms)",
                        (long long)s->server.beat_ms, (long long)s->server.lease_ms);
    }
    return parse_tasks(s, err);
}

static ps_status keep_print(const struct psi_options *o, struct psd_settings *s, struct psi_err *err)
{
    ps_status st =
        psi_buf_append_text(&s->print,
                            "# Settings of psd(8), as NAME = VALUE; psd.conf(5) says more. A line that begins with # is a\n"
                            "# comment: the defaults are. A long value goes on in indented lines. Flags and TF_CONFIG\n"
                            "# count more than this file.\n",
                            err);
    return st == PS_OK ? psi_options_file(o, &s->print, err) : st;
}

static ps_status read_all(struct psi_options *o, struct psd_settings *s, int argc, char **argv, const char *tf_config,
                          struct psi_err *err)
{
    ps_status st = psi_options_parse_argv(o, &argc, argv, true, err);
    if (st != PS_OK || s->help || s->version) {
        return st;
    }
    if (argc > 1) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%.200s' is not understood: psd takes flags only (psd --help)", argv[1]);
    }
    if (s->config[0] != '\0') {
        st = read_file(o, s, err);
    }
    const char *key_file = getenv("PSD_KEY_FILE");
    if (st == PS_OK && key_file != NULL && key_file[0] != '\0') {
        st = psi_options_set(o, PSI_FROM_ENVIRONMENT, "PSD_KEY_FILE", "key_file", key_file, err);
    }
    if (st == PS_OK) {
        st = psd_settings_cluster(o, s, tf_config, err);
    }
    if (st == PS_OK) {
        st = derive(s, err);
    }
    if (st == PS_OK && s->print_config) {
        st = keep_print(o, s, err);
    }
    s->allow_given = o->from[psi_options_find(o, "allow")] != PSI_FROM_DEFAULT;
    return st == PS_OK ? keep_texts(o, s->value, err) : st;
}

ps_status psd_settings_read(int argc, char **argv, const char *tf_config, struct psd_settings **out_settings, struct psi_err *err)
{
    struct psi_options o;
    struct psd_settings *s = psi_calloc(1, sizeof(*s));
    char **args = psi_calloc((size_t)argc + 1, sizeof(*args)); /* a copy, because the parser takes out what it has read */
    if (s == NULL || args == NULL) {
        psi_free(s);
        psi_free(args);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the settings");
    }
    memcpy(args, argv, (size_t)argc * sizeof(*args));
    psi_options_init(&o, rows, PSD_SETTINGS, s, s->from);
    psi_buf_init(&s->print, PRINT_BYTES_MAX);
    ps_status st = read_all(&o, s, argc, args, tf_config, err);
    psi_free(args);
    if (st != PS_OK) {
        psd_settings_free(s);
        return st;
    }
    *out_settings = s;
    return PS_OK;
}

void psd_settings_free(struct psd_settings *settings)
{
    if (settings == NULL) {
        return;
    }
    for (size_t i = 0; i < PSD_SETTINGS; i++) {
        psi_free(settings->value[i]);
        psi_free(settings->in_file[i]);
    }
    psi_buf_fini(&settings->print);
    psi_free(settings);
}

ps_status psd_settings_help(struct psi_buf *out, struct psi_err *err)
{
    uint8_t from[PSD_SETTINGS];
    struct psi_options o;
    struct psd_settings *s = psi_calloc(1, sizeof(*s));
    if (s == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    psi_options_init(&o, rows, PSD_SETTINGS, s, from);
    ps_status st =
        psi_buf_append_text(out,
                            "usage: psd [FLAG ...]\n"
                            "Parameter server: holds the variables of a training cluster and applies gradients to them.\n"
                            "Without flags: task 0 of job ps of a one-task cluster at 127.0.0.1:2222.\n\n",
                            err);
    if (st == PS_OK) {
        st = psi_options_help(&o, out, err);
    }
    if (st == PS_OK) {
        st = psi_buf_append_text(
            out,
            "\nWhat is live changes while psd runs, by `psctl config set`, and by SIGHUP: psd reads FILE again and says in\n"
            "its log what has changed and what takes a restart; one wrong line, and nothing changes.\n"
            "A flag counts more than the environment (TF_CONFIG: cluster and task), that more than --config FILE.\n"
            "Inherited listening sockets (LISTEN_FDS, LISTEN_PID) replace the listening addresses; with several\n"
            "tasks they are given out in order, one each. When a task listens, and what it knows without other\n"
            "tasks is decided, a line `ready: psd://HOST:PORT` goes to standard output; when all that it waits for is\n"
            "there (other tasks, a checkpoint), `serving: psd://HOST:PORT`. SIGTERM or SIGINT: finish what is in\n"
            "progress (--drain), then exit 0; another one more than a second later: end at once. Exit status 1: psd\n"
            "cannot start, or the only task of a job does not begin, or tasks do not end; 2: a setting is wrong; 3: it\n"
            "was told to end at once; 4: its last checkpoint could not be saved.\n",
            err);
    }
    psi_free(s);
    return st;
}

void psd_settings_options(const struct psd_settings *s, uint32_t i, const char *listen, psd_server_options *out)
{
    psd_server_options_init(out);
    out->cluster_spec = s->cluster[0] != '\0' ? s->cluster : NULL;
    out->ps_hosts = s->ps_hosts[0] != '\0' ? s->ps_hosts : NULL;
    out->worker_hosts = s->worker_hosts[0] != '\0' ? s->worker_hosts : NULL;
    out->cluster_name = s->cluster_name;
    out->job = s->job_name;
    out->task_index = s->tasks[i];
    out->unix_mode = s->mode;
    out->listen = listen;
    out->checkpoint_dir = s->checkpoint_dir;
    out->key_file = s->key_file;
    out->tls_cert = s->tls_cert;
    out->tls_key = s->tls_key;
    out->tls_ca = s->tls_ca;
    out->tls_refused = s->tls_refused;
    out->tls_crc = s->tls_crc;
    out->rights_file = s->rights_file;
    out->rights = s->allow_given ? s->allow : NULL;
#define COPY(type_, field_, ...) out->field_ = s->server.field_;
    PSD_SERVER_SETTINGS(COPY)
#undef COPY
    out->memory_budget_bytes /= s->task_count;
}

bool psd_settings_row(const struct psd_settings *s, uint32_t i, const char **name, const char **value, const char **default_value,
                      const char **help, bool *reloadable)
{
    if (i >= PSD_SETTINGS || rows[i].flag_only) {
        return false;
    }
    *name = rows[i].name;
    *value = s->value[i];
    *default_value = rows[i].default_text;
    *help = rows[i].help;
    *reloadable = rows[i].reloadable;
    return true;
}

bool psd_settings_is_allow(uint32_t i)
{
    return rows[i].check == check_allow;
}

enum psd_row psd_settings_number(uint32_t i)
{
    return i >= PSD_TEXTS && i < PSD_TEXTS + PSD_ROWS ? (enum psd_row)(i - PSD_TEXTS) : PSD_ROWS;
}

static const struct psi_option *const server_rows = &rows[PSD_TEXTS];
static const char *const fields[] = {
#define NAME_OF(type_, field_, ...) #field_,
    PSD_SERVER_SETTINGS(NAME_OF)
#undef NAME_OF
};

void psd_server_options_init(psd_server_options *o)
{
    if (o == NULL) {
        return;
    }
    memset(o, 0, sizeof(*o));
#define DEFAULT(type_, field_, name_, kind_, min_, max_, number_, ...) o->field_ = number_;
    PSD_SERVER_SETTINGS(DEFAULT)
#undef DEFAULT
    o->struct_bytes = sizeof(*o);
    o->cluster_name = PSI_CLUSTER_NAME_DEFAULT;
    o->job = "ps";
    o->unix_mode = 0600;
    o->call_threads = 1;
    o->calls_max = PS_CALLS_MAX;
    o->devices = "CPU:0";
}

enum psd_row psd_row_find(const char *name, bool of_field)
{
    enum psd_row i = 0;
    while (i < PSD_ROWS && (!server_rows[i].reloadable || strcmp(of_field ? fields[i] : server_rows[i].name, name) != 0)) {
        i++;
    }
    return i;
}

const char *psd_row_field(enum psd_row row)
{
    return fields[row];
}

void psd_row_describe(enum psd_row row, const char **name, const char **default_value, const char **help, bool *reloadable)
{
    *name = server_rows[row].name;
    *default_value = server_rows[row].default_text;
    *help = server_rows[row].help;
    *reloadable = server_rows[row].reloadable;
}

ps_status psd_row_parse(enum psd_row row, const char *text, psd_server_options *o, struct psi_err *err)
{
    return psi_option_parse(&server_rows[row], o, server_rows[row].name, text, err);
}

const char *psd_row_format(enum psd_row row, const psd_server_options *o, char *text)
{
    return psi_option_format(&server_rows[row], o, text, PSD_ROW_TEXT_BYTES);
}

ps_status psd_row_set(enum psd_row row, int64_t value, psd_server_options *o, struct psi_err *err)
{
    const struct psi_option *r = &server_rows[row];
    if (r->type == PSI_OPTION_WAYS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is a text: psd_server_set_text()", fields[row]);
    }
    bool choice = r->type == PSI_OPTION_BOOL || r->type == PSI_OPTION_ENUM;
    int64_t least = r->type == PSI_OPTION_ENUM && r->min < 0 ? r->min : r->min > 0 ? 1 : 0;
    int64_t most = choice ? r->max : r->type == PSI_OPTION_INT ? UINT32_MAX : r->type == PSI_OPTION_BYTES ? INT64_MAX : INT32_MAX;
    if (value < least || value > most) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is %lld: it must be between %lld and %lld", fields[row], (long long)value,
                        (long long)least, (long long)most);
    }
    psi_option_set_number(r, o, value);
    return PS_OK;
}

ps_status psd_row_check(enum psd_row row, const psd_server_options *o, struct psi_err *err)
{
    const struct psi_option *r = &server_rows[row];
    const char *field = (const char *)o + r->offset;
    psd_server_options aside;
    if (r->type != PSI_OPTION_WAYS) {
        return psd_row_set(row, psi_option_number(r, o), &aside, err);
    }
    return memchr(field, '\0', r->size) != NULL
               ? psi_option_parse(r, &aside, fields[row], field, err)
               : psi_fail(err, PS_INVALID_ARGUMENT, "%s is too long, or has no end", fields[row]);
}

void psd_row_copy(enum psd_row row, const psd_server_options *from, psd_server_options *to)
{
    const struct psi_option *r = &server_rows[row];
    memcpy((char *)to + r->offset, (const char *)from + r->offset, r->size);
}
