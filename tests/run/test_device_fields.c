/* Device fields of a live run: other values, what they upload, and that they compile nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

static nt_run *make(const Toy *e, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(Toy_experiment(), e, &options, &run));
    return run;
}

static uint64_t uploads(void) {
    return nt__engine_counts_now().uploads[NT__DEVICE_FIELD].count;
}

/* Place of the field smoothing in the list. */
enum { HIDDEN, SMOOTHING };

static double last_loss(nt_run *run, heard *h) {
    h->count = 0;
    assert_ok(nt_train(run));
    assert_true(h->count > 0);
    return h->losses[h->count - 1];
}

/* A Device field is an input. */
static void a_write_uploads_once_and_compiles_nothing(void **state) {
    (void)state;
    static heard plain, smooth;
    Toy e = Toy_defaults();
    e.val_rows = 0;
    uint64_t before = uploads();
    nt_run *run = make(&e, quiet_options(&plain));
    assert_int_equal(uploads() - before, 1);
    assert_int_equal(nt__engine_counts_now().buffers[NT__DEVICE_FIELD].live_count, 1);
    double without = last_loss(run, &plain);
    nt_run_free(run);

    run = make(&e, quiet_options(&smooth));
    uint64_t misses = nt_cache_stats().misses;
    before = uploads();
    assert_ok(nt__device_field_write_number(&run->resident, SMOOTHING, 0.5));
    assert_int_equal(uploads() - before, 1);
    assert_ok(nt__device_field_write_number(&run->resident, SMOOTHING, 0.5));
    assert_int_equal(uploads() - before, 1);
    assert_int_equal(nt__engine_counts_now().buffers[NT__DEVICE_FIELD].live_count, 2); /* and the former one */
    assert_true(((const Toy *)run->task.fields)->smoothing == 0.5f);
    assert_true(fabs(last_loss(run, &smooth) - without) > 1e-4);
    float back = 0.25f;
    assert_ok(nt__device_field_write(&run->resident, SMOOTHING, &back));
    assert_int_equal(uploads() - before, 2);
    assert_int_equal(nt_cache_stats().misses, misses);
    nt_run_free(run);
}

static void a_write_that_fails_changes_nothing(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_run *run = make(&e, quiet_options(NULL));
    uint64_t before = uploads();
    assert_fails(nt__device_field_write_number(&run->resident, SMOOTHING, 1e300), NT_INVALID,
                 "smoothing (float) cannot be 1e+300");
    assert_int_equal(uploads(), before);
    assert_true(((const Toy *)run->task.fields)->smoothing == 0);
    nt_run_free(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_uploads_once_and_compiles_nothing),
        cmocka_unit_test(a_write_that_fails_changes_nothing),
    };
    return cmocka_run_group_tests_name("device fields", tests, NULL, shut_down);
}
