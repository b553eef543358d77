/* SPDX-License-Identifier: Apache-2.0 */
/* A task with port 0 in the cluster: the client dials it where the directory says, and tells its process from others. */
#include "fake_test.h"

#include "worker/core/client.h"

#define SPEC "ps=a:1,b:0"
enum { DIRECTORY_LIFE = 100, LIFE = 101, VERSION = 5 };

/* The directory's answer to HELLO has this address of task 1; life 0: none. */
static void told(struct fake *f, const char *address, uint64_t life, uint64_t version)
{
    psi_cluster_fini(&f->told);
    assert_int_equal(psi_cluster_parse(&f->told, "ps=a:1,b:0", NULL), PS_OK);
    if (life != 0) {
        assert_int_equal(psi_cluster_set_address(&f->told, "ps", 1, address, NULL), PS_OK);
    }
    f->told_lives[1] = life;
    f->told_addresses = version;
}

/* A client of SPEC with a variable at task 1, which listens at b:7. */
static struct fake *begin(void)
{
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    told(f, "b:7", LIFE, VERSION);
    (void)fake_get(f, 1, "w", 4, 9, 1);
    assert_string_equal(f->task[1].address, "b:7");
    return f;
}

/* Take ADDRESSES and answer it; what it asked for. */
static uint64_t answer_addresses(struct fake *f, const char *address, uint64_t life, uint64_t version)
{
    struct fake_frame *ask = fake_take(f, 0, PS_OP_ADDRESSES);
    ps_v1_Addresses m = ps_v1_Addresses_init_zero;
    ps_v1_TaskItem item = {.task = 1, .life = life, .version = version};
    assert_int_equal(psi_msg_decode(&ps_v1_Addresses_msg, &m, ask->meta, ask->h.meta_bytes, NULL), PS_OK);
    PSI_BYTES_SET(item.job, "ps");
    PSI_BYTES_SET(item.address, address);
    fake_reply_item(f, 0, PS_OP_ADDRESSES, ask->h.id, &ps_v1_TaskItem_msg, &item);
    return m.since;
}

/* The directory's next BEAT is answered with this version. */
static void beaten(struct fake *f, uint64_t version)
{
    const ps_v1_BeatAnswer a = {.flags = PS_BEAT_DIRECTORY, .addresses = version};
    fake_reply_item(f, 0, PS_OP_BEAT, 1, &ps_v1_BeatAnswer_msg, &a);
}

static bool asks(struct fake *f)
{
    fake_run(f);
    struct fake_frame *frame = fake_next(f, 0);
    return frame != NULL && frame->h.op == PS_OP_ADDRESSES;
}

/* A dial that fails asks; the new address is dialled at once, and the process there has the life that was told. */
TEST(test_moves)
{
    struct fake *f = begin();
    fake_cut(f, 1);
    fake_wait(f, 200);
    fake_refuse(f, 1, "connection refused");
    assert_int_equal(answer_addresses(f, "b:9", LIFE + 1, VERSION + 1), VERSION);
    fake_wait(f, 25);
    assert_true(f->task[1].dialing);
    assert_string_equal(f->task[1].address, "b:9");
    fake_hello(f, 1, LIFE + 1, 201, NULL, NULL);
    assert_int_equal(fake_take(f, 1, PS_OP_OPEN)->h.op, PS_OP_OPEN);
    beaten(f, VERSION + 1);
    assert_false(asks(f)); /* it is known */
}

/* Another process answers at the old address: nothing but HELLO is sent to it. */
TEST(test_another_process)
{
    for (int how = 0; how < 2; how++) {
        struct fake *f = begin();
        fake_cut(f, 1);
        if (how == 0) {
            fake_hello(f, 1, 555, 0x777, NULL, NULL); /* the same task of another cluster */
        } else {
            fake_connect(f, 1);
            struct fake_frame *hello = fake_take(f, 1, PS_OP_HELLO);
            fake_reply(
                f, 1, PS_OP_HELLO, hello->h.id, false,
                &(struct fake_answer){.status = PS_FAILED_PRECONDITION, .reason = PS_REASON_OTHER_CLUSTER, .text = "other"});
        }
        fake_run(f);
        assert_null(f->task[1].link);
        assert_null(fake_next(f, 1));
        assert_int_equal(answer_addresses(f, "b:9", LIFE + 1, VERSION + 1), VERSION);
        fake_hello(f, 1, LIFE + 1, 201, NULL, NULL);
        assert_string_equal(f->task[1].address, "b:9");
    }
}

/* The directory says that another process is the task now: the connection to the earlier one is closed. */
TEST(test_displaced)
{
    struct fake *f = begin();
    beaten(f, VERSION + 3);
    assert_int_equal(answer_addresses(f, "b:9", LIFE + 1, VERSION + 3), VERSION);
    fake_run(f);
    assert_null(f->task[1].link);
    fake_hello(f, 1, LIFE + 1, 201, NULL, NULL);
    assert_string_equal(f->task[1].address, "b:9");
}

/* A directory that was started again counts anew, and does not know the task yet: the address stays. */
TEST(test_another_directory)
{
    struct fake *f = begin();
    fake_cut(f, 0);
    told(f, "b:0", 0, 1);
    fake_hello(f, 0, DIRECTORY_LIFE + 1, 301, NULL, NULL);
    fake_cut(f, 1);
    fake_wait(f, 200);
    assert_string_equal(f->task[1].address, "b:7");
    fake_refuse(f, 1, "connection refused");
    assert_int_equal(answer_addresses(f, "b:9", LIFE + 1, 2), 1);
    beaten(f, 2);
    assert_false(asks(f));
}

/* An answer in two frames of which one comes: what it had is known, and its versions are asked for again. */
TEST(test_part_of_an_answer)
{
    struct fake *f = begin();
    beaten(f, VERSION + 2);
    struct fake_frame *ask = fake_take(f, 0, PS_OP_ADDRESSES);
    ps_v1_TaskItem item = {.task = 1, .life = LIFE + 1, .version = VERSION + 2};
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    PSI_BYTES_SET(item.job, "ps");
    PSI_BYTES_SET(item.address, "b:8");
    assert_int_equal(psi_list_append(&body, &ps_v1_TaskItem_msg, &item, NULL), PS_OK);
    fake_reply(f, 0, PS_OP_ADDRESSES, ask->h.id, false, &(struct fake_answer){.body = &body, .flags = PS_FLAG_MORE});
    psi_buf_fini(&body);
    fake_cut(f, 0);
    told(f, "b:7", LIFE, 1); /* of a directory that counts anew */
    fake_hello(f, 0, DIRECTORY_LIFE + 1, 301, NULL, NULL);
    (void)answer_addresses(f, "b:9", LIFE + 2, 2); /* it was asked for before, and goes on */
    beaten(f, 3);
    assert_int_equal(answer_addresses(f, "b:10", LIFE + 3, 3), 2);
}

/* No address is known: nothing is dialled but the directory, and requests wait. */
TEST(test_not_listed)
{
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    told(f, "b:0", 0, 0);
    psi_peer_want(f->c->peers[1]);
    fake_hello(f, 0, DIRECTORY_LIFE, 200, NULL, NULL);
    fake_wait(f, 2000);
    assert_false(f->task[1].dialing);
    assert_int_equal(f->task[1].dials, 0);
    assert_true(answer_addresses(f, "b:9", LIFE, 1) == 0);
    fake_hello(f, 1, LIFE, 201, NULL, NULL);
    assert_string_equal(f->task[1].address, "b:9");
}

/* What is no address, or of no task, changes nothing. */
TEST(test_bad_items)
{
    struct fake *f = begin();
    static const char *const bad[] = {"b:0", "", "unix:", "b:70000", "a b:7"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        beaten(f, VERSION + 1 + i);
        (void)answer_addresses(f, bad[i], LIFE + 1, VERSION + 1 + i);
    }
    assert_string_equal(psi_client_task_address(f->c, 1), "b:7");
    assert_non_null(f->task[1].link);
}

/* The directory itself must have a port. */
TEST(test_directory)
{
    struct psi_cluster c;
    struct psi_client *client = NULL;
    struct psi_err err;
    static const uint8_t random[PSI_CLIENT_RANDOM_BYTES];
    psi_cluster_init(&c);
    assert_int_equal(psi_cluster_parse(&c, "ps=a:0,b:1", &err), PS_OK);
    const struct psi_client_config config = {.cluster = &c};
    assert_int_equal(psi_client_new(&config, random, 0, &client, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "/job:ps/task:0 at 'a:0' is the directory"));
    psi_cluster_fini(&c);
}
