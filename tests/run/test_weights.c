/* Weights to start with: of a checkpoint (its averages where it has some), with the states of its rules, and
 * of a file that others wrote, whose arrays have other names, other axes and another element type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "course.h"
#include "format/format.h"

static course make_normed(void) {
    course c = make_course();
    fields.normed = true;
    return c;
}

static nt_status start(const course *c, nt_run_options options, nt_run **out) {
    options.run_dir = course_folder();
    return nt_run_new(&c->experiment, c->fields, &options, out);
}

static void assert_parameter(nt_run *run, const char *path, const void *elements) {
    nt_array *array = nt_run_parameter(run, path);
    assert_non_null(array);
    assert_memory_equal(array->data, elements, array->bytes);
    nt_array_free(array);
}

/* Options for a run that starts with the weights of one that was trained. */
static nt_run_options after_training(const course *c, const char *weights, trained *out) {
    nt_run_options options = c->options;
    train_stretch(c, (stretch){0});
    trained_read(out);
    options.weights = weights;
    options.quiet = true;
    return options;
}

/* ---- of a checkpoint -------------------------------------------------------------------------------------------- */

/* Parameters and states, and nothing of where the run was. */
static void a_checkpoint_is_a_start(void **state) {
    (void)state;
    course c = make_normed();
    trained t;
    nt_run *run;
    nt_run_options options = after_training(&c, "latest:latest", &t);
    assert_ok(start(&c, options, &run));
    assert_int_equal(nt_run_step(run), 0);
    assert_int_equal(nt_run_epoch(run), 0);
    assert_parameter(run, "hidden.weight", nt__record_find(&t.record, "parameters/hidden.weight")->data);
    nt_array *mean = nt_run_state(run, "norm.mean");
    assert_non_null(mean);
    assert_memory_equal(mean->data, nt__record_find(&t.record, "states/norm.mean")->data, mean->bytes);
    nt_array_free(mean);
    float moments[56];
    assert_int_equal(run->resident.device.states[0].bytes, sizeof moments);
    assert_ok(nt__buffer_read(run->traced.engine, &run->resident.device.states[0], moments));
    for (size_t i = 0; i < 56; i++) assert_true(moments[i] == 0); /* the optimizer begins anew */
    nt_run_free(run);
    options.evaluate_only = true;
    assert_ok(start(&c, options, &run));
    assert_parameter(run, "logits.bias", nt__record_find(&t.record, "parameters/logits.bias")->data);
    assert_ok(nt_validate(run, NULL));
    nt_run_free(run);
    trained_free(&t);
}

static void with_averages_it_gives_those(void **state) {
    (void)state;
    course c = make_normed();
    trained t;
    nt_run *run;
    c.options.ema_decay = (nt_maybe_double){true, 0.5};
    nt_run_options options = after_training(&c, "latest:best", &t);
    options.evaluate_only = true;
    assert_ok(start(&c, options, &run));
    const nt__named_array *average = nt__record_find(&t.record, "averages/hidden.weight");
    const nt__named_array *parameter = nt__record_find(&t.record, "parameters/hidden.weight");
    assert_true(memcmp(average->data, parameter->data, 4 * 24) != 0);
    nt_run_free(run);
    options.weights = "latest:latest";
    options.quiet = false;
    nt_set_notice(keep_notice, NULL);
    assert_ok(start(&c, options, &run));
    assert_told(": the weights are those of ");
    assert_told(course_folder());
    assert_parameter(run, "hidden.weight", average->data);
    nt_run_free(run);
    trained_free(&t);
}

static void the_optimizer_can_be_taken_too(void **state) {
    (void)state;
    course c = make_normed();
    trained t;
    nt_run *run;
    nt_run_options options = after_training(&c, "latest:latest", &t);
    options.restore_optimizer = true;
    assert_ok(start(&c, options, &run));
    assert_int_equal(nt_run_step(run), 0);
    const nt__named_array *m = nt__record_find(&t.record, "optimizer/default/0.Adam.m");
    assert_non_null(m);
    nt_array *now = nt_array_new(m->type.dtype, m->type.shape);
    assert_ok(nt__buffer_read(run->traced.engine, &run->resident.device.states[0], now->data));
    assert_memory_equal(now->data, m->data, now->bytes);
    nt_array_free(now);
    nt_run_free(run);
    chosen = nt_momentum();
    assert_fails(start(&c, options, &run), NT_INVALID, "the optimizer of group 'default' was Adam");
    options.weights = NULL;
    assert_fails(start(&c, options, &run), NT_INVALID, "restore_optimizer goes with weights from a checkpoint");
    options.restore_optimizer = false;
    options.weights = options.resume = "latest:latest";
    assert_fails(start(&c, options, &run), NT_INVALID, "goes on from a checkpoint, or starts with weights; leave one");
    trained_free(&t);
}

/* The layers of the course, the last one declared first. */
static nt_tensor backwards(const void *e, nt_model *m, nt_batch *batch) {
    nt_tensor weights[2], biases[2];
    (void)e;
    for (int last = 1; last >= 0; last--) NT_SCOPE(m, "%s", last ? "logits" : "hidden") {
            weights[last] = nt_parameter(m, "weight", last ? nt_dims(6, 2) : nt_dims(4, 6));
            biases[last] = nt_parameter(m, "bias", nt_dims(last ? 2 : 6));
        }
    nt_tensor hidden = nt_tanh(nt_add(nt_matmul(nt_field(batch, "x"), weights[0]), biases[0]));
    return nt_add(nt_matmul(hidden, weights[1]), biases[1]);
}

/* Weights go by their paths, states by where the parameters lie. */
static void an_optimizer_of_another_layout_is_refused(void **state) {
    (void)state;
    course c = make_course();
    trained t;
    nt_run *run;
    nt_run_options options = after_training(&c, "latest:latest", &t);
    c.experiment.hooks.forward = backwards;
    assert_ok(start(&c, options, &run));
    nt_run_free(run);
    options.restore_optimizer = true;
    assert_fails(start(&c, options, &run), NT_INVALID,
                 "restore_optimizer: the parameters of experiment 'Course' lie "
                 "elsewhere than in the checkpoint");
    chosen = nt_sgd();
    assert_fails(start(&c, options, &run), NT_INVALID,
                 "restore_optimizer is given, and no rule of experiment 'Course' has states that could be restored");
    trained_free(&t);
}

static void the_folder_of_another_run_has_them_too(void **state) {
    (void)state;
    course c = make_normed();
    trained t;
    nt_run *run;
    char text[SCRATCH_PATH + 64];
    snprintf(text, sizeof text, "%s:latest", course_folder());
    nt_run_options options = after_training(&c, text, &t);
    options.run_dir = scratch("tuned");
    assert_ok(nt_run_new(&c.experiment, c.fields, &options, &run));
    assert_parameter(run, "hidden.weight", nt__record_find(&t.record, "parameters/hidden.weight")->data);
    nt_run_free(run);
    options.weights = NULL;
    options.resume = text; /* a branch, with an id of its own */
    assert_ok(nt_run_new(&c.experiment, c.fields, &options, &run));
    assert_int_equal(nt_run_step(run), 8);
    assert_non_null(run->recording.parent);
    nt_run_free(run);
    options.resume = NULL;
    options.weights = course_folder();
    assert_fails(nt_run_new(&c.experiment, c.fields, &options, &run), NT_INVALID, "are a folder: write ");
    trained_free(&t);
}

static void another_model_is_refused_with_the_differences(void **state) {
    (void)state;
    course c = make_normed();
    nt_run *run;
    train_stretch(&c, (stretch){0});
    fields.hidden = 7;
    nt_run_options options = c.options;
    options.weights = "latest:latest";
    options.quiet = true;
    assert_fails(start(&c, options, &run), NT_INVALID, "hidden.weight: f32[4,7] in the model, f32[4,6] in the file");
    options.weights = "nobody:latest";
    assert_fails(start(&c, options, &run), NT_NOT_FOUND, "nobody");
}

/* Of a version that kept less beside the arrays, and under the same names. */
static void an_older_checkpoint_gives_its_fields(void **state) {
    (void)state;
    course c = make_course();
    char path[SCRATCH_PATH];
    nt_run *run;
    snprintf(path, sizeof path, "%s/golden/checkpoint-1.safetensors", getenv("NT_TESTS"));
    nt_run_options options = {.weights = path, .evaluate_only = true, .no_log = true};
    nt_set_notice(keep_notice, NULL);
    assert_ok(start(&c, options, &run));
    assert_told(": draws = true, normed = true\n");
    const Course *e = run->task.fields;
    assert_true(e->draws && e->normed && !e->weighted);
    assert_int_equal(count_told("trained"), 0);
    nt_run_free(run);
    fields.hidden = 7;
    assert_fails(start(&c, options, &run), NT_INVALID, "hidden: 6 in the file, 7 here");
    nt_set_notice(NULL, NULL);
}

/* ---- the best one at the end ------------------------------------------------------------------------------------ */

/* The epoch of the best, which the run ends with. */
static int64_t end_with_the_best(const course *c, const char *mode) {
    nt__manifest manifest;
    nt__record best;
    nt_run *run;
    nt_run_options options = c->options;
    options.max_epochs = (nt_maybe_int){true, 3};
    options.checkpoint_mode = mode;
    options.restore_best = options.quiet = true;
    assert_ok(start(c, options, &run));
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_epoch(run), 3);
    assert_int_equal(nt_run_step(run), 12);
    assert_ok(nt__manifest_read(course_folder(), &manifest));
    const nt__retention kept = nt__retention_of(&run->task.settings);
    const nt__record_entry *entry = nt__manifest_best(&manifest, run->recording.id, false, &kept);
    assert_non_null(entry);
    int64_t epoch = entry->epoch;
    char path[3 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s/%s", course_folder(), entry->file);
    assert_ok(nt__record_load(path, &best));
    assert_parameter(run, "hidden.weight", nt__record_find(&best, "parameters/hidden.weight")->data);
    assert_fails(nt_train(run), NT_INVALID, "so it trains no more. Make another run: with weights '");
    nt__record_free(&best);
    nt__manifest_free(&manifest);
    nt_run_free(run);
    return epoch;
}

/* Of the lowest and the highest loss at least one is not that of the last epoch. */
static void training_may_end_with_the_best(void **state) {
    (void)state;
    course c = make_normed();
    int64_t lowest = end_with_the_best(&c, "min"), highest = end_with_the_best(&c, "max");
    assert_true(lowest < 3 || highest < 3);
}

static void without_a_score_it_is_refused(void **state) {
    (void)state;
    course c = make_normed();
    nt_run *run;
    fields.val = false;
    nt_run_options options = c.options;
    options.restore_best = true;
    assert_int_equal(start(&c, options, &run), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "restore_best needs a best checkpoint, and run "));
}

/* ---- of others -------------------------------------------------------------------------------------------------- */

/* As another program keeps such a model: matrices turned, 16 bits, other names. */
static void write_foreign(const char *path) {
    nt_array *fc = nt_array_new(NT_F16, nt_dims(6, 4)), *vector = nt_array_new(NT_F32, nt_dims(6)),
             *head = nt_array_new(NT_F32, nt_dims(3, 6)), *count = nt_array_new(NT_I64, (nt_shape){0});
    for (int i = 0; i < 24; i++) nt_array_set(fc, i, i);
    for (int i = 0; i < 6; i++) nt_array_set(vector, i, 10 + i);
    const nt__named_array arrays[] = {{"model.hidden.fc.weight", {NT_F16, fc->shape}, fc->data},
                                      {"model.hidden.fc.bias", {NT_F32, vector->shape}, vector->data},
                                      {"model.bn.weight", {NT_F32, vector->shape}, vector->data},
                                      {"model.bn.bias", {NT_F32, vector->shape}, vector->data},
                                      {"model.bn.running_mean", {NT_F32, vector->shape}, vector->data},
                                      {"model.bn.running_var", {NT_F32, vector->shape}, vector->data},
                                      {"model.bn.num_batches_tracked", {NT_I64, count->shape}, count->data},
                                      {"head.weight", {NT_F32, head->shape}, head->data}};
    assert_ok(nt__safetensors_write(path, arrays, sizeof arrays / sizeof *arrays, NULL, 0));
    nt_array_free(fc);
    nt_array_free(vector);
    nt_array_free(head);
    nt_array_free(count);
}

static void weights_of_others_come_under_other_names(void **state) {
    (void)state;
    course c = make_normed();
    nt_run *run, *fresh;
    const char *path = scratch("foreign.safetensors");
    const char *const maps[] = {"model.*.fc.weight=*.weight:1,0",
                                "model.*.fc.bias=*.bias",
                                "model.bn.weight=norm.scale",
                                "model.bn.bias=norm.shift",
                                "model.bn.running_mean=norm.mean",
                                "model.bn.running_var=norm.variance",
                                "head.*=",
                                "=logits.*"};
    write_foreign(path);
    assert_ok(start(&c, (nt_run_options){.no_log = true, .quiet = true}, &fresh));
    nt_set_notice(keep_notice, NULL);
    nt_run_options options = {.no_log = true, .weights = path, .weight_maps = maps, .weight_map_count = 8};
    assert_ok(start(&c, options, &run));
    assert_told("6 arrays of ");
    assert_told(
        "(6 renamed, 1 transposed); 2 of the model keep what they have: logits.weight, logits.bias; 1 of the file "
        "are not used: model.bn.num_batches_tracked");
    nt_array *weight = nt_run_parameter(run, "hidden.weight"), *logits = nt_run_parameter(fresh, "logits.weight");
    assert_true(nt_array_get(weight, 1) == 4 && nt_array_get(weight, 6) == 1); /* [0,1] and [1,0] of the turned one */
    assert_parameter(run, "logits.weight", logits->data);
    nt_array_free(weight);
    nt_array_free(logits);
    nt_array *variance = nt_run_state(run, "norm.variance");
    assert_true(nt_array_get(variance, 5) == 15);
    nt_array_free(variance);
    nt_run_free(fresh);
    assert_fails(nt_run_load(run, path), NT_INVALID, "hidden.weight: f32[4,6] in the model, missing in the file");
    assert_fails(nt_run_load_mapped(run, path, maps, 1), NT_INVALID, "change the maps");
    nt_run_free(run);
}

static void bad_maps_say_what_is_wrong(void **state) {
    (void)state;
    course c = make_normed();
    nt_run *run;
    const char *path = scratch("foreign.safetensors");
    const struct {
        const char *map, *says;
    } cases[] = {{"a", "the map 'a' is none: it has no '='"},
                 {"=", "it names nothing"},
                 {"a*b*=c", "a side has more than one '*'"},
                 {"a=b*", "TO has a '*' and FROM has none"},
                 {"a=b:turned", "neither 'transpose' nor a list of different axes"},
                 {"a=b:0,0", "neither 'transpose' nor a list of different axes"},
                 {"a=b:0,2", "the axes are not those from 0 on, each once"},
                 {"head.weight=x:0,1,2", "cannot turn the axes of 'head.weight', which is f32[3,6]"},
                 {"model.hidden.fc.bias=x:transpose", "cannot turn the axes of"},
                 {"model.*=same", "the maps give two arrays of the file the name 'same'"}};
    write_foreign(path);
    assert_ok(start(&c, (nt_run_options){.no_log = true, .quiet = true}, &run));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(nt_run_load_mapped(run, path, &cases[i].map, 1), NT_INVALID, cases[i].says);
    nt_run_free(run);
}

/* A name that was written wrongly: with the ones that are close, also where the file fits the model without a map. */
static void maps_that_fit_nothing_are_refused(void **state) {
    (void)state;
    course c = make_normed();
    nt_run *run;
    const char *foreign = scratch("foreign.safetensors"), *own = scratch("own.safetensors");
    const char *const wrong[] = {"model.*.fc.weigth=*.weight", "modle.bn.bias=norm.shift", "=logits.*"};
    const char *const kept[] = {"=logit.*"};
    const char *const one_wrong[] = {"hidden.*=hidden.*", "heads.*=", "=logit.*"};
    write_foreign(foreign);
    assert_ok(start(&c, (nt_run_options){.no_log = true, .quiet = true}, &run));
    assert_ok(nt_run_save(run, own));
    assert_fails(nt_run_load_mapped(run, foreign, wrong, 3), NT_INVALID,
                 "no map fits an array of the file of weights, so none would be renamed or left out:\n"
                 "  model.*.fc.weigth=*.weight (did you mean model.hidden.fc.weight?)\n"
                 "  modle.bn.bias=norm.shift (did you mean model.bn.bias?)\n"
                 "Correct the part before the '=', or leave the maps out. The file has: model.hidden.fc.weight, ");
    assert_fails(nt_run_load_mapped(run, own, wrong, 1), NT_INVALID, "no map fits an array of the file");
    assert_fails(nt_run_load_mapped(run, own, kept, 1), NT_INVALID,
                 "no map fits experiment 'Course', so nothing would keep what it has:\n"
                 "  =logit.* (did you mean logits.weight or logits.bias?)\n"
                 "Correct the part after the '=', or leave the maps out. The model has: hidden.weight, ");
    nt_run_free(run);
    nt_set_notice(keep_notice, NULL);
    nt_run_options options = {.no_log = true, .weights = own, .weight_maps = one_wrong, .weight_map_count = 3};
    assert_ok(start(&c, options, &run));
    assert_told("0 of the file are not used\n");
    assert_told("these fit nothing: 'heads.*=', '=logit.*'\n");
    nt_run_free(run);
    nt_set_notice(NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_is_a_start),
        cmocka_unit_test(with_averages_it_gives_those),
        cmocka_unit_test(the_optimizer_can_be_taken_too),
        cmocka_unit_test(an_optimizer_of_another_layout_is_refused),
        cmocka_unit_test(the_folder_of_another_run_has_them_too),
        cmocka_unit_test(another_model_is_refused_with_the_differences),
        cmocka_unit_test(an_older_checkpoint_gives_its_fields),
        cmocka_unit_test(training_may_end_with_the_best),
        cmocka_unit_test(without_a_score_it_is_refused),
        cmocka_unit_test(weights_of_others_come_under_other_names),
        cmocka_unit_test(bad_maps_say_what_is_wrong),
        cmocka_unit_test(maps_that_fit_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, course_make, end_courses);
}
