/* How a trace grows with a model: a layer more costs the same number of nodes, bytes and lines, however many there are.
 * How long that takes is measured by bench/trace_scale.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transformer.h"

static transformer_size size_of(int layers) {
    const transformer t = {layers, 8, 512, 1024, 16};
    transformer_size size = {0};
    transformer_parameters parameters;
    nt_status status = transformer_learn(&t, &parameters);
    if (status == NT_OK) status = transformer_program(&t, &parameters, &size);
    if (status != NT_OK) fail_msg("%s", nt_error_message());
    transformer_forget(&parameters);
    return size;
}

/* What 24 layers add to 24 is twice what 12 add to 12, up to `slack`: numbers in the text become longer. */
static void assert_linear(const char *what, size_t at_12, size_t at_24, size_t at_48, double slack) {
    double first = (double)(at_24 - at_12), second = (double)(at_48 - at_24);
    if (second < 2 * first * (1 - slack) || second > 2 * first * (1 + slack))
        fail_msg("%s at 12, 24 and 48 layers: %zu, %zu, %zu", what, at_12, at_24, at_48);
}

static void a_transformer_grows_with_its_layers(void **state) {
    (void)state;
    transformer_size a = size_of(12), b = size_of(24), c = size_of(48);
    assert_linear("nodes", a.nodes, b.nodes, c.nodes, 0);
    assert_linear("lines", a.lines, b.lines, c.lines, 0);
    assert_linear("bytes of nodes", a.bytes, b.bytes, c.bytes, 0.02);
    assert_linear("bytes of text", a.text, b.text, c.text, 0.03);
    assert_in_range(c.nodes, 48 * 100, 48 * 400);
    assert_in_range(c.bytes, 100 * c.nodes, 1000 * c.nodes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_transformer_grows_with_its_layers)};
    return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
