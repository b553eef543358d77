/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor in real servers: a ps task and two worker tasks of this process, each worker with one compute thread. Runs come by
 * ps_call() as worker/plan encodes them, or by plans.
 */
#include "in_process.h"
#include "test.h"

#include "common/buf.h"
#include "worker/plan/run.h"

#include <ps.h>
#include <ps_ops.h>
#include <ps_plan.h>

#include <pthread.h>
#include <sys/stat.h>
#include <stdatomic.h>
#include <unistd.h>

enum { PS, WORKER_0, WORKER_1, TASKS, MANY = 64 };
static const char *const DEVICES[TASKS] = {"/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"};

struct env {
    struct in_process servers;
    ps_ops *ops[TASKS]; /* of workers */
    ps_session *s;
};

static ps_ops *next_ops; /* of the server that in_process_start() starts next */
static ps_status echo(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                      size_t *out_bytes, char *error, size_t error_bytes)
{
    (void)ctx;
    (void)call;
    (void)out_capacity;
    (void)error;
    (void)error_bytes;
    if (in_bytes > 0) {
        memcpy(out, in, in_bytes);
    }
    *out_bytes = in_bytes;
    return PS_OK;
}

/* Whose calls the executors take all calls for. NULL: as their task says. Set before the calls. */
static const char *_Atomic asks_for;
static void (*attach_executor)(void *ctx, const psd_call_functions *functions, const psd_call_task *task);

static const psd_call_functions *of_server; /* of all servers the same */

static const char *identity(const psd_call *call, const char **role)
{
    const char *who = asks_for;
    if (who == NULL) {
        return of_server->identity(call, role);
    }
    *role = "worker";
    return who;
}

static void attach(void *ctx, const psd_call_functions *functions, const psd_call_task *task)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* each server attaches on its own thread */
    static psd_call_functions ours;
    (void)pthread_mutex_lock(&lock);
    if (of_server == NULL) {
        of_server = functions;
        ours = *functions;
        ours.identity = identity;
    }
    (void)pthread_mutex_unlock(&lock);
    attach_executor(ctx, &ours, task);
}

/* Key files of the servers and of the client, and the rows of the servers; NULL: none. */
static struct {
    const char *servers, *client, *rows;
} secure;

static void with_keys(psd_server_options *o)
{
    o->key_file = secure.servers;
    o->rights = secure.rows;
}

static void serve_operations(psd_server_options *o)
{
    with_keys(o);
    static psd_call_row rows[2] = {{.name = "test.echo", .run = echo}};
    o->calls = *ps_ops_table(next_ops);
    rows[1] = o->calls.rows[0];
    o->calls.rows = rows;
    o->calls.row_bytes = sizeof(rows[0]);
    o->calls.count = 2;
    o->call_threads = 1;
    if (attach_executor == NULL) { /* it is the same of all, and threads read it */
        attach_executor = o->calls.attach;
    }
    o->calls.attach = attach;
}

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static void start_worker(struct env *e, uint32_t task)
{
    char error[256] = "";
    ps_ops_options o;
    ps_ops_options_init(&o);
    o.log = no_log;
    if (ps_ops_new(&o, &e->ops[task], error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    next_ops = e->ops[task];
    (void)in_process_start(&e->servers, task, serve_operations);
}

static void stop_worker(struct env *e, uint32_t task)
{
    psd_server_free(e->servers.tasks[task].server);
    e->servers.tasks[task].server = NULL;
    ps_ops_free(e->ops[task]);
    e->ops[task] = NULL;
}

static ps_session *session_of(struct env *e)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.cluster_spec = e->servers.spec;
    o.operation_timeout_ms = 10000;
    o.log = no_log;
    o.key_file = secure.client != NULL ? secure.client : "";
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    return s;
}

static void env_free(void *arg)
{
    struct env *e = arg;
    PSI_IGNORE(ps_session_close(e->s)); /* its errors are those of the test */
    for (uint32_t i = WORKER_0; i < TASKS; i++) {
        if (e->ops[i] != NULL) {
            stop_worker(e, i);
        }
    }
    in_process_fini(&e->servers);
}

static struct env *env_new(void)
{
    struct env *e = test_alloc(sizeof(*e));
    (void)alarm(120); /* where a call is never over */
    in_process_init(&e->servers, "ps=1,worker=2");
    test_later(env_free, e);
    (void)in_process_start(&e->servers, PS, with_keys);
    start_worker(e, WORKER_0);
    start_worker(e, WORKER_1);
    e->s = session_of(e);
    assert_int_equal(ps_session_wait_cluster(e->s, "ps,worker", 20000), PS_OK);
    return e;
}

/* A float32 vector on a task, with all elements the same. */
static ps_variable *vector(struct env *e, uint32_t task, const char *name, int64_t count, float value,
                           const ps_optimizer *optimizer)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    float *values = test_alloc((size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        values[i] = value;
    }
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(count);
    spec.device = DEVICES[task];
    spec.optimizer = optimizer;
    assert_int_equal(ps_variable_get(e->s, &spec, &v), PS_OK);
    assert_int_equal(ps_variable_assign(v, values, (size_t)count * sizeof(float)), PS_OK);
    return v;
}

static float first_of(ps_variable *v)
{
    float *values = test_alloc(ps_variable_bytes(v));
    if (ps_variable_read(v, values, ps_variable_bytes(v)) != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
    return values[0];
}

static struct psi_run_variable place_of(ps_variable *v)
{
    return (struct psi_run_variable){.container = ps_variable_container(v),
                                     .name = ps_variable_name(v),
                                     .job = strstr(ps_variable_device(v), "/job:ps/") != NULL ? "ps" : "worker",
                                     .task = (uint32_t)ps_variable_task(v)};
}

static struct psi_run_input input_of(ps_variable *v)
{
    return (struct psi_run_input){.from = PSI_RUN_FROM_VARIABLE,
                                  .type = {.dtype = ps_variable_dtype(v), .shape = *ps_variable_shape(v)},
                                  .variable = place_of(v)};
}

/* a run that adds its two inputs: value 2 */
struct sum {
    struct psi_run_input inputs[2];
    struct psi_run_row row;
    struct psi_run_output outputs[4];
    struct psi_run run;
    struct psi_buf bytes;
};

static void sum_of(struct sum *sum, ps_variable *a, ps_variable *b)
{
    static const uint16_t both[] = {0, 1};
    *sum = (struct sum){.inputs = {input_of(a), input_of(b)},
                        .row = {.op = "add", .name = "sum", .device = "", .inputs = both, .input_count = 2, .output_count = 1}};
    sum->run = (struct psi_run){
        .container = "", .inputs = sum->inputs, .input_count = 2, .rows = &sum->row, .row_count = 1, .outputs = sum->outputs};
    psi_buf_init(&sum->bytes, PS_CALL_BYTES_MAX);
}

static void add_output(struct sum *sum, enum psi_run_to to, ps_variable *v)
{
    sum->outputs[sum->run.output_count++] = (struct psi_run_output){
        .to = to, .value = 2, .variable = v != NULL ? place_of(v) : (struct psi_run_variable){"", "", "", 0}, .scale = 1};
}

/* What the call says. */
static ps_status run_at(struct env *e, uint32_t task, const struct psi_run *run, int64_t timeout_ms,
                        struct psi_run_answer *answer)
{
    static _Thread_local uint8_t out[PS_CALL_BYTES_MAX];
    struct psi_err err = {0};
    struct psi_buf bytes;
    size_t out_bytes = 0;
    psi_buf_init(&bytes, PS_CALL_BYTES_MAX);
    assert_ok(psi_run_encode(run, &bytes, &err), &err);
    const ps_status st =
        ps_call(e->s, DEVICES[task], PS_OPS_CALL, bytes.data, bytes.len, out, sizeof(out), &out_bytes, timeout_ms);
    psi_buf_fini(&bytes);
    if (st == PS_OK) {
        struct psi_run_answer own;
        assert_ok(psi_run_answer_decode(out, out_bytes, &own, &err), &err);
        if (answer != NULL) {
            *answer = own;
        } else {
            psi_run_answer_fini(&own);
        }
    }
    return st;
}

/* Inputs of the task itself and of two others; outputs to the answer, assigned, added and pushed. */
TEST(test_inputs_and_outputs)
{
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", 4, 1, NULL), *b = vector(e, WORKER_1, "b", 4, 2, NULL);
    ps_variable *own = vector(e, WORKER_0, "own", 4, 0, NULL), *added = vector(e, WORKER_1, "added", 4, 10, NULL);
    ps_variable *trained = vector(e, PS, "w", 4, 20, ps_sgd(0.5));
    struct sum sum;
    struct psi_run_answer answer = {0};
    sum_of(&sum, a, b);
    add_output(&sum, PSI_RUN_TO_ANSWER, NULL);
    add_output(&sum, PSI_RUN_TO_ASSIGN, own);
    add_output(&sum, PSI_RUN_TO_ADD, added);
    add_output(&sum, PSI_RUN_TO_PUSH, trained);
    sum.outputs[2].answers = true;
    for (int i = 1; i <= 3; i++) { /* the second and third one ask nobody where the variables are */
        float values[4];
        if (run_at(e, WORKER_0, &sum.run, 20000, &answer) != PS_OK) {
            fail_msg("%s", ps_last_error());
        }
        assert_int_equal(answer.result_count, 2);
        memcpy(values, answer.results[0].data, sizeof(values));
        assert_true(values[0] == 3 && values[3] == 3);
        memcpy(values, answer.results[1].data, sizeof(values));
        assert_true(values[0] == (float)(10 + 3 * i));
        assert_true(first_of(own) == 3 && first_of(added) == (float)(10 + 3 * i) && first_of(trained) == 20 - 1.5f * (float)i);
        psi_run_answer_fini(&answer);
    }
}

/* What the task has itself is read and assigned without a connection: the executor opens no session. A shape that is another one
 * goes the other way, and is refused there. */
TEST(test_of_the_own_task_alone)
{
    enum { LARGE = 100000 };
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", LARGE, 1, NULL), *own = vector(e, WORKER_0, "own", LARGE, 0, NULL);
    static float values[LARGE];
    ps_task_info infos[TASKS];
    uint64_t version = 0;
    bool exact = false;
    struct sum sum;
    sum_of(&sum, a, a);
    add_output(&sum, PSI_RUN_TO_ASSIGN, own);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(run_at(e, WORKER_0, &sum.run, 20000, NULL), PS_OK);
        assert_int_equal(ps_variable_read_versioned(own, values, sizeof(values), &version, &exact), PS_OK);
        assert_true(values[0] == 2 && values[LARGE - 1] == 2 && version == i && exact);
    }
    for (uint64_t i = 4; i <= 12; i++) { /* what the executor knows of a value that stays is no older value */
        if (i % 3 == 0) {
            for (int k = 0; k < LARGE; k++) {
                values[k] = (float)i;
            }
            assert_int_equal(ps_variable_assign(a, values, sizeof(values)), PS_OK);
        }
        assert_int_equal(run_at(e, WORKER_0, &sum.run, 20000, NULL), PS_OK);
        assert_int_equal(ps_variable_read(own, values, sizeof(values)), PS_OK);
        const float expected = i < 6 ? 2 : (float)(2 * (i - i % 3));
        assert_true(values[0] == expected && values[LARGE - 1] == expected);
    }
    assert_int_equal(ps_cluster_tasks(e->s), TASKS);
    assert_int_equal(ps_cluster_info(e->s, infos, sizeof(infos[0]), TASKS, 20000), PS_OK);
    for (int i = 0; i < TASKS; i++) {
        const bool is_it = strcmp(infos[i].job, "worker") == 0 && infos[i].task == 0;
        assert_true(!is_it || infos[i].sessions == 1); /* ours */
    }
    ps_variable *other = vector(e, WORKER_0, "other", LARGE / 2, 0, NULL);
    sum.outputs[0].variable = place_of(other);
    assert_int_equal(run_at(e, WORKER_0, &sum.run, 20000, NULL), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "'other'"));
    assert_true(first_of(other) == 0);
}

/* Tasks of variables are asked, for each transfer, whether the client may: tasks without a table of rights say yes to all
 * identities, and refuse what is none. Then nothing has been touched. */
TEST(test_the_client_must_be_allowed_to)
{
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", 4, 1, NULL), *b = vector(e, PS, "b", 4, 2, NULL);
    ps_variable *own = vector(e, WORKER_0, "own", 4, 0, NULL), *far = vector(e, PS, "far", 4, 10, NULL);
    struct sum reads, writes;
    sum_of(&reads, a, b);
    add_output(&reads, PSI_RUN_TO_ANSWER, NULL);
    sum_of(&writes, a, a);
    add_output(&writes, PSI_RUN_TO_ADD, far);
    add_output(&writes, PSI_RUN_TO_ADD, own);
    asks_for = "key:w0";
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(run_at(e, WORKER_0, &reads.run, 20000, NULL), PS_OK);
        assert_int_equal(run_at(e, WORKER_0, &writes.run, 20000, NULL), PS_OK);
        assert_true(first_of(far) == (float)(10 + 2 * i) && first_of(own) == (float)(2 * i));
    }
    asks_for = "someone"; /* no identity */
    assert_int_equal(run_at(e, WORKER_0, &reads.run, 20000, NULL), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "someone"));
    assert_int_equal(run_at(e, WORKER_0, &writes.run, 20000, NULL), PS_INVALID_ARGUMENT);
    assert_true(first_of(far) == 14 && first_of(own) == 4);
    asks_for = NULL;
    assert_int_equal(run_at(e, WORKER_0, &reads.run, 20000, NULL), PS_OK);
}

static void forget_keys(void *arg)
{
    (void)arg;
    memset(&secure, 0, sizeof(secure));
}

/* A key file of this test: a line of each word of "ps0 ps" and the like. */
static const char *key_file(const char *directory, const char *file, const char *const lines[], size_t count)
{
    const char *path = test_path(directory, file);
    FILE *f = fopen(path, "wx");
    assert_non_null(f);
    assert_int_equal(fchmod(fileno(f), 0600), 0);
    for (size_t i = 0; i < count; i++) {
        char secret[65];
        memset(secret, lines[i][0], 64); /* digits of a secret that is the same in both files, and of no other name */
        secret[64] = '\0';
        assert_true(fprintf(f, "%s %s use\n", lines[i], secret) > 0);
    }
    assert_int_equal(fclose(f), 0);
    return path;
}

/* A run may touch what its client may, though the executor's own session may touch more. */
TEST(test_a_run_has_the_rights_of_its_client)
{
    static const char *const all[] = {"a 0000000a ps", "b 0000000b worker"}, *const own[] = {"b 0000000b worker"};
    const char *dir = test_dir();
    test_later(forget_keys, NULL);
    secure.servers = key_file(dir, "servers", all, 2);
    secure.client = key_file(dir, "client", own, 1);
    secure.rows = "role:ps *,@cluster train member; key:b mine,@cluster train; key:b other read create chief";
    struct env *e = env_new();
    assert_int_equal(ps_container_push(e->s, "mine"), PS_OK);
    ps_variable *a = vector(e, WORKER_0, "a", 4, 1, NULL), *b = vector(e, PS, "b", 4, 2, NULL);
    assert_int_equal(ps_container_pop(e->s), PS_OK);
    struct sum good, reads, writes, near;
    struct psi_run_variable hidden = place_of(b), other = place_of(b);
    sum_of(&good, a, b);
    add_output(&good, PSI_RUN_TO_ASSIGN, b);
    for (int i = 1; i <= 3; i++) {
        if (run_at(e, WORKER_0, &good.run, 20000, NULL) != PS_OK) {
            fail_msg("%s", ps_last_error());
        }
        assert_true(first_of(b) == (float)(2 + i));
    }
    /* nothing comes out of a container that the client may not read */
    sum_of(&reads, a, b);
    add_output(&reads, PSI_RUN_TO_ANSWER, NULL);
    hidden.container = "hidden";
    reads.inputs[0].variable = reads.inputs[1].variable = hidden;
    assert_int_equal(run_at(e, WORKER_0, &reads.run, 20000, NULL), PS_PERMISSION_DENIED); /* nor what is not there */
    assert_non_null(strstr(ps_last_error(), "key:b has no right 'read' on container 'hidden'"));
    /* the client may read there, and no more */
    assert_int_equal(ps_container_push(e->s, "other"), PS_OK);
    ps_variable_spec spec;
    ps_variable *c = NULL;
    const float ones[4] = {1, 1, 1, 1};
    ps_variable_spec_init(&spec);
    spec.name = "b";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(4);
    spec.device = DEVICES[PS];
    assert_int_equal(ps_variable_get(e->s, &spec, &c), PS_OK);
    assert_int_equal(ps_container_pop(e->s), PS_OK);
    assert_int_equal(ps_variable_assign(c, ones, sizeof(ones)), PS_PERMISSION_DENIED);
    sum_of(&writes, a, a);
    other.container = "other";
    add_output(&writes, PSI_RUN_TO_ASSIGN, b);
    writes.outputs[0].variable = other;
    assert_int_equal(run_at(e, WORKER_0, &writes.run, 20000, NULL), PS_PERMISSION_DENIED);
    assert_non_null(strstr(ps_last_error(), "key:b has no right 'write' on container 'other' (allow key:b other write)"));
    /* a variable of the executing task is read by the task itself, with the same rights */
    sum_of(&near, a, a);
    add_output(&near, PSI_RUN_TO_ANSWER, NULL);
    near.inputs[0].variable.container = near.inputs[1].variable.container = "hidden";
    assert_int_equal(run_at(e, WORKER_0, &near.run, 20000, NULL), PS_PERMISSION_DENIED);
    assert_non_null(strstr(ps_last_error(), "key:b has no right 'read' on container 'hidden'"));
}

/* ---- two tasks that need each other's values, one compute thread each ---- */

struct many {
    struct env *e;
    struct sum sum[2];
    atomic_int failed;
};

static void *run_many(void *arg)
{
    struct many *m = arg;
    for (int i = 0; i < MANY; i++) {
        const uint32_t task = WORKER_0 + (uint32_t)i % 2;
        if (run_at(m->e, task, &m->sum[i % 2].run, 20000, NULL) != PS_OK) {
            (void)fprintf(stderr, "run %d: %s\n", i, ps_last_error());
            atomic_fetch_add(&m->failed, 1);
        }
    }
    return NULL;
}

TEST(test_each_needs_the_other)
{
    enum { THREADS = 8, LARGE = 100000 };
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", LARGE, 1, NULL), *b = vector(e, WORKER_1, "b", LARGE, 2, NULL);
    ps_variable *to[2] = {vector(e, WORKER_0, "to0", LARGE, 0, NULL), vector(e, WORKER_1, "to1", LARGE, 0, NULL)};
    struct many m = {.e = e};
    pthread_t threads[THREADS];
    for (int i = 0; i < 2; i++) {
        sum_of(&m.sum[i], a, b);
        add_output(&m.sum[i], PSI_RUN_TO_ASSIGN, to[1 - i]);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &m), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(m.failed, 0);
    assert_true(first_of(to[0]) == 3 && first_of(to[1]) == 3);
}

/* ---- a task that is away ---- */

struct waits {
    struct env *e;
    const struct psi_run *run;
    int64_t timeout_ms;
    ps_status st;
    char text[512];
};

static void *run_one(void *arg)
{
    struct waits *w = arg;
    w->st = run_at(w->e, WORKER_0, w->run, w->timeout_ms, NULL);
    (void)snprintf(w->text, sizeof(w->text), "%s", ps_last_error());
    return NULL;
}

/* A run whose input does not come holds no compute thread: the task's only one answers others meanwhile. Its deadline ends it,
 * and the text names the input and the task that it waited for. */
TEST(test_a_run_that_waits_holds_no_thread)
{
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", 4, 1, NULL), *b = vector(e, WORKER_1, "b", 4, 2, NULL);
    char out[8] = "";
    struct sum sum;
    sum_of(&sum, a, b);
    add_output(&sum, PSI_RUN_TO_ANSWER, NULL);
    stop_worker(e, WORKER_1);
    struct waits w = {.e = e, .run = &sum.run, .timeout_ms = 1000};
    pthread_t thread;
    do { /* the task answers 250 ms before the deadline; on a busy machine that may be too late */
        assert_int_equal(pthread_create(&thread, NULL, run_one, &w), 0);
        for (int i = 0; i < 100; i++) {
            if (ps_call(e->s, DEVICES[WORKER_0], "test.echo", "echo", 4, out, sizeof(out), NULL, 10000) != PS_OK) {
                fail_msg("%s", ps_last_error());
            }
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    } while (w.st == PS_DEADLINE_EXCEEDED);
    assert_int_equal(w.st, PS_UNAVAILABLE);
    if (strstr(w.text, "input 'b' at /job:worker/task:1") == NULL) {
        fail_msg("%s", w.text);
    }
}

/* The server of a task whose run waits ends, and so does the run. */
TEST(test_the_server_ends)
{
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", 4, 1, NULL), *b = vector(e, WORKER_1, "b", 4, 2, NULL);
    struct sum sum;
    sum_of(&sum, a, b);
    add_output(&sum, PSI_RUN_TO_ANSWER, NULL);
    stop_worker(e, WORKER_1);
    struct waits w = {.e = e, .run = &sum.run, .timeout_ms = 1000};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_one, &w), 0);
    stop_worker(e, WORKER_0); /* whether the run has come or not */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_not_equal(w.st, PS_OK);
}

/* A variable that was deleted and made anew: the executor finds the new one. */
TEST(test_variable_made_anew)
{
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", 4, 1, NULL), *b = vector(e, WORKER_1, "b", 4, 2, NULL);
    struct sum sum;
    struct psi_run_answer answer = {0};
    float first = 0;
    sum_of(&sum, a, b);
    add_output(&sum, PSI_RUN_TO_ANSWER, NULL);
    assert_int_equal(run_at(e, WORKER_0, &sum.run, 20000, NULL), PS_OK);
    assert_int_equal(ps_variable_delete(e->s, "b"), PS_OK);
    assert_int_equal(run_at(e, WORKER_0, &sum.run, 20000, NULL), PS_NOT_FOUND);
    assert_non_null(strstr(ps_last_error(), "input 'b'"));
    ps_session *other = session_of(e);
    ps_session *mine = e->s;
    e->s = other;
    (void)vector(e, WORKER_1, "b", 4, 5, NULL);
    if (run_at(e, WORKER_0, &sum.run, 20000, &answer) != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
    memcpy(&first, answer.results[0].data, sizeof(first));
    assert_true(first == 6);
    psi_run_answer_fini(&answer);
    e->s = mine;
    PSI_IGNORE(ps_session_close(other));
}

/* What the variable is differs from what the run says. */
TEST(test_other_shape)
{
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", 4, 1, NULL), *b = vector(e, WORKER_1, "b", 4, 2, NULL);
    struct sum sum;
    sum_of(&sum, a, b);
    add_output(&sum, PSI_RUN_TO_ANSWER, NULL);
    for (int i = 0; i < 2; i++) { /* the second time it is known */
        sum.inputs[1].type.shape = PS_SHAPE(1);
        assert_int_equal(run_at(e, WORKER_0, &sum.run, 20000, NULL), PS_INVALID_ARGUMENT);
        if (strstr(ps_last_error(), "variable 'b' is (4,) float32, and the run takes it for (1,) float32") == NULL) {
            fail_msg("%s", ps_last_error());
        }
    }
    sum.inputs[1].type.shape = PS_SHAPE(4);
    sum.inputs[0].type.shape = PS_SHAPE(1); /* of its own task */
    assert_int_equal(run_at(e, WORKER_0, &sum.run, 20000, NULL), PS_INVALID_ARGUMENT);
}

static ps_variable *strings(struct env *e, uint32_t task, const char *name, const char *const *values)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_STRING;
    spec.shape = PS_SHAPE(2);
    spec.device = DEVICES[task];
    assert_int_equal(ps_variable_get(e->s, &spec, &v), PS_OK);
    assert_int_equal(ps_variable_assign_strings(v, values, NULL, 2), PS_OK);
    return v;
}

/* Strings have their own size, whatever room there was for them: of the own task and of another one, to both. */
TEST(test_strings)
{
    static const char *const words[] = {"hello", ""}, *const none[] = {"", "?"};
    static const uint16_t from[] = {0, 1};
    struct env *e = env_new();
    struct psi_run_input in[] = {input_of(strings(e, WORKER_0, "own", words)), input_of(strings(e, PS, "away", words))};
    ps_variable *to[] = {strings(e, WORKER_1, "to1", none), strings(e, WORKER_0, "to0", none)};
    struct psi_run_row rows[2];
    struct psi_run_output out[3];
    struct psi_run_answer answer = {0};
    for (uint32_t i = 0; i < 2; i++) {
        rows[i] = (struct psi_run_row){
            .op = "identity", .name = "identity", .device = "", .inputs = &from[i], .input_count = 1, .output_count = 1};
        out[i] = (struct psi_run_output){.to = PSI_RUN_TO_ASSIGN, .value = 2 + i, .variable = place_of(to[i])};
    }
    out[2] = (struct psi_run_output){.to = PSI_RUN_TO_ANSWER, .value = 3, .variable = {"", "", "", 0}};
    const struct psi_run run = {
        .container = "", .inputs = in, .input_count = 2, .rows = rows, .row_count = 2, .outputs = out, .output_count = 3};
    if (run_at(e, WORKER_0, &run, 20000, &answer) != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
    assert_true(answer.results[0].bytes == 3 * sizeof(int64_t) + 5);
    psi_run_answer_fini(&answer);
    for (int i = 0; i < 2; i++) {
        char text[16] = "";
        size_t offsets[3];
        assert_int_equal(ps_variable_read_strings(to[i], text, sizeof(text), offsets, 2, NULL), PS_OK);
        assert_true(offsets[1] == 5 && offsets[2] == 5);
        assert_string_equal(text, "hello");
    }
}

/* Values without elements are read, computed and delivered like others. */
TEST(test_no_elements)
{
    struct env *e = env_new();
    ps_variable *a = vector(e, WORKER_0, "a", 0, 1, NULL), *b = vector(e, WORKER_1, "b", 0, 2, NULL);
    struct sum sum;
    struct psi_run_answer answer = {0};
    sum_of(&sum, a, b);
    add_output(&sum, PSI_RUN_TO_ANSWER, NULL);
    add_output(&sum, PSI_RUN_TO_ASSIGN, b);
    add_output(&sum, PSI_RUN_TO_ADD, a);
    if (run_at(e, WORKER_0, &sum.run, 20000, &answer) != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
    assert_true(answer.result_count == 1 && answer.results[0].bytes == 0);
    psi_run_answer_fini(&answer);
}

/* ---- plans ---- */

static void plan_is(ps_plan *p)
{
    if (ps_plan_status(p) != PS_OK) {
        fail_msg("%s", ps_plan_error(p));
    }
}

/* Each of two tasks needs the other's value, in the same run of the plan; large ones travel as variables of the session. */
TEST(test_a_plan_goes_to_and_fro)
{
    enum { LARGE = 50000, RUNS = 10 };
    struct env *e = env_new();
    ps_plan *p = ps_plan_new(e->s);
    ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1)), at[2] = {x, x};
    for (int level = 0; level < 3; level++) {
        ps_value next[2];
        for (int k = 0; k < 2; k++) {
            assert_int_equal(ps_device_push(e->s, DEVICES[WORKER_0 + k]), PS_OK);
            next[k] = ps_plan_add(p, at[k], at[1 - k]);
            assert_int_equal(ps_device_pop(e->s), PS_OK);
        }
        at[0] = next[0];
        at[1] = next[1];
    }
    plan_is(p);
    float *values = test_alloc(LARGE * sizeof(float));
    const int64_t sizes[] = {4, LARGE};
    for (int run = 0; run < RUNS; run++) {
        const int64_t count = sizes[run % 2];
        for (int64_t i = 0; i < count; i++) {
            values[i] = (float)(run + 1);
        }
        const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(count), values, (size_t)count * sizeof(float));
        ps_fetched outs[2];
        memset(outs, 0, sizeof(outs));
        if (ps_plan_run(p, &feed, 1, at, 2, outs, NULL) != PS_OK) {
            fail_msg("run %d: %s", run, ps_last_error());
        }
        for (int k = 0; k < 2; k++) {
            assert_true(outs[k].bytes == (size_t)count * sizeof(float));
            assert_true(((const float *)outs[k].data)[count - 1] == 8.0f * (float)(run + 1));
        }
    }
    ps_plan_free(p);
}

/* Bytes that worker 0 has received and sent. */
/* The loss and its gradient differ in size and in dtype. */
TEST(test_outputs_of_two_sizes)
{
    struct env *e = env_new();
    ps_plan *p = ps_plan_new(e->s);
    const float logits[2][3] = {{0, 0, 0}, {5, 5, 5}};
    const int32_t labels[2] = {2, 0};
    ps_value fetches[2];
    ps_fetched outs[2] = {{0}, {0}};
    assert_int_equal(ps_device_push(e->s, DEVICES[WORKER_0]), PS_OK);
    ps_plan_softmax_xent(p, ps_plan_const(p, PS_F32, PS_SHAPE(2, 3), logits, sizeof(logits)),
                         ps_plan_const(p, PS_I32, PS_SHAPE(2), labels, sizeof(labels)), 2, fetches);
    assert_int_equal(ps_device_pop(e->s), PS_OK);
    plan_is(p);
    if (ps_plan_run(p, NULL, 0, fetches, 2, outs, NULL) != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
    assert_true(outs[0].dtype == PS_F64 && outs[0].bytes == sizeof(double));
    assert_true(outs[1].dtype == PS_F32 && outs[1].bytes == sizeof(logits));
    assert_float_equal((float)*(const double *)outs[0].data, 1.0986F, 0.001F); /* ln 3 */
    assert_float_equal(((const float *)outs[1].data)[0], 1.0F / 6, 0.001F);
    assert_float_equal(((const float *)outs[1].data)[2], -1.0F / 3, 0.001F);
    ps_plan_free(p);
}

static uint64_t bytes_of(struct env *e)
{
    ps_task_info infos[TASKS];
    assert_int_equal(ps_cluster_tasks(e->s), TASKS);
    assert_int_equal(ps_cluster_info(e->s, infos, sizeof(infos[0]), TASKS, 20000), PS_OK);
    for (int i = 0; i < TASKS; i++) {
        if (strcmp(infos[i].job, "worker") == 0 && infos[i].task == 0) {
            return infos[i].bytes_in + infos[i].bytes_out;
        }
    }
    fail_msg("worker 0 is not among the tasks");
    return 0;
}

/* Bytes of RUNS runs of a plan of so many rows of 4 KiB on worker 0. */
static uint64_t bytes_of_rows(struct env *e, int rows)
{
    enum { COUNT = 1024, RUNS = 50 };
    static float values[COUNT], result[COUNT];
    ps_plan *p = ps_plan_new(e->s);
    ps_value x = ps_plan_placeholder(p, NULL, PS_F32, PS_SHAPE(COUNT)), y = x;
    assert_int_equal(ps_device_push(e->s, DEVICES[WORKER_0]), PS_OK);
    for (int i = 0; i < rows; i++) {
        y = ps_plan_add(p, y, y);
    }
    assert_int_equal(ps_device_pop(e->s), PS_OK);
    plan_is(p);
    const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(COUNT), values, sizeof(values));
    ps_fetched out;
    memset(&out, 0, sizeof(out));
    out.buffer = result;
    out.buffer_bytes = sizeof(result);
    assert_int_equal(ps_plan_run(p, &feed, 1, &y, 1, &out, NULL), PS_OK); /* it asks where the task is */
    const uint64_t before = bytes_of(e);
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(ps_plan_run(p, &feed, 1, &y, 1, &out, NULL), PS_OK);
    }
    const uint64_t after = bytes_of(e);
    ps_plan_free(p);
    return (after - before) / RUNS;
}

/* Three rows on one task: 4 KiB go there and come back, as of one row. What the first two make is on no wire. */
TEST(test_no_intermediate_value_travels)
{
    struct env *e = env_new();
    const uint64_t one = bytes_of_rows(e, 1), three = bytes_of_rows(e, 3);
    print_message("bytes of a run: %llu of one row, %llu of three\n", (unsigned long long)one, (unsigned long long)three);
    assert_true(one > 2 * 4096 && one < 2 * 4096 + 1024);
    assert_true(three < one + 512);
}
