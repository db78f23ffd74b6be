/* Golden cases of layers: the file's inputs are the layer's parameters and states. Include after cmocka. */
#ifndef NT_TESTS_NN_LAYER_CASES_H
#define NT_TESTS_NN_LAYER_CASES_H

#include "../graph/golden.h"
#include "nn/model.h"

/* Which input of the file a path is. */
typedef struct layer_input {
    const char *path, *input;
} layer_input;

typedef struct layer_row {
    const char *op;
    nt_tensor (*build)(const golden_case *c, nt_model *m);
    bool evaluates;
    const layer_input *inputs; /* ends with a NULL path */
} layer_row;

enum { LAYER_PARAMETER_ROLE = 70, LAYER_STATE_ROLE, LAYER_SEED_ROLE, MOST_LAYER_LEAVES = 16 };

/* A zero tensor where the file says nothing of it, and the case does not depend on it. */
static inline nt_tensor layer_value(const golden_case *c, const layer_row *row, const char *path) {
    const layer_input *input = row->inputs;
    while (input->path && strcmp(input->path, path)) input++;
    if (!input->path) fail_msg("no input of the file is '%s'", path);
    return golden_has(c, input->input) ? golden_input(c, input->input) : (nt_tensor){0};
}

/* Calls the layer twice: once to learn what it declares, then with the file's inputs in the places of that. What the
 * states become are the outputs after the first. */
static inline nt_tensor layer_build(const golden_case *c, const layer_row *row, nt_model *m) {
    nt_tensor values[MOST_LAYER_LEAVES];
    nt__model_begin(m, !row->evaluates, NULL);
    row->build(c, m);
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(m, &count);
    assert_true(count < MOST_LAYER_LEAVES);
    for (size_t i = 0; i < count; i++) values[i] = layer_value(c, row, leaves[i].path);
    nt__model_begin(m, !row->evaluates, values);
    leaves = nt__model_states(m, &count);
    for (size_t i = 0; i < count; i++) m->states.uses[i].value = layer_value(c, row, leaves[i].path);
    nt_tensor y = row->build(c, m), value;
    nt__model_end(m);
    for (size_t i = 0; i < count; i++) nt__model_update(m, i, &value, &c->outputs[i + 1]);
    return y;
}

static const layer_row *layer_row_under_way;
static nt_model *layer_model;

/* What the states become are the file's outputs after the first. */
static nt_tensor layer_build_case(const golden_case *c) {
    nt_tensor y = layer_build(c, layer_row_under_way, layer_model), value, next;
    size_t count;
    nt__model_states(layer_model, &count);
    assert_true(count < GOLDEN_MAX_OUTPUTS);
    for (size_t i = 0; i < count; i++)
        if (nt__model_update(layer_model, i, &value, &next)) c->outputs[i + 1] = next;
    return y;
}

static inline void layer_add_case(golden_run *run, const json_t *json, const layer_row *row) {
    const golden_row as_operation = {row->op, layer_build_case};
    layer_row_under_way = row;
    layer_model = nt__model_new((nt__model_roles){LAYER_PARAMETER_ROLE, LAYER_STATE_ROLE, LAYER_SEED_ROLE});
    assert_non_null(layer_model);
    golden_add_case(run, json, &as_operation);
    nt__model_free(layer_model);
}

/* What is run of a file. */
typedef struct layer_plan {
    const char *file;
    const layer_row *rows;
    size_t row_count, case_count;
    bool (*applies)(const json_t *json); /* NULL: all cases of the rows' operations are run */
} layer_plan;

static inline void layers_check(const layer_plan *plan, nt_dtype floating) {
    json_t *document = golden_read(plan->file), *json;
    golden_run run = {.floating = floating};
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    size_t index, seen = 0;
    for (size_t r = 0; r < plan->row_count; r++) json_array_foreach(json_object_get(document, "cases"), index, json) {
            if (strcmp(json_string_value(json_object_get(json, "op")), plan->rows[r].op)) continue;
            if (plan->applies && !plan->applies(json)) continue;
            layer_add_case(&run, json, &plan->rows[r]);
            seen++;
        }
    assert_int_equal(seen, plan->case_count);
    if (run.arrays)
        golden_finish(&run, graph);
    else
        fail_msg("%s has no inputs", plan->file);
    json_decref(document);
}

#endif
