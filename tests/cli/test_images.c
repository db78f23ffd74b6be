/* The examples on images beyond the first: a residual net with batch norm and a variational autoencoder, a few steps of
 * each through the command. What they reach when they are trained to the end is in docs/guide/examples.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

#include "command.h"

#include "format/format.h"
#include "nitro.h"

enum { IMAGES = 6, PIXELS = 784 };
static const char data_folder[] = "/usr/share/datasets/fashion-mnist";
static char resnet[SCRATCH_PATH], vae[SCRATCH_PATH];

/* "--name=<scratch folder>/file"; valid until the fourth next call. */
static const char *flag(const char *name, const char *file) {
    static char texts[4][2 * SCRATCH_PATH];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    snprintf(text, sizeof texts[0], "--%s=%s", name, scratch(file));
    return text;
}

static const ended *good(const ended *e, int line) {
    if (e->code != 0) fail_msg("line %d: exit %d\n%s", line, e->code, e->err);
    return e;
}
#define done(...) good(nitro(__VA_ARGS__), __LINE__)

/* The number after a text of the output, such as "test accuracy ". */
static double number_after(const char *text, const char *label) {
    const char *at = strstr(text, label);
    if (!at) fail_msg("'%s' is not in:\n%s", label, text);
    return at ? strtod(at + strlen(label), NULL) : NAN;
}

static nt_array *read_rows(const char *file, int64_t columns) {
    nt_array *array = nt_npy_read(scratch(file));
    bool right = array && array->dtype == NT_F32 && nt_shape_equal(array->shape, nt_dims(IMAGES, columns));
    if (right) return array;
    fail_msg("%s: %s", file, nt_error_message());
    exit(1);
}

/* ---- the residual net ------------------------------------------------------------------------------------------- */

/* The first test images, but from image `others` on all black. */
static void put_images(const char *file, int others) {
    nt_array *all = nt_idx_read(data_folder, "t10k-images-idx3-ubyte.gz");
    assert_non_null(all);
    nt_array *few = nt_array_from(NT_U8, nt_dims(IMAGES, 28, 28), all->data);
    assert_non_null(few);
    memset((char *)few->data + others * PIXELS, 0, (size_t)(IMAGES - others) * PIXELS);
    assert_int_equal(nt_npy_write(scratch(file), few), NT_OK);
    nt_array_free(all);
    nt_array_free(few);
}

/* Statistics that training moved, from the values that a channel begins with. */
static void running_statistics_are_saved(void) {
    static const char *const paths[] = {"norm.mean", "norm.variance", "stage1_block1.norm1.mean",
                                        "stage3_block1.norm2.variance"};
    nt__safetensors file;
    assert_int_equal(nt__safetensors_read(scratch("resnet/parameters.safetensors"), &file), NT_OK);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const nt__named_array *saved = nt__safetensors_find(&file, paths[i]);
        assert_non_null(saved);
        const float *values = saved->data;
        bool is_variance = strstr(paths[i], "variance") != NULL;
        for (int64_t c = 0; c < nt_shape_elements(saved->type.shape); c++) {
            assert_true(is_variance ? values[c] > 0 : isfinite(values[c]));
            assert_true(values[c] != (is_variance ? 1 : 0));
        }
    }
    nt__safetensors_free(&file);
}

/* With statistics of their own batch the outputs of the first images would change with the others. */
static void an_image_is_judged_alone(void) {
    put_images("all.npy", IMAGES);
    put_images("two.npy", 2);
    done("predict", resnet, flag("run-dir", "resnet"), "--channels=4", "--batch=50", flag("input", "all.npy"),
         flag("out", "of_all.npy"));
    done("predict", resnet, flag("run-dir", "resnet"), "--channels=4", "--batch=50", flag("input", "two.npy"),
         flag("out", "of_two.npy"));
    nt_array *all = read_rows("of_all.npy", 10), *two = read_rows("of_two.npy", 10);
    assert_memory_equal(all->data, two->data, sizeof(float) * 2 * 10);
    assert_memory_not_equal(all->data, two->data, sizeof(float) * (size_t)IMAGES * 10);
    nt_array_free(all);
    nt_array_free(two);
}

static void the_residual_net_trains(void **state) {
    (void)state;
    const ended *e = done("train", resnet, flag("run-dir", "resnet"), "--channels=4", "--batch=50", "--max-steps=80",
                          "--schedule", "learning_rate=constant:0.05");
    double accuracy = number_after(e->out, "test accuracy ");
    if (!(accuracy > 0.5)) fail_msg("test accuracy %g", accuracy);
    assert_has(e->err, "elements of layer state in 14 arrays");
    running_statistics_are_saved();
    an_image_is_judged_alone();
}

/* ---- the autoencoder -------------------------------------------------------------------------------------------- */

/* Codes of zeros, but for the last two, which are all 1. */
static void put_codes(const char *file) {
    nt_array *codes = nt_array_new(NT_F32, nt_dims(IMAGES, 20));
    assert_non_null(codes);
    for (int64_t i = 0; i < (int64_t)IMAGES * 20; i++) nt_array_set(codes, i, i >= (int64_t)(IMAGES - 2) * 20);
    assert_int_equal(nt_npy_write(scratch(file), codes), NT_OK);
    nt_array_free(codes);
}

/* Of a square of pixels whose first one is `begin` from the left and from above. */
static double mean_of(const float *pixels, int begin, int size) {
    double sum = 0;
    for (int y = begin; y < begin + size; y++)
        for (int x = begin; x < begin + size; x++) sum += (double)pixels[28 * y + x];
    return sum / (size * size);
}

static void codes_become_images(void) {
    char input[2 * SCRATCH_PATH];
    put_codes("codes.npy");
    snprintf(input, sizeof input, "--input=z=%s", scratch("codes.npy"));
    done("predict", vae, flag("run-dir", "vae"), "--decode", "--weight-map=*=*", input, flag("out", "images.npy"));
    nt_array *images = read_rows("images.npy", PIXELS);
    const float *pixels = images->data, *last = pixels + (IMAGES - 1) * PIXELS;
    for (int i = 0; i < IMAGES * PIXELS; i++) assert_true(pixels[i] >= 0 && pixels[i] <= 1);
    assert_memory_equal(pixels, pixels + PIXELS, sizeof(float) * PIXELS);
    assert_memory_not_equal(pixels, last, sizeof(float) * PIXELS);
    assert_true(mean_of(pixels, 7, 14) > 1.2 * mean_of(pixels, 0, 3)); /* the middle and a corner */
    nt_array_free(images);
}

static void the_autoencoder_trains(void **state) {
    (void)state;
    const ended *e = done("train", vae, flag("run-dir", "vae"), "--hidden=100", "--max-steps=200");
    double elbo = number_after(e->out, "test elbo "), kl = number_after(e->out, "test kl ");
    double reconstruction = number_after(e->out, "test reconstruction ");
    if (!(elbo > -320 && elbo < -200)) fail_msg("elbo %g", elbo);
    assert_true(kl > 2 && fabs(elbo + kl + reconstruction) < 0.01);
    /* The draws of an evaluation are those of the seed: the same again, and another bound with another seed. */
    e = done("evaluate", vae, flag("run-dir", "vae"), "--hidden=100");
    assert_true(number_after(e->out, "test elbo ") == elbo);
    e = done("evaluate", vae, flag("run-dir", "vae"), "--hidden=100", "--seed=7");
    double other = number_after(e->out, "test elbo ");
    assert_true(other != elbo && fabs(other - elbo) < 0.5);
    assert_true(number_after(e->out, "test kl ") == kl);
    codes_become_images();
}

static int set_up(void **state) {
    snprintf(resnet, sizeof resnet, "%s/../examples/resnet.c", getenv("NT_TESTS"));
    snprintf(vae, sizeof vae, "%s/../examples/vae.c", getenv("NT_TESTS"));
    return command_make(state) || unsetenv("NITRO_CACHE_SIZE") || setenv("NITRO_CACHE_DIR", scratch("programs"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_residual_net_trains),
        cmocka_unit_test(the_autoencoder_trains),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
