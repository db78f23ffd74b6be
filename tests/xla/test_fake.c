/* Every way in which a plugin can fail, on the fake plugin: the message, the status, and nothing left alive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../fake/fake.h"
#include "engine.h"

/* ---- a whole life ----------------------------------------------------------------------------------------------- */

/* Adds a lent value to a donated one; the sum takes the memory of the donated one. */
static const char text[] =
    "module @sum {\n"
    "  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>) -> "
    "(tensor<4xf32>, tensor<i32>) {\n"
    "    %0 = \"stablehlo.add\"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
    "    %1 = \"stablehlo.constant\"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>\n"
    "    return %0, %1 : tensor<4xf32>, tensor<i32>\n"
    "  }\n"
    "}\n";

typedef struct life {
    nt__executable *sum;
    nt__buffer total, addend, number;
    float out[4];
} life;

enum { RUNS = 3, LENT = 1 /* of the uploads */ };

static nt_status upload(life *l) {
    static const float zeros[4];
    nt__type vector = type_of(NT_F32, nt_dims(4));
    void *lent = nt__alloc_aligned(sizeof zeros);
    if (!lent) return NT_OUT_OF_MEMORY;
    nt_status status = nt__buffer_lend(engine, 0, "addend", NT__BATCH, vector, lent, &l->addend);
    if (status != NT_OK) return status;
    return nt__buffer_upload(engine, 0, "total", NT__PARAMETERS, vector, zeros, &l->total);
}

static nt_status compile_sum(life *l) {
    const nt__port arguments[] = {{"total", type_of(NT_F32, nt_dims(4)), NT__PARAMETERS, 0},
                                  {"addend", type_of(NT_F32, nt_dims(4)), NT__BATCH, -1}};
    const nt__port results[] = {{"total", type_of(NT_F32, nt_dims(4)), NT__PARAMETERS, -1},
                                {"number", type_of(NT_I32, (nt_shape){0}), NT__OUTPUT, -1}};
    const nt__signature signature = {arguments, 2, results, 2};
    return compile("sum", text, &signature, &l->sum);
}

static nt_status run_sum(life *l) {
    nt__buffer *arguments[] = {&l->total, &l->addend}, *results[] = {&l->total, &l->number};
    nt__buffer_free(&l->number);
    return nt__executable_run(l->sum, arguments, 2, results, 2);
}

static nt_status work(life *l) {
    nt_status status = upload(l);
    if (status == NT_OK) status = compile_sum(l);
    for (int i = 0; status == NT_OK && i < RUNS; i++) {
        status = run_sum(l);
        if (status == NT_OK) status = nt__buffer_read(engine, &l->total, l->out);
    }
    return status;
}

static void free_life(life *l) {
    nt__buffer_free(&l->total);
    nt__buffer_free(&l->addend);
    nt__buffer_free(&l->number);
    nt__executable_free(&l->sum);
}

/* Opens, works, frees and closes. The first failure; its message is the thread's. */
static nt_status live(void) {
    life l = {0};
    nt_status status = nt__engine_open(1, &engine);
    if (status != NT_OK) return status;
    status = work(&l);
    free_life(&l);
    assert_ok(nt__engine_close());
    return status;
}

static void assert_end(void) {
    assert_nothing_left(0);
}

/* ---- one failure, one message ----------------------------------------------------------------------------------- */

static void normal(void **state) {
    (void)state;
    life l = {0};
    assert_ok(nt__engine_open(1, &engine));
    assert_ok(work(&l));
    assert_int_equal(fake_count("uploads"), 2);
    assert_int_equal(fake_count("runs"), RUNS);
    assert_int_equal(fake_count("downloads"), RUNS);
    assert_int_equal(fake_count("compiles"), 1);
    assert_int_equal(nt__engine_counts_now().compiles, 1);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 3);
    assert_same_counts(0, 0);
    assert_string_equal(nt__engine_facts_of(engine)->stablehlo_version, "1.2.3");
    assert_string_equal(nt__device_text(engine, 0), "fake:0");
    free_life(&l);
    assert_same_counts(0, 0);
    assert_ok(nt__engine_close());
    assert_end();
}

static void lives(void **state) {
    (void)state;
    assert_ok(live());
    assert_same_counts(0, 0);
    assert_end();
}

static void compile_error(void **state) {
    (void)state;
    assert_failed(live(), NT_ENGINE, "compiling 'sum'", "engine error 2 (unknown)", "-:3:10: error: the fake plugin");
    assert_null(strstr(nt_error_message(), "Failed to parse"));
    assert_int_equal(nt__engine_counts_now().compiles, fake_count("compiles"));
    assert_same_counts(0, 0);
    assert_end();
}

static void compile_oom(void **state) {
    (void)state;
    assert_failed(live(), NT_OUT_OF_MEMORY, "compiling 'sum'", "engine error 8 (out of memory)", "4096 bytes");
    assert_int_equal(nt__engine_counts_now().compiles, fake_count("compiles"));
    assert_same_counts(0, 0);
    assert_end();
}

/* The engine compiled it; nitro refuses it, and does not count it. */
static void other_result_shape(void **state) {
    (void)state;
    assert_failed(live(), NT_INVALID, "compiling 'sum'", "result 0 'total'", "f32[4] in the signature",
                  "f32[4,7] in the program");
    assert_int_equal(fake_count("compiles"), 1);
    assert_int_equal(nt__engine_counts_now().compiles, 0);
    assert_same_counts(0, 0);
    assert_end();
}

static void run_oom(void **state) {
    (void)state;
    assert_failed(live(), NT_OUT_OF_MEMORY, "running 'sum'", "engine error 8 (out of memory)", "4096 bytes.",
                  "2 arrays of 32 bytes", "make the batch or the model smaller");
    assert_int_equal(fake_count("runs"), 2);
    assert_same_counts(0, 0);
    assert_end();
}

/* A failed run leaves the donated argument as it was. */
static void refused_argument(void **state) {
    (void)state;
    life l = {0};
    assert_ok(nt__engine_open(1, &engine));
    assert_failed(work(&l), NT_ENGINE, "running 'sum'", "engine error 3 (invalid argument)", "argument 1 to replica 0",
                  "device fake:1");
    assert_ok(nt__buffer_check(&l.total));
    assert_int_equal(l.number.state, NT__BUFFER_FREED);
    assert_same_counts(0, 0);
    assert_ok(run_sum(&l));
    assert_same_counts(0, 0);
    free_life(&l);
    assert_ok(nt__engine_close());
    assert_end();
}

/* A failed run that took the donated argument all the same: it says so when it is used. */
static void taken_argument(void **state) {
    (void)state;
    life l = {0};
    assert_ok(nt__engine_open(1, &engine));
    assert_failed(work(&l), NT_ENGINE, "running 'sum'", "engine error 13 (internal)");
    assert_same_counts(0, 0);
    assert_failed(run_sum(&l), NT_INVALID, "running 'sum'", "argument 0 'total'", "buffer 'total' was donated to 'sum'",
                  "cannot be used again");
    assert_same_counts(0, 0);
    free_life(&l);
    assert_ok(nt__engine_close());
    assert_end();
}

static void upload_oom(void **state) {
    (void)state;
    assert_failed(live(), NT_OUT_OF_MEMORY, "uploading 'total'", "engine error 8 (out of memory)", "4096 bytes.",
                  "1 arrays of 16 bytes in all are on the devices", "make the batch or the model smaller");
    assert_same_counts(0, 0);
    assert_end();
}

static void lend_oom(void **state) {
    (void)state;
    assert_failed(live(), NT_OUT_OF_MEMORY, "uploading 'addend'", "engine error 8 (out of memory)", "4096 bytes");
    assert_same_counts(0, 0);
    assert_end();
}

static void readback_error(void **state) {
    (void)state;
    assert_failed(live(), NT_ENGINE, "reading 'total'", "engine error 13 (internal)", "as it was told to");
    assert_int_equal(fake_count("downloads"), 1);
    assert_same_counts(0, 0);
    assert_end();
}

static void upload_event_error(void **state) {
    (void)state;
    assert_failed(live(), NT_ENGINE, "uploading 'total'", "engine error 13 (internal)");
    assert_same_counts(1, 0);
    assert_end();
}

static void readback_event_oom(void **state) {
    (void)state;
    assert_failed(live(), NT_OUT_OF_MEMORY, "reading 'total'", "engine error 8 (out of memory)");
    assert_same_counts(0, 1);
    assert_end();
}

/* The copy of lent memory is not waited for: its failure shows in the value of what was made of it. */
static void lent_event_error(void **state) {
    (void)state;
    assert_failed(live(), NT_ENGINE, "reading 'total'", "engine error 13 (internal)");
    assert_same_counts(0, 1);
    assert_end();
}

/* ---- other plugins ---------------------------------------------------------------------------------------------- */

static void older_version(void **state) {
    (void)state;
    assert_ok(nt__engine_open(1, &engine));
    assert_int_equal(nt__engine_facts_of(engine)->api_major, 0);
    assert_int_equal(nt__engine_facts_of(engine)->api_minor, 40);
    assert_ok(nt__engine_close());
    assert_ok(live());
    assert_end();
}

static void other_major_version(void **state) {
    (void)state;
    assert_failed(live(), NT_ENGINE, getenv("NITRO_PLUGIN"), "has PJRT API 1.0", "nitro was built for major version 0",
                  "make setup");
    assert_null(engine);
    assert_end();
}

/* nitro tells the first function that it needs and that is not there, before it makes anything. */
static void assert_slot_is_missed(const char *slot) {
    assert_failed(live(), NT_ENGINE, getenv("NITRO_PLUGIN"), "(PJRT API 0.", slot, "use a newer plugin",
                  "NITRO_PLUGIN=");
    assert_null(engine);
    assert_int_equal(fake_count("clients_made"), 0);
    assert_end();
}

static void small_table(void **state) {
    (void)state;
    assert_slot_is_missed("has no PJRT_Executable_OutputElementTypes");
}

static void missing_slot(void **state) {
    (void)state;
    const char *setting = getenv("NITRO_FAKE"), *slot = setting ? strchr(setting, '=') : NULL;
    assert_non_null(slot);
    assert_slot_is_missed(slot ? slot + 1 : "");
}

/* Errors cannot be read, so there is no better message. */
static void missing_error_slot(void **state) {
    (void)state;
    assert_failed(live(), NT_ENGINE, getenv("NITRO_PLUGIN"), "has no slots to read errors with", "use another plugin");
    assert_end();
}

static void missing_memory_slot(void **state) {
    (void)state;
    life l = {0};
    nt__executable_memory memory;
    assert_ok(nt__engine_open(1, &engine));
    assert_ok(work(&l));
    assert_failed(nt__executable_memory_of(l.sum, &memory), NT_ENGINE, "memory of 'sum'",
                  "has no PJRT_Executable_GetCompiledMemoryStats");
    assert_int_equal(nt__engine_counts_now().executables.live_bytes, 0);
    free_life(&l);
    assert_ok(nt__engine_close());
    assert_end();
}

/* ---- clients ---------------------------------------------------------------------------------------------------- */

static void refused_option(void **state) {
    (void)state;
    assert_failed(nt__engine_open(2, &engine), NT_ENGINE, "2 devices were asked for", getenv("NITRO_PLUGIN"), "has 1",
                  "ask for fewer");
    assert_null(engine);
    assert_ok(nt__engine_open(1, &engine));
    assert_int_equal(nt__engine_facts_of(engine)->device_count, 1);
    assert_ok(nt__engine_close());
    assert_int_equal(fake_count("clients_made"), 2);
    assert_end();
}

static void refused_client(void **state) {
    (void)state;
    assert_failed(live(), NT_ENGINE, "making a client of 1 devices", "engine error 13 (internal)", "as it was told to");
    assert_null(engine);
    assert_ok(nt__engine_close());
    assert_end();
}

static void client_oom(void **state) {
    (void)state;
    assert_failed(live(), NT_OUT_OF_MEMORY, "making a client of 1 devices", "engine error 8 (out of memory)");
    assert_ok(nt__engine_close());
    assert_end();
}

/* ---- every call fails in turn ----------------------------------------------------------------------------------- */

/* The calls of a life at each point. */
static const struct {
    const char *point;
    int calls;
} points[] = {
    {"client", 1}, {"compile", 1}, {"upload", 2}, {"run", RUNS}, {"readback", RUNS}, {"event", 2 + RUNS},
};
static const struct {
    const char *how;
    nt_status status;
} ways[] = {{"error", NT_ENGINE}, {"oom", NT_OUT_OF_MEMORY}, {"refused", NT_ENGINE}};

/* The outcome of the event of lent memory is not asked for; it fails as the first value that depends on it. */
static nt_status expected(size_t point, int call, size_t way) {
    bool lent = strcmp(points[point].point, "event") == 0 && call == LENT;
    return lent ? NT_ENGINE : ways[way].status;
}

static void every_call_fails(void **state) {
    (void)state;
    for (size_t point = 0; point < COUNT_OF(points); point++) {
        for (size_t way = 0; way < COUNT_OF(ways); way++) {
            for (int call = 1; call <= points[point].calls + 1; call++) {
                char setting[64];
                snprintf(setting, sizeof setting, "%s=%s@%d", points[point].point, ways[way].how, call);
                setenv("NITRO_FAKE", setting, 1);
                bool fails = call <= points[point].calls;
                assert_failed(live(), fails ? expected(point, call, way) : NT_OK, fails ? "engine error" : "");
                nt__engine_close();
                assert_end();
            }
        }
    }
}

#define MISSING(slot, test) \
    { "missing " slot, "missing=" slot, test }

int main(int argc, char **argv) {
    static const fake_case cases[] = {
        {"normal", "", normal},
        {"compile error", "compile=error", compile_error},
        {"compile oom", "compile=oom", compile_oom},
        {"other result shape", "result-shape", other_result_shape},
        {"third run oom", "run=oom@3", run_oom},
        {"refused argument", "run=refused@2", refused_argument},
        {"taken argument", "run=taken@2", taken_argument},
        {"upload oom", "upload=oom@2", upload_oom},
        {"lend oom", "upload=oom@1", lend_oom},
        {"second readback error", "readback=error@2", readback_error},
        {"upload event error", "event=error@2", upload_event_error},
        {"readback event oom", "event=oom@4", readback_event_oom},
        {"lent event error", "event=error@1", lent_event_error},
        {"slow events", "event=slow", lives},
        {"older version", "api=0.40", older_version},
        {"other major version", "api=1.0", other_major_version},
        {"small table", "small-table", small_table},
        MISSING("PJRT_Error_Destroy", missing_error_slot),
        MISSING("PJRT_Error_Message", missing_error_slot),
        MISSING("PJRT_Error_GetCode", missing_error_slot),
        MISSING("PJRT_Plugin_Initialize", missing_slot),
        MISSING("PJRT_Event_Destroy", missing_slot),
        MISSING("PJRT_Event_Await", missing_slot),
        MISSING("PJRT_Client_Create", missing_slot),
        MISSING("PJRT_Client_Destroy", missing_slot),
        MISSING("PJRT_Client_PlatformName", missing_slot),
        MISSING("PJRT_Client_PlatformVersion", missing_slot),
        MISSING("PJRT_Client_AddressableDevices", missing_slot),
        MISSING("PJRT_Client_Compile", missing_slot),
        MISSING("PJRT_Client_BufferFromHostBuffer", missing_slot),
        MISSING("PJRT_DeviceDescription_DebugString", missing_slot),
        MISSING("PJRT_Device_GetDescription", missing_slot),
        MISSING("PJRT_Executable_Destroy", missing_slot),
        MISSING("PJRT_Executable_NumOutputs", missing_slot),
        MISSING("PJRT_Executable_OutputElementTypes", missing_slot),
        MISSING("PJRT_Executable_OutputDimensions", missing_slot),
        MISSING("PJRT_LoadedExecutable_Destroy", missing_slot),
        MISSING("PJRT_LoadedExecutable_GetExecutable", missing_slot),
        MISSING("PJRT_LoadedExecutable_AddressableDevices", missing_slot),
        MISSING("PJRT_LoadedExecutable_Execute", missing_slot),
        MISSING("PJRT_Buffer_Destroy", missing_slot),
        MISSING("PJRT_Buffer_ToHostBuffer", missing_slot),
        /* These three nitro can do without. */
        MISSING("PJRT_Plugin_Attributes", lives),
        MISSING("PJRT_Buffer_IsDeleted", lives),
        MISSING("PJRT_Executable_GetCompiledMemoryStats", missing_memory_slot),
        {"refused option", "refuse-option", refused_option},
        {"refused client", "client=error", refused_client},
        {"client oom", "client=oom", client_oom},
        {"every call fails", "", every_call_fails},
    };
    return fake_main(argc, argv, cases, COUNT_OF(cases));
}
