/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's command line: values, forms of writing, contradictions, what goes to the workers of --local; models by name. */
#include "test.h"
#include "worker/pstrain/flags.h"
#include "worker/pstrain/model.h"

#include <stdlib.h>

enum { ARGS_MAX = 12 };

/* NULL-terminated arguments without argv[0] */
static int parse(struct flags *f, char *err, ...)
{
    static char program[] = "pstrain";
    static char texts[ARGS_MAX][128];
    char *argv[ARGS_MAX + 1] = {program};
    int argc = 1;
    va_list ap;
    va_start(ap, err);
    for (const char *arg = va_arg(ap, const char *); arg != NULL; arg = va_arg(ap, const char *)) {
        (void)snprintf(texts[argc - 1], sizeof(texts[0]), "%s", arg);
        argv[argc] = texts[argc - 1];
        argc++;
    }
    va_end(ap);
    err[0] = '\0';
    return flags_parse(argc, argv, f, err);
}

static void refused(const char *word, const char *arg1, const char *arg2)
{
    struct flags f;
    char err[CLI_ERR_BYTES];
    assert_int_equal(parse(&f, err, arg1, arg2, NULL), -1);
    if (strstr(err, word) == NULL) {
        fail_msg("'%s' is not in: %s", word, err);
    }
}

TEST(test_defaults_are_the_seed_s)
{
    struct flags f;
    char err[CLI_ERR_BYTES];
    assert_int_equal(parse(&f, err, NULL), 0);
    assert_string_equal(f.ps_hosts, "");
    assert_string_equal(f.worker_hosts, "");
    assert_string_equal(f.job_name, "");
    assert_int_equal(f.task_index, 0);
    assert_string_equal(f.optimizer, "adagrad");
    assert_true(f.learning_rate == 0.05);
    assert_int_equal(f.batch_size, 32);
    assert_int_equal(f.epochs, 10);
    assert_int_equal(f.steps, 0);
    assert_false(f.fresh);
    assert_false(flags_given(&f, "job_name"));
}

TEST(test_ways_to_write_a_flag)
{
    struct flags f;
    char err[CLI_ERR_BYTES];
    assert_int_equal(
        parse(&f, err, "--learning-rate=0.5", "--batch_size", "7", "--fresh", "--seed=3", "--seed=4", "--job_name=", NULL), 0);
    assert_true(f.learning_rate == 0.5);
    assert_int_equal(f.batch_size, 7);
    assert_true(f.fresh);
    assert_int_equal(f.seed, 4);
    assert_true(flags_given(&f, "job_name"));
    assert_int_equal(parse(&f, err, "--fresh", "--fresh=false", "--steps=9223372036854775807", NULL), 0);
    assert_false(f.fresh);
    assert_int_equal(f.steps, INT64_MAX);
    assert_int_equal(parse(&f, err, "--local", "workers=64,ps=1", NULL), 0);
    assert_int_equal(f.local_ps, 1);
    assert_int_equal(f.local_workers, 64);
    assert_int_equal(parse(&f, err, "-h", "--epochs", "1", "--steps", "1", NULL), 0); /* help comes before what is wrong */
    assert_true(f.help);
}

TEST(test_limits)
{
    refused("9223372036854775808", "--steps", "9223372036854775808");
    refused("from 1", "--steps", "0");
    refused("0 to 1023", "--task_index", "1024");
    refused("0 to 1023", "--task_index", "");
    refused("0 to 1023", "--task_index", " 1");
    refused("1 to 64", "--local", "ps=65,workers=1");
    refused("1 to 64", "--local", "ps=1,workers=0");
    refused("ps=P,workers=W", "--local", "ps=1,workers=1,");
    refused("ps=P,workers=W", "--local", "ps=1workers=1");
    refused("ps=P,workers=W", "--local", "ps=-1,workers=1");
    refused("ps=P,workers=W", "--local", "");
    refused("number", "--learning_rate", "inf");
    refused("number", "--learning_rate", "0.1x");
    refused("above 0", "--learning_rate", "-0.1");
    refused("below 1", "--momentum", "1");
    refused("--learning_rate", "--lerning_rate", "1");
    refused("takes flags only", "--", "1");
    refused("flag '--' is unknown", "--=", "1");
    refused("--local makes a cluster of its own", "--local=ps=1,workers=1", "--serve");
    refused("--report is empty", "--report", "");
    refused("--export is empty", "--export", "");
    refused("libsvm:TRAIN[,TEST]", "--data", "libsvm:");
    refused("must be digits, mnist:DIR, libsvm:TRAIN[,TEST], libffm:TRAIN[,TEST], csv:TRAIN[,TEST], npy:X,Y[,XT,YT] or npz:FILE",
            "--data", "cvs:x");
    refused("--eval and --local", "--eval", "--local=ps=1,workers=1");
    refused("--eval and --serve", "--eval", "--serve");
    refused("--eval and --steps", "--eval", "--steps=5");
    refused("--eval and --fresh", "--eval", "--fresh");
    refused("--checkpoint_seconds: give --checkpoint_dir too", "--checkpoint_seconds", "1");
    refused("--recover: give --checkpoint_dir too", "--recover", "cut");
    refused("--recover: 'all' is not allowed; allowed: partial, cut", "--recover", "all");
    refused("--clip_norm: '1x' is not allowed; allowed: a number such as 0.5", "--clip_norm", "1x");
    refused("--spread: give --checkpoint_dir too", "--spread", NULL);
    refused("--restore_checkpoint: give --checkpoint_dir too", "--restore_checkpoint", "none");
    refused("--restore_checkpoint: 'newest' is not allowed; allowed: auto, latest, none, a number from 1", "--restore_checkpoint",
            "newest");
    refused("--restore_checkpoint: '0'", "--restore_checkpoint", "0");
    refused("--checkpoint_memory: give --checkpoint_dir too", "--checkpoint_memory", "1MiB");
    refused("--checkpoint_memory: '1KiB'", "--checkpoint_memory", "1KiB");
    refused("--keep_checkpoint_every_hours: give --checkpoint_dir too", "--keep_checkpoint_every_hours", "6");
}

TEST(test_children_get_what_was_given_and_concerns_them)
{
    struct flags f;
    char err[CLI_ERR_BYTES];
    char *texts[FLAGS_COUNT] = {NULL};
    assert_int_equal(parse(&f, err, "--local", "ps=1,workers=1", "--learning_rate", "1e-3", "--report", "r.json", "--export=m",
                           "--data=digits", "--checkpoint_dir", "d", "--max_to_keep=7", NULL),
                     0);
    /* the empty --key_file: a cluster of its own looks for no key */
    static const char *const expected[2][4] = {{"--key_file=", "--checkpoint_dir=d", "--max_to_keep=7"},
                                               {"--key_file=", "--checkpoint_dir=d", "--data=digits", "--learning_rate=0.001"}};
    for (int worker = 0; worker <= 1; worker++) {
        const int count = flags_for_child(&f, worker != 0, texts);
        assert_int_equal(count, worker + 3);
        for (int i = 0; i < count; i++) {
            assert_string_equal(texts[i], expected[worker][i]);
            free(texts[i]);
        }
    }
}

TEST(test_what_ps_tasks_get_is_what_was_said)
{
    struct flags f;
    char err[CLI_ERR_BYTES];
    char *texts[FLAGS_COUNT] = {NULL};
    static const char *const given[] = {"--key_file=",
                                        "--checkpoint_dir=d",
                                        "--keep_checkpoint_every_hours=6",
                                        "--checkpoint_memory=2MiB",
                                        "--restore_checkpoint=12",
                                        "--recover=partial,model=cut",
                                        "--spread=true"};
    assert_int_equal(parse(&f, err, "--local=ps=1,workers=1", given[1], given[2], given[3], given[4], given[5], "--spread", NULL),
                     0);
    assert_int_equal(f.restore_checkpoint, -12);
    assert_string_equal(f.recover.text, "partial,model=cut");
    assert_true(f.spread);
    assert_int_equal(f.checkpoint_memory, 2 << 20);
    assert_int_equal(f.keep_every_hours, 6);
    assert_int_equal(flags_for_child(&f, false, texts), 7);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(texts[i], given[i]);
        free(texts[i]);
    }
}

TEST(test_optimizers)
{
    struct flags f;
    char err[CLI_ERR_BYTES];
    assert_int_equal(parse(&f, err, "--optimizer=nesterov", "--momentum=0.5", "--learning_rate=0.25", NULL), 0);
    assert_int_equal(f.rule.kind, PS_OPT_MOMENTUM);
    assert_int_equal(f.rule.nesterov, 1);
    assert_true(f.rule.momentum == 0.5);
    assert_true(f.rule.learning_rate == 0.25);
    assert_int_equal(parse(&f, err, "--optimizer=adam:beta1=0.5,learning_rate=0.125", "--learning_rate=0.25", NULL), 0);
    const ps_optimizer adam = {.struct_bytes = sizeof(ps_optimizer),
                               .kind = PS_OPT_ADAM,
                               .learning_rate = 0.125,
                               .beta1 = 0.5,
                               .beta2 = 0.999,
                               .epsilon = 1e-8};
    assert_memory_equal(&f.rule, &adam, sizeof(adam));
    assert_true(f.learning_rate == 0.125);
    refused("adagrad", "--optimizer", "Adam");
    refused("adam(learning_rate=0.05, beta1=0.9", "--optimizer", "adam:beta3=1");
    refused("beta1 is 1, it must be >= 0 and < 1 in float32; its standard value is 0.9", "--optimizer", "adam:beta1=1");
    refused("one that trains", "--optimizer", "none");
    assert_int_equal(parse(&f, err, "--optimizer=adam:l2=0", "--l2=0.25", NULL), 0);
    assert_true(f.rule.kind == PS_OPT_ADAM && f.rule.l2 == 0.25);
    assert_int_equal(parse(&f, err, "--optimizer=adam:l2=0.5", NULL), 0);
    assert_true(f.rule.l2 == 0.5);
    refused("--l2 and --optimizer adam:l2=0.5: both say l2; drop one of them", "--optimizer=adam:l2=0.5", "--l2=0.25");
    refused("--l2 -1: must be >= 0", "--l2=-1", NULL);
    refused("optimizer adam: beta1 is given twice", "--optimizer", "adam:beta1=0.5,epsilon=1,beta1=0.5");
    refused("sgd(learning_rate=0.05), l2, clip_value, ema, ema_updates", "--optimizer", "sgd:beta1=0.5");
}

/* The default goes by the data and the rule. */
TEST(test_learning_rates)
{
    static const struct {
        const char *data, *optimizer, *rate;
        double want;
    } rows[] = {{"digits", "adagrad", NULL, 0.05},
                {"libsvm:x", "adagrad", NULL, 0.1},
                {"libsvm:x,y", "sgd", NULL, 0.1},
                {"libsvm:x", "adam", NULL, 0.05},
                {"libsvm:x", "adagrad:initial_accumulator=1", NULL, 0.1},
                {"libsvm:x", "adagrad:learning_rate=0.05", NULL, 0.05},
                {"libsvm:x", "sgd", "0.3", 0.3}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct flags f;
        char err[CLI_ERR_BYTES], texts[4][64];
        char *argv[4] = {texts[0], texts[1], texts[2], texts[3]};
        (void)snprintf(texts[0], sizeof(texts[0]), "pstrain");
        (void)snprintf(texts[1], sizeof(texts[1]), "--data=%s", rows[i].data);
        (void)snprintf(texts[2], sizeof(texts[2]), "--optimizer=%s", rows[i].optimizer);
        (void)snprintf(texts[3], sizeof(texts[3]), "--learning_rate=%s", rows[i].rate == NULL ? "" : rows[i].rate);
        assert_int_equal(flags_parse(rows[i].rate == NULL ? 3 : 4, argv, &f, err), 0);
        assert_true(f.learning_rate == rows[i].want);
    }
}

TEST(test_models)
{
    struct model_spec s;
    char name[MODEL_NAME_BYTES];
    assert_int_equal(model_spec_parse("softmax", 64, 10, &s), 0);
    assert_int_equal(s.layers, 1);
    assert_int_equal(model_variable_count(&s), 2);
    assert_int_equal(model_value_count(&s), 650);
    assert_string_equal(model_variable_name(&s, 0, true, name), "softmax/biases");
    assert_int_equal(model_spec_parse("logistic", 64, 2, &s), 0);
    assert_int_equal(model_value_count(&s), 130);
    assert_string_equal(model_variable_name(&s, 0, false, name), "softmax/weights"); /* it is the same */
    assert_int_equal(model_spec_parse("mlp:512,300", 784, 10, &s), 0);
    assert_int_equal(s.layers, 3);
    assert_int_equal(s.units[1], 512);
    assert_int_equal(s.units[2], 300);
    assert_int_equal(s.units[3], 10);
    assert_int_equal(model_value_count(&s), 785 * 512 + 513 * 300 + 301 * 10);
    assert_string_equal(model_variable_name(&s, 0, false, name), "layer1/weights");
    assert_string_equal(model_variable_name(&s, 1, true, name), "layer2/biases");
    assert_string_equal(model_variable_name(&s, 2, false, name), "softmax/weights");
    assert_int_equal(model_spec_parse("mlp:65536,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 1, 1, &s), 0);
    assert_int_equal(s.layers, MODEL_LAYERS_MAX);
    assert_false(s.by_rows);
    assert_int_equal(model_spec_parse("fm:8", 100, 2, &s), 0);
    assert_true(s.by_rows && s.machine);
    assert_int_equal(model_variable_count(&s), 3);
    assert_int_equal(model_value_count(&s), 100 * 2 + 2 + 100 * 8);
    assert_string_equal(model_variable_name(&s, 1, false, name), "fm/factors");
    s.parts = 4;
    assert_int_equal(model_part_count(&s), 4 + 1 + 4);
    assert_int_equal(model_spec_parse("wide_deep:dim=16,hidden=64-32", 100, 3, &s), 0);
    assert_true(s.by_rows && s.first_is_linear && !s.machine);
    assert_int_equal(s.layers, 4);
    assert_int_equal(model_variable_count(&s), 9);
    assert_int_equal(model_value_count(&s), 101 * 16 - 100 + 100 + 17 * 64 - 64 + 64 + 65 * 32 + 33 * 3 + 100 * 3);
    assert_string_equal(model_variable_name(&s, 4, false, name), "wide/weights");
    static const char *const bad[] = {"",
                                      "fm:",
                                      "fm:0",
                                      "fm:8,",
                                      "wide_deep",
                                      "wide_deep:dim=16",
                                      "wide_deep:dim=16,hidden=",
                                      "wide_deep:dim=0,hidden=4",
                                      "wide_deep:dim=16,hidden=4-",
                                      "wide_deep:dim=16,hidden=4,5",
                                      "mlp",
                                      "mlp:",
                                      "mlp:0",
                                      "mlp:65537",
                                      "mlp:5,",
                                      "mlp:,5",
                                      "mlp:5 5",
                                      "mlp:+5",
                                      "softmax:5",
                                      "mlp:1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
                                      "mlp:99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (model_spec_parse(bad[i], 1, 1, &s) != -1) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
}
