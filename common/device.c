/* SPDX-License-Identifier: Apache-2.0 */
/* Device strings as TensorFlow 1.15 reads them. As in python/framework/device_spec.py, DeviceSpecV1: empty segments are ignored,
 * the first '/' and the number of /cpu and /gpu may be missing, types "cpu" and "gpu" become upper case, fields are merged one by
 * one. As in core/util/device_name_utils.cc, ParseFullName: "*" and /device:TYPE without a number are allowed. One difference: a
 * field given twice is refused. An error quotes the string and the bad part. */
#include "device.h"

#include "name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ALLOWED "allowed are /job:NAME /replica:N /task:N /device:TYPE:N, /cpu:N and /gpu:N"

/* One "key", "key:value" or "key:value:value" between slashes. */
struct part {
    const char *text;
    size_t len;
    uint32_t fields; /* 1 to 3; a string with more is refused */
    const char *field[3];
    size_t field_len[3];
};

static ps_status refuse(const char *text, const struct part *part, const char *why, struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX];
    char quoted_part[PSI_QUOTE_MAX / 2];
    return psi_fail(err, PS_INVALID_ARGUMENT, "device %s: part %s %s", psi_quote(quoted, sizeof(quoted), text, strlen(text)),
                    psi_quote(quoted_part, sizeof(quoted_part), part->text, part->len), why);
}

static bool is(const struct part *part, uint32_t field, const char *what)
{
    return part->field_len[field] == strlen(what) && memcmp(part->field[field], what, part->field_len[field]) == 0;
}

static bool is_any_case(const struct part *part, uint32_t field, const char *what)
{
    return part->field_len[field] == strlen(what) && strncasecmp(part->field[field], what, part->field_len[field]) == 0;
}

static struct part next_part(const char **p)
{
    struct part part = {.text = *p, .len = strcspn(*p, "/")};
    const char *at = part.text;
    const char *end = part.text + part.len;
    bool more = true;
    while (more) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        const char *stop = colon != NULL ? colon : end;
        if (part.fields < 3) {
            part.field[part.fields] = at;
            part.field_len[part.fields] = (size_t)(stop - at);
        }
        part.fields++;
        more = colon != NULL;
        at = more ? colon + 1 : end;
    }
    *p = end;
    return part;
}

static bool read_number(const struct part *part, uint32_t field, bool *out_has, uint32_t *out)
{
    if (is(part, field, "*")) {
        return true;
    }
    bool good = psi_digits_read(part->field[field], part->field_len[field], PSI_DEVICE_NUMBER_MAX, out);
    *out_has = *out_has || good;
    return good;
}

/* Read a name by TensorFlow's rule for jobs and types: a letter, then letters, digits and _. "*" leaves the field open. */
static bool read_name(const struct part *part, uint32_t field, bool *out_has, char *out, size_t max)
{
    const char *p = part->field[field];
    size_t len = part->field_len[field];
    if (is(part, field, "*")) {
        return true;
    }
    if (len > max || psi_job_name_check(p, len, NULL) != PS_OK) {
        return false;
    }
    memcpy(out, p, len);
    out[len] = '\0';
    *out_has = true;
    return true;
}

#define NUMBER_RULE "has no number from 0 to 2147483647, nor *"
#define NAME_RULE "has no good name: allowed are a letter, then letters, digits and _, "
_Static_assert(PS_JOB_BYTES_MAX == 63 && PSI_DEVICE_TYPE_BYTES_MAX == 31 && PSI_DEVICE_NUMBER_MAX == INT32_MAX,
               "the texts say it");

static const char *read_type(const struct part *part, struct psi_device *d)
{
    uint32_t index_at = 1;
    if (is(part, 0, "device")) {
        index_at = 2;
        if (!read_name(part, 1, &d->has_type, d->type, PSI_DEVICE_TYPE_BYTES_MAX)) {
            return NAME_RULE "at most 31 bytes";
        }
        if (strcmp(d->type, "cpu") == 0 || strcmp(d->type, "gpu") == 0) {
            d->type[0] = (char)(d->type[0] - 'a' + 'A');
            memcpy(d->type + 1, "PU", 3);
        }
    } else {
        d->has_type = true;
        memcpy(d->type, is_any_case(part, 0, "cpu") ? "CPU" : "GPU", 4);
    }
    return part->fields > index_at && !read_number(part, index_at, &d->has_index, &d->index) ? NUMBER_RULE : NULL;
}

enum { JOB, REPLICA, TASK, DEVICE, UNKNOWN };

static int kind_of(const struct part *part)
{
    if (part->fields == 2 && is(part, 0, "job")) {
        return JOB;
    }
    if (part->fields == 2 && is(part, 0, "replica")) {
        return REPLICA;
    }
    if (part->fields == 2 && is(part, 0, "task")) {
        return TASK;
    }
    if (part->fields >= 2 && part->fields <= 3 && is(part, 0, "device")) {
        return DEVICE;
    }
    return part->fields <= 2 && (is_any_case(part, 0, "cpu") || is_any_case(part, 0, "gpu")) ? DEVICE : UNKNOWN;
}

static const char *read_part(const struct part *part, int kind, struct psi_device *d)
{
    switch (kind) {
    case JOB:
        return read_name(part, 1, &d->has_job, d->job, PS_JOB_BYTES_MAX) ? NULL : NAME_RULE "at most 63 bytes";
    case REPLICA:
        return read_number(part, 1, &d->has_replica, &d->replica) ? NULL : NUMBER_RULE;
    case TASK:
        return read_number(part, 1, &d->has_task, &d->task) ? NULL : NUMBER_RULE;
    case DEVICE:
        return read_type(part, d);
    default:
        return "is unknown; " ALLOWED;
    }
}

ps_status psi_device_parse(const char *text, struct psi_device *out, struct psi_err *err)
{
    static const char *const twice[] = {"is a second job", "is a second replica", "is a second task",
                                        "is a second device: only one device type can be given"};
    struct psi_device d = {0};
    bool seen[UNKNOWN] = {false};
    const char *p = text;
    while (*p != '\0') {
        if (*p == '/') {
            p++;
            continue;
        }
        struct part part = next_part(&p);
        int kind = kind_of(&part);
        if (kind < UNKNOWN && seen[kind]) {
            return refuse(text, &part, twice[kind], err);
        }
        const char *why = read_part(&part, kind, &d);
        if (why != NULL) {
            return refuse(text, &part, why, err);
        }
        seen[kind] = true;
    }
    *out = d;
    return PS_OK;
}

const char *psi_device_format(const struct psi_device *d, char *buf, size_t n)
{
    int used = 0;
    PSI_ASSERT(n >= PSI_DEVICE_BYTES);
    buf[0] = '\0';
    if (d->has_job) {
        used += snprintf(buf + used, n - (size_t)used, "/job:%s", d->job);
    }
    if (d->has_replica) {
        used += snprintf(buf + used, n - (size_t)used, "/replica:%" PRIu32, d->replica);
    }
    if (d->has_task) {
        used += snprintf(buf + used, n - (size_t)used, "/task:%" PRIu32, d->task);
    }
    if (d->has_type || d->has_index) {
        used += snprintf(buf + used, n - (size_t)used, "/device:%s:", d->has_type ? d->type : "*");
        used += d->has_index ? snprintf(buf + used, n - (size_t)used, "%" PRIu32, d->index)
                             : snprintf(buf + used, n - (size_t)used, "*");
    }
    PSI_ASSERT((size_t)used < n);
    return buf;
}
_Static_assert(sizeof("/job:/replica:2147483647/task:2147483647/device::2147483647") + PS_JOB_BYTES_MAX +
                       PSI_DEVICE_TYPE_BYTES_MAX <=
                   PSI_DEVICE_BYTES,
               "the longest one");

void psi_device_merge(const struct psi_device *outer, const struct psi_device *inner, struct psi_device *out)
{
    struct psi_device d = *outer;
    if (inner->has_job) {
        d.has_job = true;
        memcpy(d.job, inner->job, sizeof(d.job));
    }
    if (inner->has_replica) {
        d.has_replica = true;
        d.replica = inner->replica;
    }
    if (inner->has_task) {
        d.has_task = true;
        d.task = inner->task;
    }
    if (inner->has_type) {
        d.has_type = true;
        memcpy(d.type, inner->type, sizeof(d.type));
    }
    if (inner->has_index) {
        d.has_index = true;
        d.index = inner->index;
    }
    *out = d;
}

bool psi_device_is_empty(const struct psi_device *d)
{
    return !d->has_job && !d->has_replica && !d->has_task && !d->has_type && !d->has_index;
}
