/* A program that adds to a donated buffer, and numbers for it.
 * Include after cmocka.
 */
#ifndef NT_TESTS_XLA_ACCUMULATE_H
#define NT_TESTS_XLA_ACCUMULATE_H

#include "engine.h"

/* sum = sum + b in the memory of sum. */
static const char accumulate_text[] =
    "module @accumulate {\n"
    "  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>)"
    " -> tensor<4xf32> {\n"
    "    %0 = \"stablehlo.add\"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
    "    return %0 : tensor<4xf32>\n"
    "  }\n"
    "}\n";

static const nt__port accumulate_arguments[] = {{"sum", {NT_F32, {1, {4}}}, NT__ACCUMULATOR, 0},
                                                {"b", {NT_F32, {1, {4}}}, NT__BATCH, -1}};
static const nt__port accumulate_results[] = {{"new sum", {NT_F32, {1, {4}}}, NT__ACCUMULATOR, -1}};
static const nt__signature accumulate_signature = {accumulate_arguments, 2, accumulate_results, 1};

static const float one[] = {1, 2, 3, 4}, other[] = {10, 20, 30, 40}, sum[] = {11, 22, 33, 44};

#endif
