/* NumPy files: every type and rank there and back, arrays of Python's numpy in both directions, damaged files, refused
 * memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "golden.h"
#include "base/files.h"

#include <zlib.h>

/* The types that NumPy has, by its names. */
static const struct {
    nt_dtype dtype;
    const char *name;
} types[] = {
    {NT_F16, "float16"}, {NT_F32, "float32"}, {NT_F64, "float64"}, {NT_I8, "int8"},
    {NT_I16, "int16"},   {NT_I32, "int32"},   {NT_I64, "int64"},   {NT_U8, "uint8"},
    {NT_U16, "uint16"},  {NT_U32, "uint32"},  {NT_U64, "uint64"},  {NT_BOOL, "bool"},
};
enum { TYPES = sizeof types / sizeof *types };

/* 0 1 2 ... of the type; bool: 0 1 1 ... */
static nt_array *counting(nt_dtype dtype, nt_shape shape) {
    nt_array *array = nt_array_new(dtype, shape);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(shape); i++) nt_array_set(array, i, (double)i);
    return array;
}

static const char *file_of(const char *before, const char *name) {
    char text[128];
    snprintf(text, sizeof text, "%s-%s.npy", before, name);
    return scratch(text);
}

static void assert_same(const nt_array *a, const nt_array *b) {
    if (!a) {
        fail_msg("%s", nt_error_message());
        return;
    }
    assert_int_equal(a->dtype, b->dtype);
    assert_true(nt_shape_equal(a->shape, b->shape));
    assert_int_equal(a->bytes, b->bytes);
    if (a->bytes) assert_memory_equal(a->data, b->data, a->bytes);
}

/* ---- there and back --------------------------------------------------------------------------------------------- */

static void comes_back(nt_dtype dtype, nt_shape shape) {
    nt_array *array = counting(dtype, shape);
    assert_int_equal(nt_npy_write(scratch("back.npy"), array), NT_OK);
    nt_array *back = nt_npy_read(scratch("back.npy"));
    assert_same(back, array);
    char *bytes;
    size_t length;
    assert_int_equal(nt__read_file(scratch("back.npy"), &bytes, &length), NT_OK);
    assert_int_equal((length - array->bytes) % 64, 0);
    assert_int_equal(bytes[length - array->bytes - 1], '\n');
    nt__free(bytes);
    nt_array_free(back);
    nt_array_free(array);
}

static void every_type_and_rank_comes_back(void **state) {
    (void)state;
    for (size_t i = 0; i < TYPES; i++) comes_back(types[i].dtype, nt_dims(3, 5));
    nt_shape shape = {0};
    comes_back(NT_F32, shape);
    for (shape.rank = 1; shape.rank <= NT_MAX_RANK; shape.rank++) {
        shape.dims[shape.rank - 1] = 1 + shape.rank % 3;
        comes_back(NT_F32, shape);
    }
    comes_back(NT_I64, nt_dims(0));
    comes_back(NT_U8, nt_dims(4, 0, 3));
    /* The longest header there is. */
    comes_back(NT_U16, nt_dims(0, INT64_C(2000000000000000000), 1, 1, 1, 1, 1, 1));
}

/* ---- Python's numpy --------------------------------------------------------------------------------------------- */

static void run_python(const char *program) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execlp("python3", "python3", "-c", program, getenv("NT_PYTHONPATH"), scratch_folder, (char *)NULL);
        _exit(98);
    }
    int state;
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFEXITED(state));
    assert_int_equal(WEXITSTATUS(state), 0);
}

#define PYTHON_HEAD                                       \
    "import sys; sys.path.insert(0, sys.argv[1])\n"       \
    "import numpy as np\n"                                \
    "names = ('float16 float32 float64 int8 int16 int32 " \
    "int64 uint8 uint16 uint32 uint64 bool').split()\n"   \
    "folder = sys.argv[2] + '/'\n"

static void numpy_reads_what_is_written(void **state) {
    (void)state;
    for (size_t i = 0; i < TYPES; i++) {
        nt_array *array = counting(types[i].dtype, nt_dims(3, 5));
        assert_int_equal(nt_npy_write(file_of("ours", types[i].name), array), NT_OK);
        nt_array_free(array);
    }
    nt_array *scalar = nt_array_from(NT_F64, (nt_shape){0}, &(double){1.5}), *empty = counting(NT_I32, nt_dims(2, 0));
    nt_array *row = nt_array_from(NT_F32, nt_dims(2), (const float[]){0.1f, -3});
    assert_int_equal(nt_npy_write(scratch("scalar.npy"), scalar), NT_OK);
    assert_int_equal(nt_npy_write(scratch("empty.npy"), empty), NT_OK);
    assert_int_equal(nt_npy_write(scratch("row.npy"), row), NT_OK);
    nt_array_free(scalar);
    nt_array_free(empty);
    nt_array_free(row);
    run_python(PYTHON_HEAD "for n in names:\n"
                           "    a = np.load(folder + 'ours-' + n + '.npy')\n"
                           "    assert a.dtype == np.dtype(n) and a.flags.c_contiguous, n\n"
                           "    assert np.array_equal(a, np.arange(15).reshape(3, 5).astype(n)), n\n"
                           "s = np.load(folder + 'scalar.npy'); assert s.shape == () and s == 1.5\n"
                           "e = np.load(folder + 'empty.npy'); assert e.shape == (2, 0) and e.dtype == np.int32\n"
                           "r = np.load(folder + 'row.npy'); assert r.tolist() == [float(np.float32(0.1)), -3]\n");
}

static void what_numpy_writes_is_read(void **state) {
    (void)state;
    run_python(PYTHON_HEAD "for n in names:\n"
                           "    a = np.arange(15).reshape(3, 5).astype(n)\n"
                           "    np.save(folder + 'theirs-' + n + '.npy', a)\n"
                           "    with open(folder + 'second-' + n + '.npy', 'wb') as f:\n"
                           "        np.lib.format.write_array(f, a, version=(2, 0))\n"
                           "a = np.arange(6.0).reshape(2, 3)\n"
                           "np.save(folder + 'fortran.npy', np.asfortranarray(a))\n"
                           "np.save(folder + 'sliced.npy', a[:, ::2])\n"
                           "np.save(folder + 'big.npy', a.astype('>f8'))\n"
                           "np.save(folder + 'complex.npy', a.astype('complex64'))\n"
                           "np.save(folder + 'text.npy', np.array(['a', 'bc']))\n"
                           "np.save(folder + 'records.npy', np.zeros(2, dtype=[('x', 'f4'), ('y', 'i4')]))\n"
                           "np.save(folder + 'objects.npy', np.array([None, 1], dtype=object), allow_pickle=True)\n"
                           "np.savez(folder + 'several.npz', a=a)\n");
    for (size_t i = 0; i < TYPES; i++) {
        nt_array *wanted = counting(types[i].dtype, nt_dims(3, 5));
        nt_array *first = nt_npy_read(file_of("theirs", types[i].name));
        nt_array *second = nt_npy_read(file_of("second", types[i].name));
        assert_same(first, wanted);
        assert_same(second, wanted);
        nt_array_free(first);
        nt_array_free(second);
        nt_array_free(wanted);
    }
    nt_array *sliced = nt_npy_read(scratch("sliced.npy"));
    nt_array *wanted = nt_array_from(NT_F64, nt_dims(2, 2), (const double[]){0, 2, 3, 5});
    assert_same(sliced, wanted);
    nt_array_free(sliced);
    nt_array_free(wanted);
    static const char *const refused[][3] = {
        {"fortran.npy", "fortran_order", "numpy.ascontiguousarray"},
        {"big.npy", "big-endian (>f8)", "a.astype('<f8')"},
        {"complex.npy", "element type '<c8'", "float16 to float64"},
        {"text.npy", "element type '<U2'", "and bool"},
        {"records.npy", "records of several values", "reading '"},
        {"objects.npy", "element type '|O'", "objects.npy"},
        {"several.npz", "archive (.npz)", "save each of its arrays as .npy"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_null(nt_npy_read(scratch(refused[i][0])));
        assert_int_equal(nt_error_status(), NT_INVALID);
        for (int part = 0; part < 3; part++) assert_message_has(refused[i][part]);
    }
}

/* ---- files made here -------------------------------------------------------------------------------------------- */

/* A file of version 1.0 with this header and so many bytes of data. */
static nt_array *read_header(const char *header, size_t data) {
    unsigned char bytes[1024] = "\x93NUMPY\1";
    size_t length = strlen(header);
    bytes[8] = (unsigned char)(length & 0xFF);
    bytes[9] = (unsigned char)(length >> 8);
    memcpy(bytes + 10, header, length);
    scratch_put("made.npy", bytes, 10 + length + data);
    return nt_npy_read(scratch("made.npy"));
}

/* Orders, spaces and signs that numpy takes too. */
static void headers_may_be_written_otherwise(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        nt_dtype dtype;
    } rows[] = {
        {"{'shape':(2,),'fortran_order':False,'descr':'<f4'}\n", 8, NT_F32},
        {"{ \"descr\" : \"=i2\" , \"fortran_order\" : False , \"shape\" : ( 2 , ) , } \n", 4, NT_I16},
        {"{'descr': '<u1', 'fortran_order': False, 'shape': (2L,)}", 2, NT_U8},
        {"{'descr': '>b1', 'fortran_order': True, 'shape': (2,), }", 2, NT_BOOL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt_array *array = read_header(rows[i].header, rows[i].data);
        if (!array) {
            fail_msg("%s: %s", rows[i].header, nt_error_message());
            return;
        }
        assert_int_equal(array->dtype, rows[i].dtype);
        assert_true(nt_shape_equal(array->shape, nt_dims(2)));
        nt_array_free(array);
    }
}

static void wrong_headers_are_refused(void **state) {
    (void)state;
#define START "{'descr': '<f4', 'fortran_order': False, "
    static const struct {
        const char *header, *message;
        size_t data;
    } rows[] = {
        {START "'shape': (3, 4), }", "states f32[3,4], which needs 48 bytes; 47 are there: the file is cut", 47},
        {START "'shape': (3, 4), }", "states f32[3,4], which needs 48 bytes; 2 bytes follow them", 50},
        {START "'shape': (4611686018427387904, 4), }", "do not fit in 64 bits", 0},
        {START "'shape': (2000000000, 2000000000), }", "states f32[2000000000,2000000000]: that many bytes", 0},
        {START "'shape': (1000000000000,), }", "needs 4000000000000 bytes; 4 are there", 4},
        {START "'shape': (99999999999999999999,), }", "a size in the header is beyond 2^63", 0},
        {START "'shape': (-1,), }", "needs a size where it has '-1,", 0},
        {START "'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", "more than 8 axes", 4},
        {START "'shape': 3, }", "needs a shape in parentheses", 0},
        {START "'shape': (3 4), }", "needs ',' or ')'", 0},
        {START "'shape': (), ", "needs a text in quotes", 4},
        {START "'shape': () 'x'}", "needs ',' or '}'", 4},
        {START "'shape': (), } x", "needs its end where it has 'x'", 4},
        {START "'shape': (), 'extra': 1}", "the key 'extra', which the format has not", 4},
        {START "'descr': '<f4', 'shape': ()}", "the key 'descr' twice", 4},
        {START "}", "no key 'shape'", 4},
        {"{'shape': (), 'fortran_order': False}", "no key 'descr'", 4},
        {"{'shape': (), 'descr': '<f4'}", "no key 'fortran_order'", 4},
        {"{'shape': (), 'descr': '<f4', 'fortran_order': 0}", "needs True or False", 4},
        {"{'shape': (), 'descr': '<V2', 'fortran_order': False}", "save it as safetensors", 2},
        {"{'shape': (), 'descr': '<f16', 'fortran_order': False}", "element type '<f16'", 16},
        {"{'shape': (), 'descr': '', 'fortran_order': False}", "element type ''", 0},
        {"{'shape': (), 'descr': '|f4', 'fortran_order': False}", "element type '|f4'", 4},
        {"{'shape': (), 'descr': 'far-too-long-for-a-type', 'fortran_order': False}", "is no key or element type", 4},
        {"{'shape': (), 'descr': '<f4", "needs a text in quotes", 0},
        {"", "needs '{'", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(read_header(rows[i].header, rows[i].data));
        assert_message_has(rows[i].message);
        assert_message_has("made.npy");
    }
}

static void other_beginnings_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *message;
    } rows[] = {
        {"", 0, "the file is empty"},
        {"\x93NUMPY", 6, "not a NumPy file"},
        {"hello, world", 12, "not a NumPy file"},
        {"PK\3\4........", 12, "archive (.npz)"},
        {"\x93NUMPY\3\0\1\0\0\0{", 13, "format 3.0; formats 1.0 and 2.0 are read"},
        {"\x93NUMPY\1\1\1\0{", 11, "format 1.1"},
        {"\x93NUMPY\1\0\x10\0{", 11, "ends inside the header: it has 11 bytes, the header ends at byte 26"},
        {"\x93NUMPY\2\0\xff\xff\xff\xff{", 13, "ends inside the header"},
        {"\x93NUMPY\2\0\1", 9, "ends inside the header"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scratch_put("made.npy", rows[i].bytes, rows[i].length);
        assert_null(nt_npy_read(scratch("made.npy")));
        assert_message_has(rows[i].message);
    }
    assert_null(nt_npy_read(scratch("absent.npy")));
    assert_int_equal(nt_error_status(), NT_NOT_FOUND);
    assert_message_has("absent.npy");
}

static void a_bool_is_0_or_1(void **state) {
    (void)state;
    nt_array *flags = counting(NT_BOOL, nt_dims(3));
    ((char *)flags->data)[1] = 2;
    assert_int_equal(nt_npy_write(scratch("flags.npy"), flags), NT_OK);
    assert_null(nt_npy_read(scratch("flags.npy")));
    assert_message_has("bool element 1 is 2, it must be 0 or 1");
    nt_array_free(flags);
}

/* ---- cut and damaged files -------------------------------------------------------------------------------------- */

static void every_cut_is_refused(void **state) {
    (void)state;
    nt_array *array = counting(NT_I16, nt_dims(3, 5));
    char *bytes;
    size_t length;
    assert_int_equal(nt_npy_write(scratch("whole.npy"), array), NT_OK);
    assert_int_equal(nt__read_file(scratch("whole.npy"), &bytes, &length), NT_OK);
    for (size_t kept = 0; kept < length; kept++) {
        scratch_put("cut.npy", bytes, kept);
        assert_null(nt_npy_read(scratch("cut.npy")));
        assert_message_has("cut.npy");
    }
    nt__free(bytes);
    nt_array_free(array);
}

/* Damage may give another array of as many bytes, and nothing else. */
static void every_flipped_bit_is_refused_or_fits(void **state) {
    (void)state;
    nt_array *array = counting(NT_I16, nt_dims(3, 5));
    char *bytes;
    size_t length, live = nt__memory().live, refused = 0;
    assert_int_equal(nt_npy_write(scratch("whole.npy"), array), NT_OK);
    assert_int_equal(nt__read_file(scratch("whole.npy"), &bytes, &length), NT_OK);
    for (size_t bit = 0; bit < (length - array->bytes) * 8; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        scratch_put("bent.npy", bytes, length);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        nt_array *bent = nt_npy_read(scratch("bent.npy"));
        refused += !bent;
        if (bent) assert_int_equal(bent->bytes, array->bytes);
        nt_array_free(bent);
    }
    assert_true(refused > 300);
    nt__free(bytes);
    assert_int_equal(nt__memory().live, live);
    nt_array_free(array);
}

/* ---- writing that fails ----------------------------------------------------------------------------------------- */

/* ---- large, packed, and no file --------------------------------------------------------------------------------- */

/* A gzip file is unpacked as far as the header states, and looked into for one byte more. */
static void a_packed_file_is_read_to_the_stated_size(void **state) {
    (void)state;
    static char much[1 << 20];
    char *plain;
    size_t length;
    nt_array *array = counting(NT_F32, nt_dims(3, 4)), *read;
    assert_int_equal(nt_npy_write(scratch("plain.npy"), array), NT_OK);
    assert_int_equal(nt__read_file(scratch("plain.npy"), &plain, &length), NT_OK);
    for (int too_much = 0; too_much < 2; too_much++) {
        gzFile file = gzopen(scratch("packed.npy.gz"), "wb9");
        assert_int_equal(gzwrite(file, plain, (unsigned)length), (int)length);
        for (int i = 0; too_much && i < 64; i++) assert_int_equal(gzwrite(file, much, sizeof much), (int)sizeof much);
        assert_int_equal(gzclose(file), Z_OK);
        read = nt_npy_read(scratch("packed.npy.gz"));
        if (!too_much) assert_same(read, array);
        if (too_much) assert_null(read);
        if (too_much) assert_message_has("f32[3,4], which needs 48 bytes; more bytes follow them");
        nt_array_free(read);
    }
    nt__free(plain);
    nt_array_free(array);
}

static void what_cannot_be_there_is_not_made(void **state) {
    (void)state;
    char text[16];
    nt_array *array = counting(NT_U8, nt_dims(4));
    assert_int_equal(nt_npy_write(scratch("holes.npy"), array), NT_OK);
    nt_array_free(array);
    assert_int_equal(truncate(scratch("holes.npy"), (off_t)1 << 40), 0);
    assert_null(nt_npy_read(scratch("holes.npy")));
    assert_message_has("which needs 4 bytes; 1099511627644 bytes follow them");
    snprintf(text, sizeof text, "\x93NUMPY\x02%c", 0);
    memcpy(text + 8, "\x00\x00\x00\x40", 4); /* a header of 1 GiB, in a file of holes that has it */
    scratch_put("header.npy", text, 12);
    assert_int_equal(truncate(scratch("header.npy"), (off_t)1 << 40), 0);
    assert_null(nt_npy_read(scratch("header.npy")));
    assert_message_has("the header is stated to have 1073741824 bytes; no more than 1048576 are read");
    assert_int_equal(mkfifo(scratch("pipe.npy"), 0600), 0);
    assert_null(nt_npy_read(scratch("pipe.npy")));
    assert_message_has("it is a pipe and no regular file");
}

static void what_cannot_be_written_is_explained(void **state) {
    (void)state;
    nt_array *half = counting(NT_BF16, nt_dims(2, 3)), *whole = counting(NT_F32, nt_dims(2, 3));
    assert_int_equal(nt_npy_write(scratch("half.npy"), half), NT_INVALID);
    assert_message_has("half.npy");
    assert_message_has("NumPy has no type for bf16; write a .safetensors file");
    assert_int_equal(nt_npy_write(scratch("nowhere/whole.npy"), whole), NT_NOT_FOUND);
    assert_message_has("nowhere/whole.npy");
    whole->bytes = 20;
    assert_int_equal(nt_npy_write(scratch("whole.npy"), whole), NT_INVALID);
    assert_message_has("f32[2,3] and states 20 bytes");
    nt_array_free(half);
    nt_array_free(whole);
}

static void every_refused_allocation_is_reported(void **state) {
    (void)state;
    nt_array *array = counting(NT_F32, nt_dims(3, 5)), *back = NULL;
    size_t live = nt__memory().live, n = 0;
    nt_status status = NT_OUT_OF_MEMORY;
    while (status != NT_OK) {
        nt__memory_fail_at(++n);
        status = nt_npy_write(scratch("short.npy"), array);
        nt__memory_fail_at(0);
        if (status != NT_OK) assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_int_equal(nt__memory().live, live);
    }
    assert_true(n > 3);
    for (n = 0; !back; assert_int_equal(nt__memory().live, live + (back ? 2 : 0))) {
        nt__memory_fail_at(++n);
        back = nt_npy_read(scratch("short.npy"));
        nt__memory_fail_at(0);
        if (!back) assert_message_has("out of host memory");
    }
    assert_true(n > 3);
    nt_array_free(back);
    nt_array_free(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_rank_comes_back),
        cmocka_unit_test(numpy_reads_what_is_written),
        cmocka_unit_test(what_numpy_writes_is_read),
        cmocka_unit_test(headers_may_be_written_otherwise),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(other_beginnings_are_refused),
        cmocka_unit_test(a_bool_is_0_or_1),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused_or_fits),
        cmocka_unit_test(a_packed_file_is_read_to_the_stated_size),
        cmocka_unit_test(what_cannot_be_there_is_not_made),
        cmocka_unit_test(what_cannot_be_written_is_explained),
        cmocka_unit_test(every_refused_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("npy", tests, scratch_make, scratch_remove);
}
