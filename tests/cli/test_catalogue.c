/* A catalogue of mistakes that a new user makes, each with the whole message that the command prints for it: where,
 * what, the values, and what to do. Every case changes one thing of an experiment that is right, or of how it is
 * called.
 *
 * The command runs in the folder of the experiment. Of a file that does not compile the lines with the compiler's
 * errors are shown, and not its quotations of the source.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/files.h"
#include "command.h"

/* ---- the experiment that is right ------------------------------------------------------------------------------- */

/* Its parts; NULL in a case: this one. The numbers of lines in the messages are those of the whole text. */
typedef struct parts {
    const char *field;   /* line 7: one more field of the list */
    const char *data;    /* line 11: the split 'train' */
    const char *image;   /* line 18: x, from the batch */
    const char *forward; /* line 21: what forward returns */
    const char *loss;    /* line 25: what loss returns */
    const char *hooks;   /* line 28: of NT_DEFINE */
    const char *more;    /* line 29 on */
} parts;

static const parts right = {
    .field = "FIELD(int, unused, 0, \"\")",
    .data = "nt_split(data, \"train\", .batch = e->batch, .shuffle = true, .drop_last = true);",
    .image = "nt_convert(nt_reshape(nt_field(batch, \"image\"), -1, 4), NT_F32)",
    .forward = "nt_dense(m, \"logits\", x, 2)",
    .loss = "nt_mul(nt_cross_entropy(outputs, nt_field(batch, \"label\")), e->scale)",
    .hooks = ".build_data = build_data, .forward = forward, .loss = loss",
    .more = "",
};

static const char form[] = "#include <nitro.h>\n"
                           "#define MODEL(FIELD, DEVICE, GRAPH_CONST) \\\n"
                           "    GRAPH_CONST(int, hidden, 8, \"units in the hidden layer\") \\\n"
                           "    DEVICE(float, scale, 1.0f, \"factor of the loss\") \\\n"
                           "    FIELD(int, batch, 4, \"samples in a micro-batch\") \\\n"
                           "    FIELD(const char *, data_dir, \"data\", \"folder of the IDX files\") \\\n"
                           "    %s\n"
                           "NT_EXPERIMENT(Model, MODEL)\n"
                           "\n"
                           "static nt_status build_data(const Model *e, nt_data *data) {\n"
                           "    %s\n"
                           "    nt_split_field(data, \"train\", \"image\", nt_idx_read(e->data_dir, \"images\"));\n"
                           "    nt_split_field(data, \"train\", \"label\", nt_idx_read(e->data_dir, \"labels\"));\n"
                           "    return nt_data_status(data);\n"
                           "}\n"
                           "\n"
                           "static nt_tensor forward(const Model_view *e, nt_model *m, nt_batch *batch) {\n"
                           "    nt_tensor x = %s;\n"
                           "    (void)batch;\n"
                           "    x = nt_tanh(nt_dense(m, \"hidden\", x, e->hidden));\n"
                           "    return %s;\n"
                           "}\n"
                           "\n"
                           "static nt_tensor loss(const Model_view *e, nt_tensor outputs, nt_batch *batch) {\n"
                           "    return %s;\n"
                           "}\n"
                           "\n"
                           "NT_DEFINE(Model, MODEL, %s);\n"
                           "%s";

#define PART(name) (changed->name ? changed->name : right.name)

static void put_model(const parts *changed) {
    char text[8192];
    int length = snprintf(text, sizeof text, form, PART(field), PART(data), PART(image), PART(forward), PART(loss),
                          PART(hooks), PART(more));
    assert_true(length < (int)sizeof text);
    put_text("model.c", text);
}

enum { SAMPLES = 16, SIZE = 4 };

/* Sixteen images of 2 by 2, of two classes. */
static void put_data(int last_label, size_t bytes_missing) {
    unsigned char images[16 + SAMPLES * SIZE] = {0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, 2, 0, 0, 0, 2};
    unsigned char labels[8 + SAMPLES] = {0, 0, 8, 1, 0, 0, 0, SAMPLES};
    for (int i = 0; i < SAMPLES * SIZE; i++) images[16 + i] = (unsigned char)(i * 37 % 256);
    for (int i = 0; i < SAMPLES; i++) labels[8 + i] = i % 2;
    labels[8 + SAMPLES - 1] = (unsigned char)last_label;
    mkdir(scratch("data"), 0700);
    scratch_put("data/images", images, sizeof images - bytes_missing);
    scratch_put("data/labels", labels, sizeof labels);
}

/* ---- a case ----------------------------------------------------------------------------------------------------- */

typedef struct mistake {
    const char *title;
    parts changed;
    const char *command;                     /* NULL: train */
    const char *file;                        /* NULL: model.c; "": none */
    const char *words[4];                    /* more words */
    const char *variable, *value;            /* of the environment */
    void (*prepare)(void), (*tidy_up)(void); /* before and after; NULL: nothing */
    int code;                                /* of the exit; 0: 1 */
    const char *message;
} mistake;

static void label_out_of_range(void) {
    put_data(7, 0);
}
static void cut_data(void) {
    put_data(1, 10);
}
static void put_plain_file(void) {
    put_text("plain.c", "int plain(void) { return 0; }\n");
}
static void put_text_plugin(void) {
    put_text("plugin.so", "this is text and no plugin, as long as the header of a shared object is, or longer\n");
}
/* The headers of a shared object that says it is a megabyte long, and no more. */
static void put_cut_plugin(void) {
    struct {
        ElfW(Ehdr) header;
        ElfW(Phdr) segment;
    } head = {.segment = {.p_type = PT_LOAD, .p_filesz = 1000000}};
    char *own;
    size_t length;
    assert_int_equal(nt__read_file("/proc/self/exe", &own, &length), NT_OK);
    memcpy(&head.header, own, sizeof head.header);
    nt__free(own);
    head.header.e_type = ET_DYN;
    head.header.e_phoff = offsetof(__typeof__(head), segment);
    head.header.e_phnum = 1;
    head.header.e_phentsize = sizeof head.segment;
    scratch_put("cut.so", &head, sizeof head);
    assert_int_equal(truncate(scratch("cut.so"), 4096), 0);
}
static void put_other_object(void) {
    Dl_info info;
    char *text;
    size_t length;
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"), &info), 0);
    assert_int_equal(nt__read_file(info.dli_fname, &text, &length), NT_OK);
    scratch_put("other.so", text, length);
    nt__free(text);
}
static void forget_compiler(void) {
    unsetenv("CC");
}
static void restore_compiler(void) {
    setenv("CC", "gcc", 1);
}
static void put_run_dir_file(void) {
    put_text("runs", "a file\n");
}
static void remove_run_dir_file(void) {
    unlink(scratch("runs"));
}
static void train_before(void) {
    assert_int_equal(nitro("train", "model.c", "--quiet")->code, 0);
}
static void forget_training(void) {
    scratch_remove_path(scratch("runs"));
}

static struct rlimit unlimited;

/* Compiled before: only what the run writes meets the limit. */
static void fill_disk(void) {
    assert_int_equal(nitro("help", "model.c")->code, 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1200, unlimited.rlim_max}), 0);
}
static void free_disk(void) {
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    forget_training();
}

static const char two_experiments[] = "#define OTHER(FIELD, DEVICE, GRAPH_CONST) FIELD(int, depth, 3, \"layers\")\n"
                                      "NT_EXPERIMENT(Other, OTHER)\n"
                                      "NT_DEFINE(Other, OTHER, .build_data = NULL);\n";

static const mistake mistakes[] = {
    {.title = "a word that is no command",
     .command = "trian",
     .file = "",
     .code = 2,
     .message = "there is no command 'trian' (did you mean nitro train?); nitro --help lists the commands"},
    {.title = "no file",
     .file = "",
     .code = 2,
     .message = "no file was given: write nitro train FILE.c, where FILE.c has the experiment"},
    {.title = "a file that is not there",
     .file = "modle.c",
     .code = 2,
     .message =
         "there is no file 'modle.c' (did you mean model.c?); give the path of the file that has the experiment"},
    {.title = "a file that is no C source",
     .file = "model.py",
     .code = 2,
     .message = "'model.py' is no C source file: its name does not end in .c; name the file that has the experiment"},
    {.title = "a flag that is misspelt",
     .words = {"--hiden=16"},
     .code = 2,
     .message = "there is no flag --hiden (did you mean --hidden?); nitro help model.c lists the flags"},
    {.title = "a flag of another command",
     .words = {"--split=val"},
     .code = 2,
     .message = "--split is a flag of nitro evaluate and not of this command: leave it out"},
    {.title = "a value of the wrong type",
     .words = {"--hidden=many"},
     .code = 2,
     .message = "hidden (int): 'many' is not a whole number; write digits, for example 256"},
    {.title = "a flag for a yes or no with another value",
     .words = {"--deep=perhaps"},
     .changed = {.field = "FIELD(bool, deep, false, \"one layer more\")"},
     .code = 2,
     .message = "deep (bool): 'perhaps' is neither true nor false; write true or false (also 1/0, yes/no, on/off)"},
    {.title = "a flag without its value",
     .words = {"--hidden"},
     .code = 2,
     .message = "--hidden needs a value (int): write --hidden=VALUE"},
    {.title = "counters into no folder",
     .words = {"--stats=nowhere/stats.json"},
     .code = 2,
     .message =
         "--stats: cannot write 'nowhere/stats.json': there is no folder 'nowhere'; make it or name another file"},
    {.title = "a file without an experiment",
     .file = "plain.c",
     .prepare = put_plain_file,
     .code = 2,
     .message = "'plain.c' has no experiment: declare one with NT_EXPERIMENT and define it with NT_DEFINE"},
    {.title = "two experiments and no choice",
     .changed = {.more = two_experiments},
     .code = 2,
     .message = "the files have several experiments: Model, Other. Choose one with --experiment=NAME"},
    {.title = "an experiment that is not there",
     .words = {"--experiment=Modle"},
     .code = 2,
     .message = "the files have no experiment 'Modle', they have: Model. Choose one of these"},
    {.title = "no compiler in PATH",
     .variable = "PATH",
     .value = "/nowhere",
     .prepare = forget_compiler,
     .tidy_up = restore_compiler,
     .message = "no C compiler found: there is no cc, gcc or clang in PATH. Install one (Debian: apt-get install gcc "
                "libc6-dev), or set CC to one that is elsewhere"},
    {.title = "a compiler that is not there",
     .variable = "CC",
     .value = "no-such-cc",
     .message = "no C compiler found: the environment variable CC is 'no-such-cc', and there is no program "
                "'no-such-cc'. Set CC to another compiler or unset it (Debian: apt-get install gcc libc6-dev)"},
    {.title = "a C syntax error",
     .changed = {.forward = "nt_dense(m, \"logits\", x, 2) +"},
     .message = "model.c:21:41: error: expected expression before ';' token\n"
                "model.c:22:1: error: control reaches end of non-void function [-Werror=return-type]\n"
                "nitro: compiling 'model.c' failed; the messages of 'gcc' are above"},
    {.title = "a misspelt operation",
     .changed = {.forward = "nt_dens(m, \"logits\", x, 2)"},
     .message = "model.c:21:12: error: implicit declaration of function 'nt_dens'; did you mean 'nt_dense'? "
                "[-Werror=implicit-function-declaration]\n"
                "model.c:21:12: error: incompatible types when returning type 'int' but 'nt_tensor' was expected\n"
                "model.c:22:1: error: control reaches end of non-void function [-Werror=return-type]\n"
                "nitro: compiling 'model.c' failed; the messages of 'gcc' are above"},
    {.title = "a hook of another type",
     .changed = {.hooks = ".build_data = build_data, .forward = loss, .loss = loss"},
     .message = "model.c:28:62: error: initialization of 'nt_tensor (*)(const Model_view *, nt_model *, nt_batch *)' "
                "from incompatible pointer type 'nt_tensor (*)(const Model_view *, nt_tensor,  nt_batch *)' "
                "[-Werror=incompatible-pointer-types]\n"
                "model.c:17:18: warning: 'forward' defined but not used [-Wunused-function]\n"
                "nitro: compiling 'model.c' failed; the messages of 'gcc' are above"},
    {.title = "a Host field in traced code",
     .changed = {.forward = "nt_dense(m, \"logits\", x, e->batch)"},
     .message = "model.c:21:5: error: 'batch' is unavailable: it is a Host field; mark it DEVICE or GRAPH_CONST\n"
                "model.c:21:38: error: incompatible type for argument 4 of 'nt_dense_at'\n"
                "note: expected 'int64_t' {aka 'long int'} but argument is of type 'struct "
                "batch_is_a_Host_field__mark_it_DEVICE_or_GRAPH_CONST__0'\n"
                "model.c:22:1: error: control reaches end of non-void function [-Werror=return-type]\n"
                "nitro: compiling 'model.c' failed; the messages of 'gcc' are above"},
    {.title = "a Host string in traced code",
     .changed = {.image = "nt_field(batch, e->data_dir)"},
     .message = "model.c:18:5: error: 'data_dir' is unavailable: it is a Host field; mark it DEVICE or GRAPH_CONST\n"
                "model.c:18:36: error: incompatible type for argument 2 of 'nt_field_at'\n"
                "note: expected 'const char *' but argument is of type 'struct "
                "data_dir_is_a_Host_field__mark_it_DEVICE_or_GRAPH_CONST__1'\n"
                "nitro: compiling 'model.c' failed; the messages of 'gcc' are above"},
    {.title = "no forward hook",
     .changed = {.hooks = ".build_data = build_data, .loss = loss"},
     .message = "model.c:17:18: warning: 'forward' defined but not used [-Wunused-function]\n"
                "nitro: experiment Model (model.c) has no forward hook, and it is the model: write .forward = forward "
                "in its NT_DEFINE"},
    {.title = "no build_data hook",
     .changed = {.hooks = ".forward = forward, .loss = loss"},
     .message = "model.c:10:18: warning: 'build_data' defined but not used [-Wunused-function]\n"
                "nitro: experiment Model (model.c) has no build_data hook, and it fills the splits: write .build_data "
                "= build_data in its NT_DEFINE"},
    {.title = "no loss hook",
     .changed = {.hooks = ".build_data = build_data, .forward = forward"},
     .message = "model.c:24:18: warning: 'loss' defined but not used [-Wunused-function]\n"
                "nitro: model.c: experiment 'Model' has a split 'train' but no loss hook: write .loss = loss in its "
                "NT_DEFINE"},
    {.title = "seed as a constant",
     .changed = {.field = "GRAPH_CONST(int, seed, 1, \"\")"},
     .message =
         "experiment Model (model.c): these fields steer the run and must not be marked GRAPH_CONST: seed. Leave each "
         "a FIELD; with seed as a constant of the programs, a sweep over seeds would recompile for each one"},
    {.title = "no plugin",
     .variable = "NITRO_PLUGIN_PATH",
     .value = "nowhere",
     .message = "no plugin found: no .so file in 'nowhere'; get one with `make setup` in nitro's source folder, or "
                "download one with pip and set NITRO_PLUGIN=/path/to/plugin.so"},
    {.title = "a plugin that is not there",
     .variable = "NITRO_PLUGIN",
     .value = "nowhere/plugin.so",
     .message = "plugin 'nowhere/plugin.so': no such file; get one with `make setup` in nitro's source folder, or "
                "download one with pip and set NITRO_PLUGIN=/path/to/plugin.so"},
    {.title = "a text file as the plugin",
     .variable = "NITRO_PLUGIN",
     .value = "./plugin.so",
     .prepare = put_text_plugin,
     .message = "plugin './plugin.so' cannot be loaded as a shared object: it does not start with the four bytes of an "
                "ELF file but with 74 68 69 73; get one with `make setup` in nitro's source folder, or download one "
                "with pip and set NITRO_PLUGIN=/path/to/plugin.so"},
    {.title = "a plugin that is cut short",
     .variable = "NITRO_PLUGIN",
     .value = "./cut.so",
     .prepare = put_cut_plugin,
     .message = "plugin './cut.so' cannot be loaded as a shared object: the file has 4096 bytes, and its segments end "
                "at byte 1000000: it is cut short; get one with `make setup` in nitro's source folder, or download one "
                "with pip and set NITRO_PLUGIN=/path/to/plugin.so"},
    {.title = "another shared object as the plugin",
     .variable = "NITRO_PLUGIN",
     .value = "./other.so",
     .prepare = put_other_object,
     .message = "'./other.so' is a shared object but no PJRT plugin: it has no GetPjrtApi; get one with `make setup` "
                "in nitro's source folder, or download one with pip and set NITRO_PLUGIN=/path/to/plugin.so"},
    {.title = "a data folder that is not there",
     .words = {"--data-dir=dta"},
     .message = "build_data of Model: split 'train', field 'image': found neither 'images' nor 'images.gz' in 'dta', "
                "which is not a folder: change the field or flag that names the folder, or put the file there"},
    {.title = "a data file that is cut short",
     .prepare = cut_data,
     .message = "build_data of Model: split 'train', field 'image': reading 'data/images': the header states "
                "u8[16,2,2], which needs 64 bytes; 54 are there: the file is cut; get it again"},
    {.title = "a split with no array",
     .changed = {.data = "nt_split(data, \"train\", .batch = 4); return nt_data_status(data);"},
     .message =
         "build_data of Model: split 'train' has no field: add its arrays with nt_split_field, or its source with "
         "nt_split_source"},
    {.title = "no split",
     .changed = {.data = "return nt_data_status(data);"},
     .message = "build_data of Model: no split was declared: nt_split(data, \"train\", .batch = ...) declares one"},
    {.title = "a split without a batch size",
     .changed = {.data = "nt_split(data, \"train\");"},
     .message = "build_data of Model: split 'train': batch is 0, it must be at least 1: set .batch"},
    {.title = "a batch that is larger than the split",
     .words = {"--batch=32"},
     .message = "build_data of Model: split 'train' has 16 rows, batches of 32 and drop_last: no batch is left; make "
                ".batch 16 or smaller, or, if nothing is trained, leave .drop_last out"},
    {.title = "a short last batch in training",
     .changed = {.data = "nt_split(data, \"train\", .batch = 5);"},
     .message = "split 'train' has 16 rows and batches of 5, so its last batch is short, and training needs full ones: "
                "add .drop_last = true to its nt_split, or choose a batch that divides 16"},
    {.title = "a split shares rows with one that there is not",
     .changed = {.data = "nt_split(data, \"train\", .batch = 4, .shares = \"val\");"},
     .message = "build_data of Model: split 'train': shares is 'val', and there is no split 'val' (the splits: train): "
                "name the splits that may have the same rows, with commas between them"},
    {.title = "a learning rate given to a rule",
     .changed = {.loss = "nt_rule_name(nt_adam(1e-3)) ? nt_mean(outputs) : outputs"},
     .message = "model.c:25:33: error: incompatible types when initializing type 'const struct "
                "nt_options_are_given_by_name *' using type 'double'\n"
                "model.c:26:1: error: control reaches end of non-void function [-Werror=return-type]\n"
                "nitro: compiling 'model.c' failed; the messages of 'gcc' are above"},
    {.title = "accum that does not divide the batches",
     .words = {"--accum=3"},
     .message = "split 'train' has 4 batches, which accum 3 does not divide: a step never spans two epochs. The "
                "nearest numbers of batches that work are 3 and 6: choose another accum, batch or number of rows"},
    {.title = "accum of more than the batches",
     .words = {"--accum=100"},
     .message = "split 'train' has 4 batches, and accum 100 is more than these: a step never spans two epochs. Choose "
                "an accum that divides 4, or a batch or number of rows that gives 100 batches"},
    {.title = "accum of zero",
     .words = {"--accum=0"},
     .message = "accum is 0 (from the option accum); a step has at least 1 micro-batch: give 1 or more"},
    {.title = "a learning rate of zero",
     .words = {"--learning-rate=0"},
     .message = "learning_rate is 0 (from the option learning_rate); give a finite number above 0"},
    {.title = "a learning rate of nan",
     .words = {"--learning-rate=nan"},
     .message = "learning_rate is nan (from the option learning_rate); give a finite number above 0"},
    {.title = "an unknown field of the batch",
     .changed = {.image = "nt_field(batch, \"images\")"},
     .message = "model.c:18 in forward: field: the batch has no field 'images'; its fields are: image, label"},
    {.title = "integers where floats are needed",
     .changed = {.image = "nt_reshape(nt_field(batch, \"image\"), -1, 4)"},
     .message = "model.c:20 in forward: dense: 'hidden' needs a floating tensor with a last axis and at least 1 unit, "
                "got u8[4,4] and 8; nt_convert makes one"},
    {.title = "a reshape that does not fit",
     .changed = {.image = "nt_convert(nt_reshape(nt_field(batch, \"image\"), -1, 5), NT_F32)"},
     .message = "model.c:18 in forward: reshape: u8[4,2,2] has 16 elements and cannot become [-1,5]"},
    {.title = "inner sizes that differ",
     .changed = {.forward = "nt_matmul(x, nt_parameter(m, \"w\", nt_dims(9, 2)))"},
     .message = "model.c:21 in forward: matmul: f32[4,8] x f32[9,2]: inner sizes 8 and 9 differ"},
    {.title = "shapes that do not broadcast",
     .changed = {.forward = "nt_add(x, nt_parameter(m, \"b\", nt_dims(3)))"},
     .message = "model.c:21 in forward: add: f32[4,8] and f32[3]: the shapes do not broadcast: aligned at the last "
                "axis, sizes must be equal or 1"},
    {.title = "an axis that is not there",
     .changed = {.forward = "nt_sum(x, 2)"},
     .message = "model.c:21 in forward: sum: axis 2 of f32[4,8]: its axes run from -2 to 1"},
    {.title = "a name used twice",
     .changed = {.forward = "nt_dense(m, \"hidden\", x, 2)"},
     .message = "model.c:21 in forward: parameter: 'hidden.weight' was declared at model.c:20 already; give one of the "
                "two another name or scope, or share the parameter with NT_REUSE"},
    {.title = "outputs without an axis of samples",
     .changed = {.forward = "nt_sum(x)"},
     .message = "model.c: forward returned f32[]; axis 0 of the outputs must be the 4 samples of the batch"},
    {.title = "outputs with another first axis",
     .changed = {.forward = "nt_transpose(x, 1, 0)"},
     .message = "model.c: forward returned f32[8,4]; axis 0 of the outputs must be the 4 samples of the batch"},
    {.title = "forward returns nothing",
     .changed = {.forward = "(nt_tensor){0}"},
     .message = "model.c: forward of Model: it returned no tensor: what came back is not the result of an operation of "
                "this call; return what the last operation gave"},
    {.title = "labels of another shape",
     .changed = {.loss = "nt_cross_entropy(outputs, nt_field(batch, \"image\"))"},
     .message = "model.c:25 in loss: cross_entropy: needs floating logits [..., classes] and integer labels [...], got "
                "f32[4,2] and u8[4,2,2]"},
    {.title = "a loss that is no scalar",
     .changed = {.loss = "nt_square(outputs)"},
     .message = "model.c:25 in loss: loss: must be a floating scalar, got f32[4,2]; nt_mean or nt_sum makes one"},
    {.title = "a label out of range",
     .prepare = label_out_of_range,
     .message = "model.c:25 in loss: split 'train', field 'label', row 15: 7 is not in 0..1; correct the data, or the "
                "number of classes; a label that marks what is not to count, as padding, is left out by .ignores = "
                "true with it in .ignored"},
    {.title = "a target out of range",
     .changed = {.forward = "nt_dense(m, \"logits\", x, 4)",
                 .loss = "nt_binary_cross_entropy(outputs, nt_convert(nt_reshape(nt_field(batch, \"image\"), -1, 4), "
                         "NT_F32))"},
     .message = "model.c:25 in loss: split 'train', field 'image', row 0: 37 is not in 0..1; correct the data; targets "
                "that are missing are replaced with nt_where before the loss, and what they cost is left out with "
                "nt_where after it, with .reduction = NT_NONE"},
    {.title = "a Device field out of range",
     .changed = {.field = "DEVICE(float, rate, 1.5f, \"share that is dropped\")",
                 .forward = "nt_dropout(m, \"drop\", nt_dense(m, \"logits\", x, 2), e->rate)"},
     .message = "model.c:21 in forward: Device field 'rate': 1.5 is not in 0 <= x < 1"},
    {.title = "a gradient that is not finite",
     .changed = {.loss = "nt_mean(nt_sqrt(nt_mul(outputs, 0)))"},
     .message = "the loss is nan at step 2 of epoch 1 (micro-batch 2 of split 'train'): the parameters were not finite "
                "before step 2, so the gradient of step 1 was not: look at its batch (micro-batch 1 of epoch 1), whose "
                "loss is finite, for what has a value and no finite gradient, as the root or the logarithm of 0, also "
                "if nt_where leaves it out. Nothing is rolled back: start again, or with resume from a checkpoint"},
    {.title = "a computed label that is no class",
     .changed = {.loss = "nt_cross_entropy(outputs, nt_add(nt_convert(nt_field(batch, \"label\"), NT_I32), 5))"},
     .message =
         "the loss is nan at step 1 of epoch 1 (micro-batch 1 of split 'train'), before any update: look at the data "
         "of that batch for nan and infinity, at labels that are computed for one that is no class, at the initial "
         "values, and at what the loss divides by or takes the "
         "logarithm of"},
    {.title = "a number where a tensor is wanted",
     .changed = {.loss = "nt_cross_entropy(outputs, nt_field(batch, \"label\"), .label_smoothing = 0.1)"},
     .message = "model.c:25:83: error: incompatible types when initializing type 'const struct "
                "nt_a_tensor_is_wanted__NT_TENSOR_makes_one_of_a_number *' using type 'double'\n"
                "model.c:26:1: error: control reaches end of non-void function [-Werror=return-type]\n"
                "nitro: compiling 'model.c' failed; the messages of 'gcc' are above"},
    {.title = "a loss that is not finite",
     .changed = {.loss = "nt_log(nt_sub(nt_mean(nt_square(outputs)), 1e9))"},
     .message =
         "the loss is nan at step 1 of epoch 1 (micro-batch 1 of split 'train'), before any update: look at the data "
         "of that batch for nan and infinity, at labels that are computed for one that is no class, at the initial "
         "values, and at what the loss divides by or takes the "
         "logarithm of"},
    {.title = "a full disk",
     .words = {"--max-epochs=9"},
     .prepare = fill_disk,
     .tidy_up = free_disk,
     .message = "runs/Model/metrics.jsonl: cannot write the log: File too large; raise the limit for files (ulimit -f) "
                "or choose another folder"},
    {.title = "a file where the folder of runs should be",
     .prepare = put_run_dir_file,
     .tidy_up = remove_run_dir_file,
     .message =
         "run_dir: cannot make the folder 'runs': File exists and is no folder; remove it or choose another name"},
    {.title = "evaluation before training",
     .command = "evaluate",
     .message = "cannot open 'runs/Model/parameters.safetensors': No such file or directory. Train first, or name the "
                "parameters with --weights=FILE"},
    {.title = "a split that is not there",
     .command = "evaluate",
     .words = {"--split=tset"},
     .prepare = train_before,
     .tidy_up = forget_training,
     .message = "experiment 'Model' has no split 'tset'; its splits are: train"},
    {.title = "parameters of another model",
     .command = "evaluate",
     .words = {"--split=train", "--hidden=16"},
     .prepare = train_before,
     .tidy_up = forget_training,
     .message = "runs/Model/parameters.safetensors was trained with other values of fields than are given here:\n"
                "  hidden: 8 in the file, 16 here\n"
                "Leave these out, and the file's values are taken, or train with them; if they are meant for this "
                "use, the weight map '*=*' makes a warning of it"},
    {.title = "weights that are not there",
     .command = "evaluate",
     .words = {"--weights=latest"},
     .message = "there is no file of weights 'latest'; a checkpoint is named by its path, or as RUN:best or "
                "RUN:latest, where RUN is latest or the id of a run in 'runs/Model', or the folder of another run"},
    {.title = "parameters that are no file of parameters",
     .command = "evaluate",
     .words = {"--weights=model.c"},
     .message = "reading 'model.c': the header's length is stated as 7306093603886885155 bytes, 1225 follow and the "
                "format allows 100000000: the file is cut or not a safetensors file"},
};

/* ---- running it ------------------------------------------------------------------------------------------------- */

/* Whether the line, which ends at `end`, has the piece. */
static const char *in_line(const char *line, const char *end, const char *piece) {
    const char *at = strstr(line, piece);
    return at && at < end ? at : NULL;
}

/* Leaves of a compiler's lines the errors, the warnings and the notes of what was expected (these without their place,
 * which is in a header), and everything from nitro's own message on. */
static void drop_quotations(char *text) {
    char kept[MOST_OUTPUT] = "";
    bool own = false;
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        own |= strncmp(line, "nitro: ", 7) == 0;
        const char *from = own || in_line(line, end, " error: ") || in_line(line, end, " warning: ")
                               ? line
                               : in_line(line, end, "note: expected ");
        if (from) strncat(kept, from, (size_t)(end - from));
    }
    memcpy(text, kept, strlen(kept) + 1);
}

static const ended *call(const mistake *m) {
    const char *words[MOST_WORDS] = {m->command ? m->command : "train"};
    size_t count = 1;
    if (!m->file || *m->file) words[count++] = m->file ? m->file : "model.c";
    for (size_t i = 0; i < sizeof m->words / sizeof *m->words && m->words[i]; i++) words[count++] = m->words[i];
    bool runs = strcmp(words[0], "train") == 0 || strcmp(words[0], "evaluate") == 0;
    if (runs) words[count++] = "--quiet";
    return run_nitro(words);
}

/* No file or folder of work that was given up. */
static void assert_nothing_unfinished(const char *path) {
    DIR *folder = opendir(scratch(path));
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        const char *ending = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, "build-", 6) == 0 ||
            (ending && (strcmp(ending, ".tmp") == 0 || strcmp(ending, ".new") == 0)))
            fail_msg("%s is left in %s", entry->d_name, path);
    }
    if (folder) closedir(folder);
}

static void shows_its_message(void **state) {
    const mistake *m = *state;
    char message[MOST_OUTPUT], wanted[MOST_OUTPUT], before[SCRATCH_PATH] = "";
    put_data(1, 0);
    put_model(&m->changed);
    if (m->prepare) m->prepare();
    if (m->variable && getenv(m->variable)) snprintf(before, sizeof before, "%s", getenv(m->variable));
    if (m->variable) setenv(m->variable, m->value, 1);
    const ended *e = call(m);
    if (m->variable && *before) setenv(m->variable, before, 1);
    if (m->variable && !*before) unsetenv(m->variable);
    snprintf(message, sizeof message, "%s", e->err);
    int code = e->code;
    assert_nothing_unfinished("runs/Model");
    if (m->tidy_up) m->tidy_up();
    drop_quotations(message);
    snprintf(wanted, sizeof wanted, "nitro: %s\n", m->message);
    const char *compiler_said = strstr(m->message, "\nnitro: ");
    if (compiler_said) snprintf(wanted, sizeof wanted, "%s\n", m->message);
    assert_string_equal(message, wanted);
    assert_int_equal(code, m->code ? m->code : 1);
    assert_nothing_unfinished("cache/nitro/experiments");
    assert_nothing_unfinished(".");
}

static int start(void **state) {
    if (command_make(state) != 0) return -1;
    setenv("CC", "gcc", 1);
    setenv("LC_ALL", "C", 1); /* the language of the compiler */
    unsetenv("NITRO_PLUGIN");
    unsetenv("NITRO_PLUGIN_PATH");
    signal(SIGXFSZ, SIG_IGN);
    return chdir(scratch_folder);
}

static int end(void **state) {
    return chdir("/") == 0 ? scratch_remove(state) : -1;
}

int main(void) {
    enum { COUNT = sizeof mistakes / sizeof *mistakes };
    static struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){.name = mistakes[i].title,
                                       .test_func = shows_its_message,
                                       .initial_state = (void *)(uintptr_t)&mistakes[i]};
    return cmocka_run_group_tests_name("catalogue", tests, start, end);
}
