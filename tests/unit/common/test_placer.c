/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/placement.c: device scopes. Each script is a list of steps; the expected devices follow TensorFlow 1.15
 * (python/framework/ops.py _apply_device_functions, python/training/device_setter.py); tests/parity compares with TensorFlow.
 */
#include "test.h"

#include "common/mem.h"
#include "common/placement.h"

enum { END, PUSH, HIDE, SETTER, POP, PLACE };
struct step {
    int what;
    const char *text;           /* PUSH: the device; PLACE: the type; SETTER: ps_device */
    const char *worker;         /* SETTER: worker_device; PLACE: the expected device */
    uint32_t number;            /* SETTER: ps_tasks; PLACE: bytes */
    bool greedy, pinned, whole; /* whole: merge_devices is false */
    const char *cluster;        /* SETTER: counted there */
};

static void run(const struct step *steps, size_t count)
{
    struct psi_err err;
    struct psi_placer p;
    psi_placer_init(&p);
    for (size_t i = 0; i < count && steps[i].what != END; i++) {
        const struct step *s = &steps[i];
        switch (s->what) {
        case PUSH:
            assert_ok(psi_placer_push(&p, s->text, &err), &err);
            break;
        case HIDE:
            assert_ok(psi_placer_push(&p, NULL, &err), &err);
            break;
        case SETTER: {
            struct psi_cluster c;
            psi_cluster_init(&c);
            if (s->cluster != NULL) {
                assert_ok(psi_cluster_parse(&c, s->cluster, &err), &err);
            }
            const struct psi_setter setter = {.ps_tasks = s->number,
                                              .cluster = s->cluster != NULL ? &c : NULL,
                                              .ps_device = s->text != NULL ? s->text : "/job:ps",
                                              .worker_device = s->worker != NULL ? s->worker : "/job:worker",
                                              .merge_devices = !s->whole,
                                              .strategy = s->greedy ? PSI_STRATEGY_GREEDY_BYTES : PSI_STRATEGY_ROUND_ROBIN};
            assert_ok(psi_placer_push_setter(&p, &setter, &err), &err);
            psi_cluster_fini(&c); /* nothing of it is kept */
            break;
        }
        case POP:
            assert_ok(psi_placer_pop(&p, &err), &err);
            break;
        default: {
            struct psi_request_place place;
            char text[PSI_DEVICE_BYTES];
            psi_placer_place(&p, s->text, s->number, &place);
            psi_device_format(&place.device, text, sizeof(text));
            if (strcmp(text, s->worker) != 0 || place.pinned != s->pinned) {
                fail_msg("step %zu: '%s'%s, expected '%s'", i, text, place.pinned ? " pinned" : "", s->worker);
            }
            assert_false(place.by_strategy && !place.device.has_task);
        }
        }
    }
    psi_placer_fini(&p);
}
#define RUN(...)                                                                                                                 \
    do {                                                                                                                         \
        static const struct step steps_[] = {__VA_ARGS__};                                                                       \
        run(steps_, ARRAY_COUNT(steps_));                                                                                        \
    } while (0)
#define V(device_)                                                                                                               \
    {                                                                                                                            \
        .what = PLACE, .worker = (device_)                                                                                       \
    } /* a variable */
#define PINNED(device_)                                                                                                          \
    {                                                                                                                            \
        .what = PLACE, .worker = (device_), .pinned = true                                                                       \
    } /* the same, pinned */
#define OP(type_, device_, pinned_)                                                                                              \
    {                                                                                                                            \
        .what = PLACE, .text = (type_), .worker = (device_), .pinned = (pinned_)                                                 \
    }
#define DEVICE(text_)                                                                                                            \
    {                                                                                                                            \
        .what = PUSH, .text = (text_)                                                                                            \
    }
#define PS(tasks_)                                                                                                               \
    {                                                                                                                            \
        .what = SETTER, .number = (tasks_)                                                                                       \
    }

TEST(test_plain_scopes)
{
    RUN(V(""));
    RUN(DEVICE(""), V(""), DEVICE("/"), V(""));
    RUN(DEVICE("/job:ps/task:1"), PINNED("/job:ps/task:1"), {.what = POP}, V(""));
    RUN(DEVICE("/job:ps"), DEVICE("/task:2"), PINNED("/job:ps/task:2"), DEVICE("/gpu:0"), PINNED("/job:ps/task:2/device:GPU:0"));
    RUN(DEVICE("/job:ps/task:1"), DEVICE("/job:worker"), PINNED("/job:worker/task:1"), {.what = POP}, PINNED("/job:ps/task:1"));
    RUN(DEVICE("/cpu:0"), V("/device:CPU:0"), OP("MatMul", "/device:CPU:0", false));
    RUN(DEVICE("/job:a"), {.what = HIDE}, V(""), DEVICE("/task:1"), PINNED("/task:1"), {.what = POP}, {.what = POP},
        PINNED("/job:a"));
    RUN(DEVICE("/replica:1"), V("/replica:1"));
}

TEST(test_round_robin)
{
    /* seed 003's five variables */
    RUN(PS(2), V("/job:ps/task:0"), V("/job:ps/task:1"), V("/job:ps/task:0"), V("/job:ps/task:1"), V("/job:ps/task:0"));
    /* other types go to the worker and take no turn; a setter's own constant is not its strategy */
    RUN(PS(2), V("/job:ps/task:0"), OP("MatMul", "/job:worker", true), OP("FIFOQueueV2", "/job:worker", true),
        OP("ConditionalAccumulator", "/job:worker", true), OP("VarHandleOp", "/job:ps/task:1", false),
        OP("ResourceConditionalAccumulator", "/job:ps/task:0", false), OP("variable", "/job:worker", true));
    /* pins inside: the turn is taken all the same */
    RUN(PS(3), V("/job:ps/task:0"), DEVICE("/job:ps/task:1"), PINNED("/job:ps/task:1"), {.what = POP}, V("/job:ps/task:2"),
        V("/job:ps/task:0"));
    RUN(PS(3), DEVICE("/task:2"), PINNED("/job:ps/task:2"), {.what = POP}, V("/job:ps/task:1"));
    /* the job alone, and a device alone, leave the task to the strategy */
    RUN(PS(3), DEVICE("/job:ps"), V("/job:ps/task:0"), {.what = POP}, DEVICE("/cpu:0"), V("/job:ps/task:1/device:CPU:0"),
        {.what = POP}, V("/job:ps/task:2"));
    /* another job: the strategy does not run */
    RUN(PS(3), DEVICE("/job:worker/task:4"), PINNED("/job:worker/task:4"), {.what = POP}, V("/job:ps/task:0"));
    RUN(PS(3), DEVICE("/job:local"), PINNED("/job:local"), {.what = POP}, V("/job:ps/task:0"));
    /* a scope outside: the setter's fields win, the outer one fills what is open */
    RUN(DEVICE("/job:local/task:7/device:GPU:1"), PS(2), V("/job:ps/task:0/device:GPU:1"),
        OP("MatMul", "/job:worker/task:7/device:GPU:1", true));
    /* hidden */
    RUN(PS(2), V("/job:ps/task:0"), {.what = HIDE}, V(""), OP("MatMul", "", false), {.what = POP}, V("/job:ps/task:1"));
    /* a counter lives until the pop */
    RUN(PS(2), V("/job:ps/task:0"), {.what = POP}, PS(2), V("/job:ps/task:0"));
    /* two setters: each that is reached takes a turn, the inner one's result stays */
    RUN(PS(3), V("/job:ps/task:0"), PS(2), V("/job:ps/task:0"), V("/job:ps/task:1"), V("/job:ps/task:0"), {.what = POP},
        V("/job:ps/task:1"));
}

TEST(test_setter_arguments)
{
    /* without tasks: nothing */
    RUN(DEVICE("/job:local"), PS(0), PINNED("/job:local"), OP("MatMul", "/job:local", true), {.what = POP}, PINNED("/job:local"));
    RUN({.what = SETTER, .cluster = "worker=h:1"}, V(""), OP("MatMul", "", false));
    /* the cluster counts, not ps_tasks */
    RUN({.what = SETTER, .number = 7, .cluster = "ps=h:1,h:2;worker=h:3"}, V("/job:ps/task:0"), V("/job:ps/task:1"),
        V("/job:ps/task:0"));
    RUN({.what = SETTER, .text = "/job:param", .cluster = "ps=h:1;param=h:2,h:3"}, V("/job:param/task:0"), V("/job:param/task:1"),
        V("/job:param/task:0"));
    RUN({.what = SETTER, .text = "/device:CPU:0", .cluster = "ps=h:1"}, V("")); /* names no job */
    RUN({.what = SETTER, .number = 2, .text = "/job:p/task:9/cpu:0", .worker = "/job:w/task:1/gpu:0"},
        V("/job:p/task:0/device:CPU:0"), OP("Add", "/job:w/task:1/device:GPU:0", true), V("/job:p/task:1/device:CPU:0"));
    /* a ps_device without job: no strategy */
    RUN({.what = SETTER, .number = 2, .text = "/cpu:0"}, V("/device:CPU:0"), V("/device:CPU:0"));
    RUN({.what = SETTER, .number = 2, .text = ""}, PINNED("/job:worker"));
    RUN({.what = SETTER, .number = 2, .text = "/"}, V(""));
    RUN({.what = SETTER, .number = 2, .worker = ""}, OP("MatMul", "", false), V("/job:ps/task:0"));
    RUN({.what = SETTER, .number = 1}, V("/job:ps/task:0"), V("/job:ps/task:0"));
    /* merge_devices=False: an explicit device wins whole, and takes no turn */
    RUN({.what = SETTER, .number = 2, .whole = true}, V("/job:ps/task:0"), DEVICE("/cpu:0"), V("/device:CPU:0"),
        DEVICE("/task:1"), PINNED("/task:1/device:CPU:0"), {.what = POP}, {.what = POP}, V("/job:ps/task:1"), DEVICE("/job:*"),
        V("/job:ps/task:0"), {.what = POP}, OP("MatMul", "/job:worker", true), DEVICE("/gpu:0"),
        OP("MatMul", "/device:GPU:0", false));
}

#define BYTES(bytes_, device_)                                                                                                   \
    {                                                                                                                            \
        .what = PLACE, .number = (bytes_), .worker = (device_)                                                                   \
    }
TEST(test_greedy)
{
    /* lowest index among equals; then the emptiest */
    RUN({.what = SETTER, .number = 3, .greedy = true}, BYTES(100, "/job:ps/task:0"), BYTES(10, "/job:ps/task:1"),
        BYTES(10, "/job:ps/task:2"), BYTES(50, "/job:ps/task:1"), BYTES(45, "/job:ps/task:2"), BYTES(1, "/job:ps/task:2"),
        BYTES(10, "/job:ps/task:2"), BYTES(100, "/job:ps/task:1"), BYTES(1, "/job:ps/task:2"));
    RUN({.what = SETTER, .number = 2, .greedy = true}, BYTES(0, "/job:ps/task:0"), BYTES(0, "/job:ps/task:0"));
    /* a pin adds to the load of the task that the strategy chose, as in TensorFlow */
    RUN({.what = SETTER, .number = 2, .greedy = true}, DEVICE("/task:1"),
        {.what = PLACE, .number = 100, .worker = "/job:ps/task:1", .pinned = true}, {.what = POP}, BYTES(1, "/job:ps/task:1"));
    struct psi_err err;
    struct psi_placer p;
    struct psi_request_place place;
    psi_placer_init(&p);
    assert_ok(psi_placer_push_setter(
                  &p, &(struct psi_setter){.ps_tasks = 2, .ps_device = "/job:ps", .strategy = PSI_STRATEGY_GREEDY_BYTES}, &err),
              &err);
    for (uint32_t i = 0; i < 4; i++) { /* loads end at their limit, they do not wrap */
        psi_placer_place(&p, NULL, UINT64_MAX - 1, &place);
        assert_int_equal(place.device.task, i < 2 ? i : i == 2 ? 0 : 1);
    }
    psi_placer_place(&p, NULL, 1, &place);
    assert_int_equal(place.device.task, 0);
    psi_placer_fini(&p);
}

TEST(test_errors)
{
    struct psi_err err;
    struct psi_placer p;
    struct psi_request_place place;
    psi_placer_init(&p);
    assert_fails(psi_placer_pop(&p, &err), PS_FAILED_PRECONDITION, &err, "no device scope is open");
    assert_fails(psi_placer_push(&p, "/bus:1", &err), PS_INVALID_ARGUMENT, &err, "part 'bus:1' is unknown");
    struct psi_setter setter = {.ps_tasks = 2, .ps_device = "/job:", .worker_device = "/job:worker"};
    assert_fails(psi_placer_push_setter(&p, &setter, &err), PS_INVALID_ARGUMENT, &err, "ps_device: device '/job:'");
    setter.ps_device = "/job:ps";
    setter.worker_device = "/x:1";
    assert_fails(psi_placer_push_setter(&p, &setter, &err), PS_INVALID_ARGUMENT, &err, "worker_device: device '/x:1'");
    setter.worker_device = NULL;
    setter.ps_tasks = PS_TASKS_MAX + 1;
    assert_fails(psi_placer_push_setter(&p, &setter, &err), PS_INVALID_ARGUMENT, &err, "ps_tasks is 1025; a cluster has at most");
    assert_int_equal(p.depth, 0);
    setter.ps_tasks = PS_TASKS_MAX;
    assert_ok(psi_placer_push_setter(&p, &setter, &err), &err);
    for (uint32_t i = 0; i <= PS_TASKS_MAX; i++) {
        psi_placer_place(&p, NULL, 0, &place);
        assert_int_equal(place.device.task, i % PS_TASKS_MAX);
    }
    for (uint32_t i = 1; i < PSI_PLACER_DEPTH_MAX; i++) {
        assert_ok(psi_placer_push(&p, "/cpu:0", &err), &err);
    }
    assert_fails(psi_placer_push(&p, "/cpu:0", &err), PS_RESOURCE_EXHAUSTED, &err, "1024 device scopes");
    assert_fails(psi_placer_push_setter(&p, &setter, &err), PS_RESOURCE_EXHAUSTED, &err, "1024 device scopes");
    psi_placer_fini(&p);
}

TEST(test_no_memory)
{
    struct psi_err err;
    struct psi_placer p;
    const struct psi_setter setter = {.ps_tasks = 3, .ps_device = "/job:ps", .merge_devices = true};
    psi_placer_init(&p);
    for (int64_t n = 0; n < 3; n++) {
        psi_mem_fail_after(n);
        ps_status st = psi_placer_push_setter(&p, &setter, &err);
        psi_mem_fail_after(-1);
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        assert_int_equal(p.depth, 0);
    }
    psi_mem_fail_after(0);
    ps_status st = psi_placer_push(&p, "/job:ps", &err);
    psi_mem_fail_after(-1);
    assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    assert_ok(psi_placer_push_setter(&p, &setter, &err), &err);
    psi_placer_fini(&p);
}
