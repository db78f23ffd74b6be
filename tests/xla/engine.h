/* What the tests of the engine share: opening it, small arrays, and the look of a failure.
 * Include after cmocka.
 */
#ifndef NT_TESTS_XLA_ENGINE_H
#define NT_TESTS_XLA_ENGINE_H

#include <stdio.h>
#include <string.h>

#include "xla/xla.h"

/* The status, and every fragment (up to NULL) in the thread's message. */
static inline void assert_failed_(nt_status got, nt_status wanted, const char *const *fragments, const char *file,
                                  int line) {
    if (got != wanted)
        print_error("status '%s', wanted '%s': %s\n", nt_status_name(got), nt_status_name(wanted), nt_error_message());
    _assert_true(got == wanted, "status", file, line);
    for (; *fragments; fragments++) {
        if (!strstr(nt_error_message(), *fragments))
            print_error("'%s' is not in the message: %s\n", *fragments, nt_error_message());
        _assert_true(strstr(nt_error_message(), *fragments) != NULL, *fragments, file, line);
    }
}
#define assert_failed(status, wanted, ...) \
    assert_failed_((status), (wanted), (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)

static inline void assert_ok_(nt_status status, const char *call, const char *file, int line) {
    if (status != NT_OK) print_error("%s: %s: %s\n", call, nt_status_name(status), nt_error_message());
    _assert_true(status == NT_OK, call, file, line);
}
#define assert_ok(call) assert_ok_((call), #call, __FILE__, __LINE__)

static nt__engine *engine;

static inline int open_one_device(void **state) {
    (void)state;
    nt_status status = nt__engine_open(1, &engine);
    if (status != NT_OK) print_error("%s\n", nt_error_message());
    return status == NT_OK ? 0 : -1;
}

/* Also checks that the tests left nothing after. */
static inline int close_engine(void **state) {
    (void)state;
    nt_status status = nt__engine_close();
    if (status != NT_OK) print_error("%s\n", nt_error_message());
    if (nt__memory().live) print_error("%zu blocks of host memory were not freed\n", nt__memory().live);
    return status == NT_OK && nt__memory().live == 0 ? 0 : -1;
}

static inline nt__type type_of(nt_dtype dtype, nt_shape shape) {
    return (nt__type){.dtype = dtype, .shape = shape};
}

/* A vector of floats on device 0. */
static inline void upload_floats(const char *name, nt__purpose purpose, const float *values, int64_t count,
                                 nt__buffer *buffer) {
    assert_ok(nt__buffer_upload(engine, 0, name, purpose, type_of(NT_F32, nt_dims(count)), values, buffer));
}

static inline void assert_floats(nt__buffer *buffer, const float *wanted, int64_t count) {
    float got[64];
    assert_int_equal(buffer->bytes, (size_t)count * sizeof *got);
    assert_true(buffer->bytes <= sizeof got);
    assert_ok(nt__buffer_read(engine, buffer, got));
    assert_memory_equal(got, wanted, buffer->bytes);
}

/* Options for one device; free with nt__free. */
static inline uint8_t *one_device_options(size_t *length) {
    uint8_t *bytes;
    assert_ok(nt__compile_options_encode(&(nt__compile_options){0}, &bytes, length));
    return bytes;
}

static inline nt_status compile(const char *name, const char *text, const nt__signature *signature,
                                nt__executable **out) {
    size_t length;
    uint8_t *options = one_device_options(&length);
    nt_status status = nt__executable_compile(engine, name, text, strlen(text), signature, options, length, out);
    nt__free(options);
    return status;
}

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

#endif
