/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a safetensors file: text in, table out, and back. Pure: whoever has the file reads and writes the bytes.
 *
 *   bytes 0..7    N, u64 little-endian: bytes of the header
 *   8..8+N        JSON: {"__metadata__":{"k":"v"},"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[begin,end]},...}, maybe
 *                 with blanks behind it
 *   8+N..         the values, row-major, little-endian; offsets count from here, without holes or overlap to the end of the file
 *
 * Any thread.
 */
#ifndef PSI_SAFETENSORS_H
#define PSI_SAFETENSORS_H

#include "buf.h"

/* The format's own parser (safetensors 0.4, MAX_HEADER_SIZE) reads no longer header. It is the only limit on the number of
 * tensors: how many the header has room for. */
#define PSI_SAFETENSORS_HEADER_MAX ((uint64_t)100000000)
/* psi_json_bound() of one entry of the header, which needs less than 20: at most 75 MB of memory at a time. A header of millions
 * of entries takes no more than that besides its table, because each entry is parsed alone. */
#define PSI_SAFETENSORS_MARKS_MAX ((size_t)1 << 19)
enum { PSI_SAFETENSORS_PREFIX = 8 };

/** An element type of the format. All that have whole bytes are known, also those that no variable can have. */
struct psi_tensor_type {
    const char *name; /* "F32" */
    uint32_t bytes;   /* of an element */
    ps_dtype dtype;   /* PS_DTYPE_NONE: no variable can have it */
};
/** NULL: unknown. */
const struct psi_tensor_type *psi_tensor_type_find(const char *name);
/** NULL for PS_STRING and unknown ones. */
const struct psi_tensor_type *psi_tensor_type_of(ps_dtype dtype);

struct psi_tensor {
    char *name; /* NUL-terminated; in a read table the table's */
    const struct psi_tensor_type *type;
    ps_shape shape;      /* dimensions of 0 are possible in files of others */
    uint64_t begin, end; /* bytes from the end of the header */
};
struct psi_tensor_metadata {
    char *key, *value; /* UTF-8, NUL-terminated */
};
/** A header that was read. Zeroed before first use. */
struct psi_safetensors {
    struct psi_tensor *tensors; /* in the order of the header */
    size_t tensor_count;
    struct psi_tensor_metadata *metadata;
    size_t metadata_count;
    uint64_t data_start; /* offset of the values in the file */
    uint64_t data_bytes;
};

/** What the caller of psi_safetensors_decode() thinks of the tensors. Each function may be NULL. */
struct psi_tensor_reader {
    /* Is this tensor meant? NULL: all are. Of one that is not, nothing but the name is looked at: its entry need not be
     * parseable, and its values may be missing from the file. */
    ps_status (*takes)(void *ctx, const char *name, bool *out_takes, struct psi_err *err);
    /* A name that is meant, before anything else of the tensor is looked at. */
    ps_status (*check_name)(void *ctx, const char *name, struct psi_err *err);
    /* err, INVALID_ARGUMENT, is what is wrong with the tensor that is called so. PS_OK: the next one is read, this one is not in
     * the table, and the caller refuses the file in the end. NULL: decoding fails with err. */
    ps_status (*refused)(void *ctx, const char *name, struct psi_err *err);
    void *ctx;
};

/**
 * Bytes of the header, from the first 8 of a file of file_bytes.
 * Errors  PS_INVALID_ARGUMENT: longer than the limit or the file, or too short for any header.
 */
PSI_MUST ps_status psi_safetensors_length(const uint8_t prefix[PSI_SAFETENSORS_PREFIX], uint64_t file_bytes,
                                          uint64_t *out_header_bytes, struct psi_err *err);
/**
 * Read a header of header_bytes (psi_safetensors_length() has passed them) and check all of it that is meant, against itself and
 * the file. Where all tensors are meant their values cover the file without holes; where some are not, the values of those that
 * are do not overlap. Memory: the table, and PSI_SAFETENSORS_MARKS_MAX.
 *
 * reader      NULL: all tensors are meant, with any names, and the first fault ends it.
 * out         zeroed; gives; psi_safetensors_fini(). Zeroed again on failure. Has the tensors that are meant.
 * Errors      PS_INVALID_ARGUMENT naming the tensor; PS_RESOURCE_EXHAUSTED; those of reader.
 */
PSI_MUST ps_status psi_safetensors_decode(const char *header, size_t header_bytes, uint64_t file_bytes,
                                          const struct psi_tensor_reader *reader, struct psi_safetensors *out,
                                          struct psi_err *err);
void psi_safetensors_fini(struct psi_safetensors *s);
/** NULL: there is no such key. */
const char *psi_safetensors_metadata(const struct psi_safetensors *s, const char *key);

/**
 * Lay out tensors and append prefix and header to out. The header has them in the order given; the values go into the file by
 * falling element size, and in the order given among equals, so that all are aligned without a hole.
 *
 * tensors   name, type, shape set; begin and end are written. Names are unique.
 * metadata  UTF-8; unique keys.
 * out       len a multiple of 8 before; afterwards too.
 * Errors    PS_INVALID_ARGUMENT (a name or value is not UTF-8, a name twice, over the limits of the header),
 * PS_RESOURCE_EXHAUSTED.
 */
PSI_MUST ps_status psi_safetensors_encode(struct psi_tensor *tensors, size_t count, const struct psi_tensor_metadata *metadata,
                                          size_t metadata_count, struct psi_buf *out, struct psi_err *err);

#endif
