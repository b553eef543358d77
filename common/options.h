/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings as data: a program declares one table of rows; flags, the configuration file, --help and the listing for
 * `psctl config` all come from it. A value comes from, in rising precedence, default, file, environment, flag, in
 * whatever order these are read. Pure; one thread at a time.
 */
#ifndef PSI_OPTIONS_H
#define PSI_OPTIONS_H

#include "buf.h"
#include "status.h"

enum psi_option_type {
    PSI_OPTION_INT = 1,      /* int64_t or uint32_t; min <= value <= max */
    PSI_OPTION_BYTES = 2,    /* the same; "64M", "1GiB" (powers of 1024), "512" */
    PSI_OPTION_DURATION = 3, /* the same, milliseconds; "250ms", "2.5s", "10min", "1h"; a bare number is in the row's unit */
    PSI_OPTION_BOOL = 4,     /* bool; "true" "false" "yes" "no" "on" "off" "1" "0" */
    PSI_OPTION_STRING = 5,   /* char[max + 1]; min <= bytes <= max, no control bytes unless `lines` */
    PSI_OPTION_ENUM = 6,     /* int: index into choices; min < 0: numbers from 1 to -min, too, kept as -1 to min */
    PSI_OPTION_TEXT = 7,     /* const char *: the argument itself, of min bytes at least */
    PSI_OPTION_REAL = 8,     /* double, finite */
    PSI_OPTION_TEXTS = 9,    /* const char *[max + 1]: TEXT that may be given max times, in that order; then NULL. No default */
    PSI_OPTION_WAYS = 10     /* char[max + 1]: one of choices for all containers, and others for some (common/ways.h) */
};

enum { PSI_OPTION_WAYS_BYTES_MAX = 1024 }; /* of the field of a WAYS */

struct psi_option {
    const char *name; /* lower case, words joined by _; flags and files may write - for it */
    enum psi_option_type type;
    const char *unit;         /* of INT, for help, or NULL; DURATION: "ms" or "s", what a bare number means */
    int64_t min, max;         /* of the stored value; STRING: of its length; WAYS: max, of its length */
    const char *default_text; /* as a user would write it; NULL: the field is 0 until it is given */
    const char *bare;         /* the value when a flag is given without one (only what begins as a number is one); NULL: never */
    const char *const *choices; /* ENUM, WAYS: NULL-terminated names */
    bool reloadable;            /* may change while the program runs */
    bool lines;                 /* STRING: newlines and tabs are fine */
    bool flag_only;             /* not in the configuration file and not listed (--help, --config, ...) */
    char letter;                /* "-t VALUE"; 0 = none */
    const char *group;          /* --help: a section begins here; NULL: no */
    unsigned tag;               /* the program's */
    const char *metavar;        /* of the value in --help ("HOST:PORT,..."); NULL = from the type */
    const char *help;           /* one sentence */
    size_t offset, size;        /* PSI_OPTION_FIELD */
};

/** .PSI_OPTION_FIELD(struct psd_options, lease_ms) inside a row: { .name = ..., PSI_OPTION_FIELD(type, field) }. */
#define PSI_OPTION_FIELD(type_, field_) .offset = offsetof(type_, field_), .size = sizeof(((type_ *)0)->field_)

enum psi_option_from { PSI_FROM_DEFAULT = 0, PSI_FROM_FILE = 1, PSI_FROM_ENVIRONMENT = 2, PSI_FROM_FLAG = 3 };

struct psi_options {
    const struct psi_option *rows; /* keeps */
    size_t count;
    void *values;  /* the program's struct; keeps */
    uint8_t *from; /* count bytes: psi_option_from of each row; keeps */
};

/* ---- one row; values: the program's struct ---- */
/** Parse text and write the row's field. what ("--lease", "psd.conf:3: lease") begins an error. */
PSI_MUST ps_status psi_option_parse(const struct psi_option *row, void *values, const char *what, const char *text,
                                    struct psi_err *err);
/** The value as text that parses back to it; n > 32, and > the string's size. Returns buf. */
const char *psi_option_format(const struct psi_option *row, const void *values, char *buf, size_t n);
/** Of a row that is a number: the value as a number (0 and 1, a choice's index), and written as one, unchecked. */
int64_t psi_option_number(const struct psi_option *row, const void *values);
void psi_option_set_number(const struct psi_option *row, void *values, int64_t number);

/* ---- a table ---- */
/** Set every field to its default. Asserts that the table is sound (names, sizes, ranges, defaults that parse). */
void psi_options_init(struct psi_options *o, const struct psi_option *rows, size_t count, void *values, uint8_t *from);

/**
 * Read argv[1..]: "--name value", "--name=value", "--flag", "--no-flag", "-t value", "-tvalue"; "--" ends the flags. What
 * was read is taken out of argv (and *argc); positional arguments (also "-1", "-.5", "-inf") stay in order, "--" goes too where
 * strict.
 * strict   an unknown flag is an error that names the nearest known one; otherwise it stays in argv.
 * Errors   PS_INVALID_ARGUMENT naming flag, value and what is allowed.
 */
PSI_MUST ps_status psi_options_parse_argv(struct psi_options *o, int *argc, char **argv, bool strict, struct psi_err *err);
/**
 * Read the text of a configuration file: "key = value" lines, # and ; comments; an indented line goes on with the STRING
 * or WAYS above it. file_name is for messages. Errors PS_INVALID_ARGUMENT that begins with file:line (unknown key, section, bad
 * value, key given twice, line over inih's limit); earlier lines have taken effect then.
 */
PSI_MUST ps_status psi_options_parse_file(struct psi_options *o, const char *file_name, const char *text, size_t len,
                                          struct psi_err *err);
/** Set one by name (- and _ alike) from text; what names the source in errors ("PSD_TARGET"). A value that came from a higher
 *  source stays. */
PSI_MUST ps_status psi_options_set(struct psi_options *o, enum psi_option_from from, const char *what, const char *name,
                                   const char *text, struct psi_err *err);

/** Row number by name (- and _ alike) or -1. */
int32_t psi_options_find(const struct psi_options *o, const char *name);
/** The value in force as text that parses back to it; n > 32, and > the string's size. Returns buf. */
const char *psi_options_format_value(const struct psi_options *o, size_t row, char *buf, size_t n);
/** Append one "  --name VALUE   help (unit, range; default)" entry per row, wrapped at 100 columns. */
PSI_MUST ps_status psi_options_help(const struct psi_options *o, struct psi_buf *out, struct psi_err *err);
/** The entry of one row. */
PSI_MUST ps_status psi_option_help(const struct psi_option *row, struct psi_buf *out, struct psi_err *err);
/** Append a configuration file: per row that is not flag_only its help as comments and, commented out, "#name = default". A value
 *  that is not from the default is not commented out. psi_options_parse_file() reads it, also with every # before a name removed.
 */
PSI_MUST ps_status psi_options_file(const struct psi_options *o, struct psi_buf *out, struct psi_err *err);

#endif
