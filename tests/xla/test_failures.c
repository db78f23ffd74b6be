/* Every call to the plugin fails once, in each way a call can fail: its slot is missing, the engine refuses, the engine
 * is out of memory. Whatever fails, the message says what and where, nothing stays after, and a later session works.
 *
 * The calls go through a copy of the real plugin's table in which one slot is replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accumulate.h"
#include "xla/xla_internal.h"

/* ---- errors of our own ------------------------------------------------------------------------------------------ */

static const PJRT_Api *real;
static PJRT_Api table;

static char error_mark; /* its address is the error */
static int living_errors;
static PJRT_Error_Code error_code;
static const char *error_text;

static PJRT_Error *new_error(void) {
    living_errors++;
    return (PJRT_Error *)&error_mark;
}

static void error_destroy(PJRT_Error_Destroy_Args *args) {
    if (args->error == (PJRT_Error *)&error_mark)
        living_errors--;
    else
        real->PJRT_Error_Destroy(args);
}

static void error_message(PJRT_Error_Message_Args *args) {
    if (args->error != (const PJRT_Error *)&error_mark) {
        real->PJRT_Error_Message(args);
        return;
    }
    args->message = error_text;
    args->message_size = strlen(error_text);
}

static PJRT_Error *error_get_code(PJRT_Error_GetCode_Args *args) {
    if (args->error != (const PJRT_Error *)&error_mark) return real->PJRT_Error_GetCode(args);
    args->code = error_code;
    return NULL;
}

/* ---- the slot that fails ---------------------------------------------------------------------------------------- */

typedef PJRT_Error *slot_function(void *args);

static slot_function *replaced;
static int calls_before_failure;

static PJRT_Error *fail_instead(void *args) {
    return calls_before_failure-- > 0 ? replaced(args) : new_error();
}

/* For what must be done all the same, so that nothing leaks: waiting and destroying. */
static PJRT_Error *fail_afterwards(void *args) {
    PJRT_Error *error = replaced(args);
    return calls_before_failure-- > 0 || error ? error : new_error();
}

static void reset_table(void) {
    table = *real;
    if (table.struct_size > sizeof table) table.struct_size = sizeof table;
    table.PJRT_Error_Destroy = error_destroy;
    table.PJRT_Error_Message = error_message;
    table.PJRT_Error_GetCode = error_get_code;
    calls_before_failure = 0;
    error_text = "made to fail";
}

/* Puts `with` in the slot at `offset` and keeps what was there. */
static void replace(size_t offset, slot_function *with) {
    memcpy(&replaced, (char *)&table + offset, sizeof replaced);
    memcpy((char *)&table + offset, &with, sizeof with);
}

static int use_table(void **state) {
    (void)state;
    if (nt__plugin_load() != NT_OK) return -1;
    real = nt__loaded.api;
    nt__loaded.api = &table;
    reset_table();
    return 0;
}

static int use_real_table(void **state) {
    nt__loaded.api = real;
    return close_engine(state);
}

/* ---- a session -------------------------------------------------------------------------------------------------- */

static const uint8_t options[] = {0x1a, 4, 0x20, 1, 0x28, 1};
static const nt__type four = {NT_F32, {1, {4}}};

typedef struct session {
    nt__buffer total, b;
    nt__executable *executable;
    nt__executable_memory memory;
    float got[4];
} session;

static nt_status lend_other(nt__buffer *buffer) {
    float *data = nt__alloc_aligned(sizeof other);
    if (!data) return NT_OUT_OF_MEMORY;
    memcpy(data, other, sizeof other);
    return nt__buffer_lend(engine, 0, "b", NT__BATCH, four, data, buffer);
}

static nt_status compute(session *s) {
    nt__buffer *in[] = {&s->total, &s->b}, *out[] = {&s->total};
    nt_status status = nt__engine_open(1, &engine);
    if (status == NT_OK) status = nt__buffer_upload(engine, 0, "a", NT__ACCUMULATOR, four, one, &s->total);
    if (status == NT_OK) status = lend_other(&s->b);
    if (status == NT_OK)
        status = nt__executable_compile(engine, "accumulate", accumulate_text, sizeof accumulate_text - 1,
                                        &accumulate_signature, options, sizeof options, &s->executable);
    if (status == NT_OK) status = nt__executable_run(s->executable, in, 2, out, 1);
    if (status == NT_OK) status = nt__buffer_read(engine, &s->total, s->got);
    if (status == NT_OK) status = nt__executable_memory_of(s->executable, &s->memory);
    return status;
}

/* The status of the first failure; what could be made is freed and the engine closed in any case. */
static nt_status run_session(session *s) {
    *s = (session){0};
    nt_status status = compute(s);
    nt__buffer_free(&s->total);
    nt__buffer_free(&s->b);
    nt__executable_free(&s->executable);
    if (status != NT_OK) {
        (void)nt__engine_close();
        return status;
    }
    return nt__engine_close();
}

static void assert_nothing_lives(void) {
    nt__engine_counts counts = nt__engine_counts_now();
    assert_int_equal(counts.all_buffers.live_count, 0);
    assert_int_equal(counts.all_buffers.live_bytes, 0);
    assert_int_equal(counts.executables.live_count, 0);
    assert_int_equal(living_errors, 0);
}

static void assert_a_session_works(void) {
    session s;
    reset_table();
    assert_ok(run_session(&s));
    assert_memory_equal(s.got, sum, sizeof sum);
    assert_nothing_lives();
    assert_int_equal(nt__memory().live, 0);
}

/* ---- every slot ------------------------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    size_t offset;
    int calls_before_failure;
    slot_function *failure;
    const char *message; /* NULL: nobody notices */
} row;

#define SLOT(name, calls, failure, message) \
    { #name, offsetof(PJRT_Api, name), calls, failure, message }

static const row rows[] = {
    SLOT(PJRT_Client_Create, 0, fail_instead, "making a client of 1 devices"),
    SLOT(PJRT_Client_AddressableDevices, 0, fail_instead, "reading the facts of the client"),
    SLOT(PJRT_Device_GetDescription, 0, fail_instead, "reading the facts of the client"),
    SLOT(PJRT_DeviceDescription_DebugString, 0, fail_instead, "reading the facts of the client"),
    SLOT(PJRT_Client_PlatformName, 0, fail_instead, "reading the facts of the client"),
    SLOT(PJRT_Client_PlatformVersion, 0, fail_instead, "reading the facts of the client"),
    SLOT(PJRT_Client_BufferFromHostBuffer, 0, fail_instead, "uploading 'a'"),
    SLOT(PJRT_Client_BufferFromHostBuffer, 1, fail_instead, "uploading 'b'"),
    SLOT(PJRT_Event_Await, 0, fail_afterwards, "uploading 'a'"),
    SLOT(PJRT_Client_Compile, 0, fail_instead, "compiling 'accumulate'"),
    SLOT(PJRT_LoadedExecutable_GetExecutable, 0, fail_instead, "compiling 'accumulate'"),
    SLOT(PJRT_Executable_NumOutputs, 0, fail_instead, "compiling 'accumulate'"),
    SLOT(PJRT_Executable_OutputElementTypes, 0, fail_instead, "compiling 'accumulate'"),
    SLOT(PJRT_Executable_OutputDimensions, 0, fail_instead, "compiling 'accumulate'"),
    SLOT(PJRT_LoadedExecutable_AddressableDevices, 0, fail_instead, "compiling 'accumulate'"),
    SLOT(PJRT_LoadedExecutable_Execute, 0, fail_instead, "running 'accumulate'"),
    SLOT(PJRT_Buffer_ToHostBuffer, 0, fail_instead, "reading 'new sum'"),
    SLOT(PJRT_Event_Await, 1, fail_afterwards, "reading 'new sum'"),
    SLOT(PJRT_Executable_GetCompiledMemoryStats, 0, fail_instead, "memory of 'accumulate'"),
    SLOT(PJRT_Client_Destroy, 0, fail_afterwards, "closing the engine"),
    SLOT(PJRT_Buffer_IsDeleted, 0, fail_instead, NULL),
    SLOT(PJRT_Buffer_Destroy, 0, fail_afterwards, NULL),
    SLOT(PJRT_Event_Destroy, 0, fail_afterwards, NULL),
    SLOT(PJRT_Executable_Destroy, 0, fail_afterwards, NULL),
    SLOT(PJRT_LoadedExecutable_Destroy, 0, fail_afterwards, NULL),
};

static void each_slot_fails_with(PJRT_Error_Code code, nt_status wanted) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        session s;
        reset_table();
        error_code = code;
        replace(rows[i].offset, rows[i].failure);
        calls_before_failure = rows[i].calls_before_failure;
        nt_status status = run_session(&s);
        if (rows[i].message)
            assert_failed(status, wanted, rows[i].message, "made to fail");
        else
            assert_ok(status);
        assert_nothing_lives();
        assert_a_session_works();
    }
}

static void each_slot_refuses(void **state) {
    (void)state;
    each_slot_fails_with(PJRT_Error_Code_INTERNAL, NT_ENGINE);
}

static void each_slot_is_out_of_memory(void **state) {
    (void)state;
    each_slot_fails_with(PJRT_Error_Code_RESOURCE_EXHAUSTED, NT_OUT_OF_MEMORY);
}

/* Nothing can be done about a plugin that has no way to destroy what it made: those slots are left out. */
static void each_slot_is_missing(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        session s;
        if (rows[i].calls_before_failure || strstr(rows[i].name, "Destroy")) continue;
        reset_table();
        replace(rows[i].offset, NULL);
        nt_status status = run_session(&s);
        if (rows[i].message)
            assert_failed(status, NT_ENGINE, rows[i].message, rows[i].name, nt__loaded.path, "(PJRT API 0.");
        else
            assert_ok(status);
        assert_nothing_lives();
        assert_a_session_works();
    }
}

/* An older plugin's table ends earlier; what lies behind its end is not a slot. */
static void the_table_ends_before_a_slot(void **state) {
    (void)state;
    session s;
    reset_table();
    table.struct_size = offsetof(PJRT_Api, PJRT_Executable_OutputDimensions);
    assert_failed(run_session(&s), NT_ENGINE, "compiling 'accumulate'", "has no PJRT_Executable_OutputDimensions");
    assert_nothing_lives();
    reset_table();
    table.struct_size = offsetof(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats);
    assert_failed(run_session(&s), NT_ENGINE, "memory of 'accumulate'",
                  "has no PJRT_Executable_GetCompiledMemoryStats");
    assert_a_session_works();
}

/* ---- single calls ----------------------------------------------------------------------------------------------- */

static void a_refused_run_keeps_the_donated_buffer(void **state) {
    (void)state;
    session s = {0};
    reset_table();
    error_code = PJRT_Error_Code_INTERNAL;
    replace(offsetof(PJRT_Api, PJRT_LoadedExecutable_Execute), fail_instead);
    assert_failed(compute(&s), NT_ENGINE, "running 'accumulate'");
    assert_int_equal(s.total.state, NT__BUFFER_ALIVE);
    assert_floats(&s.total, one, 4);
    nt__buffer_free(&s.total);
    nt__buffer_free(&s.b);
    nt__executable_free(&s.executable);
    assert_ok(nt__engine_close());
}

/* A donor that the engine did not take lives beside the result for a moment: the peak shows two. Runs first, since
 * peaks are those of the process. */
static void a_donor_that_was_not_taken(void **state) {
    (void)state;
    session s;
    assert_a_session_works();
    assert_int_equal(nt__engine_counts_now().buffers[NT__ACCUMULATOR].peak_count, 1);
    replace(offsetof(PJRT_Api, PJRT_Buffer_IsDeleted), fail_instead);
    assert_ok(run_session(&s));
    assert_int_equal(nt__engine_counts_now().buffers[NT__ACCUMULATOR].peak_count, 2);
    assert_nothing_lives();
}

static PJRT_Error *refuse_options(void *args) {
    return ((PJRT_Client_Create_Args *)args)->num_options ? new_error() : replaced(args);
}

/* The plugins for the CPU make four devices when they are not asked. */
static void a_plugin_that_does_not_know_the_device_count(void **state) {
    (void)state;
    reset_table();
    error_code = PJRT_Error_Code_INVALID_ARGUMENT;
    error_text = "unknown option cpu_device_count";
    replace(offsetof(PJRT_Api, PJRT_Client_Create), refuse_options);
    assert_ok(nt__engine_open(1, &engine));
    assert_int_equal(nt__engine_facts_of(engine)->device_count, 4);
    assert_ok(nt__engine_close());
    assert_failed(nt__engine_open(5, &engine), NT_ENGINE, "5 devices were asked for", "has 4: ask for fewer");
    error_text = "unknown option of another name";
    assert_failed(nt__engine_open(1, &engine), NT_ENGINE, "unknown option of another name");
    assert_nothing_lives();
    assert_a_session_works();
}

static PJRT_Error *no_type_of_ours(void *args) {
    static PJRT_Buffer_Type complex[] = {PJRT_Buffer_Type_C64};
    PJRT_Error *error = replaced(args);
    ((PJRT_Executable_OutputElementTypes_Args *)args)->output_types = complex;
    return error;
}

static PJRT_Error *one_type_too_many(void *args) {
    PJRT_Error *error = replaced(args);
    ((PJRT_Executable_OutputElementTypes_Args *)args)->num_output_types = 2;
    return error;
}

static void results_that_make_no_sense(void **state) {
    (void)state;
    session s;
    reset_table();
    replace(offsetof(PJRT_Api, PJRT_Executable_OutputElementTypes), no_type_of_ours);
    assert_failed(run_session(&s), NT_INVALID, "compiling 'accumulate'", "result 0 'new sum' has element type 14");
    reset_table();
    replace(offsetof(PJRT_Api, PJRT_Executable_OutputElementTypes), one_type_too_many);
    assert_failed(run_session(&s), NT_ENGINE, "compiling 'accumulate'",
                  "the engine counts 1 results, 2 element types and 1 shapes");
    assert_a_session_works();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_donor_that_was_not_taken),
        cmocka_unit_test(each_slot_refuses),
        cmocka_unit_test(each_slot_is_out_of_memory),
        cmocka_unit_test(each_slot_is_missing),
        cmocka_unit_test(the_table_ends_before_a_slot),
        cmocka_unit_test(a_refused_run_keeps_the_donated_buffer),
        cmocka_unit_test(a_plugin_that_does_not_know_the_device_count),
        cmocka_unit_test(results_that_make_no_sense),
    };
    return cmocka_run_group_tests_name("failures", tests, use_table, use_real_table);
}
