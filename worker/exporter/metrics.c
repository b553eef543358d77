/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics: Prometheus' text format 0.0.4.
 *
 * Happy path: metrics_write() asks all tasks for their state, and writes one metric after the other, each with its samples of all
 * tasks. Lists (sessions, waits, rounds, ages, queues, variables) are asked for when their metrics are written. Failure modes: a
 * task that does not answer has only psd_up 0 and psd_refused. A task that does not let the exporter in has psd_refused 1; it has
 * psd_up 0 only if it is of the directory's job. Without a session there is one psd_up 0 without a task. A list without an answer
 * is left out. Bounds: only EXPORTER_VARIABLES_SHOWN variables (the largest) and as many queues (the fullest) have samples; the
 * others have one sum. */
#include "exporter.h"

#include "common/utf8.h"
#include "psctl/pki.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LABEL_BYTES = 1024, OTHERS_MAX = 64 };

static void family(FILE *to, const char *name, const char *type, const char *help)
{
    (void)fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Make a label value of text: printable UTF-8; backslash, quote and newline are escaped. Returns buf [LABEL_BYTES]. */
static const char *label(const char *text, char *buf)
{
    char clean[LABEL_BYTES / 2];
    size_t n = 0;
    (void)snprintf(clean, sizeof(clean), "%s", text);
    psi_utf8_printable(clean);
    for (const char *p = clean; *p != '\0' && n + 3 < LABEL_BYTES; p++) {
        if (*p == '\\' || *p == '"' || *p == '\n') {
            buf[n++] = '\\';
        }
        buf[n++] = *p == '\n' ? 'n' : *p;
    }
    buf[n] = '\0';
    return buf;
}

static const char *task_of(const struct look *l, int i)
{
    return ps_cluster_task_name(l->c.session, i);
}

enum number { U32, U64, F64, BOOLEAN, MILLISECONDS };
struct of_task {
    /* labels: further labels, "" or ",reason=\"push\""; help NULL: the row is one more sample of the metric in the row before */
    const char *name, *type, *labels, *help;
    enum number number;
    size_t offset;
    bool is_sum; /* a sum over all containers; no sample if the exporter may not read all of them (ps_task_info.in_part) */
};
#define OF(number_, field_) number_, offsetof(ps_task_info, field_), false
#define SUM(number_, field_) number_, offsetof(ps_task_info, field_), true
static const struct of_task numbers[] = {
    {"psd_uptime_seconds", "gauge", "", "Time since the task's process began.", OF(MILLISECONDS, uptime_ms)},
    {"psd_memory_used_bytes", "gauge", "", "Memory that counts towards the budget.", SUM(U64, memory_bytes)},
    {"psd_memory_budget_bytes", "gauge", "", "The task's budget (psd --memory_budget).", OF(U64, budget_bytes)},
    {"psd_value_bytes", "gauge", "", "Values of variables and slots.", SUM(U64, variable_bytes)},
    {"psd_records_bytes", "gauge", "", "Records of sessions.", OF(U64, records_bytes)},
    {"psd_staged_bytes", "gauge", "", "Values that arrive, and calls.", SUM(U64, staged_bytes)},
    {"psd_copies_bytes", "gauge", "", "Values that are sent.", SUM(U64, copies_bytes)},
    {"psd_connections", "gauge", "", "Open connections.", OF(U32, connections)},
    {"psd_sessions", "gauge", "", "Sessions that the task remembers.", OF(U32, sessions)},
    {"psd_sessions_connected", "gauge", "", "Sessions with a connection.", OF(U32, connected)},
    {"psd_variables", "gauge", "", "Variables of the task.", SUM(U32, variables)},
    {"psd_pushes_in_progress", "gauge", "", "Pushes that have begun and not ended.", SUM(U32, in_progress)},
    {"psd_pushes_total", "counter", "", "Pushes that were applied.", SUM(U64, pushes_applied)},
    {"psd_pushes_torn_total", "counter", "", "Pushes of which a part is missing for good.", SUM(U64, pushes_torn)},
    {"psd_nonfinite_total", "counter", "", "Gradients with NaN or infinity.", SUM(U64, nonfinite)},
    {"psd_pulls_total", "counter", "", "Reads of values.", SUM(U64, pulls)},
    {"psd_received_bytes_total", "counter", "", "Bytes from all connections.", SUM(U64, bytes_in)},
    {"psd_sent_bytes_total", "counter", "", "Bytes to all connections.", SUM(U64, bytes_out)},
    {"psd_refused_total", "counter", ",reason=\"push\"", "What was refused.", SUM(U64, pushes_refused)},
    {"psd_refused_total", "counter", ",reason=\"right\"", NULL, OF(U64, denied)},
    {"psd_handshakes_total", "counter", ",result=\"done\"", "TLS handshakes that ended.", OF(U64, handshakes_done)},
    {"psd_handshakes_total", "counter", ",result=\"refused\"", NULL, OF(U64, handshakes_refused)},
    {"psd_handshakes_under_way", "gauge", "", "TLS handshakes that have begun.", OF(U32, handshakes_under_way)},
    {"psd_restarts_total", "counter", "", "Earlier processes of the task, as the directory has seen.", OF(U32, restarts)},
    {"psd_lost_variables", "gauge", "", "Variables that the task had and its process of now has not.", OF(U32, lost)},
    {"psd_insecure", "gauge", "", "1: other machines can connect without key and certificate.", OF(BOOLEAN, insecure)},
    {"psd_directory", "gauge", "", "1: the task is the directory.", OF(BOOLEAN, directory)},
    {"psd_job_done", "gauge", "", "1: the job is done.", OF(BOOLEAN, job_done)},
};

static void put_number(FILE *to, const struct of_task *n, const ps_task_info *t)
{
    const char *at = (const char *)t + n->offset;
    uint64_t u64 = 0;
    uint32_t u32 = 0;
    switch (n->number) {
    case U32:
        memcpy(&u32, at, sizeof(u32));
        (void)fprintf(to, "%" PRIu32 "\n", u32);
        break;
    case BOOLEAN:
        (void)fprintf(to, "%d\n", *(const bool *)at ? 1 : 0);
        break;
    case MILLISECONDS:
        memcpy(&u64, at, sizeof(u64));
        (void)fprintf(to, "%.3f\n", (double)u64 / 1000);
        break;
    default:
        memcpy(&u64, at, sizeof(u64));
        (void)fprintf(to, "%" PRIu64 "\n", u64);
        break;
    }
}

static void put_tasks(const struct look *l, FILE *to)
{
    char text[LABEL_BYTES];
    family(to, "psd_up", "gauge", "1: the task answers.");
    for (int i = 0; i < l->c.task_count; i++) {
        if (l->c.infos[i].up || psctl_missing(&l->c, -1, i)) {
            (void)fprintf(to, "psd_up{task=\"%s\"} %d\n", task_of(l, i), l->c.infos[i].up ? 1 : 0);
        }
    }
    family(to, "psd_refused", "gauge", "1: the task does not let the exporter in, by its key, certificate or rights.");
    for (int i = 0; i < l->c.task_count; i++) {
        (void)fprintf(to, "psd_refused{task=\"%s\"} %d\n", task_of(l, i), psctl_refused(&l->c.infos[i]) ? 1 : 0);
    }
    family(to, "psd_build_info", "gauge", "1, with the version.");
    for (int i = -1; psctl_next(&l->c, -1, &i);) {
        (void)fprintf(to, "psd_build_info{task=\"%s\",version=\"%s\"} 1\n", task_of(l, i), label(l->c.infos[i].version, text));
    }
    for (size_t n = 0; n < CLI_COUNT(numbers); n++) {
        const struct of_task *of = &numbers[n];
        if (of->help != NULL) {
            family(to, of->name, of->type, of->help);
        }
        for (int i = -1; psctl_next(&l->c, -1, &i);) {
            if (!of->is_sum || !l->c.infos[i].in_part) {
                (void)fprintf(to, "%s{task=\"%s\"%s} ", of->name, task_of(l, i), of->labels);
                put_number(to, of, &l->c.infos[i]);
            }
        }
    }
}

struct trainers {
    uint32_t connected;
    int64_t step;
    double steps_per_second;
};

static void each_session(void *ctx, const ps_session_info *s)
{
    struct trainers *t = ctx;
    t->connected += s->connected && s->job[0] != '\0' ? 1 : 0;
    t->step = s->global_step > t->step ? s->global_step : t->step;
    t->steps_per_second = s->steps_per_second > t->steps_per_second ? s->steps_per_second : t->steps_per_second;
}

static void put_trainers(const struct look *l, int directory, FILE *to)
{
    struct trainers t = {.step = -1};
    const ps_task_info *d = &l->c.infos[directory];
    family(to, "psd_trainers", "gauge", "Trainers that the cluster lists.");
    (void)fprintf(to, "psd_trainers %" PRIu32 "\n", d->trainers);
    family(to, "psd_trainers_done", "gauge", "Trainers that have said that the job is done.");
    (void)fprintf(to, "psd_trainers_done %" PRIu32 "\n", d->done);
    if (ps_task_sessions(l->c.session, directory, l->o->timeout_ms, each_session, &t) != PS_OK) {
        return;
    }
    family(to, "psd_trainers_connected", "gauge", "Sessions of tasks (workers, chiefs) that are connected to the directory.");
    (void)fprintf(to, "psd_trainers_connected %" PRIu32 "\n", t.connected);
    family(to, "psd_global_step", "gauge", "The highest global step that a session says.");
    if (t.step >= 0) {
        (void)fprintf(to, "psd_global_step %" PRId64 "\n", t.step);
    }
    family(to, "psd_global_step_rate", "gauge", "Global steps a second, as the fastest session sees them over its last beats.");
    (void)fprintf(to, "psd_global_step_rate %.6g\n", t.steps_per_second);
}

static void put_if(FILE *to, bool there, const char *name, const char *help, double value)
{
    family(to, name, "gauge", help);
    if (there) {
        (void)fprintf(to, "%s %.15g\n", name, value);
    }
}

static void put_checkpoints(const struct look *l, int directory, FILE *to)
{
    const ps_saves_info *s = &l->c.infos[directory].saves;
    const bool saved = s->known && s->number != 0;
    put_if(to, saved && s->age_ms >= 0, "psd_checkpoint_age_seconds", "Age of the newest checkpoint.", (double)s->age_ms / 1000);
    put_if(to, saved, "psd_checkpoint_number", "Number of the newest checkpoint.", (double)s->number);
    put_if(to, saved, "psd_checkpoint_bytes", "Size of the newest checkpoint.", (double)s->bytes);
    put_if(to, saved, "psd_checkpoint_duration_seconds", "How long the newest checkpoint took.", (double)s->took_ms / 1000);
    put_if(to, saved && s->step >= 0, "psd_checkpoint_step", "Global step of the newest checkpoint.", (double)s->step);
    put_if(to, s->known, "psd_checkpoint_failed_attempts", "Attempts that failed since the newest checkpoint.",
           (double)s->failed_attempts);
    put_if(to, s->known, "psd_checkpoint_interval_seconds", "Time between checkpoints by the settings; 0: none by time.",
           s->every_seconds);
}

struct waits {
    struct {
        char request[17];
        uint32_t count;
    } of[OTHERS_MAX];
    size_t used;
};

static void each_wait(void *ctx, const ps_wait_info *w)
{
    struct waits *all = ctx;
    size_t i = 0;
    while (i < all->used && strcmp(all->of[i].request, w->request) != 0) {
        i++;
    }
    if (i == all->used && all->used < OTHERS_MAX) {
        (void)snprintf(all->of[all->used++].request, sizeof(all->of[0].request), "%s", w->request);
    }
    if (i < all->used) {
        all->of[i].count++;
    }
}

static void put_waits(const struct look *l, FILE *to)
{
    family(to, "psd_waits", "gauge", "Requests that wait at the task.");
    for (int i = -1; psctl_next(&l->c, -1, &i);) {
        struct waits w = {.used = 0};
        char text[LABEL_BYTES];
        if (ps_task_waits(l->c.session, i, l->o->timeout_ms, each_wait, &w) == PS_OK) {
            for (size_t k = 0; k < w.used; k++) {
                (void)fprintf(to, "psd_waits{task=\"%s\",request=\"%s\"} %" PRIu32 "\n", task_of(l, i),
                              label(w.of[k].request, text), w.of[k].count);
            }
        }
    }
}

/* Write a histogram in which value i occurs counts[i] times. of: the labels, without braces. The last entry counts all values
 * above 15; the histogram's sum takes each of these values as 16. */
static void put_histogram(FILE *to, const char *name, const char *of, const uint64_t counts[PS_HISTOGRAM])
{
    uint64_t count = 0, sum = 0;
    for (int i = 0; i < PS_HISTOGRAM; i++) {
        count += counts[i];
        sum += counts[i] * (uint64_t)i;
        if (i < PS_HISTOGRAM - 1) {
            (void)fprintf(to, "%s_bucket{%s,le=\"%d\"} %" PRIu64 "\n", name, of, i, count);
        }
    }
    (void)fprintf(to, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n%s_sum{%s} %" PRIu64 "\n%s_count{%s} %" PRIu64 "\n", name, of,
                  count, name, of, sum, name, of, count);
}

struct ages {
    FILE *to;
    const char *task;
};

static void each_age(void *ctx, const ps_age_info *a)
{
    const struct ages *of = ctx;
    char labels[2 * LABEL_BYTES], text[LABEL_BYTES];
    (void)snprintf(labels, sizeof(labels), "task=\"%s\",container=\"%s\"", of->task, label(a->container, text));
    put_histogram(of->to, "psd_staleness", labels, a->ages);
}

static void put_ages(const struct look *l, FILE *to)
{
    family(to, "psd_staleness", "histogram",
           "Pushes by age: updates of their variable since the values were read; in the sum ages above 15 count as 16.");
    for (int i = -1; psctl_next(&l->c, -1, &i);) {
        struct ages of = {.to = to, .task = task_of(l, i)};
        (void)ps_task_ages(l->c.session, i, l->o->timeout_ms, each_age, &of); /* a task that fails has no samples */
    }
}

struct rounds {
    ps_round_info *of;
    uint32_t (*members)[PS_MEMBER_UNKNOWN + 1]; /* [count]: for each round, the number of its members in each state */
    size_t count, capacity, member_capacity;
};

static void each_round(void *ctx, const ps_round_info *r)
{
    struct rounds *all = ctx;
    all->of = cli_grow(all->of, all->count, &all->capacity, sizeof(*all->of));
    all->members = cli_grow(all->members, all->count, &all->member_capacity, sizeof(*all->members));
    memset(all->members[all->count], 0, sizeof(all->members[0]));
    all->of[all->count++] = *r;
}

static void each_member(void *ctx, const ps_member_info *m)
{
    struct rounds *all = ctx;
    all->members[all->count - 1][m->state]++;
}

static void put_rounds(const struct look *l, FILE *to)
{
    static const char *const states[] = {"", "works", "complete", "lost", "enters", "waits", "unknown"};
    struct rounds all = {.count = 0};
    char text[LABEL_BYTES];
    if (ps_rounds(l->c.session, l->o->timeout_ms, each_round, each_member, &all) != PS_OK) {
        all.count = 0;
    }
    family(to, "psd_round", "gauge", "Present round of a container.");
    for (size_t i = 0; i < all.count; i++) {
        (void)fprintf(to, "psd_round{container=\"%s\"} %" PRIu64 "\n", label(all.of[i].container, text), all.of[i].round);
    }
    family(to, "psd_round_dropped_total", "counter", "Contributions that came too late.");
    for (size_t i = 0; i < all.count; i++) {
        (void)fprintf(to, "psd_round_dropped_total{container=\"%s\"} %" PRIu64 "\n", label(all.of[i].container, text),
                      all.of[i].dropped);
    }
    family(to, "psd_round_members", "gauge", "Members of a container's rounds by state.");
    for (size_t i = 0; i < all.count; i++) {
        for (int s = PS_MEMBER_WORKS; s <= PS_MEMBER_UNKNOWN; s++) {
            (void)fprintf(to, "psd_round_members{container=\"%s\",state=\"%s\"} %" PRIu32 "\n", label(all.of[i].container, text),
                          states[s], all.members[i][s]);
        }
    }
    family(to, "psd_lead", "histogram", "Steps by their lead over the slowest worker; in the sum leads above 15 count as 16.");
    for (size_t i = 0; i < all.count; i++) {
        char labels[LABEL_BYTES + 16];
        (void)snprintf(labels, sizeof(labels), "container=\"%s\"", label(all.of[i].container, text));
        put_histogram(to, "psd_lead", labels, all.of[i].leads);
    }
    free(all.of);
    free(all.members);
}

struct queue {
    char name[256], container[64];
    const char *at;
    uint64_t elements;
};
struct queues {
    struct queue *of;
    size_t count, capacity;
    const char *at;
};

static void each_queue(void *ctx, const ps_queue_info *q)
{
    struct queues *all = ctx;
    all->of = cli_grow(all->of, all->count, &all->capacity, sizeof(*all->of));
    struct queue *own = &all->of[all->count++];
    memcpy(own->name, q->name, sizeof(own->name));
    memcpy(own->container, q->container, sizeof(own->container));
    own->at = all->at;
    own->elements = (uint64_t)q->size;
}

static int by_elements(const void *a, const void *b)
{
    const struct queue *x = a, *y = b;
    int order = x->elements > y->elements ? -1 : x->elements < y->elements;
    order = order != 0 ? order : strcmp(x->container, y->container);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static void put_queues(const struct look *l, FILE *to)
{
    struct queues all = {.count = 0};
    char name[LABEL_BYTES], container[LABEL_BYTES];
    uint64_t others = 0;
    for (int i = -1; psctl_next(&l->c, -1, &i);) {
        all.at = task_of(l, i);
        (void)ps_task_queues(l->c.session, i, l->o->timeout_ms, each_queue, &all); /* a task that fails has no samples */
    }
    if (all.count > 0) {
        qsort(all.of, all.count, sizeof(*all.of), by_elements);
    }
    family(to, "psd_queue_elements", "gauge",
           "Elements of a queue: of the 100 fullest, and without labels the sum of the others.");
    for (size_t i = 0; i < all.count; i++) {
        const struct queue *q = &all.of[i];
        if (i < EXPORTER_VARIABLES_SHOWN) {
            (void)fprintf(to, "psd_queue_elements{task=\"%s\",container=\"%s\",queue=\"%s\"} %" PRIu64 "\n", q->at,
                          label(q->container, container), label(q->name, name), q->elements);
        } else {
            others += q->elements;
        }
    }
    if (all.count > EXPORTER_VARIABLES_SHOWN) {
        (void)fprintf(to, "psd_queue_elements{task=\"\",container=\"\",queue=\"\"} %" PRIu64 "\n", others);
    }
    free(all.of);
}

struct variable {
    char name[256], container[64];
    const char *at;
    uint64_t bytes, pushes;
};
struct variables {
    struct variable *of;
    size_t count, capacity;
    const char *at;
};

static void each_variable(void *ctx, const ps_variable_info *v)
{
    struct variables *all = ctx;
    all->of = cli_grow(all->of, all->count, &all->capacity, sizeof(*all->of));
    struct variable *own = &all->of[all->count++];
    memcpy(own->name, v->name, sizeof(own->name));
    memcpy(own->container, v->container, sizeof(own->container));
    own->at = all->at;
    own->bytes = v->bytes;
    own->pushes = v->pushes;
}

static int by_size(const void *a, const void *b)
{
    const struct variable *x = a;
    const struct variable *y = b;
    int order = x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
    order = order != 0 ? order : strcmp(x->container, y->container);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static void put_variable_family(FILE *to, const struct variables *all, const char *name, const char *type, const char *help,
                                size_t offset)
{
    char text[LABEL_BYTES], container[LABEL_BYTES];
    uint64_t others = 0, value = 0;
    family(to, name, type, help);
    for (size_t i = 0; i < all->count; i++) {
        const struct variable *v = &all->of[i];
        memcpy(&value, (const char *)v + offset, sizeof(value));
        if (i < EXPORTER_VARIABLES_SHOWN) {
            (void)fprintf(to, "%s{task=\"%s\",container=\"%s\",variable=\"%s\"} %" PRIu64 "\n", name, v->at,
                          label(v->container, container), label(v->name, text), value);
        } else {
            others += value;
        }
    }
    if (all->count > EXPORTER_VARIABLES_SHOWN) {
        (void)fprintf(to, "%s{task=\"\",container=\"\",variable=\"\"} %" PRIu64 "\n", name, others);
    }
}

static void put_variables(const struct look *l, FILE *to)
{
    struct variables all = {.count = 0};
    uint64_t expected = 0;
    for (int i = -1; psctl_next(&l->c, -1, &i);) {
        expected += l->c.infos[i].variables;
    }
    for (int i = -1; expected <= EXPORTER_VARIABLES_ASKED && psctl_next(&l->c, -1, &i);) {
        all.at = task_of(l, i);
        (void)ps_task_variables(l->c.session, i, l->o->timeout_ms, each_variable, &all); /* a task that fails has no samples */
    }
    if (all.count > 0) {
        qsort(all.of, all.count, sizeof(*all.of), by_size);
    }
    put_variable_family(to, &all, "psd_variable_bytes", "gauge",
                        "Value of a variable: the 100 largest, and without labels the sum of the others.",
                        offsetof(struct variable, bytes));
    put_variable_family(to, &all, "psd_variable_pushes_total", "counter",
                        "Pushes of a variable: of the 100 largest, and without labels the sum of the others.",
                        offsetof(struct variable, pushes));
    free(all.of);
}

/* Read word number `field`, from 0 on, of a file in /proc as a number. after: words are counted from behind the last such
 * character; 0: from the start of the file. Returns 0 if there is no such number. */
static uint64_t read_number(const char *path, char after, int field)
{
    char text[1024];
    FILE *f = fopen(path, "re");
    size_t n = f == NULL ? 0 : fread(text, 1, sizeof(text) - 1, f);
    if (f != NULL) {
        (void)fclose(f);
    }
    text[n] = '\0';
    const char *at = after == 0 ? text : strrchr(text, after);
    at = at == NULL ? "" : at + (after != 0);
    for (int i = 0; i < field; i++) {
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    return strtoull(at, NULL, 10);
}

enum { STAT_START = 19, STATM_RESIDENT = 1 }; /* words for read_number(): of /proc/self/stat behind ')', of /proc/self/statm */

/* Unix time in seconds when this process started. /proc/self/stat has it in clock ticks since the boot. */
static double start_seconds(void)
{
    static double known;
    struct timespec now, boot;
    if (known == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0 && clock_gettime(CLOCK_BOOTTIME, &boot) == 0) {
        known = (double)(now.tv_sec - boot.tv_sec) +
                (double)read_number("/proc/self/stat", ')', STAT_START) / (double)sysconf(_SC_CLK_TCK);
    }
    return known;
}

static void put_certificate(const struct look *l, FILE *to)
{
    struct psi_err err = {.code = PS_OK};
    struct psi_secret text = {.p = NULL};
    struct pki_info info;
    family(to, "psd_tls_certificate_expiry_timestamp_seconds", "gauge", "End of psd-exporter's own certificate, Unix time.");
    if (l->o->tls_cert == NULL) {
        return;
    }
    ps_status st = psi_plain_file_read(l->o->tls_cert, &text, &err);
    st = st == PS_OK ? pki_read(&text, &info, &err) : st;
    psi_secret_fini(&text);
    if (st == PS_OK) {
        (void)fprintf(to, "psd_tls_certificate_expiry_timestamp_seconds %" PRId64 "\n", info.until_s);
    }
}

static void put_process(const struct look *l, FILE *to)
{
    struct timespec cpu = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    family(to, "psd_exporter_build_info", "gauge", "1, with the version of psd-exporter.");
    (void)fprintf(to, "psd_exporter_build_info{version=\"%s\"} 1\n", ps_version());
    family(to, "psd_exporter_ask_seconds", "gauge", "How long the tasks took to answer when they were asked last.");
    (void)fprintf(to, "psd_exporter_ask_seconds %.6f\n", l->took_seconds);
    put_certificate(l, to);
    family(to, "process_start_time_seconds", "gauge", "When psd-exporter began, Unix time.");
    (void)fprintf(to, "process_start_time_seconds %.2f\n", start_seconds());
    family(to, "process_cpu_seconds_total", "counter", "CPU time of psd-exporter.");
    (void)fprintf(to, "process_cpu_seconds_total %.3f\n", (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
    family(to, "process_resident_memory_bytes", "gauge", "Resident memory of psd-exporter.");
    (void)fprintf(to, "process_resident_memory_bytes %" PRIu64 "\n",
                  read_number("/proc/self/statm", 0, STATM_RESIDENT) * (uint64_t)sysconf(_SC_PAGESIZE));
}

void metrics_write(struct look *l, FILE *to)
{
    if (!look_at_tasks(l)) {
        family(to, "psd_up", "gauge", "1: the task answers.");
        (void)fprintf(to, "psd_up{task=\"\"} 0\n");
        put_process(l, to);
        return;
    }
    put_tasks(l, to);
    const int directory = psctl_directory(&l->c);
    if (directory >= 0) {
        put_trainers(l, directory, to);
        put_checkpoints(l, directory, to);
        put_rounds(l, to);
    }
    put_waits(l, to);
    put_ages(l, to);
    put_queues(l, to);
    put_variables(l, to);
    put_process(l, to);
}
