/* Windows over spatial axes, and the lists that options give of them.
 */
#ifndef NT_GRAPH_WINDOW_H
#define NT_GRAPH_WINDOW_H

#include "graph/emit.h"

/* ---- windows (conv.c, pool.c) ----------------------------------------------------------------------------------- */

/* Places of the window along an axis of `size` elements. */
int64_t nt__window_places(const nt__window *window, int axis, int64_t size);
/* Sets the padding for ceil(size / stride) places, the odd element after. */
void nt__window_pad_same(nt__window *window, int axis, int64_t size);
/* Sets the padding after so that the window stands at exactly `count` places. */
void nt__window_pad_for(nt__window *window, int axis, int64_t size, int64_t count);
/* The padding before of the window that runs the other way. */
int64_t nt__window_opposite_low(const nt__window *window, int axis);

/* ---- lists with a number for each spatial axis, as options have them (lists.c) ---------------------------------- */

/* Options as the user's call has them. */
typedef struct nt__list_options {
    const char *what, *written; /* written: their text, NULL where there is none */
    int axes;                   /* spatial ones */
    nt_site site;
} nt__list_options;
/* Numbers from 1: 0 takes the one before it, the first one `first`. False after keeping an error, also of a number for
 * an axis that there is not. */
bool nt__list_numbers(const nt__list_options *options, const char *name, const int64_t given[NT_CONV_AXES],
                      int64_t first, nt_shape *out);
/* A list in which 0 is a number too: the text says how many entries it was given. */
bool nt__list_output_padding(const nt__list_options *options, const int64_t given[NT_CONV_AXES], nt_shape *out);
bool nt__list_padding(const nt__list_options *options, const int64_t given[NT_CONV_AXES][2], bool same, nt_shape *low,
                      nt_shape *high);
/* The reduction of each place of the window, which has an entry for each axis of x. `start` is its identity, and what
 * padding is. */
nt_tensor nt__window_reduce(nt__op op, nt__reducer reducer, nt_tensor x, double start, const nt__window *window,
                            nt_site site);

/* ---- printing (print.c) ------------------------------------------------------------------------------------------ */

/* Adds "padding = dense<[[0, 1], [0, 1]]> : tensor<2x2xi64>". */
void nt__padding_print(nt_shape low, nt_shape high, nt__text *text);
/* Adds ", name = array<i64: 1, 2>". */
void nt__list_print(const char *name, nt_shape list, nt__text *text);
/* Adds the body of a reduction or a choice of `type` (one of nt__reducer). */
void nt__reducer_print(int reducer, nt_dtype dtype, nt__text *text);

#endif
