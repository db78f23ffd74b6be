/* What the examples on text share: a text, cut into samples, and how well a model tells its next characters.
 * Characters are bytes. The text is a file, or else the King James Version of the Bible, of Debian's package bible-kjv.
 */
#ifndef EXAMPLES_TEXT_H
#define EXAMPLES_TEXT_H

#include <math.h>
#include <nitro.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints the whole text, a verse a line, and takes the name of the verse off each. */
#define KING_JAMES "bible -f gen1:1-rev22:21 2>/dev/null | cut -d ' ' -f 2-"

/* u8[characters]; NULL with a message. */
static inline nt_array *read_text(const char *path) {
    char *bytes = NULL;
    size_t capacity = 0;
    int (*close)(FILE *) = *path ? fclose : pclose;
    FILE *file = *path ? fopen(path, "r") : popen(KING_JAMES, "r");
    ssize_t length = file ? getdelim(&bytes, &capacity, '\0', file) : -1;
    if (file) close(file);
    nt_array *text = NULL;
    if (length > 0)
        text = nt_array_from(NT_U8, nt_dims(length), bytes);
    else if (*path)
        nt_fail(NT_IO, "no text could be read from '%s'", path);
    else
        nt_fail(NT_NOT_FOUND, "the King James text comes from the program 'bible', which is not there or printed "
                              "nothing: apt-get install bible-kjv, or name another text with --text=FILE");
    free(bytes);
    return text;
}

/* u8[samples, length + 1]: each begins with the last character of the one before. */
static inline nt_array *cut_text(const nt_array *text, int64_t length) {
    int64_t count = (text->shape.dims[0] - 1) / length;
    nt_array *samples = nt_array_new(NT_U8, nt_dims(count, length + 1));
    for (int64_t i = 0; samples && i < count; i++)
        memcpy((char *)samples->data + i * (length + 1), (const char *)text->data + i * length, (size_t)length + 1);
    return samples;
}

/* The field "text" of the splits train and val; val has the last twentieth of the text. */
static inline nt_status text_splits(nt_data *data, const char *path, int64_t length, int64_t batch) {
    nt_array *text = read_text(path), *samples = text ? cut_text(text, length) : NULL;
    int64_t border = samples ? samples->shape.dims[0] * 19 / 20 : 0;
    nt_array_free(text);
    nt_split(data, "train", .batch = batch, .shuffle = true, .drop_last = true, .limit = border);
    nt_split(data, "val", .batch = batch, .first = border);
    nt_split_field(data, "train", "text", samples ? nt_array_retain(samples) : NULL);
    nt_split_field(data, "val", "text", samples);
    return nt_data_status(data);
}

/* [samples, length] of the field: all characters but the last, from which a model tells those from the second on. */
static inline nt_tensor characters(nt_batch *batch, int64_t first) {
    nt_tensor text = nt_field(batch, "text");
    int64_t samples = nt_dim(text, 0), length = nt_dim(text, 1) - 1;
    return nt_slice(text, nt_dims(0, first), nt_dims(samples, first + length));
}
static inline nt_tensor given_characters(nt_batch *batch) {
    return characters(batch, 0);
}
static inline nt_tensor next_characters(nt_batch *batch) {
    return characters(batch, 1);
}

/* The mean of -log2 of the probability that each next character was given. */
static inline void bits_per_character(nt_device_metrics *metrics, nt_tensor logits, nt_batch *batch) {
    nt_tensor next = next_characters(batch);
    nt_tensor sum = nt_cross_entropy(logits, next, .reduction = NT_SUM);
    nt_device_mean(metrics, "bits", nt_div(sum, M_LN2), (double)nt_shape_elements(nt_shape_of(next)));
}

#endif
