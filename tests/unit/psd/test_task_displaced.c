/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that say that they are the same task: the later displaces the earlier, which is refused while its successor is
 * connected, says so now and then, and may come back when that one is gone, with what nobody has touched meanwhile.
 */
#include "cluster_test.h"

#include "psd/base/base.h"

static void named(struct psd_task_config *config)
{
    PSI_IGNORE(snprintf(config->host, sizeof(config->host), "left")); /* fits */
    config->pid = 11;
}

static void named_too(struct psd_task_config *config)
{
    PSI_IGNORE(snprintf(config->host, sizeof(config->host), "right")); /* fits */
    config->pid = 22;
}

struct twins {
    struct cl cl;
    struct shell_task *right; /* another ps:1; the first is cl.ps1 */
    struct shell_conn *left_conn, *right_conn;
};

static struct shell_task *start_twin(struct twins *w, shell_tweak tweak)
{
    ps_status st = PS_OK;
    struct shell_task *t = shell_task_new(&w->cl.net, SPEC, "ps", 1, w->cl.seed++, w->cl.net.tasks[0]->now, tweak, &st);
    assert_int_equal(st, PS_OK);
    return t;
}

static void end_task(struct shell_task **t)
{
    shell_task_free(*t);
    *t = NULL;
}

/* ps:1 is connected and has `x`; then another process comes as ps:1. */
static struct twins *twins_new(void)
{
    struct twins *w = test_alloc(sizeof(*w));
    ps_v1_CreateAnswer a;
    w->cl.seed = 1;
    shell_net_init(&w->cl.net);
    test_later(cl_end, &w->cl);
    w->cl.ps0 = cl_task(&w->cl, "ps", 0);
    w->cl.ps1 = start_twin(w, named);
    fc_init(&w->cl.c, w->cl.ps0, 1);
    fc_init(&w->cl.at1, w->cl.ps1, 1);
    assert_int_equal(fc_connect(&w->cl.c), PS_OK);
    assert_int_equal(fc_connect(&w->cl.at1), PS_OK);
    w->left_conn = cl_join(&w->cl, w->cl.ps1);
    assert_int_equal(cl_create(&w->cl, "x", "ps", 1, true, &a), PS_OK);
    w->right = start_twin(w, named_too);
    cl_await_dial(&w->cl, w->right);
    w->right_conn = shell_dial(w->right, w->cl.ps0);
    assert_true(shell_is_closed(w->left_conn));
    assert_false(shell_is_closed(w->right_conn));
    assert_true(shell_logged(w->cl.ps0, "task_displaced"));
    return w;
}

/* The left one tries again. */
static struct shell_conn *left_dials(struct twins *w)
{
    for (int i = 0; w->cl.ps1->dials == 0; i++) {
        assert_in_range(i, 0, 120);
        PSI_IGNORE(fc_call(&w->cl.c, PS_OP_BEAT, 0, 1, 0, NULL, 0, NULL)); /* a sign of life */
        shell_forget(w->cl.c.conn);
        shell_pass(&w->cl.net, 100);
    }
    return shell_dial(w->cl.ps1, w->cl.ps0);
}

static const char *conflict_of(const struct twins *w)
{
    struct psd_task *t = w->cl.ps0->core;
    return psd_peer_conflict(t, psd_peer_find(t, "ps", 1));
}

TEST(test_the_displaced_one_is_refused)
{
    struct twins *w = twins_new();
    assert_string_equal(conflict_of(w), ""); /* a restart looks like this */
    shell_log_clear(w->cl.ps1);
    assert_true(shell_is_closed(left_dials(w)));
    assert_false(shell_is_closed(w->right_conn)); /* it is not displaced in turn */
    assert_true(shell_logged(w->cl.ps1, "directory_refused"));
    assert_true(shell_logged(w->cl.ps1, "process 22 on right"));
    assert_true(shell_logged(w->cl.ps1, "stop one of the two"));
    assert_non_null(strstr(conflict_of(w), "process 11 on left"));
    struct psd_peer *p = psd_peer_find(w->cl.ps0->core, "ps", 1);
    assert_true(p->listed && p->pid == 22);
    assert_string_equal(p->host, "right");
    end_task(&w->cl.ps1); /* the other process was stopped: it is forgotten */
    shell_pass(&w->cl.net, 20000);
    assert_string_equal(conflict_of(w), "");
}

/* It tries ever more rarely, and says so once in 5 s. */
TEST(test_backs_off_and_logs_rarely)
{
    struct twins *w = twins_new();
    uint64_t begin = w->cl.ps1->now;
    uint64_t last = begin, longest = 0;
    uint32_t dials = 0, lines = 0;
    while (w->cl.ps1->now - begin < 60000) {
        shell_log_clear(w->cl.ps1);
        assert_true(shell_is_closed(left_dials(w)));
        lines += shell_logged(w->cl.ps1, "directory_refused");
        assert_false(shell_logged(w->cl.ps1, "directory_lost"));
        longest = w->cl.ps1->now - last > longest ? w->cl.ps1->now - last : longest;
        last = w->cl.ps1->now;
        dials++;
    }
    assert_in_range(dials, 10, 30);
    assert_in_range(longest, 4000, 6500);
    assert_in_range(lines, 6, 13);
    assert_false(shell_is_closed(w->right_conn));
}

/* Refused for another reason, which stays, it is as quiet. */
TEST(test_a_wrong_cluster_is_logged_rarely)
{
    struct shell_net net;
    ps_status st = PS_OK;
    shell_net_init(&net);
    struct shell_task *ps0 = shell_task_new(&net, SPEC, "ps", 0, 1, START_MS, NULL, &st);
    assert_int_equal(st, PS_OK);
    struct shell_task *ps1 = shell_task_new(&net, "ps=10.0.0.1:1,10.0.0.2:2,10.0.0.4:4", "ps", 1, 2, START_MS, NULL, &st);
    assert_int_equal(st, PS_OK);
    uint32_t dials = 0, lines = 0;
    while (ps1->now - START_MS < 60000) {
        shell_log_clear(ps1);
        while (ps1->dials == 0) {
            shell_pass(&net, 100);
        }
        assert_true(shell_is_closed(shell_dial(ps1, ps0)));
        lines += shell_logged(ps1, "directory_refused");
        assert_false(shell_logged(ps1, "directory_lost"));
        dials++;
    }
    assert_true(dials > 20);
    assert_in_range(lines, 6, 13);
    shell_net_fini(&net);
}

TEST(test_comes_back_when_the_other_is_gone)
{
    struct twins *w = twins_new();
    assert_true(shell_is_closed(left_dials(w)));
    end_task(&w->right);
    struct shell_conn *c = left_dials(w);
    assert_false(shell_is_closed(c));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_OK); /* nobody touched it */
    assert_string_equal(conflict_of(w), "");                 /* it is no other process now */
    assert_false(cl_creates(&w->cl, "x", "ps", 1, true));
}

/* The same where the directory has learned of the name from its list only. */
TEST(test_brings_back_what_it_listed)
{
    struct twins w = {.right = NULL};
    cl_start(&w.cl);
    PSI_IGNORE(cl_join(&w.cl, w.cl.ps1)); /* its end is of no use here */
    assert_int_equal(cl_create(&w.cl, "x", "ps", 1, true, NULL), PS_OK);
    cl_restart_directory(&w.cl);
    assert_false(shell_is_closed(left_dials(&w)));
    w.right = start_twin(&w, named_too);
    cl_await_dial(&w.cl, w.right);
    assert_false(shell_is_closed(shell_dial(w.right, w.cl.ps0)));
    shell_task_free(w.right);
    assert_false(shell_is_closed(left_dials(&w)));
    assert_int_equal(fc_open(&w.cl.at1, "x", NULL), PS_OK);
    cl_fini(&w.cl);
}

/* Its successor made the name anew: two copies of one name must not be taken for one. */
TEST(test_what_was_made_anew_is_dropped)
{
    struct twins *w = twins_new();
    assert_true(cl_creates(&w->cl, "x", "ps", 1, true)); /* at the right one, which came empty */
    end_task(&w->right);
    assert_false(shell_is_closed(left_dials(w)));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_NOT_FOUND);
    assert_true(cl_creates(&w->cl, "x", "ps", 1, true));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_OK);
}

/* A reset that only its successor has heard of holds for it as well. */
TEST(test_a_reset_meanwhile_reaches_it)
{
    struct twins *w = twins_new();
    /* the reset needs everybody of the directory's job: worker 0 was never there, ps:1 is the right one */
    assert_applied(fc_reset(&w->cl.c, w->cl.c.next_id++, "localhost"));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_OK); /* the left one has not heard of it */
    end_task(&w->right);
    assert_false(shell_is_closed(left_dials(w)));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_NOT_FOUND);
}

/* The directory that knew of the two is gone: the left one cannot know what happened meanwhile. */
TEST(test_a_new_directory_does_not_take_it_as_it_is)
{
    struct twins *w = twins_new();
    assert_true(shell_is_closed(left_dials(w)));
    end_task(&w->right);
    cl_restart_directory(&w->cl);
    assert_true(shell_is_closed(left_dials(w))); /* the other one could come first */
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_OK);
    assert_false(shell_is_closed(left_dials(w)));
    assert_true(shell_logged(w->cl.ps1, "fenced"));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_NOT_FOUND);
}

/* It is told that it was displaced, and taken again; the directory's answer to its list is lost, and the directory with it. */
TEST(test_it_remembers_until_its_list_is_answered)
{
    struct twins *w = twins_new();
    assert_int_equal(cl_create(&w->cl, "x", "ps", 1, true, NULL), PS_OK); /* at the right one */
    assert_true(shell_is_closed(left_dials(w)));
    end_task(&w->right);
    w->cl.ps0->lists_held = true;
    assert_false(shell_is_closed(left_dials(w)));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_OK);
    cl_restart_directory(&w->cl);
    assert_true(shell_is_closed(left_dials(w)));
    assert_false(shell_is_closed(left_dials(w)));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_NOT_FOUND);
}

/* At a new directory the displaced one lets the other one come first, with all that it has. */
TEST(test_the_other_one_comes_first)
{
    struct twins *w = twins_new();
    assert_int_equal(cl_create(&w->cl, "x", "ps", 1, true, NULL), PS_OK); /* at the right one */
    assert_true(shell_is_closed(left_dials(w)));
    cl_restart_directory(&w->cl);
    assert_true(shell_is_closed(left_dials(w)));
    cl_await_dial(&w->cl, w->right);
    assert_false(shell_is_closed(shell_dial(w->right, w->cl.ps0)));
    assert_true(shell_is_closed(left_dials(w)));
    assert_false(cl_creates(&w->cl, "x", "ps", 1, true));
}

/* A new directory, to which a new process comes first: what the old one has from the earlier directory's time is no longer true.
 */
TEST(test_it_comes_late_to_a_new_directory)
{
    for (int connected = 0; connected < 2; connected++) {
        struct twins w;
        memset(&w, 0, sizeof(w));
        cl_start(&w.cl);
        w.left_conn = cl_join(&w.cl, w.cl.ps1);
        assert_int_equal(cl_create(&w.cl, "x", "ps", 1, true, NULL), PS_OK);
        assert_int_equal(cl_create(&w.cl, "y", "ps", 1, true, NULL), PS_OK);
        cl_restart_directory(&w.cl);
        w.right = start_twin(&w, named_too);
        cl_await_dial(&w.cl, w.right);
        w.right_conn = shell_dial(w.right, w.cl.ps0);
        assert_applied(fc_reset(&w.cl.c, w.cl.c.next_id++, "localhost"));
        assert_true(cl_creates(&w.cl, "x", "ps", 1, true));
        if (connected == 1) { /* it is not displaced by one that is older */
            assert_true(shell_is_closed(left_dials(&w)));
            assert_false(shell_is_closed(w.right_conn));
        }
        end_task(&w.right);
        if (connected == 1) { /* it knows: drops all, and lets the other one come first, which is gone */
            PSI_IGNORE(left_dials(&w));
        }
        assert_false(shell_is_closed(left_dials(&w)));
        assert_int_equal(fc_open(&w.cl.at1, "x", NULL), PS_NOT_FOUND);
        assert_int_equal(fc_open(&w.cl.at1, "y", NULL), PS_NOT_FOUND);
        cl_fini(&w.cl);
    }
}

/* However many other lives its place has seen: what it missed it drops. */
TEST(test_after_many_other_lives)
{
    struct twins *w = twins_new();
    for (int i = 0; i < 40; i++) {
        shell_task_free(w->right);
        w->right = start_twin(w, named_too);
        cl_await_dial(&w->cl, w->right);
        assert_false(shell_is_closed(shell_dial(w->right, w->cl.ps0)));
    }
    assert_applied(fc_reset(&w->cl.c, w->cl.c.next_id++, "localhost"));
    assert_true(shell_is_closed(left_dials(w)));
    end_task(&w->right);
    assert_false(shell_is_closed(left_dials(w)));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_NOT_FOUND);
}

/* The same life on a new connection, and a third process, are no conflict. */
TEST(test_what_is_no_conflict)
{
    struct twins *w = twins_new();
    shell_cut(w->right_conn);
    cl_await_dial(&w->cl, w->right);
    struct shell_conn *c = shell_dial(w->right, w->cl.ps0);
    assert_false(shell_is_closed(c));
    struct shell_task *third = start_twin(w, NULL);
    cl_await_dial(&w->cl, third);
    assert_false(shell_is_closed(shell_dial(third, w->cl.ps0)));
    assert_true(shell_is_closed(c));
}

/* A life that was away while another one had its place has missed what happened: its return is a displaced one's. */
TEST(test_a_life_that_was_away)
{
    struct twins *w = twins_new();
    struct fc *at_right = fc_new(w->right, 1);
    assert_int_equal(cl_create(&w->cl, "y", "ps", 1, true, NULL), PS_OK); /* at the right one */
    assert_true(shell_is_closed(left_dials(w)));
    shell_cut(w->right_conn);
    assert_false(shell_is_closed(left_dials(w)));
    assert_applied(fc_reset(&w->cl.c, w->cl.c.next_id++, "localhost")); /* the right one does not hear of it */
    cl_await_dial(&w->cl, w->right);
    assert_true(shell_is_closed(shell_dial(w->right, w->cl.ps0)));
    end_task(&w->cl.ps1);
    for (int i = 0; w->right->dials == 0; i++) {
        assert_in_range(i, 0, 120);
        shell_pass(&w->cl.net, 100);
    }
    assert_false(shell_is_closed(shell_dial(w->right, w->cl.ps0)));
    assert_int_equal(fc_open(at_right, "y", NULL), PS_NOT_FOUND);
}

/* The request for `x` arrives at the task at that end of a connection, its answer does not. */
static void create_unanswered(struct cl *cl, struct shell_conn *end)
{
    ps_v1_CreateItem m;
    struct wire body;
    end->peer->frozen = true;
    wire_init(&body);
    fc_create_item(&m, "x", PS_F32, 100, ps_sgd(1));
    m.task = 1;
    wire_item(&body, &ps_v1_CreateItem_msg, &m);
    assert_int_equal(fc_call(&cl->c, PS_OP_CREATE, 0, 50, 0, NULL, 0, &body).status, FC_NONE);
    wire_fini(&body);
}

/* A client finds `x` there without asking anybody else, and gives it a value. */
static void use_x(struct fc *at)
{
    ps_v1_OpenAnswer v;
    assert_int_equal(fc_open(at, "x", &v), PS_OK);
    assert_applied(fc_init_var(at, v.handle, ps_constant(1), ps_sgd(1), 0, false));
}

/* A HELLO of a life that is dead already, read late, displaces the one that lives, between the request for a variable and its
 * answer. Its clients may have found the variable and trained it: it must still be there when that life is taken again. */
TEST(test_a_ghost_between_request_and_answer)
{
    for (int again = 0; again < 2; again++) {
        struct cl cl;
        ps_v1_OpenAnswer v;
        cl_start(&cl);
        struct shell_task *ghost = cl_task(&cl, "ps", 1);
        cl_await_dial(&cl, ghost);
        struct shell_conn *end = cl_join(&cl, cl.ps1);
        create_unanswered(&cl, end);
        use_x(&cl.at1);
        assert_non_null(shell_dial(ghost, cl.ps0));
        assert_true(shell_is_closed(end));
        assert_int_equal(fc_take(&cl.c, NULL).status, PS_OK); /* "not connected" in it */
        if (again == 1) {                                     /* the ghost made it: that is the later one */
            assert_true(cl_creates(&cl, "x", "ps", 1, true));
        }
        shell_task_free(ghost);
        PSI_IGNORE(cl_join(&cl, cl.ps1)); /* its end is of no use here */
        assert_int_equal(fc_open(&cl.at1, "x", &v), again == 0 ? PS_OK : PS_NOT_FOUND);
        assert_true(again == 1 || v.initialised);
        cl_fini(&cl);
    }
}

/* A process of ps:1 that had `x` is dead, another one lives; the HELLO of a third is still on its way. */
struct ghosts {
    struct cl cl;
    struct shell_task *ghost;
    struct shell_conn *end; /* of the one that lives, cl.ps1 */
    struct shell_conn *ghost_conn;
};

static struct ghosts *ghosts_new(void)
{
    struct ghosts *g = test_alloc(sizeof(*g));
    ps_v1_CreateAnswer a;
    cl_init(&g->cl);
    test_later(cl_end, &g->cl);
    assert_int_equal(cl_create(&g->cl, "x", "ps", 1, true, &a), PS_OK);
    shell_task_free(g->cl.ps1);
    g->ghost = cl_task(&g->cl, "ps", 1);
    cl_await_dial(&g->cl, g->ghost);
    g->cl.ps1 = cl_task(&g->cl, "ps", 1);
    g->end = cl_join(&g->cl, g->cl.ps1);
    fc_init(&g->cl.at1, g->cl.ps1, 1);
    assert_int_equal(fc_connect(&g->cl.at1), PS_OK);
    return g;
}

/* It comes, and says no more when `silent`, as the dead one that it is. */
static void ghost_comes(struct ghosts *g, bool silent)
{
    g->cl.ps0->lists_held = silent;
    g->ghost_conn = shell_dial(g->ghost, g->cl.ps0);
    assert_non_null(g->ghost_conn);
    assert_true(shell_is_closed(g->end));
}

static void ghost_goes(struct ghosts *g)
{
    if (g->ghost_conn != NULL) {
        shell_cut(g->ghost_conn);
        g->ghost_conn = NULL;
    }
    shell_task_free(g->ghost);
    g->ghost = NULL;
}

/* The connection of the living one ends between the request for `x` and the answer, with and without a ghost in its place; first
 * it was displaced by a ghost that never listed, or not. A client uses what it has made. */
TEST(test_a_ghost_leaves_nothing_stale)
{
    enum { NONE, SILENT, LISTS, KINDS };
    for (int before = NONE; before <= SILENT; before++) {
        for (int then = NONE; then < KINDS; then++) {
            ps_v1_OpenAnswer v;
            struct ghosts *g = ghosts_new();
            if (before == SILENT) {
                ghost_comes(g, true);
                ghost_goes(g);
                g->ghost = cl_task(&g->cl, "ps", 1);
                g->end = cl_join(&g->cl, g->cl.ps1);
                cl_await_dial(&g->cl, g->ghost);
            }
            create_unanswered(&g->cl, g->end);
            use_x(&g->cl.at1);
            if (then == NONE) {
                shell_cut(g->end);
            } else {
                ghost_comes(g, then == SILENT);
            }
            assert_int_equal(fc_take(&g->cl.c, NULL).status, PS_OK); /* "not connected" in it */
            ghost_goes(g);
            PSI_IGNORE(cl_join(&g->cl, g->cl.ps1)); /* its end is of no use here */
            assert_int_equal(fc_open(&g->cl.at1, "x", &v), PS_OK);
            assert_true(v.initialised);
            assert_false(cl_creates(&g->cl, "x", "ps", 1, true));
        }
    }
}

/* Somebody waits for ps:1 and worker:7. While a process that has not listed yet has the place of ps:1, it is not up. */
TEST(test_displaced_while_somebody_waits_for_it)
{
    struct wire body;
    struct fc worker;
    struct fc_hello hello;
    struct ghosts *g = ghosts_new();
    const char *jobs[] = {"ps", "worker"};
    wire_init(&body);
    for (uint32_t i = 0; i < 2; i++) {
        ps_v1_TaskItem item = {.task = i == 0 ? 1 : 7};
        PSI_IGNORE(PSI_BYTES_SET(item.job, jobs[i])); /* fits */
        wire_item(&body, &ps_v1_TaskItem_msg, &item);
    }
    assert_int_equal(fc_call(&g->cl.c, PS_OP_WAIT_CLUSTER, 0, 50, 0, NULL, 0, &body).status, FC_NONE);
    wire_fini(&body);
    ghost_comes(g, true);
    fc_init(&worker, g->cl.ps0, 9);
    fc_hello_default(&worker, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    hello.m.task = 7;
    assert_int_equal(fc_hello(&worker, &hello), PS_OK);
    assert_int_equal(fc_take(&g->cl.c, NULL).status, FC_NONE);
    shell_thaw(g->ghost_conn->peer); /* it lists */
    assert_applied(fc_take(&g->cl.c, NULL));
}

/* Refused while a ghost has its place that never lists, and then the directory is restarted: it keeps what it has. */
TEST(test_a_ghost_is_no_successor)
{
    struct ghosts *g = ghosts_new();
    assert_int_equal(cl_create(&g->cl, "x", "ps", 1, true, NULL), PS_OK);
    ghost_comes(g, true);
    cl_await_dial(&g->cl, g->cl.ps1);
    assert_true(shell_is_closed(shell_dial(g->cl.ps1, g->cl.ps0)));
    assert_true(shell_logged(g->cl.ps1, "directory_refused"));
    ghost_goes(g);
    cl_restart_directory(&g->cl);
    assert_false(shell_is_closed(cl_join(&g->cl, g->cl.ps1)));
    assert_int_equal(fc_open(&g->cl.at1, "x", NULL), PS_OK);
}

/* It has not read yet what it has to drop: it is asked for nothing, and what it has to drop is not forgotten. */
TEST(test_asked_for_nothing_before_it_has_dropped)
{
    struct twins *w = twins_new();
    assert_applied(fc_reset(&w->cl.c, w->cl.c.next_id++, "localhost"));
    assert_true(shell_is_closed(left_dials(w)));
    end_task(&w->right);
    w->cl.ps0->lists_held = true;
    struct shell_conn *c = left_dials(w);
    c->frozen = true;
    shell_thaw(c->peer); /* the list arrives, the answer does not */
    assert_int_equal(cl_create(&w->cl, "x", "ps", 1, true, NULL), PS_UNAVAILABLE);
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_OK); /* from before the reset */
    shell_cut(c);
    assert_false(shell_is_closed(left_dials(w)));
    assert_int_equal(fc_open(&w->cl.at1, "x", NULL), PS_NOT_FOUND);
    assert_true(cl_creates(&w->cl, "x", "ps", 1, true));
}

/* ---- a random walk: whoever holds the place has nothing stale ---- */

enum { NAMES = 3, STEPS = 400 };

struct walk {
    struct cl cl;
    struct wire_random random;
    struct shell_task *twin[2];
    struct shell_conn *conn[2];
    uint64_t made[NAMES]; /* creation that the last answer of a CREATE stands for; 0: none, or reset */
    uint32_t holders, refusals;
};

static void note_made(struct walk *w, uint32_t name)
{
    char text[8];
    PSI_IGNORE(snprintf(text, sizeof(text), "x%u", name)); /* fits */
    for (int i = 0; i < 2; i++) {
        if (w->twin[i] != NULL && w->conn[i] != NULL && !shell_is_closed(w->conn[i])) {
            struct peek p = peek_at(w->twin[i], text);
            w->made[name] = p.found ? p.creation : 0;
        }
    }
}

static void check_walk(struct walk *w)
{
    uint32_t connected = 0;
    for (int i = 0; i < 2; i++) {
        bool open = w->twin[i] != NULL && w->conn[i] != NULL && !shell_is_closed(w->conn[i]);
        connected += open;
        for (uint32_t n = 0; open && n < NAMES; n++) {
            char text[8];
            PSI_IGNORE(snprintf(text, sizeof(text), "x%u", n)); /* fits */
            struct peek p = peek_at(w->twin[i], text);
            if (p.found && p.creation != w->made[n]) {
                fail_msg("the holder has a stale copy of '%s'", text);
            }
        }
    }
    assert_in_range(connected, 0, 1);
    w->holders += connected;
}

static void walk_step(struct walk *w)
{
    struct cl *cl = &w->cl;
    int i = (int)wire_below(&w->random, 2);
    uint32_t name = (uint32_t)wire_below(&w->random, NAMES);
    char text[8];
    ps_v1_CreateAnswer a;
    PSI_IGNORE(snprintf(text, sizeof(text), "x%u", name)); /* fits */
    switch (wire_below(&w->random, 8)) {
    case 0:
        if (w->conn[i] != NULL) {
            shell_cut(w->conn[i]);
        }
        break;
    case 1: /* its process dies and starts anew */
        if (wire_below(&w->random, 4) == 0) {
            shell_task_free(w->twin[i]);
            w->conn[i] = NULL;
            ps_status st = PS_OK;
            w->twin[i] = shell_task_new(&cl->net, SPEC, "ps", 1, cl->seed++, cl->ps0->now, i == 0 ? named : named_too, &st);
            assert_int_equal(st, PS_OK);
        }
        break;
    case 2:
    case 3:
        if (cl_create(cl, text, "ps", 1, true, &a) == PS_OK && a.created) {
            note_made(w, name);
        }
        break;
    case 4:
        if (fc_reset(&cl->c, cl->c.next_id++, "localhost").status == PS_OK) {
            memset(w->made, 0, sizeof(w->made));
        }
        break;
    default:
        shell_pass(&cl->net, 100 + wire_below(&w->random, 1500));
        break;
    }
    PSI_IGNORE(fc_call(&cl->c, PS_OP_BEAT, 0, 1, 0, NULL, 0, NULL)); /* a sign of life */
    shell_forget(cl->c.conn);
    for (int k = 0; k < 2; k++) {
        if (w->twin[k]->dials > 0) {
            w->conn[k] = shell_dial(w->twin[k], cl->ps0);
            w->refusals += shell_is_closed(w->conn[k]);
        }
    }
    check_walk(w);
}

TEST(test_random_walk)
{
    uint32_t holders = 0;
    uint32_t refusals = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static struct walk w;
        memset(&w, 0, sizeof(w));
        w.random.state = seed;
        w.cl.seed = seed * 1000;
        shell_net_init(&w.cl.net);
        w.cl.ps0 = cl_task(&w.cl, "ps", 0);
        fc_init(&w.cl.c, w.cl.ps0, 1);
        assert_int_equal(fc_connect(&w.cl.c), PS_OK);
        for (int i = 0; i < 2; i++) {
            ps_status st = PS_OK;
            w.twin[i] = shell_task_new(&w.cl.net, SPEC, "ps", 1, w.cl.seed++, w.cl.ps0->now, i == 0 ? named : named_too, &st);
            assert_int_equal(st, PS_OK);
        }
        for (int step = 0; step < STEPS; step++) {
            walk_step(&w);
        }
        holders += w.holders;
        refusals += w.refusals;
        shell_net_fini(&w.cl.net);
    }
    assert_true(holders > 60 * STEPS / 2 && refusals > 60); /* it is not idle */
}
