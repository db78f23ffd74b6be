/* The operation table, and the rules that its rows name: each has the one signature that its column asks for. */
#include "graph/emit.h"

#define ROW(id, stablehlo, shape_rule, gradient_rule, print_rule, rows_rule, names) \
    [NT__OP_##id] = {#id,                                                           \
                     stablehlo,                                                     \
                     nt__shape_##shape_rule,                                        \
                     nt__gradient_##gradient_rule,                                  \
                     nt__print_##print_rule,                                        \
                     nt__track_##rows_rule,                                         \
                     names},
const nt__operation nt__operations[NT__OP_COUNT] = {
#include "graph/operations.def"
};
