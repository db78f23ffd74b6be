/* Orthogonal initial values: independent normal vectors made orthonormal, which gives every rotation the same chance.
 */
#include <math.h>

#include "nn/nn.h"

/* Vectors to be made orthonormal, one after another. */
typedef struct vectors {
    size_t count, length;
    double *at;
} vectors;

static double dot(const double *a, const double *b, size_t length) {
    double sum = 0;
    for (size_t i = 0; i < length; i++) sum += a[i] * b[i];
    return sum;
}

/* Takes away from vector `index` what it has of the ones before. */
static void project_out(const vectors *v, size_t index) {
    double *own = v->at + index * v->length;
    for (size_t i = 0; i < index; i++) {
        const double *other = v->at + i * v->length;
        double part = dot(own, other, v->length);
        for (size_t j = 0; j < v->length; j++) own[j] -= part * other[j];
    }
}

/* The second time takes away what rounding left (Giraud et al. 2005). */
static void orthonormalize(const vectors *v) {
    for (size_t i = 0; i < v->count; i++) {
        double *own = v->at + i * v->length;
        project_out(v, i);
        project_out(v, i);
        double norm = sqrt(dot(own, own, v->length));
        /* One draw of 2^24 is exactly 0, which matters where a vector has one element. */
        if (norm == 0) own[i] = norm = 1;
        for (size_t j = 0; j < v->length; j++) own[j] /= norm;
    }
}

static nt_status draw_normal(const vectors *v, nt__key key) {
    size_t count = v->count * v->length;
    float *draws = nt__alloc(count, sizeof *draws);
    if (!draws) return NT_OUT_OF_MEMORY;
    nt__init_draw(nt_normal(1), (nt_shape){0}, key, count, draws);
    for (size_t i = 0; i < count; i++) v->at[i] = (double)draws[i];
    nt__free(draws);
    return NT_OK;
}

nt_status nt__orthogonal_draw(double gain, nt__type type, nt__key key, void *out) {
    size_t elements = (size_t)nt_shape_elements(type.shape), size = nt_dtype_size(type.dtype);
    size_t columns = type.shape.rank ? (size_t)type.shape.dims[type.shape.rank - 1] : 1, rows = elements / columns;
    bool of_rows = rows < columns;
    vectors v = {of_rows ? rows : columns, of_rows ? columns : rows, nt__alloc(elements, sizeof *v.at)};
    nt_status status = v.at ? draw_normal(&v, key) : NT_OUT_OF_MEMORY;
    if (status == NT_OK) orthonormalize(&v);
    for (size_t i = 0; status == NT_OK && i < elements; i++) {
        size_t row = i / columns, column = i % columns;
        double element = of_rows ? v.at[row * v.length + column] : v.at[column * v.length + row];
        nt__element_set(type.dtype, (char *)out + i * size, gain * element);
    }
    nt__free(v.at);
    return status;
}
