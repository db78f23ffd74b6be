/* Inside of the nn folder: what attention, rotary positions and the multi-head layer share. */
#ifndef NT_NN_ATTENTION_H
#define NT_NN_ATTENTION_H

#include "nitro/attention.h"
#include "nn/nn.h"

/* Whether what says which keys are seen fits scores of this shape, [batch, heads, queries, keys]; false after keeping
 * the error. `what` is the call. */
bool nt__attention_seen(const char *what, nt_tensor mask, nt_tensor lengths, nt_shape scores, nt_site site);
/* What both masks show; one that is not set shows all. */
nt_tensor nt__seen_by_both(nt_tensor a, nt_tensor b, nt_site site);

/* Which keys a mask shows to some query: bool [batch or 1, keys, 1]. */
nt_tensor nt__seen_by_any(nt_tensor mask, nt_site site);
/* Which of the places, integers [n], are before the length of each sample: bool [batch, n, 1]. */
nt_tensor nt__before_lengths(nt_tensor lengths, nt_tensor places, nt_site site);
/* nt_attention_at. Keys and values that no query sees become zeros first, for 0 * nan would get into results and
 * gradients; `is_clean`: those are finite. */
nt_tensor nt__attention(nt_tensor queries, nt_tensor keys, nt_tensor values, const nt_attention_options *given,
                        bool is_clean, nt_site site);

/* Turns x, whose positions are along axis 1 or 2 of four. */
nt_tensor nt__rotate(nt_tensor x, int along, const nt_rotary_options *options, nt_site site);

#endif
