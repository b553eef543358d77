/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/define.c, and what of it goes on the wire: full name, container, task and pin of CREATE; FIND, DELETE and RESET. */
#include "fake_test.h"

#include "common/mem.h"

#define SPEC "ps=a:1,b:2;worker=c:3,d:4"

static struct psi_var *define(struct fake *f, const char *name, const struct psi_var_scope *scope)
{
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = name, .dtype = PS_F32};
    spec.shape.rank = 1;
    spec.shape.dims[0] = 4;
    struct psi_var *var = NULL;
    struct psi_err err = {0};
    if (psi_client_variable_in(f->c, &spec, scope, false, &var, &err) != PS_OK) {
        fail_msg("%s", err.text);
    }
    return var;
}

static bool text_is(const uint8_t *bytes, size_t size, const char *text)
{
    return size == strlen(text) && memcmp(bytes, text, size) == 0;
}
#define BYTES_ARE(field_, text_) assert_true(text_is((field_).bytes, (field_).size, (text_)))

static void never(struct psi_request *req)
{
    fail_msg("%s has ended", req->err != NULL ? req->err->text : "a request");
}

/* Refused by the core itself. */
static void refused(struct fake *f, enum psi_request_kind kind, struct psi_var *var, const void *src)
{
    struct psi_err err = {0};
    struct psi_request req = {.kind = kind, .var = var, .src = src, .deadline_ms = f->now + 1000, .done = never};
    assert_int_equal(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT);
}

static uint64_t item_id; /* of the frame that create_item() took */

/* The one item of the CREATE that is next. */
static ps_v1_CreateItem create_item(struct fake *f)
{
    struct fake_frame *frame = fake_take(f, 0, PS_OP_CREATE);
    item_id = frame->h.id;
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    ps_v1_CreateItem item;
    bool end = false;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_CreateItem_msg, &item, &end, NULL), PS_OK);
    assert_false(end);
    return item;
}

struct row {
    const char *device; /* as the scopes say */
    bool by_strategy, setter;
    const char *job; /* that CREATE asks for */
    uint32_t task;
    bool pinned;
};

/* One get after the other in one session: pins to the directory's job take its turn, others and a setter's do not. */
TEST(test_tasks)
{
    static const struct row rows[] = {
        {"", false, false, "ps", 0, false},
        {"", false, false, "ps", 1, false},
        {"/job:ps/task:1", true, true, "ps", 1, false}, /* a setter's strategy */
        {"", false, false, "ps", 0, false},
        {"/job:worker/task:1", true, true, "worker", 1, true}, /* a setter over another job: nothing else may go there */
        {"/job:ps/task:0", false, true, "ps", 0, true},        /* a pin inside a setter */
        {"/job:ps/task:1", false, false, "ps", 1, true},       /* takes the turn of task 1 */
        {"", false, false, "ps", 0, false},
        {"/job:ps", false, false, "ps", 0, true}, /* a missing task is 0; takes a turn */
        {"/job:worker", false, false, "worker", 0, true},
        {"/job:worker/task:1/device:CPU:0", false, false, "worker", 1, true},
        {"/task:1", false, false, "ps", 1, true}, /* a missing job is the directory's */
        {"/device:CPU:0", false, false, "ps", 1, false},
        {"/device:CPU:*", false, false, "ps", 0, false},
    };
    const struct fake_answer no = {.status = PS_PERMISSION_DENIED, .text = "not yours"};
    static struct fake_request get[sizeof(rows) / sizeof(rows[0])];
    struct fake *f = fake_new(SPEC, "", 0, false);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct psi_request_place place = {.by_strategy = rows[i].by_strategy, .setter = rows[i].setter};
        struct psi_var_scope scope = {.place = &place};
        char name[16];
        snprintf(name, sizeof(name), "v%zu", i);
        assert_int_equal(psi_device_parse(rows[i].device, &place.device, NULL), PS_OK);
        fake_start(f, &get[i], PSI_REQ_GET, define(f, name, &scope), NULL, NULL, 1000);
        if (i == 0) {
            fake_hello(f, 0, 100, 200, NULL, NULL);
        }
        ps_v1_CreateItem item = create_item(f);
        BYTES_ARE(item.name, name);
        BYTES_ARE(item.job, rows[i].job);
        assert_int_equal(item.task, rows[i].task);
        assert_int_equal(item.pinned, rows[i].pinned);
        fake_reply(f, 0, PS_OP_CREATE, item_id, false, &no);
        assert_int_equal(get[i].req.status, PS_PERMISSION_DENIED);
    }
}

/* The key of the one item of the list that is next at task 0, which must be a NameItem. */
static ps_v1_NameItem name_item(struct fake *f, uint8_t op)
{
    struct fake_frame *frame = fake_take(f, 0, op);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    ps_v1_NameItem item;
    bool end = false;
    item_id = frame->h.id;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_NameItem_msg, &item, &end, NULL), PS_OK);
    assert_false(end);
    return item;
}

/* A record that was made with a key says it in FIND and OPEN, whatever keys the session has: its own container's, too. */
TEST(test_a_record_has_its_own_key)
{
    static struct fake_request get;
    static const uint8_t key[PSI_KEY_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    struct fake *f = fake_new(SPEC, "", 0, false);
    char own[PSI_SESSION_CONTAINER_BYTES];
    uint8_t own_key[PSI_KEY_BYTES];
    struct psi_var *var = NULL;
    struct psi_err err = {0};
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "w"};
    psi_client_own_container(f->c, own, own_key);
    const struct psi_var_scope scope = {.container = own, .name = "w", .must_exist = true, .key = key};
    assert_ok(psi_client_variable_in(f->c, &spec, &scope, true, &var, &err), &err);
    fake_start(f, &get, PSI_REQ_LOOKUP, var, NULL, NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    ps_v1_NameItem item = name_item(f, PS_OP_FIND);
    assert_int_equal(item.key.size, PSI_KEY_BYTES);
    assert_memory_equal(item.key.bytes, key, PSI_KEY_BYTES);
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    ps_v1_CreateAnswer a = ps_v1_CreateAnswer_init_zero;
    a.index = 1;
    PSI_BYTES_SET(a.job, "ps");
    assert_ok(psi_list_append(&body, &ps_v1_CreateAnswer_msg, &a, &err), &err);
    const struct fake_answer answer = {.body = &body};
    fake_reply(f, 0, PS_OP_FIND, item_id, false, &answer);
    psi_buf_fini(&body);
    item = name_item(f, PS_OP_OPEN);
    assert_int_equal(item.key.size, PSI_KEY_BYTES);
    assert_memory_equal(item.key.bytes, key, PSI_KEY_BYTES);
}

/* HELLO says the session's own container. Who names a container of a session has its key with it, if the session has that, or its
 * program gives it. */
TEST(test_keys_of_session_containers)
{
    char own[PSI_SESSION_CONTAINER_BYTES];
    uint8_t own_key[PSI_KEY_BYTES], other_key[PSI_KEY_BYTES];
    static const char other[] = "session/0123456789abcdef";
    struct fake *f = fake_new(SPEC, "", 0, false);
    const struct fake_answer no = {.status = PS_PERMISSION_DENIED, .text = "not yours"};
    static struct fake_request get[3];
    psi_client_own_container(f->c, own, own_key);
    memset(other_key, 0x5a, sizeof(other_key));
    assert_int_equal(strlen(own), 24);
    assert_true(psi_container_is_session(own));
    const struct {
        const char *container;
        const uint8_t *given, *key;
    } rows[] = {{own, NULL, own_key}, {other, NULL, NULL}, {other, other_key, other_key}};
    for (size_t i = 0; i < 3; i++) {
        char name[4] = {'v', (char)('0' + i), 0};
        struct psi_var_scope scope = {.container = rows[i].container, .key = rows[i].given};
        fake_start(f, &get[i], PSI_REQ_GET, define(f, name, &scope), NULL, NULL, 1000);
        if (i == 0) {
            ps_v1_Hello hello;
            fake_hello(f, 0, 100, 200, NULL, &hello);
            BYTES_ARE(hello.session_container, own);
            assert_int_equal(hello.key.size, PSI_KEY_BYTES);
            assert_memory_equal(hello.key.bytes, own_key, PSI_KEY_BYTES);
        }
        ps_v1_CreateItem item = create_item(f);
        BYTES_ARE(item.container, rows[i].container);
        assert_int_equal(item.key.size, rows[i].key != NULL ? PSI_KEY_BYTES : 0);
        assert_memory_equal(item.key.bytes, rows[i].key != NULL ? rows[i].key : own_key, item.key.size);
        fake_reply(f, 0, PS_OP_CREATE, item_id, false, &no);
    }
}

/* A task that has forgotten the session is shown the key again before anything else; what is in other containers is not opened.
 */
TEST(test_a_new_record_is_shown_the_key)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    const float grad[4] = {1, 2, 3, 4};
    struct psi_var *w = fake_get(f, 0, "w", 4, 9, 1);
    PSI_IGNORE(fake_get(f, 0, "x", 4, 10, 2)); /* it is f's */
    uint8_t own_key[PSI_KEY_BYTES];
    psi_client_own_container(f->c, w->container, own_key);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_null(fake_next(f, 0)); /* it knows the session */
    fake_cut(f, 0);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 60000);
    fake_hello(f, 0, 100, 201, NULL, NULL);
    assert_int_equal(f->task[0].count, 1);
    ps_v1_NameItem item = name_item(f, PS_OP_OPEN);
    BYTES_ARE(item.container, w->container);
    assert_memory_equal(item.key.bytes, own_key, PSI_KEY_BYTES);
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    a.index = 1;
    a.handle = 9;
    a.incarnation = w->incarnation;
    a.creation = 1;
    a.dtype = PS_F32;
    a.dims_count = 1;
    a.dims[0] = 4;
    a.has_optimizer = true;
    psi_optimizer_to_msg(&w->optimizer, &a.optimizer);
    fake_reply_item(f, 0, PS_OP_OPEN, item_id, &ps_v1_OpenAnswer_msg, &a);
    assert_int_equal(fake_take(f, 0, PS_OP_PUSH)->h.handle, 9);
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &(struct fake_answer){0});
    assert_int_equal(push->req.status, PS_OK);
}

/* An older directory is asked for nothing in a container of a session: it would make it for everybody. */
TEST(test_a_directory_without_containers_of_sessions)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    char own[PSI_SESSION_CONTAINER_BYTES];
    uint8_t own_key[PSI_KEY_BYTES];
    static struct fake_request gets[2];
    psi_client_own_container(f->c, own, own_key);
    f->told_lacks = PS_FEATURE_SESSION_CONTAINERS;
    for (int i = 0; i < 2; i++) { /* before it has said what it speaks, and after */
        const struct psi_var_scope scope = {.container = own};
        fake_start(f, &gets[i], PSI_REQ_GET, define(f, i == 0 ? "v" : "w", &scope), NULL, NULL, 1000);
        if (i == 0) {
            fake_hello(f, 0, 100, 200, NULL, NULL);
        }
        assert_int_equal(gets[i].dones, 1);
        assert_int_equal(gets[i].req.status, PS_UNIMPLEMENTED);
        assert_int_equal(gets[i].err.reason, PS_REASON_FEATURE);
        assert_non_null(strstr(gets[i].err.text, "upgrade the ps tasks"));
        assert_null(fake_next(f, 0));
    }
    PSI_IGNORE(fake_get(f, 0, "x", 4, 9, 1)); /* in other containers everything goes on; it is f's */
}

TEST(test_no_such_place)
{
    static const struct {
        const char *device, *text;
    } rows[] = {
        {"/job:wrker", "/job:wrker/task:0 does not exist: the cluster has ps (tasks 0 to 1), worker (tasks 0 to 1)"},
        {"/job:worker/task:2", "worker (tasks 0 to 1)"},
        {"/job:ps/task:2", "0 to 1"},
        {"/job:worker/replica:1/task:0", "/replica:1"},
        {"/job:ps/device:GPU:0", "/job:ps/task:0 has no GPU:0"},
        {"/job:worker/task:1/device:CPU:1", "/job:worker/task:1 has no CPU:1"},
        {"/device:GPU:*", "/job:ps/task:0 has no GPU:*"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct psi_request_place place = {.by_strategy = false};
        struct psi_var_scope scope = {.place = &place};
        struct fake *f = fake_new(SPEC, "", 0, false);
        assert_int_equal(psi_device_parse(rows[i].device, &place.device, NULL), PS_OK);
        struct psi_var *var = define(f, "v", &scope);
        struct fake_request *bad = fake_begin(f, PSI_REQ_GET, var, NULL, NULL, 1000);
        assert_int_equal(bad->req.status, PS_INVALID_ARGUMENT);
        if (strstr(bad->err.text, rows[i].text) == NULL || strstr(bad->err.text, "'v'") == NULL) {
            fail_msg("%s", bad->err.text);
        }
        assert_int_equal(bad->err.reason == PS_REASON_NO_DEVICE, strstr(rows[i].device, "device:") != NULL);
        fake_begin(f, PSI_REQ_GET, define(f, "w", &(struct psi_var_scope){0}), NULL, NULL, 1000);
        fake_hello(f, 0, 100, 200, NULL, NULL);
        ps_v1_CreateItem item = create_item(f);
        BYTES_ARE(item.job, "ps");
        assert_int_equal(item.task, 0); /* the refused one took no turn */
    }
}

TEST(test_soft_placement)
{
    struct psi_request_place place = {.by_strategy = false};
    struct psi_var_scope scope = {.place = &place, .soft_placement = true};
    struct fake *f = fake_new(SPEC, "", 0, false);
    assert_int_equal(psi_device_parse("/job:worker/task:1/device:GPU:3", &place.device, NULL), PS_OK);
    fake_begin(f, PSI_REQ_GET, define(f, "v", &scope), NULL, NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    ps_v1_CreateItem item = create_item(f);
    BYTES_ARE(item.job, "worker");
    assert_int_equal(item.task, 1);
}

/* The same name in two containers: two variables of one session, each with its own owner and definition. */
TEST(test_containers)
{
    static const char *const containers[] = {"localhost", "other"};
    static struct fake_request get[2];
    struct psi_var *var[2];
    struct fake *f = fake_new(SPEC, "", 0, false);
    for (uint32_t i = 0; i < 2; i++) {
        struct psi_var_scope scope = {.container = i == 0 ? NULL : containers[i], .name = "scope/x"};
        var[i] = define(f, "x", &scope);
        fake_start(f, &get[i], PSI_REQ_GET, var[i], NULL, NULL, 60000);
    }
    fake_hello(f, 0, 100, 200, NULL, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        struct fake_frame *frame = fake_take(f, 0, PS_OP_CREATE);
        const uint8_t *p = frame->payload;
        size_t n = frame->bytes;
        uint64_t id = frame->h.id;
        ps_v1_CreateItem item;
        bool end = false;
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_CreateItem_msg, &item, &end, NULL), PS_OK);
        BYTES_ARE(item.container, containers[i]);
        BYTES_ARE(item.name, "scope/x");
        ps_v1_CreateAnswer a = {.index = 1, .task = 0};
        PSI_BYTES_SET(a.job, "ps");
        fake_reply_item(f, 0, PS_OP_CREATE, id, &ps_v1_CreateAnswer_msg, &a);
    }
    uint32_t opened = 0;
    while (opened < 2) { /* OPEN names the container too */
        struct fake_frame *frame = fake_take(f, 0, PS_OP_OPEN);
        const uint8_t *p = frame->payload;
        size_t n = frame->bytes;
        ps_v1_NameItem item;
        bool end = false;
        while (psi_list_next(&p, &n, &ps_v1_NameItem_msg, &item, &end, NULL) == PS_OK && !end) {
            BYTES_ARE(item.container, containers[opened++]);
        }
    }
}

/* Reuse only: FIND instead of CREATE, but the definition is compared, and the session's initializer stays its own. */
TEST(test_must_exist)
{
    static struct fake_request get, other, none;
    struct psi_var_scope scope = {.must_exist = true};
    struct fake *f = fake_new(SPEC, "", 0, false);
    static struct fake_request *const requests[] = {&get, &other, &none};
    for (int i = 0; i < 3; i++) {
        struct psi_var *w = define(f, "w", &scope);
        fake_start(f, requests[i], PSI_REQ_LOOKUP, w, NULL, NULL, 60000);
        if (i == 0) {
            fake_hello(f, 0, 100, 200, NULL, NULL);
        }
        ps_v1_CreateAnswer a = {.index = 1, .task = 0, .status = i == 2 ? PS_NOT_FOUND : PS_OK};
        PSI_BYTES_SET(a.job, "ps");
        fake_reply_item(f, 0, PS_OP_FIND, fake_take(f, 0, PS_OP_FIND)->h.id, &ps_v1_CreateAnswer_msg, &a);
        if (i < 2) {
            struct psi_var as = *w;
            as.shape.dims[0] = i == 0 ? 4 : 5;
            fake_open(f, 0, 4, 77, 5, &as);
        }
    }
    assert_int_equal(get.req.status, PS_OK);
    assert_int_equal(other.req.status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(other.err.text, "SHAPE_MISMATCH"));
    assert_non_null(strstr(other.err.text, "; another --container"));
    assert_int_equal(none.req.status, PS_NOT_FOUND);
    refused(f, PSI_REQ_GET, none.req.var, NULL); /* it is never created */
}

TEST(test_reset_and_delete)
{
    const struct psi_var_name name = {.container = "c/2", .name = "a/x"};
    const struct psi_var_name wrong = {.container = "c 2", .name = "a/x"};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *reset = fake_begin(f, PSI_REQ_RESET, NULL, "c/2", NULL, 60000);
    struct fake_request *drop = fake_begin(f, PSI_REQ_DELETE, NULL, &name, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_RESET);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    uint64_t id = frame->h.id;
    bool end = false;
    ps_v1_ContainerItem container;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_ContainerItem_msg, &container, &end, NULL), PS_OK);
    BYTES_ARE(container.container, "c/2");
    struct fake_answer no = {.status = PS_PERMISSION_DENIED, .text = "not yours"};
    fake_reply(f, 0, PS_OP_RESET, id, false, &no);
    assert_int_equal(reset->req.status, PS_PERMISSION_DENIED);
    assert_non_null(strstr(reset->err.text, "reset of 'c/2'"));
    frame = fake_take(f, 0, PS_OP_DELETE);
    p = frame->payload;
    n = frame->bytes;
    ps_v1_NameItem item;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_NameItem_msg, &item, &end, NULL), PS_OK);
    BYTES_ARE(item.container, "c/2");
    BYTES_ARE(item.name, "a/x");
    fake_reply(f, 0, PS_OP_DELETE, frame->h.id, false, &no);
    assert_non_null(strstr(drop->err.text, "delete of 'a/x'"));
    refused(f, PSI_REQ_RESET, NULL, "../c");
    refused(f, PSI_REQ_DELETE, NULL, &wrong);
    refused(f, PSI_REQ_DELETE, NULL, NULL);
    assert_null(fake_next(f, 0));
}

/* The directory refuses for as long as the caller waits: the error says who is missing, and which container it was about. */
TEST(test_reset_names_the_missing)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *reset = fake_begin(f, PSI_REQ_RESET, NULL, "c", NULL, 300);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_answer busy = {.status = PS_UNAVAILABLE, .text = "reset refused: /job:ps/task:1 (b:2) is not connected"};
    while (reset->dones == 0) {
        struct fake_frame *frame = fake_next(f, 0);
        if (frame != NULL) {
            fake_reply(f, 0, PS_OP_RESET, frame->h.id, false, &busy);
        }
        fake_wait(f, 25);
    }
    assert_int_equal(reset->req.status, PS_UNAVAILABLE);
    assert_int_equal(reset->req.applied, PS_NOTHING_APPLIED);
    assert_non_null(strstr(reset->err.text, "reset of 'c'"));
    assert_non_null(strstr(reset->err.text, "/job:ps/task:1 (b:2) is not connected"));
}
