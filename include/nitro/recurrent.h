/* Recurrent layers: a cell that goes along the time of a sequence and carries a state from position to position.
 *
 * x is [batch, time, features], the result [batch, time, units]: the hidden state after each position. Parameters are
 * of x's type: NAME.weight [features, gates * units], NAME.recurrent_weight [units, gates * units] and NAME.bias
 * [gates * units], gates beside one another along the last axis in the order given below. The loop is an nt_scan; the
 * products with x are made for all positions at once before it.
 */
#ifndef NITRO_RECURRENT_H
#define NITRO_RECURRENT_H

#include "nitro/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a cell carries, each [batch, units]. Only an LSTM has a cell. */
typedef struct nt_recurrent_state {
    nt_tensor hidden, cell;
} nt_recurrent_state;

typedef struct nt_recurrent_options {
    nt_recurrent_state initial; /* before the first position: zeros, each if it is not given */
    nt_recurrent_state *last;   /* when given, set to the state after the position that came last */
    nt_direction direction;     /* backward: from the last position to the first; results stay in their places */
    nt_tensor lengths; /* integers [batch]: of each sample only the first so many positions count. The others, which
                          are padding, leave the state as it is, so `last` is that of the last one that counts,
                          and give zeros; what they hold, also infinity or nan, changes no result and no gradient.
                          One below 0 counts as 0, above the time as that */
    bool no_bias;
    nt_init weight_init;    /* nt_glorot_uniform() */
    nt_init recurrent_init; /* nt_orthogonal(1) */
    nt_init bias_init;      /* zeros; of nt_lstm nt_forget_bias(1), by which a state is kept at first (Gers et al. 2000,
                               Jozefowicz et al. 2015) */
} nt_recurrent_options;

/* Gates i, f, z, o (input, forget, cell, output): a = x weight + h recurrent_weight + bias; c = sigmoid(f) c +
 * sigmoid(i) tanh(z); h = sigmoid(o) tanh(c). Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
 * 2000. */
#define nt_lstm(m, name, x, units, ...) nt_lstm_at(m, name, x, units, (nt_recurrent_options){__VA_ARGS__}, NT_SITE)

/* Gates r, z, n (reset, update, new): r and z are sigmoids of x weight + h recurrent_weight + bias; n = tanh(x weight +
 * bias + r (h recurrent_weight + NAME.recurrent_bias)); h = (1 - z) n + z h. Cho et al. 2014, with the reset after the
 * product. NAME.recurrent_bias [units] is there with the bias and starts as it does. */
#define nt_gru(m, name, x, units, ...) nt_gru_at(m, name, x, units, (nt_recurrent_options){__VA_ARGS__}, NT_SITE)

/* h = tanh(x weight + h recurrent_weight + bias). Elman 1990. */
#define nt_rnn(m, name, x, units, ...) nt_rnn_at(m, name, x, units, (nt_recurrent_options){__VA_ARGS__}, NT_SITE)

nt_tensor nt_lstm_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_recurrent_options options,
                     nt_site site);
nt_tensor nt_gru_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_recurrent_options options,
                    nt_site site);
nt_tensor nt_rnn_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_recurrent_options options,
                    nt_site site);

#ifdef __cplusplus
}
#endif

#endif
