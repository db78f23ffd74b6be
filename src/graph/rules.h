/* Short names for gradient rules, which read as formulas with them. For files of such rules only. */
#ifndef NT_GRAPH_RULES_H
#define NT_GRAPH_RULES_H

#include "graph/emit.h"

/* In a rule: c is the cotangent, y the value, a and b the operands. */
#define C b->cotangent
#define Y b->value
#define A b->operands[0]
#define B b->operands[1]
#define MUL(p, q) nt_mul_at(NT_TENSOR(p), NT_TENSOR(q), b->site)
#define DIV(p, q) nt_div_at(NT_TENSOR(p), NT_TENSOR(q), b->site)
#define ADD(p, q) nt_add_at(NT_TENSOR(p), NT_TENSOR(q), b->site)
#define SUB(p, q) nt_sub_at(NT_TENSOR(p), NT_TENSOR(q), b->site)
#define NEG(p) nt_neg_at(p, b->site)
#define WHERE(p, q, r) nt_where_at(p, NT_TENSOR(q), NT_TENSOR(r), b->site)
#define IS(comparison, p, q) nt_##comparison##_at(NT_TENSOR(p), NT_TENSOR(q), b->site)

#endif
