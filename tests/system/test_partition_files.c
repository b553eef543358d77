/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioned variables by their one name where they leave their tasks: exports, imports and checkpoints in files, restored onto
 * other numbers of tasks, dealt anew over other numbers of parts, deleted. Whole variables of the same pushes are beside them,
 * and must be equal bit for bit, with their slots and powers.
 */
#define API_TASKS 3
#include "api_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1000, COLS = 24, ELEMENTS = ROWS * COLS, STEPS = 3, TIMEOUT_MS = 60000 };

static char folder[64];
static char files[2][96];

/* How a variable is cut; parts 0: whole. */
struct cut {
    uint32_t parts;
    uint8_t axis, layout;
};

static const struct cut whole_cut;

/* The variables of a container: each with its optimizer, and with a cut in the file and another one where it is read. */
static const struct row {
    const char *name, *optimizer;
    struct cut cut, other;
} rows[] = {
    {"w/div", "adam", {4, 0, PS_LAYOUT_DIV}, {3, 0, PS_LAYOUT_MOD}},
    {"w/mod", "momentum:momentum=0.5", {3, 0, PS_LAYOUT_MOD}, {0, 0, 0}},
    {"w/columns", "adagrad", {5, 1, PS_LAYOUT_DIV}, {7, 0, PS_LAYOUT_DIV}},
    {"w/columns_mod", "amsgrad", {2, 1, PS_LAYOUT_MOD}, {256, 0, PS_LAYOUT_MOD}},
    {"w/by_row", "rowwise_adam", {4, 0, PS_LAYOUT_MOD}, {9, 0, PS_LAYOUT_DIV}},
    {"w/whole", "nadam", {0, 0, 0}, {6, 1, PS_LAYOUT_MOD}},
};
enum { COUNT = sizeof(rows) / sizeof(rows[0]) };

static void must(ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
}

static void refused(ps_status st, ps_status expected, const char *says)
{
    if (st != expected || strstr(ps_last_error(), says) == NULL) {
        fail_msg("%s: %s; expected %s: %s", ps_status_name(st), ps_last_error(), ps_status_name(expected), says);
    }
}

static ps_session *open_in(const char *container)
{
    ps_session *s = open_session(TIMEOUT_MS);
    must(ps_session_wait_cluster(s, "ps", TIMEOUT_MS));
    must(ps_container_push(s, container));
    return s;
}

static ps_status get_as(ps_session *s, const struct row *row, const struct cut *cut, ps_variable **out)
{
    ps_optimizer optimizer;
    ps_variable_spec spec;
    must(ps_optimizer_parse(row->optimizer, 0.01, &optimizer, sizeof(optimizer)));
    ps_variable_spec_init(&spec);
    spec.name = row->name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(ROWS, COLS);
    spec.init = ps_normal(0, 1);
    spec.optimizer = &optimizer;
    spec.partitions = cut->parts;
    spec.partition_axis = cut->axis;
    spec.partition_layout = cut->layout;
    return ps_variable_get(s, &spec, out);
}

enum which { WHOLE, AS_IN_FILE, OTHERWISE };

static const struct cut *cut_of(const struct row *row, enum which which)
{
    return which == WHOLE ? &whole_cut : which == AS_IN_FILE ? &row->cut : &row->other;
}

static void get_all(ps_session *s, enum which which, ps_variable *v[COUNT])
{
    for (size_t i = 0; i < COUNT; i++) {
        must(get_as(s, &rows[i], cut_of(&rows[i], which), &v[i]));
    }
}

static void push_all(ps_variable *v[COUNT], int steps)
{
    static float grad[ELEMENTS];
    for (int step = 0; step < steps; step++) {
        for (int k = 0; k < ELEMENTS; k++) {
            grad[k] = (float)((k * 7 + step * 13) % 101) / 50 - 1;
        }
        for (size_t i = 0; i < COUNT; i++) {
            must(ps_variable_push(v[i], grad, sizeof(grad), 1));
        }
    }
}

/* Fill a container with variables of STEPS pushes. */
static void train(const char *container, enum which which)
{
    ps_variable *v[COUNT];
    ps_session *s = open_in(container);
    get_all(s, which, v);
    for (size_t i = 0; i < COUNT; i++) {
        must(ps_variable_init(v[i], false));
    }
    push_all(v, STEPS);
    assert_int_equal(ps_session_close(s), 0);
}

static void same_bytes(const struct row *row, const char *what, const float *a, const float *b, size_t bytes)
{
    if (memcmp(a, b, bytes) != 0) {
        fail_msg("%s: %s are not as the whole's", row->name, what);
    }
}

/* All variables of the two lists are equal; slots: and their slots. */
static void same(ps_variable *a[COUNT], ps_variable *b[COUNT], bool slots)
{
    static float x[ELEMENTS], y[ELEMENTS];
    for (size_t i = 0; i < COUNT; i++) {
        must(ps_variable_read(a[i], x, sizeof(x)));
        must(ps_variable_read(b[i], y, sizeof(y)));
        same_bytes(&rows[i], "values", x, y, sizeof(x));
        for (uint32_t k = 0; slots && ps_variable_slot_bytes(a[i], k) > 0; k++) {
            const size_t bytes = ps_variable_slot_bytes(a[i], k);
            must(ps_variable_read_slot(a[i], k, x, bytes));
            must(ps_variable_read_slot(b[i], k, y, bytes));
            same_bytes(&rows[i], "slots", x, y, bytes);
        }
    }
}

/* Variables of `container` are those of container "whole", and stay so with the next pushes, which need slots and powers. */
static void check_trained(const char *container, enum which which, bool slots)
{
    ps_variable *whole[COUNT], *parts[COUNT];
    ps_session *s = open_in("whole"), *other = open_in(container);
    get_all(s, WHOLE, whole);
    get_all(other, which, parts);
    same(whole, parts, slots);
    if (slots) {
        push_all(whole, 2);
        push_all(parts, 2);
        same(whole, parts, true);
    }
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(other), 0);
}

static int start(void **state)
{
    static char option[] = "--checkpoint_dir", when[] = "--checkpoint_seconds", never[] = "0";
    static char *flags[] = {option, folder, when, never, NULL};
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/psd-parts-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(files[0], sizeof(files[0]), "%s/a.safetensors", folder);
    (void)snprintf(files[1], sizeof(files[1]), "%s/b.safetensors", folder);
    test_cluster_init(&cluster, API_TASKS, "");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    return 0;
}

static int end(void **state)
{
    char rm[] = "/bin/rm", how[] = "-rf", out[64];
    char *argv[] = {rm, how, folder, NULL};
    (void)state;
    test_cluster_fini(&cluster);
    return test_run(argv, NULL, out, sizeof(out));
}

/* Each test begins with the two containers "whole" and "parts", trained alike. */
static int begin(void **state)
{
    (void)state;
    ps_session *s = open_session(TIMEOUT_MS);
    must(ps_session_wait_cluster(s, "ps", TIMEOUT_MS));
    must(ps_reset_all(s));
    assert_int_equal(ps_session_close(s), 0);
    train("whole", WHOLE);
    train("parts", AS_IN_FILE);
    return 0;
}

static void read_file(const char *path, char **out, size_t *out_values, size_t *out_end)
{
    uint64_t header = 0;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(&header, sizeof(header), 1, f), 1);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *out_end = (size_t)ftell(f);
    *out_values = sizeof(header) + (size_t)header;
    *out = calloc(1, *out_end + 1);
    assert_non_null(*out);
    rewind(f);
    assert_int_equal(fread(*out, 1, *out_end, f), *out_end);
    assert_int_equal(fclose(f), 0);
}

/* The values in both files are equal to the byte, and no name of a part is in the second one. */
static void same_files(void)
{
    char *text[2];
    size_t values[2], ends[2];
    for (int i = 0; i < 2; i++) {
        read_file(files[i], &text[i], &values[i], &ends[i]);
    }
    assert_int_equal(ends[0] - values[0], ends[1] - values[1]);
    assert_memory_equal(text[0] + values[0], text[1] + values[1], ends[0] - values[0]);
    text[1][values[1]] = '\0';
    assert_null(strstr(text[1] + sizeof(uint64_t), "part_"));
    assert_non_null(strstr(text[1] + sizeof(uint64_t), "\"w/div\":{"));
    free(text[0]);
    free(text[1]);
}

static void export_to(const char *container, const char *path)
{
    ps_session *s = open_session(TIMEOUT_MS);
    ps_file_options o;
    int count = 0;
    ps_file_options_init(&o);
    o.container = container;
    must(ps_export(s, path, &o, &count));
    assert_int_equal(count, COUNT);
    assert_int_equal(ps_session_close(s), 0);
}

static void import_from(const char *path, const char *container, bool slots)
{
    ps_session *s = open_session(TIMEOUT_MS);
    ps_file_options o;
    int count = 0;
    ps_file_options_init(&o);
    o.container = container;
    o.slots = slots;
    must(ps_import(s, path, &o, &count));
    assert_int_equal(count, COUNT);
    assert_int_equal(ps_session_close(s), 0);
}

static void exported(void **state)
{
    (void)state;
    export_to("whole", files[0]);
    export_to("parts", files[1]);
    same_files();
    /* into nothing: cut as they were; into variables that are cut otherwise; and parts from a file of whole ones */
    import_from(files[1], "made", false);
    check_trained("made", AS_IN_FILE, false);
    ps_variable *v[COUNT];
    ps_session *s = open_in("there");
    get_all(s, OTHERWISE, v);
    import_from(files[1], "there", false);
    check_trained("there", OTHERWISE, false);
    for (size_t i = 0; i < COUNT; i++) {
        must(ps_variable_init(v[i], true));
    }
    import_from(files[0], "there", false);
    check_trained("there", OTHERWISE, false);
    assert_int_equal(ps_session_close(s), 0);
}

static void export_checkpoint(uint64_t number, const char *container, const char *path)
{
    ps_session *s = open_session(TIMEOUT_MS);
    ps_checkpoint_options o;
    int count = 0;
    ps_checkpoint_options_init(&o);
    o.container = container;
    o.slots = true;
    must(ps_checkpoint_export(s, number, path, &o, &count));
    assert_int_equal(count, COUNT);
    assert_int_equal(ps_session_close(s), 0);
}

static uint64_t save(void)
{
    uint64_t number = 0;
    ps_session *s = open_session(TIMEOUT_MS);
    must(ps_checkpoint_save(s, TIMEOUT_MS, &number));
    assert_int_equal(ps_session_close(s), 0);
    return number;
}

static void of_a_checkpoint(void **state)
{
    (void)state;
    const uint64_t number = save();
    export_checkpoint(number, "whole", files[0]);
    export_checkpoint(number, "parts", files[1]);
    same_files();
    import_from(files[1], "made", true);
    ps_variable *v[COUNT];
    ps_session *s = open_in("there");
    get_all(s, OTHERWISE, v);
    import_from(files[1], "there", true);
    check_trained("there", OTHERWISE, true);
    push_all(v, 0);
    assert_int_equal(ps_session_close(s), 0);
    begin(NULL); /* "whole" has had more pushes */
    import_from(files[1], "made", true);
    check_trained("made", AS_IN_FILE, true);
}

/* Start a cluster of `tasks` with the checkpoints of the one before. */
static void start_again(int tasks)
{
    test_cluster_fini(&cluster);
    char *const *flags = cluster.flags;
    test_cluster_init(&cluster, tasks, "");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
}

static void of_other_tasks(void **state)
{
    (void)state;
    static const int tasks[] = {4, 1, 3};
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        uint64_t number = save();
        start_again(tasks[i]);
        ps_session *s = open_in("parts");
        must(ps_checkpoint_spread(s, number, TIMEOUT_MS, NULL));
        ps_variable *v = NULL;
        int used = 0; /* a bit for each task that has a part */
        must(get_as(s, &rows[2], &rows[2].cut, &v));
        for (uint32_t k = 0; k < ps_variable_partitions(v); k++) {
            used |= 1 << ps_variable_task(ps_variable_partition(v, k));
        }
        assert_true(tasks[i] == 1 || (used & (used - 1)) != 0); /* on several tasks */
        assert_int_equal(ps_session_close(s), 0);
        check_trained("parts", AS_IN_FILE, true);
    }
}

/* A restored model under another partitioner: refused with what is there, and dealt anew by file, delete and import. */
static void dealt_anew(void **state)
{
    (void)state;
    ps_variable *v[COUNT];
    export_checkpoint(save(), "parts", files[0]);
    ps_session *s = open_in("parts");
    refused(get_as(s, &rows[0], &rows[0].other, &v[0]), PS_INVALID_ARGUMENT,
            "part 0 of 4 of (1000, 24) along axis 0, layout div");
    for (size_t i = 0; i < COUNT; i++) {
        must(ps_variable_delete(s, rows[i].name));
    }
    get_all(s, OTHERWISE, v);
    import_from(files[0], "parts", true);
    assert_int_equal(ps_session_close(s), 0);
    check_trained("parts", OTHERWISE, true);
}

/* psctl with up to five arguments, in container "parts". */
static void psctl(int status, const char *says, const char *a, const char *b, const char *c, const char *d, const char *e)
{
    static char out[1 << 16];
    char path[256];
    const char *argv[] = {test_build_path("bin/psctl", path, sizeof(path)), "--container", "parts", a, b, c, d, e, NULL};
    const int ended = test_run((char *const *)(uintptr_t)argv, cluster.address[0], out, sizeof(out));
    if (ended != status || strstr(out, says) == NULL) {
        fail_msg("psctl %s %s: %d: %s", a, b, ended, out);
    }
}

static void by_psctl(void **state)
{
    (void)state;
    ps_variable *v = NULL;
    static float values[ELEMENTS], moments[ELEMENTS];
    ps_session *s = open_in("parts");
    psctl(0, "\n6 variables\n", "vars", NULL, NULL, NULL, NULL);
    psctl(0, "w/div                 parts      4 parts         float32  (1000, 24)  93.8 KiB", "vars", NULL, NULL, NULL, NULL);
    psctl(0, "\nw/div/part_1          parts      /job:ps/task:1", "vars", NULL, NULL, NULL, NULL);
    psctl(0, "\n1 variable\n", "vars", "w/div", NULL, NULL, NULL);
    psctl(0, "\n1 variable\n", "vars", "w/mod/part_2", NULL, NULL, NULL);
    psctl(1, "matches 'w/di' (did you mean w/div?)", "vars", "w/di", NULL, NULL, NULL);
    psctl(0, "\"cut\":{\"axis\":0,\"layout\":\"mod\"},\"parts\":[{\"name\":\"w/mod/part_0\"", "vars", "w/mod", "--json", NULL,
          NULL);
    psctl(0,
          "variable_name: \"w/columns/part_1:0\"\ninitializer_name: \"w/columns/part_1/Assign\"\n"
          "snapshot_name: \"w/columns/part_1/read:0\"\nsave_slice_info_def {\n  full_name: \"w/columns\"\n  full_shape: 1000\n"
          "  full_shape: 24\n  var_offset: 0\n  var_offset: 5\n  var_shape: 1000\n  var_shape: 5\n}\n",
          "vars", "w/columns", "--def", NULL, NULL);
    psctl(0, "w/by_row float32 (1000, 24) in 4 parts, version 3 or more\n", "get", "w/by_row", NULL, NULL, NULL);
    psctl(0, "\"parts\":[\"/job:ps/task:", "get", "w/by_row", "--json", NULL, NULL);
    psctl(0, "w/mod in 3 parts: version 3 -> version 4\n", "set", "w/mod", "0.5", "--fill", NULL);
    must(ps_variable_find(s, "w/mod", &v));
    must(ps_variable_read(v, values, sizeof(values)));
    assert_true(values[0] == 0.5f && values[ELEMENTS - 1] == 0.5f);
    psctl(0, "w/mod in 3 parts: learning rate 0.25\n", "set-lr", "w/mod", "0.25", NULL, NULL);
    must(ps_variable_push(v, values, sizeof(values), 1));
    must(ps_variable_read(v, values, sizeof(values)));
    must(ps_variable_read_slot(v, 0, moments, sizeof(moments)));
    for (int k = 0; k < ELEMENTS; k++) {
        assert_true(values[k] == 0.5f - 0.25f * moments[k]); /* by the new rate, in every part */
    }
    psctl(0, "exported 6 variables", "export", files[0], NULL, NULL, NULL);
    psctl(0, "w/mod in 3 parts is deleted\n", "delete", "w/mod", "--yes", NULL, NULL);
    psctl(1, "w/mod", "get", "w/mod", NULL, NULL, NULL);
    psctl(0, "imported 6 variables", "import", files[0], NULL, NULL, NULL);
    psctl(0, "w/mod float32 (1000, 24) in 3 parts", "get", "w/mod", NULL, NULL, NULL);
    assert_int_equal(ps_session_close(s), 0);
}

static void deleted(void **state)
{
    (void)state;
    ps_variable *v = NULL, *old = NULL;
    float values[ELEMENTS];
    ps_session *s = open_in("parts");
    must(ps_variable_find(s, "w/div", &old));
    refused(ps_variable_delete(s, "w/div/part_1"), PS_INVALID_ARGUMENT, "its whole is deleted, by the whole's name");
    must(ps_variable_read(old, values, sizeof(values)));
    must(ps_variable_delete(s, "w/div"));
    assert_int_equal(ps_variable_read(old, values, sizeof(values)), PS_ABORTED);
    for (int i = 0; i < 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "w/div/part_%d", i);
        assert_int_equal(ps_variable_find(s, name, &v), PS_NOT_FOUND);
    }
    refused(ps_variable_delete(s, "w/div"), PS_NOT_FOUND, "there is no variable or queue 'w/div'");
    must(get_as(s, &rows[0], &rows[0].other, &v));
    must(ps_variable_delete(s, "w/div"));
    must(get_as(s, &rows[0], &whole_cut, &v));
    must(ps_variable_delete(s, "w/div"));
    /* no checkpoint brings the parts back */
    (void)save();
    must(ps_variable_delete(s, "w/mod"));
    assert_int_equal(ps_session_close(s), 0);
    start_again(API_TASKS);
    s = open_in("parts");
    must(ps_variable_find(s, "w/columns", &v));
    assert_int_equal(ps_variable_find(s, "w/mod", &v), PS_NOT_FOUND);
    /* a task that is gone: nothing is deleted */
    must(ps_variable_find(s, "w/by_row", &old));
    test_cluster_kill(&cluster, 2);
    test_cluster_refuse(&cluster, 2);
    ps_session_set_deadline(s, 2000);
    refused(ps_variable_delete(s, "w/by_row"), PS_UNAVAILABLE, "w/by_row/part_");
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    ps_session_set_deadline(s, 0); /* the deadline is over, and reads have their usual time */
    psctl(1, " of 4 parts ", "vars", "w/by_row", NULL, NULL, NULL);
    for (uint32_t i = 0; i < ps_variable_partitions(old); i++) {
        float part[ELEMENTS];
        ps_variable *of = ps_variable_partition(old, i);
        assert_true(ps_variable_task(of) == 2 || ps_variable_read(of, part, ps_variable_bytes(of)) == PS_OK);
    }
    (void)ps_session_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(exported, begin),   cmocka_unit_test_setup(of_a_checkpoint, begin),
        cmocka_unit_test_setup(dealt_anew, begin), cmocka_unit_test_setup(of_other_tasks, begin),
        cmocka_unit_test_setup(by_psctl, begin),   cmocka_unit_test_setup(deleted, begin), /* the last one: a task dies */
    };
    return cmocka_run_group_tests(tests, start, end);
}
