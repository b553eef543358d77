/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/device.c: device strings, canonical form, merge. Expected forms follow TensorFlow 1.15's device_spec.py and
 * device_name_utils.cc; tests/parity compares with TensorFlow itself.
 */
#include "device_equal.h"
#include "test.h"

#include "common/device.h"

TEST(test_canonical)
{
    struct psi_err err;
    static const struct {
        const char *text, *canonical;
    } rows[] = {
        {"", ""},
        {"/", ""},
        {"//", ""},
        {"/job:ps", "/job:ps"},
        {"job:ps/task:1", "/job:ps/task:1"},
        {"/job:ps/", "/job:ps"},
        {"/job:ps/task:1", "/job:ps/task:1"},
        {"/task:1/job:ps", "/job:ps/task:1"},
        {"/device:GPU:1/task:1/replica:2/job:worker", "/job:worker/replica:2/task:1/device:GPU:1"},
        {"/job:ps/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"},
        {"/task:3", "/task:3"},
        {"/task:007", "/task:7"},
        {"/replica:2147483647/task:2147483647", "/replica:2147483647/task:2147483647"},
        {"/job:*", ""},
        {"/job:*/replica:*/task:*", ""},
        {"/job:*/task:1", "/task:1"},
        {"/device:CPU", "/device:CPU:*"},
        {"/device:CPU:*", "/device:CPU:*"},
        {"/device:CPU:0", "/device:CPU:0"},
        {"/device:cpu:0", "/device:CPU:0"},
        {"/device:gpu:*", "/device:GPU:*"},
        {"/device:Cpu:0", "/device:Cpu:0"}, /* a type of its own, as in TensorFlow */
        {"/device:TPU:3", "/device:TPU:3"},
        {"/device:XLA_GPU:0", "/device:XLA_GPU:0"},
        {"/device:*", ""},
        {"/device:*:*", ""},
        {"/device:*:3", "/device:*:3"},
        {"/cpu", "/device:CPU:*"},
        {"/cpu:0", "/device:CPU:0"},
        {"/CPU:0", "/device:CPU:0"},
        {"/Cpu:1", "/device:CPU:1"},
        {"/cpu:*", "/device:CPU:*"},
        {"cpu:0", "/device:CPU:0"},
        {"/gpu", "/device:GPU:*"},
        {"/gpu:0", "/device:GPU:0"},
        {"/GPU:1", "/device:GPU:1"},
        {"/job:worker/task:2/gpu:1", "/job:worker/task:2/device:GPU:1"},
        {"/job:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/device:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb:0",
         "/job:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/device:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb:0"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_device d;
        struct psi_device again;
        char text[PSI_DEVICE_BYTES];
        assert_ok(psi_device_parse(rows[i].text, &d, &err), &err);
        assert_string_equal(psi_device_format(&d, text, sizeof(text)), rows[i].canonical);
        assert_int_equal(psi_device_is_empty(&d), rows[i].canonical[0] == '\0');
        assert_ok(psi_device_parse(text, &again, &err), &err);
        assert_true(psi_device_equal(&d, &again));
    }
}

TEST(test_refused)
{
    struct psi_err err;
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"ps:0", "device 'ps:0': part 'ps:0' is unknown; allowed are /job:NAME"},
        {"/job:ps/bus:1", "device '/job:ps/bus:1': part 'bus:1' is unknown"},
        {"/Job:ps", "part 'Job:ps' is unknown"},
        {"/job", "part 'job' is unknown"},
        {"/job:", "part 'job:' has no good name"},
        {"/job:p-s", "part 'job:p-s' has no good name: allowed are a letter, then letters, digits and _"},
        {"/job:1a", "part 'job:1a' has no good name"},
        {"/job:a:b", "part 'job:a:b' is unknown"},
        {"/job: ps", "part 'job: ps' has no good name"},
        {"/job:ps\n", "part 'job:ps\\x0a' has no good name"},
        {"/job:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "at most 63 bytes"},
        {"/job:ps/job:ps", "part 'job:ps' is a second job"},
        {"/job:ps/job:*", "part 'job:*' is a second job"},
        {"/replica:0/replica:1", "part 'replica:1' is a second replica"},
        {"/task:1/task:1", "part 'task:1' is a second task"},
        {"/cpu:0/device:CPU:0", "part 'device:CPU:0' is a second device: only one device type can be given"},
        {"/device:CPU:0/gpu:0", "part 'gpu:0' is a second device"},
        {"/cpu/gpu", "part 'gpu' is a second device"},
        {"/task:", "part 'task:' has no number from 0 to 2147483647, nor *"},
        {"/task:-1", "part 'task:-1' has no number"},
        {"/task:+1", "part 'task:+1' has no number"},
        {"/task: 1", "part 'task: 1' has no number"},
        {"/task:x", "part 'task:x' has no number"},
        {"/task:**", "part 'task:**' has no number"},
        {"/task", "part 'task' is unknown"},
        {"/task:2147483648", "part 'task:2147483648' has no number"},
        {"/task:99999999999999999999", "has no number"},
        {"/replica:x", "part 'replica:x' has no number"},
        {"/device", "part 'device' is unknown"},
        {"/device:", "part 'device:' has no good name"},
        {"/device::0", "part 'device::0' has no good name"},
        {"/device:CPU:", "part 'device:CPU:' has no number"},
        {"/device:CPU:x", "part 'device:CPU:x' has no number"},
        {"/device:CPU:0:1", "part 'device:CPU:0:1' is unknown"},
        {"/device:C-U:0", "part 'device:C-U:0' has no good name"},
        {"/device:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb:0", "at most 31 bytes"},
        {"/cpu:", "part 'cpu:' has no number"},
        {"/cpu:0:1", "part 'cpu:0:1' is unknown"},
        {"/tpu:0", "part 'tpu:0' is unknown"},
        {" /job:ps", "part ' ' is unknown"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_device d = {.task = 77};
        assert_fails(psi_device_parse(rows[i].text, &d, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        assert_int_equal(d.task, 77);
    }
}

TEST(test_merge)
{
    struct psi_err err;
    static const struct {
        const char *outer, *inner, *merged;
    } rows[] = {
        {"", "", ""},
        {"/job:ps", "", "/job:ps"},
        {"", "/job:ps", "/job:ps"},
        {"/job:ps", "/task:1", "/job:ps/task:1"},
        {"/job:ps/task:1", "/task:2", "/job:ps/task:2"},
        {"/job:ps/task:1", "/job:worker", "/job:worker/task:1"},
        {"/job:ps/task:1", "/job:*", "/job:ps/task:1"},
        {"/job:ps/task:1", "/cpu:0", "/job:ps/task:1/device:CPU:0"},
        {"/job:worker/device:GPU:1", "/device:CPU:0", "/job:worker/device:CPU:0"},
        {"/device:GPU:1", "/cpu", "/device:CPU:1"}, /* the index is a field of its own */
        {"/cpu", "/device:*:3", "/device:CPU:3"},
        {"/replica:1", "/replica:2/task:0", "/replica:2/task:0"},
        {"/job:a/replica:1/task:1/device:CPU:1", "/job:b/replica:2/task:2/device:GPU:2", "/job:b/replica:2/task:2/device:GPU:2"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_device outer;
        struct psi_device inner;
        struct psi_device merged;
        char text[PSI_DEVICE_BYTES];
        assert_ok(psi_device_parse(rows[i].outer, &outer, &err), &err);
        assert_ok(psi_device_parse(rows[i].inner, &inner, &err), &err);
        psi_device_merge(&outer, &inner, &merged);
        assert_string_equal(psi_device_format(&merged, text, sizeof(text)), rows[i].merged);
        psi_device_merge(&outer, &inner, &outer); /* in place */
        assert_true(psi_device_equal(&merged, &outer));
        assert_ok(psi_device_parse(rows[i].outer, &outer, &err), &err);
        psi_device_merge(&outer, &inner, &inner);
        assert_true(psi_device_equal(&merged, &inner));
    }
}

TEST(test_longest)
{
    struct psi_err err;
    struct psi_device d;
    char job[PS_JOB_BYTES_MAX + 1];
    char type[PSI_DEVICE_TYPE_BYTES_MAX + 1];
    char text[2 * PSI_DEVICE_BYTES];
    char out[PSI_DEVICE_BYTES];
    memset(job, 'j', sizeof(job));
    memset(type, 'T', sizeof(type));
    PSI_IGNORE(snprintf(text, sizeof(text), "/job:%.63s/replica:2147483647/task:2147483647/device:%.31s:2147483647", job, type));
    assert_ok(psi_device_parse(text, &d, &err), &err);
    assert_string_equal(psi_device_format(&d, out, sizeof(out)), text);
}
