/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/saved.c, common/state_file.c, common/manifest.c: the files that two tasks have written, verified by who is no task. Each
 * file cut at every byte, and with every byte changed, is found; what it does not find in a whole one is compared with the tasks.
 */
#include "save_test.h"

#include "common/saved.h"

#include <fcntl.h>

enum { FILES_MAX = 16 };

/* The checkpoint's files in memory. */
struct files {
    struct one {
        struct psi_saved_file is;
        uint8_t *data;
        size_t bytes;
    } of[FILES_MAX];
    size_t count;
    struct psi_saved_io io;
    uint64_t read; /* bytes of all of them */
    /* verify */
    uint32_t bad;
    struct psi_saved_file last;
    struct psi_err err;
};

static bool same_file(const struct psi_saved_file *a, const struct psi_saved_file *b)
{
    return a->task == b->task && a->kind == b->kind && a->index == b->index;
}

static struct one *find_file(struct files *f, uint32_t task, uint32_t kind, uint32_t index)
{
    const struct psi_saved_file like = {.task = task, .kind = kind, .index = index};
    for (size_t i = 0; i < f->count; i++) {
        if (same_file(&f->of[i].is, &like)) {
            return &f->of[i];
        }
    }
    return NULL;
}

static ps_status read_memory(void *ctx, const struct psi_saved_file *file, uint64_t offset, void *dst, size_t bytes,
                             size_t *out_bytes, struct psi_err *err)
{
    struct files *f = ctx;
    const struct one *of = find_file(f, file->task, file->kind, file->index);
    if (of == NULL) {
        return psi_fail(err, PS_NOT_FOUND, "there is no such file");
    }
    uint64_t left = offset < of->bytes ? of->bytes - offset : 0;
    *out_bytes = bytes < left ? bytes : (size_t)left;
    memcpy(dst, of->data + (*out_bytes == 0 ? 0 : offset), *out_bytes);
    f->read += *out_bytes;
    return PS_OK;
}

static void add_file(struct files *f, const struct sv *sv, uint32_t task, uint64_t number, uint32_t kind, uint32_t index)
{
    static const enum psd_disk_file_kind kinds[] = {
        [PS_FILE_VALUES] = PSD_DISK_MODEL, [PS_FILE_STATE] = PSD_DISK_STATE, [PS_FILE_MANIFEST] = PSD_DISK_MANIFEST};
    char path[512], name[PSD_DISK_NAME_BYTES_MAX];
    struct stat st;
    struct psd_disk_file file = {.number = number, .kind = kinds[kind], .index = index};
    (void)snprintf(path, sizeof(path), "%s/ps-%u/%s", sv->dir, task, psd_files_path(&file, name));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    assert_in_range(f->count, 0, FILES_MAX - 1);
    struct one *of = &f->of[f->count++];
    assert_int_equal(fstat(fd, &st), 0);
    of->is = (struct psi_saved_file){.job = "ps", .task = task, .kind = kind, .index = index};
    of->bytes = (size_t)st.st_size;
    of->data = test_alloc(of->bytes + 1); /* one more can be said to be there */
    assert_int_equal(read(fd, of->data, of->bytes), of->bytes);
    of->data[of->bytes] = 0;
    (void)close(fd);
}

static struct files *files_of(const struct sv *sv, uint64_t number)
{
    struct files *f = test_alloc(sizeof(*f));
    memset(f, 0, sizeof(*f));
    for (uint32_t task = 0; task < 2; task++) {
        add_file(f, sv, task, number, PS_FILE_MANIFEST, 0);
        add_file(f, sv, task, number, PS_FILE_STATE, 0);
        add_file(f, sv, task, number, PS_FILE_VALUES, 0);
        add_file(f, sv, task, number, PS_FILE_VALUES, 1);
    }
    f->io = (struct psi_saved_io){.read = read_memory, .ctx = f};
    return f;
}

static void on_bad(void *ctx, const struct psi_saved_file *file, const struct psi_err *err)
{
    struct files *f = ctx;
    if (f->bad++ == 0) { /* the first one is the culprit */
        f->last = *file;
        f->err = *err;
    }
}

/* How many are bad; UINT32_MAX: there is no manifest. */
static uint32_t verify(struct files *f)
{
    static const struct psi_saved_file tasks[] = {{.job = "ps", .task = 0}, {.job = "ps", .task = 1}};
    struct psi_saved saved;
    f->bad = 0;
    ps_status st = psi_saved_open(&saved, 1, &f->io, tasks, 2, &f->err);
    if (st == PS_OK) {
        uint32_t bad = psi_saved_verify(&saved, &f->io, on_bad, f);
        assert_int_equal(bad, f->bad);
    }
    psi_saved_close(&saved);
    return st == PS_OK ? f->bad : UINT32_MAX;
}

/* Few bytes, of all kinds: values, slots, strings, two containers, a queue, a record. */
static struct files *small_checkpoint(struct sv **out_sv)
{
    struct sv *sv = sv_new();
    ps_v1_CreateItem item;
    ps_v1_OpenAnswer a;
    ps_optimizer none = {.kind = PS_OPT_NONE};
    PSI_IGNORE(fc_ready(&sv->c, "w", PS_F32, 5, ps_adagrad(0.1), 1)); /* handles do not matter here */
    fc_create_item(&item, "names", PS_STRING, 3, &none);
    item.pinned = true;
    PSI_IGNORE(PSI_BYTES_SET(item.job, "ps"));
    assert_int_equal(fc_create(&sv->c, &item, NULL), PS_OK);
    assert_int_equal(fc_open(&sv->c, "names", &a), PS_OK);
    assert_int_equal(fc_init_var(&sv->c, a.handle, ps_zeros(), &none, 0, false).status, PS_OK);
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    *out_sv = sv;
    return files_of(sv, 1);
}

TEST(test_whole_files_are_good)
{
    struct sv *sv = NULL;
    struct files *f = small_checkpoint(&sv);
    assert_in_range(f->count, 5, FILES_MAX);
    if (verify(f) != 0) {
        fail_msg("task %u kind %u: %s", f->last.task, f->last.kind, f->err.text);
    }
}

static void assert_found(struct files *f, const struct one *of, const char *how, size_t at)
{
    uint32_t bad = verify(f);
    if (bad == 0 || bad == UINT32_MAX || !same_file(&f->last, &of->is)) {
        fail_msg("file of kind %u of task %u, %s at byte %zu: %u bad", of->is.kind, of->is.task, how, at, bad);
    }
    assert_int_equal(f->err.code == PS_DATA_LOSS || f->err.code == PS_FAILED_PRECONDITION || f->err.code == PS_INVALID_ARGUMENT,
                     true);
}

/* The file, a long one, alone: whether it is read. */
static void assert_state_found(struct files *f, const struct psi_saved *saved, const struct one *of, const char *how, size_t at)
{
    struct psi_saved_state state;
    for (size_t i = 0; i < saved->file_count; i++) {
        if (same_file(&saved->files[i], &of->is) &&
            psi_saved_state_read(saved, &f->io, &saved->files[i], &state, &f->err) != PS_DATA_LOSS) {
            fail_msg("state of task %u, %s at byte %zu is not found", of->is.task, how, at);
        }
        if (same_file(&saved->files[i], &of->is)) {
            psi_saved_state_fini(&state);
        }
    }
}

/* FAULTS 47. A state file is nearly all zeros: of the second one some bytes are enough. */
TEST(test_each_byte_counts)
{
    static const struct psi_saved_file tasks[] = {{.job = "ps", .task = 0}};
    struct sv *sv = NULL;
    struct psi_saved saved;
    struct psi_err err;
    struct files *f = small_checkpoint(&sv);
    assert_ok(psi_saved_open(&saved, 1, &f->io, tasks, 1, &err), &err);
    for (size_t i = 0; i < f->count; i++) {
        struct one *of = &f->of[i];
        size_t bytes = of->bytes, step = of->is.kind == PS_FILE_STATE && of->is.task > 0 ? 61 : 1;
        for (size_t at = 0; at < bytes; at += step) {
            bool alone = of->is.kind == PS_FILE_STATE && at % 997 != 0;
            of->data[at] ^= (uint8_t)(1u << at % 8);
            alone ? assert_state_found(f, &saved, of, "changed", at) : assert_found(f, of, "changed", at);
            of->data[at] ^= (uint8_t)(1u << at % 8);
            of->bytes = at;
            alone ? assert_state_found(f, &saved, of, "cut", at) : assert_found(f, of, "cut", at);
            of->bytes = bytes;
        }
        of->bytes = bytes + 1;
        assert_found(f, of, "longer", bytes);
        of->bytes = bytes;
    }
    psi_saved_close(&saved);
    assert_int_equal(verify(f), 0);
}

/* A file of one task in the place of the other's, one of an older checkpoint in that of a newer one. */
TEST(test_good_files_in_wrong_places)
{
    struct sv *sv = NULL;
    struct files *f = small_checkpoint(&sv);
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2);
    struct files *newer = files_of(sv, 2);
    for (uint32_t kind = PS_FILE_VALUES; kind <= PS_FILE_MANIFEST; kind++) {
        struct one *a = find_file(f, 0, kind, 0), *b = find_file(newer, 0, kind, 0);
        if (a == NULL || b == NULL || (a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0)) {
            continue; /* values: they may be the same */
        }
        struct one was = *a;
        a->data = b->data;
        a->bytes = b->bytes;
        assert_found(f, a, "of a newer one", 0);
        *a = was;
    }
    struct one *a = find_file(f, 0, PS_FILE_STATE, 0), *b = find_file(f, 1, PS_FILE_STATE, 0);
    uint8_t *data = a->data;
    a->data = b->data;
    assert_found(f, a, "of another task", 0);
    a->data = data;
    assert_int_equal(verify(f), 0);
}

/* Without any manifest there is none; with one, it is told who has lost it. */
TEST(test_missing_files)
{
    struct sv *sv = NULL;
    struct files *f = small_checkpoint(&sv);
    for (size_t i = 0; i < f->count; i++) {
        struct psi_saved_file was = f->of[i].is;
        f->of[i].is.task = 7;
        assert_in_range(verify(f), 1, 4);
        assert_true(same_file(&f->last, &was));
        assert_int_equal(f->err.code, PS_NOT_FOUND);
        f->of[i].is = was;
    }
    find_file(f, 0, PS_FILE_MANIFEST, 0)->is.task = 7;
    find_file(f, 1, PS_FILE_MANIFEST, 0)->is.task = 7;
    assert_int_equal(verify(f), UINT32_MAX);
    assert_int_equal(f->err.code, PS_NOT_FOUND);
}

/* A value of several blocks: the block is named. */
struct got {
    uint8_t *value;
    uint64_t bytes;
};

static ps_status on_value(void *ctx, const struct psi_saved_variable *v, uint32_t which, uint64_t at, const void *p, size_t n,
                          struct psi_err *err)
{
    struct got *got = ctx;
    (void)err;
    if (which == 0) {
        assert_string_equal(v->name, "w");
        assert_int_equal(at, got->bytes);
        memcpy(got->value + at, p, n);
        got->bytes += n;
    }
    return PS_OK;
}

/* Which arrays of a state are wanted, a bit for each, and what came of each. */
enum { ARRAYS = 3 + 2 + 2 };
struct choice {
    const struct psi_saved_state *state;
    uint32_t bits;
    uint64_t got[ARRAYS];
};

static uint32_t array_of(const struct choice *c, const struct psi_saved_variable *v, uint32_t which)
{
    uint32_t i = which;
    for (const struct psi_saved_variable *u = c->state->variables; u < v; u++) {
        i += u->array_count;
    }
    assert_in_range(i, 0, ARRAYS - 1);
    return i;
}

static bool is_chosen(void *ctx, const struct psi_saved_variable *v, uint32_t which)
{
    const struct choice *c = ctx;
    return (c->bits & 1u << array_of(c, v, which)) != 0;
}

static ps_status on_chosen(void *ctx, const struct psi_saved_variable *v, uint32_t which, uint64_t at, const void *p, size_t n,
                           struct psi_err *err)
{
    struct choice *c = ctx;
    (void)p, (void)err;
    assert_int_equal(at, c->got[array_of(c, v, which)]);
    c->got[array_of(c, v, which)] += n;
    return PS_OK;
}

/* What is wanted comes whole; of what is not, only the few bytes of b are read. */
static void read_chosen(struct files *f, const struct psi_saved *saved, size_t state_at, size_t values_at, uint32_t bits)
{
    const struct psi_saved_file *file = &saved->files[values_at];
    struct psi_saved_state state;
    struct psi_err err;
    struct choice c = {.state = &state, .bits = bits};
    assert_ok(psi_saved_state_read(saved, &f->io, &saved->files[state_at], &state, &err), &err);
    uint64_t want = state.files[file->index].header_bytes;
    f->read = 0;
    assert_ok(psi_saved_values_read(&f->io, file, &state, is_chosen, on_chosen, &c, &err), &err);
    for (size_t i = 0; i < state.variable_count; i++) {
        const struct psi_saved_variable *v = &state.variables[i];
        for (uint32_t k = 0; k < v->array_count; k++) {
            const bool comes = v->file == file->index + 1 && is_chosen(&c, v, k);
            assert_int_equal(c.got[array_of(&c, v, k)], comes ? v->bytes : 0);
            want += comes ? v->bytes : 0;
        }
    }
    assert_in_range(f->read, want, want + 2 * 7 * sizeof(float));
    psi_saved_state_fini(&state);
}

TEST(test_only_what_is_wanted_is_read)
{
    static const struct psi_saved_file tasks[] = {{.job = "ps", .task = 0}, {.job = "ps", .task = 1}};
    struct sv *sv = sv_new();
    struct psi_saved saved;
    struct psi_err err;
    size_t state_at = 0, files = 0;
    PSI_IGNORE(fc_ready(&sv->c, "a", PS_F32, 20000, ps_adam(0.1), 1)); /* handles do not matter */
    PSI_IGNORE(fc_ready(&sv->c, "b", PS_F32, 7, ps_adagrad(0.1), 1));
    PSI_IGNORE(fc_ready(&sv->c, "c", PS_F32, 20000, ps_adagrad(0.1), 1));
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    struct files *f = files_of(sv, 1);
    assert_ok(psi_saved_open(&saved, 1, &f->io, tasks, 2, &err), &err);
    for (size_t i = 0; i < saved.file_count; i++) {
        state_at = saved.files[i].kind == PS_FILE_STATE ? i : state_at;
        files += saved.files[i].kind == PS_FILE_VALUES;
        for (uint32_t bits = 0; saved.files[i].kind == PS_FILE_VALUES && bits < 1u << ARRAYS; bits++) {
            read_chosen(f, &saved, state_at, i, bits);
        }
    }
    assert_int_equal(files, 1);
    psi_saved_close(&saved);
}

TEST(test_values_are_those_of_the_task)
{
    enum { ELEMENTS = 50000 };
    static const struct psi_saved_file tasks[] = {{.job = "ps", .task = 0}, {.job = "ps", .task = 1}};
    struct sv *sv = sv_new();
    struct psi_saved saved;
    struct psi_err err;
    PSI_IGNORE(fc_ready(&sv->c, "w", PS_F32, ELEMENTS, ps_adagrad(0.1), 1)); /* its handle does not matter */
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    struct files *f = files_of(sv, 1);
    struct got got = {.value = test_alloc(ELEMENTS * sizeof(float))};
    assert_int_equal(verify(f), 0);
    assert_ok(psi_saved_open(&saved, 1, &f->io, tasks, 2, &err), &err);
    for (size_t i = 0; i < saved.file_count; i++) {
        struct psi_saved_state state;
        if (saved.files[i].kind != PS_FILE_STATE || i + 1 == saved.file_count || saved.files[i + 1].kind != PS_FILE_VALUES) {
            continue;
        }
        assert_ok(psi_saved_state_read(&saved, &f->io, &saved.files[i], &state, &err), &err);
        assert_int_equal(state.variable_count, 1);
        assert_int_equal(state.variables[0].optimizer.kind, PS_OPT_ADAGRAD);
        assert_int_equal(state.variables[0].array_count, 2);
        assert_ok(psi_saved_values_read(&f->io, &saved.files[i + 1], &state, NULL, on_value, &got, &err), &err);
        psi_saved_state_fini(&state);
    }
    assert_int_equal(got.bytes, ELEMENTS * sizeof(float));
    for (size_t i = 0; i < ELEMENTS; i++) {
        float x = 0;
        memcpy(&x, got.value + i * sizeof(x), sizeof(x));
        assert_true(x == 1.0f);
    }
    psi_saved_close(&saved);
    for (uint32_t task = 0; task < 2; task++) {
        struct one *of = find_file(f, task, PS_FILE_VALUES, 0);
        if (of != NULL) {
            of->data[of->bytes - 1] ^= 1; /* the accumulator's last block */
            assert_int_equal(verify(f), 1);
            assert_string_equal(f->err.text, "'w:accumulator': block 3 is not as it was written");
        }
    }
}
