/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages: nanopb's encoder and decoder with our own status. Checked here, because nanopb does not: padding, the end of
 * a list, texts with a NUL, enum values out of range. Nothing is allocated: proto/control.options bounds every field. */
#include "msg.h"

#include "limits.h"
#include "optimizer.h"
#include "plan.pb.h"
#include "schedule.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

struct message_name {
    const pb_msgdesc_t *d;
    const char *name;
};
#define NAME(x)                                                                                                                  \
    {                                                                                                                            \
        &ps_v1_##x##_msg, #x                                                                                                     \
    }
/* All messages of control.proto and plan.proto: scripts/lint/proto checks that. */
static const struct message_name NAMES[] = {
    NAME(Hello),         NAME(UnresolvedItem),
    NAME(HelloAnswer),   NAME(TaskItem),
    NAME(NumberItem),    NAME(Schedule),
    NAME(Optimizer),     NAME(PartOf),
    NAME(CreateItem),    NAME(CreateAnswer),
    NAME(NameItem),      NAME(OpenAnswer),
    NAME(Init),          NAME(HandleItem),
    NAME(Wait),          NAME(Barrier),
    NAME(Seal),          NAME(ChiefAnswer),
    NAME(ContainerItem), NAME(Beat),
    NAME(BeatAnswer),    NAME(InfoAnswer),
    NAME(VarAnswer),     NAME(ConfigAnswer),
    NAME(ConfigItem),    NAME(SessionAnswer),
    NAME(WaitAnswer),    NAME(ContainerAnswer),
    NAME(StopAnswer),    NAME(TaskAnswer),
    NAME(Call),          NAME(ListItem),
    NAME(Component),     NAME(Queue),
    NAME(Enqueue),       NAME(Dequeue),
    NAME(Part),          NAME(QueueClose),
    NAME(WorkEnd),       NAME(SetStep),
    NAME(QueueAnswer),   NAME(SyncOptions),
    NAME(Sync),          NAME(Join),
    NAME(JoinAnswer),    NAME(Step),
    NAME(Leave),         NAME(RoundAnswer),
    NAME(MemberAnswer),  NAME(AgeAnswer),
    NAME(Events),        NAME(EventAnswer),
    NAME(RoundsItem),    NAME(MemberItem),
    NAME(PrepareAnswer), NAME(SetRate),
    NAME(Chief),         NAME(SavedItem),
    NAME(SaveItem),      NAME(FileItem),
    NAME(StartItem),     NAME(CheckpointAnswer),
    NAME(SavedNameItem), NAME(CheckpointRead),
    NAME(BarItem),       NAME(SavedContainer),
    NAME(SavesState),    NAME(WhoamiAnswer),
    NAME(MayItem),       NAME(RunVariable),
    NAME(RunHead),       NAME(RunInput),
    NAME(RunRow),        NAME(RunOutput),
    NAME(RunAnswer),     NAME(RunResult),
    NAME(Addresses),
};

static const char *name_of(const pb_msgdesc_t *d)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (NAMES[i].d == d) {
            return NAMES[i].name;
        }
    }
    return "message";
}

ps_status psi_msg_encode(const pb_msgdesc_t *d, const void *m, uint8_t *dst, size_t cap, size_t *out_bytes, struct psi_err *err)
{
    pb_ostream_t stream = pb_ostream_from_buffer(dst, cap);
    if (!pb_encode(&stream, d, m)) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s does not fit %zu bytes (%s)", name_of(d), cap, PB_GET_ERROR(&stream));
    }
    *out_bytes = stream.bytes_written;
    return PS_OK;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

ps_status psi_msg_decode(const pb_msgdesc_t *d, void *m, const uint8_t *src, size_t n, struct psi_err *err)
{
    static const uint8_t none[1] = {0};
    pb_istream_t stream = pb_istream_from_buffer(n != 0 ? src : none, n);
    if (!pb_decode_ex(&stream, d, m, PB_DECODE_NULLTERMINATED)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s", name_of(d), PB_GET_ERROR(&stream));
    }
    /* a zero tag has ended the message: this byte and the rest are padding */
    if (stream.bytes_left != 0 && (stream.bytes_left > 6 || !all_zero(src + (n - stream.bytes_left), stream.bytes_left))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: bytes after its end", name_of(d));
    }
    return PS_OK;
}

ps_status psi_list_append(struct psi_buf *b, const pb_msgdesc_t *d, const void *m, struct psi_err *err)
{
    return psi_list_append_with(b, d, m, NULL, 0, err);
}

ps_status psi_list_append_with(struct psi_buf *b, const pb_msgdesc_t *d, const void *m, const uint8_t *more, size_t more_bytes,
                               struct psi_err *err)
{
    /* true: the buffer has room for the longest message that is allowed, so this one need not be measured before it is encoded */
    const bool roomy = b->capacity - b->len >= PS_LIST_ITEM_BYTES_MAX + 2;
    size_t bytes = PS_LIST_ITEM_BYTES_MAX;
    if (!roomy) {
        const bool known = pb_get_encoded_size(&bytes, d, m);
        bytes += more_bytes;
        if (!known || bytes > PS_LIST_ITEM_BYTES_MAX) {
            return psi_fail(err, PS_INTERNAL, "%s of %zu bytes cannot stand in a list", name_of(d), bytes);
        }
    }
    ps_status st = psi_buf_reserve(b, bytes + 2, err); /* a length takes at most 2 bytes: PS_LIST_ITEM_BYTES_MAX < 2^14 */
    if (st != PS_OK) {
        return st;
    }
    uint8_t *at = b->data + b->len;
    pb_ostream_t stream = pb_ostream_from_buffer(at + 2, bytes);
    if (!pb_encode(&stream, d, m) || !pb_write(&stream, more, more_bytes) || stream.bytes_written == 0) {
        return psi_fail(err, PS_INTERNAL, "%s: %s", name_of(d), PB_GET_ERROR(&stream));
    }
    bytes = stream.bytes_written;
    const size_t head = bytes < 0x80 ? 1 : 2;
    if (head == 1) {
        memmove(at + 1, at + 2, bytes);
    } else {
        at[1] = (uint8_t)(bytes >> 7);
    }
    at[0] = (uint8_t)(head == 1 ? bytes : (bytes & 0x7fu) | 0x80u);
    b->len += head + bytes;
    return PS_OK;
}
_Static_assert(PS_LIST_ITEM_BYTES_MAX < 1 << 14, "the length of a list's item takes two bytes at most");

/* Measure the next item of a list: bytes of its length field, and its length; both 0 at the list's end and at padding. */
static ps_status item_bytes(const uint8_t *at, size_t n, const char *of, size_t *out_head, size_t *out_length,
                            struct psi_err *err)
{
    *out_head = *out_length = 0;
    if (n == 0 || at[0] == 0) {
        return n <= 7 && all_zero(at, n) ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "list of %s: bytes after its end", of);
    }
    size_t length = at[0] & 0x7fu;
    size_t head = 1;
    if ((at[0] & 0x80u) != 0) {
        if (n < 2 || (at[1] & 0x80u) != 0 || at[1] == 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "list of %s: bad length", of);
        }
        length |= (size_t)at[1] << 7;
        head = 2;
    }
    if (length > PS_LIST_ITEM_BYTES_MAX || length > n - head) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "list of %s: an item of %zu bytes, %zu are left", of, length, n - head);
    }
    *out_head = head;
    *out_length = length;
    return PS_OK;
}

ps_status psi_list_measure(const uint8_t *p, size_t n, size_t most, size_t *out_bytes, uint32_t *out_count, struct psi_err *err)
{
    size_t head = 0, length = 0;
    *out_bytes = 0;
    for (*out_count = 0;; (*out_count)++) {
        ps_status st = item_bytes(p, n, "items", &head, &length, err);
        if (st != PS_OK || head == 0 || *out_bytes + head + length > most) {
            return st;
        }
        *out_bytes += head + length;
        p += head + length;
        n -= head + length;
    }
}

ps_status psi_list_next(const uint8_t **p, size_t *n, const pb_msgdesc_t *d, void *m, bool *out_end, struct psi_err *err)
{
    size_t head = 0, length = 0;
    const uint8_t *at = *p;
    ps_status st = item_bytes(at, *n, name_of(d), &head, &length, err);
    *out_end = st == PS_OK && head == 0;
    if (*out_end && *n > 0) {
        *p += *n;
        *n = 0;
    }
    if (st != PS_OK || *out_end) {
        return st;
    }
    pb_istream_t stream = pb_istream_from_buffer(at + head, length);
    if (!pb_decode(&stream, d, m)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s", name_of(d), PB_GET_ERROR(&stream));
    }
    *p += head + length;
    *n -= head + length;
    return PS_OK;
}

bool psi_items_next(struct psi_items *items, const pb_msgdesc_t *d, void *m, struct psi_err *err)
{
    bool end = false;
    if (items->st == PS_OK) {
        items->st = psi_list_next(&items->at, &items->bytes_left, d, m, &end, err);
    }
    return items->st == PS_OK && !end;
}

size_t psi_bytes_set(pb_bytes_array_t *field, size_t cap, const char *s)
{
    size_t n = strnlen(s, cap);
    memcpy(field->bytes, s, n);
    field->size = (pb_size_t)n;
    return n;
}

ps_status psi_bytes_text(const pb_bytes_array_t *field, char *dst, size_t cap)
{
    dst[0] = '\0';
    if (field->size >= cap || memchr(field->bytes, 0, field->size) != NULL) {
        return PS_INVALID_ARGUMENT;
    }
    memcpy(dst, field->bytes, field->size);
    dst[field->size] = '\0';
    return PS_OK;
}

#define COPY(field) .field = from->field,

void psi_optimizer_to_msg(const ps_optimizer *from, ps_v1_Optimizer *to)
{
    *to = (ps_v1_Optimizer){.kind = from->kind, .nesterov = from->nesterov != 0, PSI_OPTIMIZER_DOUBLES(COPY)};
    if (from->schedule == PS_SCHEDULE_NONE) {
        return;
    }
    to->has_schedule = true;
    to->schedule = (ps_v1_Schedule){.kind = from->schedule,
                                    .on = from->schedule_switch != 0,
                                    .warmup_steps = from->warmup_steps,
                                    .warmup_rate = from->warmup_rate};
    memcpy(to->schedule.numbers, from->schedule_numbers, sizeof(from->schedule_numbers));
    to->schedule.numbers_count = PS_SCHEDULE_NUMBERS;
    while (to->schedule.numbers_count > 0 && to->schedule.numbers[to->schedule.numbers_count - 1] == 0) {
        to->schedule.numbers_count--;
    }
}

ps_status psi_optimizer_from_msg(const ps_v1_Optimizer *from, ps_optimizer *to, struct psi_err *err)
{
    if (psi_optimizer_row(from->kind) == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer kind %u is unknown", (unsigned)from->kind);
    }
    const ps_v1_Schedule *schedule = &from->schedule;
    if (from->has_schedule && (schedule->kind == PS_SCHEDULE_NONE || psi_schedule_row(schedule->kind) == NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "schedule number %u is unknown", (unsigned)schedule->kind);
    }
    *to = (ps_optimizer){.kind = from->kind, .nesterov = from->nesterov ? 1 : 0, PSI_OPTIMIZER_DOUBLES(COPY)};
    if (from->has_schedule) {
        to->schedule = schedule->kind;
        to->schedule_switch = schedule->on ? 1 : 0;
        to->warmup_steps = schedule->warmup_steps;
        to->warmup_rate = schedule->warmup_rate;
        memcpy(to->schedule_numbers, schedule->numbers, schedule->numbers_count * sizeof(schedule->numbers[0]));
    }
    return PS_OK;
}

ps_status psi_shape_from_dims(const int64_t *dims, size_t count, ps_shape *out, struct psi_err *err)
{
    if (count > PS_RANK_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a shape of rank %zu, at most %d", count, PS_RANK_MAX);
    }
    memset(out, 0, sizeof *out);
    out->rank = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        out->dims[i] = dims[i];
    }
    return PS_OK;
}

void psi_part_to_msg(const struct psi_part *from, ps_v1_PartOf *to)
{
    *to = (ps_v1_PartOf){
        .count = from->count, .index = from->index, .axis = from->axis, .layout = from->layout, .rows = from->rows};
}

void psi_part_from_msg(const ps_v1_PartOf *from, bool there, struct psi_part *to)
{
    const ps_v1_PartOf none = ps_v1_PartOf_init_zero;
    const ps_v1_PartOf *m = there ? from : &none;
    *to = (struct psi_part){.count = m->count, .index = m->index, .axis = m->axis, .layout = m->layout, .rows = m->rows};
}
