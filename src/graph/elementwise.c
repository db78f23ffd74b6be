/* Element-wise operations: arithmetic, functions, comparison, choice, conversion of type; broadcasting of their
 * operands; constants. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/emit.h"
#include "graph/rules.h"

/* ---- constants -------------------------------------------------------------------------------------------------- */

/* Whether an integer or bool type has the value. The largest values of the 64-bit types are no doubles: in one, they
 * are rounded up to the number that is one too large. */
static bool is_value_of(nt_dtype dtype, double value) {
    char element[8];
    nt__element_set(dtype, element, value);
    double too_large = dtype == NT_I64 ? 0x1p63 : dtype == NT_U64 ? 0x1p64 : HUGE_VAL;
    return nt__element_get(dtype, element) == value && value < too_large;
}

/* The number of the type that is nearest to `value`. */
static nt_tensor nearest(nt__type type, double value, nt_site site) {
    char element[8];
    nt__element_set(type.dtype, element, value);
    return nt__emit(NT__OP_constant, site, type, 0, NULL, &(nt__attributes){.elements = element, .splat = true});
}

nt_tensor nt__filled(const char *what, nt__type type, double value, nt_site site) {
    if (!nt__type_possible(site, what, type)) return nt__failed();
    if (!nt_dtype_is_float(type.dtype) && !is_value_of(type.dtype, value))
        return nt__trace_fail(site, what, "the number %.15g is not a value of %s; convert the tensor with nt_convert",
                              value, nt_dtype_name(type.dtype));
    return nearest(type, value, site);
}

nt_tensor nt__identity(nt_dtype dtype, double value, nt_site site) {
    return nearest((nt__type){dtype, {0}}, value, site);
}

nt_tensor nt__given_number(const char *what, nt__type type, double value, nt_site site) {
    return nt__take_number(what, value, site) ? nt__filled(what, type, value, site) : nt__failed();
}

nt_tensor nt_full_at(nt_dtype dtype, nt_shape shape, double value, nt_site site) {
    return nt__given_number("full", (nt__type){dtype, shape}, value, site);
}

nt_tensor nt_constant_at(const nt_array *array, const char *expression, nt_site site) {
    if (!array) return nt__trace_fail(site, "constant", "array is NULL: was it not read or made?");
    if (!nt__take_constant(array, expression, site)) return nt__failed();
    nt__attributes attributes = {.elements = array->data, .splat = nt_shape_elements(array->shape) == 1};
    return nt__emit(NT__OP_constant, site, nt__array_type(array), 0, NULL, &attributes);
}

nt_tensor nt_iota_at(nt_dtype dtype, nt_shape shape, int axis, nt_site site) {
    nt__type type = {dtype, shape};
    nt__attributes attributes = {0};
    bool right = nt__type_possible(site, "iota", type) && nt__type_numeric(site, "iota", type) &&
                 nt__axis(site, "iota", type, axis, &attributes.choice);
    return right ? nt__emit(NT__OP_iota, site, type, 0, NULL, &attributes) : nt__failed();
}

/* ---- broadcasting ----------------------------------------------------------------------------------------------- */

static bool refuse(nt_site site, const char *what, int count, const nt_tensor *operands, const char *why) {
    char list[4 * NT__TYPE_TEXT] = "", type[NT__TYPE_TEXT];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        const char *between = i == 0 ? "" : i == count - 1 ? " and " : ", ";
        nt_tensor x = operands[i];
        if (nt__is_number(x))
            nt__format(type, sizeof type, "%g", x.number);
        else
            nt__type_text((nt__type){nt_dtype_of(x), nt_shape_of(x)}, type);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", between, type);
    }
    nt__trace_fail(site, what, "%s: %s", list, why);
    return false;
}

/* One of 16 bits, as layers make it, and f32, as it is after a tensor of one's own. */
static bool are_of_mixed_precision(nt_dtype a, nt_dtype b) {
    nt_dtype other = a == NT_F32 ? b : a;
    return (a == NT_F32 || b == NT_F32) && (other == NT_BF16 || other == NT_F16);
}

/* The element type that all tensors among the operands have; f32 when all are numbers. */
static bool common_dtype(nt_site site, const char *what, int count, const nt_tensor *operands, nt_dtype *out) {
    bool found = false;
    *out = NT_F32;
    for (int i = 0; i < count; i++) {
        if (nt__is_number(operands[i])) continue;
        nt_dtype own = nt_dtype_of(operands[i]);
        if (found && own != *out)
            return refuse(site, what, count, operands,
                          are_of_mixed_precision(own, *out)
                              ? "element types differ; nt_convert makes them equal, nt_to_compute beside layers that "
                                "compute in another type"
                              : "element types differ; nt_convert makes them equal");
        *out = own;
        found = true;
    }
    return true;
}

/* Widens `common` to what it and `shape` broadcast to; false when two sizes differ and neither is 1. */
static bool widen(nt_shape *common, nt_shape shape) {
    nt_shape wide = common->rank > shape.rank ? *common : shape;
    for (int i = 1; i <= common->rank && i <= shape.rank; i++) {
        int64_t a = common->dims[common->rank - i], b = shape.dims[shape.rank - i];
        if (a != b && a != 1 && b != 1) return false;
        wide.dims[wide.rank - i] = a == 1 ? b : a;
    }
    *common = wide;
    return true;
}

static bool common_shape(nt_site site, const char *what, int count, const nt_tensor *operands, nt_shape *out) {
    *out = (nt_shape){0};
    for (int i = 0; i < count; i++)
        if (!nt__is_number(operands[i]) && !widen(out, nt_shape_of(operands[i])))
            return refuse(site, what, count, operands,
                          "the shapes do not broadcast: aligned at the last axis, sizes must be equal or 1");
    return true;
}

static bool all_of_this_trace(nt_site site, const char *what, int count, const nt_tensor *operands) {
    for (int i = 0; i < count; i++)
        if (!nt__is_number(operands[i]) && !nt__node_of(operands[i], site, what)) return false;
    return true;
}

/* Gives an operand the shape of `type`; a number becomes a constant of the type. */
static nt_tensor bring_to(nt_site site, const char *what, nt__type type, nt_tensor x) {
    return nt__is_number(x) ? nt__given_number(what, type, x.number, site) : nt_broadcast_at(x, type.shape, site);
}

/* ---- shape rules ------------------------------------------------------------------------------------------------ */

bool nt__shape_given(nt__node *node) {
    (void)node;
    return true;
}

bool nt__shape_same(nt__node *node) {
    node->type = node->operands[0]->type;
    return true;
}

static bool require(bool right, nt_site site, const char *what, const char *kind, nt__type type) {
    char text[NT__TYPE_TEXT];
    if (!right)
        nt__trace_fail(site, what, "needs %s %s tensor, got %s; nt_convert makes one",
                       strchr("aeiou", *kind) ? "an" : "a", kind, nt__type_text(type, text));
    return right;
}

bool nt__type_floating(nt_site site, const char *what, nt__type type) {
    return require(nt_dtype_is_float(type.dtype), site, what, "floating", type);
}

bool nt__type_numeric(nt_site site, const char *what, nt__type type) {
    return require(type.dtype != NT_BOOL, site, what, "floating or integer", type);
}

bool nt__type_integer(nt_site site, const char *what, nt__type type) {
    return require(nt__dtype_is_integer(type.dtype), site, what, "integer", type);
}

bool nt__type_adds_up(nt_site site, const char *what, nt__type type) {
    if (!nt__type_numeric(site, what, type)) return false;
    if (nt_dtype_is_float(type.dtype) || nt_dtype_size(type.dtype) >= 4) return true;
    char text[NT__TYPE_TEXT];
    nt__trace_fail(site, what, "%s: sums and products of 8 and 16 bits soon overflow; nt_convert(x, NT_I32) makes room",
                   nt__type_text(type, text));
    return false;
}

bool nt__shape_integer(nt__node *node) {
    return nt__shape_same(node) && nt__type_integer(node->site, nt__operations[node->op].name, node->type);
}

bool nt__shape_bits(nt__node *node) {
    nt_dtype dtype = node->operands[0]->type.dtype;
    return nt__shape_same(node) && require(dtype == NT_BOOL || nt__dtype_is_integer(dtype), node->site,
                                           nt__operations[node->op].name, "bool or integer", node->type);
}

bool nt__shape_floating(nt__node *node) {
    return nt__shape_same(node) && nt__type_floating(node->site, nt__operations[node->op].name, node->type);
}

bool nt__shape_numeric(nt__node *node) {
    return nt__shape_same(node) && nt__type_numeric(node->site, nt__operations[node->op].name, node->type);
}

bool nt__shape_signed(nt__node *node) {
    nt_dtype dtype = node->operands[0]->type.dtype;
    bool has_sign = dtype != NT_BOOL && !nt__dtype_is_unsigned(dtype);
    return nt__shape_same(node) &&
           require(has_sign, node->site, nt__operations[node->op].name, "floating or signed integer", node->type);
}

bool nt__shape_compare(nt__node *node) {
    node->type = (nt__type){NT_BOOL, node->operands[0]->type.shape};
    return true;
}

bool nt__shape_where(nt__node *node) {
    node->type = node->operands[1]->type;
    return true;
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

nt_tensor nt__binary(const char *what, nt__op op, nt_tensor a, nt_tensor b, nt_site site,
                     const nt__attributes *attributes) {
    nt_tensor operands[] = {a, b};
    nt__type type;
    if (!all_of_this_trace(site, what, 2, operands) || !common_dtype(site, what, 2, operands, &type.dtype) ||
        !common_shape(site, what, 2, operands, &type.shape))
        return nt__failed();
    for (int i = 0; i < 2; i++) operands[i] = bring_to(site, what, type, operands[i]);
    return nt__emit(op, site, type, 2, operands, attributes);
}

nt_tensor nt__unary(nt__op op, nt_tensor x, nt_site site) {
    if (nt__is_number(x)) x = nt__filled(nt__operations[op].name, (nt__type){NT_F32, {0}}, x.number, site);
    return nt__emit(op, site, (nt__type){0}, 1, &x, NULL);
}

#define BINARY(name)                                                   \
    nt_tensor nt_##name##_at(nt_tensor a, nt_tensor b, nt_site site) { \
        return nt__binary(#name, NT__OP_##name, a, b, site, NULL);     \
    }
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(pow)

static nt_tensor or_its_nan(nt_tensor x, nt_tensor y, nt_site site) {
    return nt_where_at(nt_not_equal_at(x, x, site), x, y, site);
}

/* The engine's maximum and minimum may lose a nan, unless the other operand is a constant. */
static nt_tensor extreme(nt__op op, nt_tensor a, nt_tensor b, nt_site site) {
    nt_tensor y = nt__binary(nt__operations[op].name, op, a, b, site, NULL);
    bool one_number = nt__is_number(a) != nt__is_number(b);
    bool safe = one_number && !isnan(nt__is_number(a) ? a.number : b.number);
    return safe || !nt_dtype_is_float(nt_dtype_of(y)) ? y : or_its_nan(a, or_its_nan(b, y, site), site);
}

nt_tensor nt_max_at(nt_tensor a, nt_tensor b, nt_site site) {
    return extreme(NT__OP_max, a, b, site);
}

nt_tensor nt_min_at(nt_tensor a, nt_tensor b, nt_site site) {
    return extreme(NT__OP_min, a, b, site);
}

#define UNARY(name)                                       \
    nt_tensor nt_##name##_at(nt_tensor x, nt_site site) { \
        return nt__unary(NT__OP_##name, x, site);         \
    }
UNARY(neg)
UNARY(abs)
UNARY(sign)
UNARY(exp)
UNARY(expm1)
UNARY(log)
UNARY(log1p)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(tanh)
UNARY(logistic)

#define COMPARISON(name, direction)                                                                   \
    nt_tensor nt_##name##_at(nt_tensor a, nt_tensor b, nt_site site) {                                \
        return nt__binary(#name, NT__OP_compare, a, b, site, &(nt__attributes){.choice = direction}); \
    }
COMPARISON(equal, NT__EQ)
COMPARISON(not_equal, NT__NE)
COMPARISON(less, NT__LT)
COMPARISON(less_equal, NT__LE)
COMPARISON(greater, NT__GT)
COMPARISON(greater_equal, NT__GE)

nt_tensor nt_square_at(nt_tensor x, nt_site site) {
    return nt__binary("square", NT__OP_mul, x, x, site, NULL);
}

nt_tensor nt_relu_at(nt_tensor x, nt_site site) {
    return nt__binary("relu", NT__OP_relu, x, nt_tensor_number(0), site, NULL);
}

nt_tensor nt_where_at(nt_tensor which, nt_tensor a, nt_tensor b, nt_site site) {
    nt_tensor operands[] = {which, a, b};
    nt__type type;
    const nt__node *node = nt__node_of(which, site, "where");
    if (!node || !all_of_this_trace(site, "where", 3, operands)) return nt__failed();
    if (node->type.dtype != NT_BOOL) {
        refuse(site, "where", 3, operands, "the condition must be bool; a comparison makes one");
        return nt__failed();
    }
    if (!common_dtype(site, "where", 2, operands + 1, &type.dtype) ||
        !common_shape(site, "where", 3, operands, &type.shape))
        return nt__failed();
    for (int i = 0; i < 3; i++) operands[i] = bring_to(site, "where", type, operands[i]);
    return nt__emit(NT__OP_where, site, type, 3, operands, NULL);
}

nt_tensor nt_convert_at(nt_tensor x, nt_dtype dtype, nt_site site) {
    if (nt__is_number(x)) return nt__filled("convert", (nt__type){dtype, {0}}, x.number, site);
    const nt__node *node = nt__node_of(x, site, "convert");
    if (!node) return nt__failed();
    if (node->type.dtype == dtype) return x;
    return nt__emit(NT__OP_convert, site, (nt__type){dtype, node->type.shape}, 1, &x, NULL);
}

nt_tensor nt_one_hot_at(nt_tensor labels, int64_t classes, nt_dtype dtype, nt_site site) {
    const nt__node *node = nt__node_of(labels, site, "one_hot");
    if (!node) return nt__failed();
    nt__type type = node->type, wide = {dtype, type.shape};
    nt_shape column = type.shape;
    if (nt_dtype_is_float(type.dtype) || type.dtype == NT_BOOL || type.shape.rank == NT_MAX_RANK || classes < 1) {
        char text[NT__TYPE_TEXT];
        return nt__trace_fail(site, "one_hot",
                              "needs integer labels of at most %d axes and at least 1 class, got %s and %lld",
                              NT_MAX_RANK - 1, nt__type_text(type, text), (long long)classes);
    }
    column.dims[column.rank++] = 1;
    wide.shape.dims[wide.shape.rank++] = classes;
    if (!nt__type_possible(site, "one_hot", wide)) return nt__failed();
    /* A type where no label wraps to a class: those of u32 and u64 that do not fit become negative. */
    nt_dtype index = nt_dtype_size(type.dtype) < 8 && classes <= INT32_MAX ? NT_I32 : NT_I64;
    nt_tensor label = nt_convert_at(nt_reshape_at(labels, column, site), index, site);
    nt_tensor hit = nt_equal_at(label, nt_iota_at(index, wide.shape, -1, site), site);
    return nt_convert_at(hit, dtype, site);
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

void nt__gradient_zero(const nt__backward *b, nt_tensor *out) {
    (void)b;
    (void)out;
}

void nt__gradient_add(const nt__backward *b, nt_tensor *out) {
    out[0] = out[1] = C;
}

void nt__gradient_sub(const nt__backward *b, nt_tensor *out) {
    out[0] = C;
    if (b->wanted[1]) out[1] = NEG(C);
}

void nt__gradient_mul(const nt__backward *b, nt_tensor *out) {
    if (b->wanted[0]) out[0] = MUL(C, B);
    if (b->wanted[1]) out[1] = MUL(C, A);
}

void nt__gradient_div(const nt__backward *b, nt_tensor *out) {
    if (b->wanted[0]) out[0] = DIV(C, B);
    if (b->wanted[1]) out[1] = NEG(DIV(MUL(C, Y), B));
}

void nt__gradient_pow(const nt__backward *b, nt_tensor *out) {
    if (b->wanted[0]) {
        /* The inner choice keeps 0 * infinity out where the exponent is 0. */
        nt_tensor flat = IS(equal, B, 0);
        nt_tensor lower = nt_pow_at(A, WHERE(flat, 1, SUB(B, 1)), b->site);
        out[0] = MUL(C, WHERE(flat, 0, MUL(B, lower)));
    }
    if (b->wanted[1]) {
        nt_tensor at_zero = IS(equal, A, 0);
        nt_tensor logarithm = nt_log_at(WHERE(at_zero, 1, A), b->site);
        nt_tensor slope = MUL(MUL(C, Y), logarithm);
        out[1] = WHERE(at_zero, 0, slope);
    }
}

static nt_tensor share(const nt__backward *b, nt_tensor wins) {
    return WHERE(wins, C, WHERE(IS(equal, A, B), MUL(C, 0.5), 0));
}

void nt__gradient_max(const nt__backward *b, nt_tensor *out) {
    if (b->wanted[0]) out[0] = share(b, IS(greater, A, B));
    if (b->wanted[1]) out[1] = share(b, IS(greater, B, A));
}

void nt__gradient_min(const nt__backward *b, nt_tensor *out) {
    if (b->wanted[0]) out[0] = share(b, IS(less, A, B));
    if (b->wanted[1]) out[1] = share(b, IS(less, B, A));
}

void nt__gradient_neg(const nt__backward *b, nt_tensor *out) {
    out[0] = NEG(C);
}

void nt__gradient_abs(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, nt_sign_at(A, b->site));
}

void nt__gradient_exp(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, Y);
}

void nt__gradient_expm1(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, ADD(Y, 1));
}

void nt__gradient_log(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(C, A);
}

void nt__gradient_log1p(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(C, ADD(A, 1));
}

void nt__gradient_sqrt(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(MUL(C, 0.5), Y);
}

void nt__gradient_rsqrt(const nt__backward *b, nt_tensor *out) {
    out[0] = DIV(MUL(MUL(C, -0.5), Y), A);
}

void nt__gradient_tanh(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, SUB(1, MUL(Y, Y)));
}

void nt__gradient_logistic(const nt__backward *b, nt_tensor *out) {
    out[0] = MUL(C, MUL(Y, SUB(1, Y)));
}

void nt__gradient_relu(const nt__backward *b, nt_tensor *out) {
    out[0] = WHERE(IS(greater, A, B), C, 0);
}

void nt__gradient_where(const nt__backward *b, nt_tensor *out) {
    if (b->wanted[1]) out[1] = WHERE(b->operands[0], C, 0);
    if (b->wanted[2]) out[2] = WHERE(b->operands[0], 0, C);
}

void nt__gradient_convert(const nt__backward *b, nt_tensor *out) {
    out[0] = nt_convert_at(C, b->node->operands[0]->type.dtype, b->site);
}
