/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/durable/files.c: on the simulated disk it does what it does on the system's, over 300 seeds; whenever the power goes or the
 * process ends, at any call, a file is there as it was published or not at all, over 10,000 seeds (1,000 under ASan;
 * DISK_SEEDS=100000 for more, DISK_FIRST=7 to begin elsewhere); and what cores ask for in whole clusters, of which one in four
 * ends with fewer tasks (DISK_SEED=7 for one of them, with a trace of its events; DISK_CLUSTERS=10000 for more, DISK_FIRST=7 to
 * begin elsewhere).
 * test-timeout: 300
 */
#include "fs_fault.h"
#include "lib/disk.h"
#include "lib/sim.h"
#include "test.h"

#include "common/rng.h"
#include "psd/durable/files.h"
#include "psd/shell/place.h"

#include <errno.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_SEEDS 1000
#define CLUSTERS 20
#else
#define DEFAULT_SEEDS 10000
#define CLUSTERS 100
#endif

enum { NUMBERS = 3, FILES = 4, SLOTS = NUMBERS * FILES + 1, BYTES_MAX = 5000, PAGE = 3, CONTENTS_MAX = 12 };

static uint64_t number_of(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : fallback;
}

/* Slot 0: the bars; then two models, state and manifest of each checkpoint. */
static struct psd_disk_file file_of(size_t slot)
{
    static const enum psd_disk_file_kind kinds[FILES] = {PSD_DISK_MODEL, PSD_DISK_MODEL, PSD_DISK_STATE, PSD_DISK_MANIFEST};
    if (slot == 0) {
        return (struct psd_disk_file){.kind = PSD_DISK_BARS};
    }
    size_t in = (slot - 1) % FILES;
    return (struct psd_disk_file){.number = (slot - 1) / FILES + 1, .kind = kinds[in], .index = in == 1 ? 99999 : 0};
}

static uint64_t below(uint64_t *rng, uint64_t bound)
{
    return psi_random_below(rng, bound);
}

/* ---- what is written: content 1, 2, ... ---- */

static size_t content_bytes(uint64_t content)
{
    uint64_t state = content;
    return (size_t)psi_random_below(&state, BYTES_MAX);
}

static void content_fill(uint64_t content, uint8_t out[BYTES_MAX])
{
    uint64_t state = content * 77;
    for (size_t i = 0; i < BYTES_MAX; i += 8) {
        uint64_t word = psi_random_u64(&state);
        memcpy(out + i, &word, 8);
    }
}

/* ---- one directory, on some disk ---- */

struct dir {
    struct psd_fs under;
    struct fs_fault fault;
    struct psd_files files;
    struct psi_err err;
    size_t bytes;
};

static ps_status dir_open(struct dir *d, bool sync_not)
{
    struct psd_fs fs;
    fs_fault_init(&d->fault, &d->under, &fs);
    d->fault.sync_not = sync_not;
    return psd_files_open(&d->files, &fs, &d->err);
}

static ps_status run(struct dir *d, struct psd_disk_op op)
{
    d->err = (struct psi_err){.code = PS_OK};
    op.id = 1;
    return psd_files_run(&d->files, &op, &d->bytes, &d->err);
}

/* ---- the simulated disk and the system's ---- */

struct pair {
    struct psd_place place;
    struct sim_disk *disk;
    struct dir real, sim;
};

static void pair_end(void *pair)
{
    struct pair *p = pair;
    sim_disk_free(p->disk);
    psd_place_close(&p->place);
}

static void expect_same(const struct pair *p, uint64_t seed, enum psd_disk_kind kind, ps_status real, ps_status sim)
{
    if (real != sim || p->real.bytes != p->sim.bytes) {
        fail_msg("seed %llu, operation %d: the system says %s '%s' %zu, the simulated disk %s '%s' %zu", (unsigned long long)seed,
                 (int)kind, ps_status_name(real), p->real.err.text, p->real.bytes, ps_status_name(sim), p->sim.err.text,
                 p->sim.bytes);
    }
    if (kind != PSD_DISK_REMOVE && kind != PSD_DISK_LIST) { /* those meet what is there in no particular order */
        assert_string_equal(p->real.err.text, p->sim.err.text);
    }
}

static void same_op(struct pair *p, uint64_t seed, uint64_t *rng)
{
    uint8_t content[BYTES_MAX], out[2][BYTES_MAX];
    struct psd_disk_entry listed[2][PAGE];
    struct psd_disk_op op = {.kind = (enum psd_disk_kind)below(rng, PSD_DISK_REMOVE + 1), .file = file_of(below(rng, SLOTS))};
    memset(out, 0, sizeof(out));
    memset(listed, 0, sizeof(listed));
    content_fill(below(rng, 100), content);
    op.offset = below(rng, 2000);
    if (op.kind == PSD_DISK_WRITE) {
        op.in = content;
        op.bytes = below(rng, 3000);
    } else if (op.kind == PSD_DISK_READ) {
        op.bytes = below(rng, BYTES_MAX);
    } else if (op.kind == PSD_DISK_LIST) {
        op.bytes = sizeof(listed[0]);
        op.file = below(rng, 2) == 0 ? (struct psd_disk_file){.number = 0} : op.file;
    } else if (op.kind == PSD_DISK_REMOVE && op.file.number == 0) {
        op.file.number = 1;
    }
    if (below(rng, 4) == 0) { /* the same call fails */
        p->real.fault.fail_at = p->real.fault.calls + 1 + below(rng, 5);
        p->sim.fault.fail_at = p->real.fault.fail_at;
        p->real.fault.why = p->sim.fault.why = below(rng, 2) == 0 ? EIO : ENOSPC;
    }
    op.out = op.kind == PSD_DISK_LIST ? (void *)listed[0] : out[0];
    ps_status real = run(&p->real, op);
    op.out = op.kind == PSD_DISK_LIST ? (void *)listed[1] : out[1];
    ps_status sim = run(&p->sim, op);
    assert_int_equal(p->real.fault.calls, p->sim.fault.calls);
    p->real.fault.fail_at = p->sim.fault.fail_at = 0;
    expect_same(p, seed, op.kind, real, sim);
    assert_memory_equal(out[0], out[1], BYTES_MAX);
    assert_memory_equal(listed[0], listed[1], sizeof(listed[0]));
}

TEST(test_like_the_system)
{
    uint64_t seeds = 300;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct pair *p = test_alloc(sizeof(*p));
        uint64_t rng = seed;
        struct psi_err err;
        assert_ok(psd_place_open(&p->place, test_dir(), "ps", 0, "test", &err), &err);
        p->disk = sim_disk_new(seed);
        test_later(pair_end, p);
        psd_place_fs(&p->place, &p->real.under);
        sim_disk_fs(p->disk, &p->sim.under);
        for (int life = 0; life < 3; life++) {
            assert_int_equal(dir_open(&p->real, true), PS_OK);
            assert_int_equal(dir_open(&p->sim, false), PS_OK);
            for (int i = 0; i < 40; i++) {
                same_op(p, seed, &rng);
            }
            psd_files_close(&p->real.files);
            psd_files_close(&p->sim.files);
            sim_disk_kill(p->disk);
        }
    }
}

/* ---- the power goes ---- */

/* What a slot may be after a cut: 0 is no file. Never empty. */
struct slot {
    uint64_t may_be[CONTENTS_MAX];
    size_t count;
    uint64_t begun; /* what is being written; 0: nothing */
};

struct world {
    uint64_t seed, rng, contents;
    struct sim_disk *disk;
    struct dir dir;
    struct slot slot[SLOTS];
    bool perhaps_gone[NUMBERS + 1]; /* a REMOVE has failed: all of it may have gone; the number is not used again */
    uint64_t cuts, kills, old, new, gone, stayed;
};

static void world_end(void *world)
{
    struct world *w = world;
    psd_files_close(&w->dir.files);
    sim_disk_free(w->disk);
}

static void may_only_be(struct slot *s, uint64_t content)
{
    s->may_be[0] = content;
    s->count = 1;
}

static bool may_be(const struct slot *s, uint64_t content)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->may_be[i] == content) {
            return true;
        }
    }
    return false;
}

static bool powered(const struct world *w)
{
    const struct fs_fault *f = &w->dir.fault;
    return f->fail_at == 0 || f->calls < f->fail_at;
}

static ps_status write_content(struct world *w, size_t slot)
{
    static uint8_t bytes[BYTES_MAX];
    size_t n = content_bytes(w->slot[slot].begun), parts = 1 + below(&w->rng, 4);
    ps_status st = PS_OK;
    content_fill(w->slot[slot].begun, bytes);
    for (size_t i = 0; i < parts; i++) { /* positioned: the last part first, now and then */
        size_t part = w->seed % 2 == 0 ? i : parts - 1 - i, from = n * part / parts, to = n * (part + 1) / parts;
        ps_status one = run(
            &w->dir, (struct psd_disk_op){
                         .kind = PSD_DISK_WRITE, .file = file_of(slot), .offset = from, .in = bytes + from, .bytes = to - from});
        assert_true(st == PS_OK || one == st); /* it stays failed */
        st = one;
    }
    return st;
}

/* A file is begun, written and published, the operations behind each other whatever becomes of them. */
static void publish(struct world *w, size_t slot)
{
    struct slot *s = &w->slot[slot];
    s->begun = ++w->contents;
    ps_status st = run(&w->dir, (struct psd_disk_op){.kind = PSD_DISK_BEGIN, .file = file_of(slot)});
    ps_status wrote = write_content(w, slot);
    assert_true(st == PS_OK || wrote == st);
    ps_status published = run(&w->dir, (struct psd_disk_op){.kind = PSD_DISK_PUBLISH, .file = file_of(slot)});
    assert_true(wrote == PS_OK || published == wrote);
    if (published == PS_OK) {
        may_only_be(s, s->begun);
    } else {
        if (wrote == PS_OK) {
            PSI_ASSERT(s->count < CONTENTS_MAX);
            s->may_be[s->count++] = s->begun;
        }
        /* tried again, it fails as it did */
        assert_int_equal(run(&w->dir, (struct psd_disk_op){.kind = PSD_DISK_PUBLISH, .file = file_of(slot)}), published);
    }
    s->begun = 0;
}

static void remove_number(struct world *w, uint64_t number)
{
    w->perhaps_gone[number] = true;
    if (run(&w->dir, (struct psd_disk_op){.kind = PSD_DISK_REMOVE, .file.number = number}) == PS_OK) {
        for (size_t i = 0; i < FILES; i++) {
            may_only_be(&w->slot[1 + (number - 1) * FILES + i], 0);
        }
        w->perhaps_gone[number] = false;
    }
}

/* Which content a slot has, and that it has all of it. */
static uint64_t look(struct world *w, size_t slot)
{
    static uint8_t is[BYTES_MAX + 1], bytes[BYTES_MAX];
    const struct slot *s = &w->slot[slot];
    char path[PSD_DISK_NAME_BYTES_MAX];
    struct psd_disk_file file = file_of(slot);
    ps_status st = run(&w->dir, (struct psd_disk_op){.kind = PSD_DISK_READ, .file = file, .out = is, .bytes = sizeof(is)});
    if (st == PS_NOT_FOUND) {
        return 0;
    }
    assert_ok(st, &w->dir.err);
    for (size_t i = 0; i < s->count; i++) {
        content_fill(s->may_be[i], bytes);
        if (s->may_be[i] != 0 && w->dir.bytes == content_bytes(s->may_be[i]) && memcmp(is, bytes, w->dir.bytes) == 0) {
            return s->may_be[i];
        }
    }
    fail_msg("seed %llu: %s is there, %zu bytes, and is nothing that was published", (unsigned long long)w->seed,
             psd_files_path(&file, path), w->dir.bytes);
    return 0;
}

static void expect_listed(struct world *w, const uint64_t is[SLOTS])
{
    struct psd_disk_entry got[SLOTS + 1];
    struct psd_disk_file none = {.number = 0};
    size_t at = 0;
    assert_ok(run(&w->dir, (struct psd_disk_op){.kind = PSD_DISK_LIST, .file = none, .out = got, .bytes = sizeof(got)}),
              &w->dir.err);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        struct psd_disk_file file = file_of(slot);
        if (is[slot] != 0) {
            assert_true(at < w->dir.bytes / sizeof(got[0]));
            assert_true(got[at].file.number == file.number && got[at].file.kind == file.kind && got[at].file.index == file.index);
            assert_int_equal(got[at].bytes, content_bytes(is[slot]));
            at++;
        }
    }
    assert_int_equal(at, w->dir.bytes / sizeof(got[0]));
}

/* What is there; sure: it can only be that from now on. */
static void check(struct world *w, bool sure)
{
    uint64_t is[SLOTS];
    for (size_t slot = 0; slot < SLOTS; slot++) {
        is[slot] = look(w, slot);
    }
    expect_listed(w, is);
    for (uint64_t number = 0; number <= NUMBERS; number++) {
        size_t first = number == 0 ? 0 : 1 + (size_t)(number - 1) * FILES, count = number == 0 ? 1 : FILES, there = 0;
        for (size_t i = 0; i < count; i++) {
            there += is[first + i] != 0;
        }
        bool gone = w->perhaps_gone[number] && there == 0;
        w->gone += gone;
        w->stayed += w->perhaps_gone[number] && !gone;
        for (size_t slot = first; slot < first + count; slot++) {
            if (!gone && !may_be(&w->slot[slot], is[slot])) {
                struct psd_disk_file file = file_of(slot);
                char path[PSD_DISK_NAME_BYTES_MAX];
                fail_msg("seed %llu: %s is not there, and %s", (unsigned long long)w->seed, psd_files_path(&file, path),
                         w->perhaps_gone[number] ? "other files of its checkpoint are" : "was published");
            }
            w->old += w->slot[slot].count > 1 && is[slot] == w->slot[slot].may_be[0];
            w->new += w->slot[slot].count > 1 && is[slot] != w->slot[slot].may_be[0];
            if (sure) {
                may_only_be(&w->slot[slot], is[slot]);
            }
        }
        w->perhaps_gone[number] = w->perhaps_gone[number] && !sure;
    }
}

static void live(struct world *w)
{
    uint32_t ops = 2 + (uint32_t)below(&w->rng, 10);
    for (uint32_t i = 0; i < ops && powered(w); i++) {
        size_t slot = below(&w->rng, SLOTS);
        uint64_t number = file_of(slot).number;
        if (number != 0 && (below(&w->rng, 5) == 0 || w->perhaps_gone[number])) {
            remove_number(w, number);
        } else if (w->slot[slot].count < CONTENTS_MAX) {
            publish(w, slot);
        }
    }
}

static void lives(struct world *w)
{
    for (uint32_t life = 0; life < 4; life++) {
        bool cut = below(&w->rng, 3) > 0, noisy = w->seed % 3 == 0;
        assert_ok(dir_open(&w->dir, false), &w->dir.err);
        if (life > 0 && w->seed % 5 == 0) { /* the power goes again, at once */
            psd_files_close(&w->dir.files);
            sim_disk_cut(w->disk);
            assert_ok(dir_open(&w->dir, false), &w->dir.err);
        }
        w->dir.fault.fail_at = 1 + below(&w->rng, 120);
        w->dir.fault.stays = true;
        w->dir.fault.why = EIO;
        sim_disk_fail_one_in(w->disk, noisy ? 40 : 0);
        live(w);
        sim_disk_fail_one_in(w->disk, 0);
        psd_files_close(&w->dir.files);
        if (cut) {
            w->cuts++;
            sim_disk_cut(w->disk);
        } else {
            w->kills++;
            sim_disk_kill(w->disk);
        }
        assert_ok(dir_open(&w->dir, false), &w->dir.err);
        check(w, true); /* also after a kill: what is seen at a start stays */
        psd_files_close(&w->dir.files);
    }
}

TEST(test_power_cuts)
{
    uint64_t first = number_of("DISK_FIRST", 1), seeds = number_of("DISK_SEEDS", DEFAULT_SEEDS);
    uint64_t cuts = 0, old = 0, new = 0, gone = 0, stayed = 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        w->seed = seed;
        w->rng = seed * 1000003;
        w->disk = sim_disk_new(seed);
        sim_disk_fs(w->disk, &w->dir.under);
        for (size_t i = 0; i < SLOTS; i++) {
            may_only_be(&w->slot[i], 0);
        }
        lives(w);
        cuts += w->cuts;
        old += w->old;
        new += w->new;
        gone += w->gone;
        stayed += w->stayed;
        world_end(w);
        free(w);
    }
    print_message(
        "%llu seeds: %llu cuts; of files that were being published %llu as before and %llu new, of checkpoints that were "
        "being removed %llu gone and %llu whole\n",
        (unsigned long long)seeds, (unsigned long long)cuts, (unsigned long long)old, (unsigned long long)new,
        (unsigned long long)gone, (unsigned long long)stayed);
    if (seeds >= 1000) { /* each of them is met often */
        assert_true(cuts > seeds && old > seeds / 20 && new > seeds / 20 && gone > seeds / 100 && stayed > seeds / 100);
    }
}

/* A bit that turns is seen: it is what CRCs are tested with. */
TEST(test_flip)
{
    struct dir *d = test_alloc(sizeof(*d));
    struct sim_disk *disk = sim_disk_new(3);
    uint8_t before[64], after[64];
    const struct psd_disk_file file = {.number = 1, .kind = PSD_DISK_STATE};
    uint32_t bits = 0;
    memset(before, 0x5a, sizeof(before));
    sim_disk_fs(disk, &d->under);
    assert_int_equal(dir_open(d, false), PS_OK);
    assert_false(sim_disk_flip(disk));
    assert_int_equal(run(d, (struct psd_disk_op){.kind = PSD_DISK_BEGIN, .file = file}), PS_OK);
    assert_int_equal(run(d, (struct psd_disk_op){.kind = PSD_DISK_WRITE, .file = file, .in = before, .bytes = 64}), PS_OK);
    assert_int_equal(run(d, (struct psd_disk_op){.kind = PSD_DISK_PUBLISH, .file = file}), PS_OK);
    assert_true(sim_disk_flip(disk));
    psd_files_close(&d->files);
    sim_disk_cut(disk);
    assert_int_equal(dir_open(d, false), PS_OK);
    assert_int_equal(run(d, (struct psd_disk_op){.kind = PSD_DISK_READ, .file = file, .out = after, .bytes = 64}), PS_OK);
    for (size_t i = 0; i < sizeof(after); i++) {
        bits += (uint32_t)__builtin_popcount((unsigned)(before[i] ^ after[i]));
    }
    assert_int_equal(bits, 1);
    psd_files_close(&d->files);
    sim_disk_free(disk);
}

static struct sim_summary run_cluster(uint64_t seed, bool verbose)
{
    struct sim_options options = {.seed = seed,
                                  .frame_bytes = PS_FRAME_BODY_MAX,
                                  .race = seed % 2 == 0,
                                  .twin = seed % 2 == 1,
                                  .disks = true,
                                  .verbose = verbose};
    struct sim_summary one = {0};
    char why[1024];
    if (!sim_run(&options, &one, why)) {
        fail_msg("%s\nto see it: DISK_SEED=%llu build/release/tests/sim/test_disk", why, (unsigned long long)seed);
    }
    return one;
}

/* Seeds that have found something, or with which a mutant is seen. */
TEST(test_in_clusters_again)
{
    static const uint64_t seeds[] = {229,  443,  1191, 2042, 2374, 2797, 3742, 3846, 4326,  4793,  5061,  5383,
                                     6182, 6319, 7091, 7410, 8332, 9031, 9371, 9734, 50018, 50074, 60001, 110251};
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        PSI_IGNORE(run_cluster(seeds[i], false)); /* it fails by itself */
    }
}

/* What cores ask for is carried out in order, while the disk is slow and fails, tasks end and the power goes; 100 clusters. */
TEST(test_in_clusters)
{
    uint64_t only = number_of("DISK_SEED", 0), first = only != 0 ? only : number_of("DISK_FIRST", 1);
    uint64_t seeds = only != 0 ? 1 : number_of("DISK_CLUSTERS", CLUSTERS), ops = 0, cuts = 0;
    uint64_t checkpoints = 0, unchanged = 0, loaded = 0, restored = 0, restored_in = 0, fewer = 0, spread = 0, older = 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        const struct sim_summary one = run_cluster(seed, only != 0);
        ops += one.disk_ops;
        cuts += one.disk_cuts;
        checkpoints += one.checkpoints;
        unchanged += one.unchanged;
        loaded += one.loaded;
        restored += one.came_back;
        restored_in += one.came_back > 0;
        fewer += one.fewer;
        spread += one.spread;
        older += one.older;
    }
    print_message(
        "%llu seeds: %llu operations of a disk, %llu power cuts, %llu checkpoints; %llu parts had all that their tasks had, %llu "
        "are like their tasks at the "
        "cut, %llu variables came back in %llu clusters; %llu began again with fewer tasks, %llu of them dealt what was saved "
        "over all, %llu then took an older one\n",
        (unsigned long long)seeds, (unsigned long long)ops, (unsigned long long)cuts, (unsigned long long)checkpoints,
        (unsigned long long)unchanged, (unsigned long long)loaded, (unsigned long long)restored, (unsigned long long)restored_in,
        (unsigned long long)fewer, (unsigned long long)spread, (unsigned long long)older);
    if (only == 0) {
        assert_true(ops > 50 * seeds && cuts > seeds && checkpoints > seeds / 2 && unchanged > 0 && loaded > seeds / 2 &&
                    fewer >= seeds / 8 && spread >= seeds / 16 && older >= seeds / 64);
        assert_true(seeds < 100 || restored_in * 50 > seeds - 100); /* it is one cluster in 17, and may be none of a few */
    }
}
