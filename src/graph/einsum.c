/* Einstein summation: reads the equation, and carries it out as contractions of two operands at a time.
 * Not here: the contraction (linear.c).
 */
#include <string.h>

#include "graph/emit.h"

/* An operand, or a product of some: what each axis is called. */
typedef struct term {
    nt_tensor x;
    int rank;
    char labels[2 * NT_MAX_RANK + 1];
} term;

enum { LETTERS = 52 };

typedef struct equation {
    const char *text;
    nt_site site;
    term *terms;
    size_t count;
    char result[LETTERS + 1];
    int64_t sizes[LETTERS];
    int uses[LETTERS];
} equation;

/* ---- letters ---------------------------------------------------------------------------------------------------- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* In the order of the alphabet, capitals first, as in ASCII. */
static int number_of(char letter) {
    return letter >= 'a' ? letter - 'a' + 26 : letter - 'A';
}

static char letter_of(int number) {
    return (char)(number < 26 ? 'A' + number : 'a' + number - 26);
}

static uint64_t set_of(const char *labels) {
    uint64_t set = 0;
    for (; *labels; labels++) set |= UINT64_C(1) << number_of(*labels);
    return set;
}

static bool has(uint64_t set, char label) {
    return set >> number_of(label) & 1;
}

/* ---- reading the equation --------------------------------------------------------------------------------------- */

#define REFUSE(e, format, ...) \
    (nt__trace_fail((e)->site, "einsum", "\"%.100s\": " format, (e)->text, __VA_ARGS__), false)

/* Reads letters up to something else, without blanks. */
static bool read_letters(const equation *e, const char **at, char *out, size_t most) {
    size_t count = 0;
    for (; is_letter(**at) || **at == ' '; ++*at) {
        if (**at == ' ') continue;
        if (count == most) return REFUSE(e, "a term has more than %zu letters", most);
        out[count++] = **at;
    }
    out[count] = 0;
    return true;
}

static bool read_terms(equation *e, const char **at) {
    for (size_t i = 0; i < e->count; i++) {
        term *t = &e->terms[i];
        if (!read_letters(e, at, t->labels, NT_MAX_RANK)) return false;
        t->rank = (int)strlen(t->labels);
        for (const char *label = t->labels; *label; label++) e->uses[number_of(*label)]++;
        bool last = i + 1 == e->count;
        if (!last && **at != ',') return REFUSE(e, "has %zu terms for %zu operands, at '%.20s'", i + 1, e->count, *at);
        if (!last) ++*at;
    }
    if (**at == ',') return REFUSE(e, "has more terms than the %zu operands given", e->count);
    return true;
}

static bool read_result(equation *e, const char **at) {
    if (strncmp(*at, "->", 2)) {
        char *out = e->result;
        for (int i = 0; i < LETTERS; i++)
            if (e->uses[i] == 1) *out++ = letter_of(i);
        return true;
    }
    *at += 2;
    return read_letters(e, at, e->result, LETTERS);
}

static bool result_is_right(const equation *e) {
    for (const char *label = e->result; *label; label++) {
        if (e->uses[number_of(*label)] == 0) return REFUSE(e, "no operand has the axis '%c' of the result", *label);
        if (strchr(label + 1, *label)) return REFUSE(e, "the result names the axis '%c' twice", *label);
    }
    return true;
}

static bool read_equation(equation *e) {
    const char *at = e->text;
    if (!read_terms(e, &at) || !read_result(e, &at)) return false;
    if (*at) return REFUSE(e, "'%.20s' is neither a letter, a comma nor \"->\"", at);
    return result_is_right(e);
}

/* Whether the operands fit the terms; notes the size of each letter. */
static bool sizes_are_right(equation *e) {
    char text[NT__TYPE_TEXT], first_text[NT__TYPE_TEXT];
    nt__type first = {nt_dtype_of(e->terms[0].x), nt_shape_of(e->terms[0].x)};
    for (int i = 0; i < LETTERS; i++) e->sizes[i] = -1;
    for (size_t i = 0; i < e->count; i++) {
        const term *t = &e->terms[i];
        nt__type type = {nt_dtype_of(t->x), nt_shape_of(t->x)};
        if (type.dtype != first.dtype)
            return REFUSE(e, "%s and %s: element types differ; nt_convert makes them equal",
                          nt__type_text(first, first_text), nt__type_text(type, text));
        if (type.shape.rank != t->rank)
            return REFUSE(e, "the term '%s' has %d letters, its operand is %s", t->labels, t->rank,
                          nt__type_text(type, text));
        for (int axis = 0; axis < t->rank; axis++) {
            int64_t *size = &e->sizes[number_of(t->labels[axis])], own = type.shape.dims[axis];
            if (*size >= 0 && *size != own)
                return REFUSE(e, "the axis '%c' has the sizes %lld and %lld", t->labels[axis], (long long)*size,
                              (long long)own);
            *size = own;
        }
    }
    return true;
}

/* ---- carrying it out -------------------------------------------------------------------------------------------- */

static void drop_label(term *t, int axis) {
    memmove(t->labels + axis, t->labels + axis + 1, (size_t)(t->rank - axis));
    t->rank--;
}

/* Elements off the diagonal of two axes become 0, so that a sum over the second leaves the diagonal. */
static void take_diagonal(const equation *e, term *t, int first, int second) {
    nt_shape shape = nt_shape_of(t->x);
    nt_tensor on =
        nt_equal_at(nt_iota_at(NT_I64, shape, first, e->site), nt_iota_at(NT_I64, shape, second, e->site), e->site);
    t->x = nt_sum_at(nt_where_at(on, t->x, nt_tensor_number(0), e->site), nt_dims(second), e->site);
    drop_label(t, second);
}

static void take_diagonals(const equation *e, term *t) {
    for (int i = 0; i < t->rank; i++)
        for (int j = t->rank - 1; j > i; j--)
            if (t->labels[i] == t->labels[j]) take_diagonal(e, t, i, j);
}

/* Sums the axes that nothing else needs. */
static void keep_only(const equation *e, term *t, uint64_t needed) {
    nt_shape axes = {0};
    for (int i = 0; i < t->rank; i++)
        if (!has(needed, t->labels[i])) axes.dims[axes.rank++] = i;
    if (axes.rank == 0) return;
    t->x = nt_sum_at(t->x, axes, e->site);
    for (int i = axes.rank; i-- > 0;) drop_label(t, (int)axes.dims[i]);
}

static void add_label(term *t, char label) {
    t->labels[t->rank++] = label;
    t->labels[t->rank] = 0;
}

/* a becomes the product of a and b. `later`: the letters that the result or a later operand has. */
static bool multiply(const equation *e, term *a, term *b, uint64_t later) {
    keep_only(e, a, later | set_of(b->labels));
    keep_only(e, b, later | set_of(a->labels));
    enum { BATCH_A, BATCH_B, CONTRACT_A, CONTRACT_B };
    nt_shape lists[4] = {{0}};
    term product = {.rank = 0}, free_a = product;
    for (int i = 0; i < a->rank; i++) {
        const char *in_b = strchr(b->labels, a->labels[i]);
        if (!in_b) {
            add_label(&free_a, a->labels[i]);
            continue;
        }
        bool batch = has(later, a->labels[i]);
        nt_shape *own = &lists[batch ? BATCH_A : CONTRACT_A], *other = &lists[batch ? BATCH_B : CONTRACT_B];
        own->dims[own->rank++] = i;
        other->dims[other->rank++] = in_b - b->labels;
        if (batch) add_label(&product, a->labels[i]);
    }
    uint64_t of_a = set_of(a->labels);
    for (int i = 0; i < free_a.rank; i++) add_label(&product, free_a.labels[i]);
    for (int i = 0; i < b->rank; i++)
        if (!has(of_a, b->labels[i])) add_label(&product, b->labels[i]);
    if (product.rank > NT_MAX_RANK)
        return REFUSE(e,
                      "the product '%s' has %d axes, and a tensor has at most %d; another order of the operands may do",
                      product.labels, product.rank, NT_MAX_RANK);
    product.x = nt__dot(a->x, b->x, lists, e->site);
    *a = product;
    return true;
}

static bool multiply_all(const equation *e) {
    for (size_t i = 0; i < e->count; i++) take_diagonals(e, &e->terms[i]);
    for (size_t i = 1; i < e->count; i++) {
        uint64_t later = set_of(e->result);
        for (size_t j = i + 1; j < e->count; j++) later |= set_of(e->terms[j].labels);
        if (!multiply(e, &e->terms[0], &e->terms[i], later)) return false;
    }
    keep_only(e, &e->terms[0], set_of(e->result));
    return true;
}

static nt_tensor in_order(const equation *e) {
    const term *t = &e->terms[0];
    nt_shape order = {.rank = t->rank};
    for (int i = 0; i < t->rank; i++) order.dims[i] = strchr(t->labels, e->result[i]) - t->labels;
    return nt_transpose_at(t->x, order, e->site);
}

nt_tensor nt_einsum_at(const char *text, const nt_tensor *operands, size_t count, nt_site site) {
    if (!nt__trace_under_way(site, "einsum") || !nt__trace_given(text, site, "einsum", "equation")) return nt__failed();
    equation e = {.text = text, .site = site, .count = count};
    e.terms = nt__trace_alloc(site, "einsum", count, sizeof *e.terms);
    if (!e.terms) return nt__failed();
    for (size_t i = 0; i < count; i++) {
        const nt__node *node = nt__node_of(operands[i], site, "einsum");
        if (!node || !nt__type_adds_up(site, "einsum", node->type)) return nt__failed();
        e.terms[i].x = operands[i];
    }
    return read_equation(&e) && sizes_are_right(&e) && multiply_all(&e) ? in_order(&e) : nt__failed();
}
