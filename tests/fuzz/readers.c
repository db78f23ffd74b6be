/* The readers that are fuzzed, with valid files for each, and what is asked of them: an array or an error with a
 * message, nothing lost, no memory that the file does not account for, and an end in time.
 * Not here: where inputs come from (loop.c, libfuzzer.c).
 */
#include "fuzz.h"
#include "base/files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "format/format.h"
#include "nitro/checkpoint.h"
#include "record/record_internal.h"

/* ---- what a reader gave is looked at ---------------------------------------------------------------------------- */

/* Reads every byte, so that a sanitizer sees one that is not there. */
static void look_at(const void *data, size_t length) {
    const volatile unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++) (void)bytes[i];
}

/* Type, shape and bytes of an array agree. */
static bool is_sound(nt__type type, size_t bytes) {
    size_t needed;
    return nt__type_bytes(type, &needed) && needed == bytes;
}

/* NT_ENGINE stands for a broken promise: no reader fails with it. */
static nt_status broken(const char *promise) {
    return nt__fail(NT_ENGINE, "%s", promise);
}

static nt_status look_at_array(nt_array *array) {
    if (!array) return nt_error_status();
    bool sound = is_sound((nt__type){array->dtype, array->shape}, array->bytes);
    if (sound) look_at(array->data, array->bytes);
    nt_array_free(array);
    return sound ? NT_OK : broken("the array's size is not that of its shape");
}

/* ---- IDX -------------------------------------------------------------------------------------------------------- */

static nt_status read_idx(const char *path) {
    return look_at_array(nt_idx_read(NULL, path));
}

static void put_big_endian_32(fuzz_input *out, uint32_t value) {
    const unsigned char bytes[] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                                   (unsigned char)(value >> 8), (unsigned char)value};
    fuzz_add(out, bytes, sizeof bytes);
}

static void put_idx(fuzz_input *out, unsigned char type, nt_shape shape, size_t bytes) {
    const unsigned char magic[] = {0, 0, type, (unsigned char)shape.rank};
    fuzz_add(out, magic, sizeof magic);
    for (int i = 0; i < shape.rank; i++) put_big_endian_32(out, (uint32_t)shape.dims[i]);
    for (size_t i = 0; i < bytes; i++) fuzz_add(out, &(unsigned char){(unsigned char)(i * 7)}, 1);
}

static void add_idx_samples(fuzz_samples *samples) {
    put_idx(fuzz_sample(samples), 0x08, nt_dims(3, 28, 28), 3 * 28 * 28);
    put_idx(fuzz_sample(samples), 0x09, nt_dims(5), 5);
    put_idx(fuzz_sample(samples), 0x0B, nt_dims(2, 3), 12);
    put_idx(fuzz_sample(samples), 0x0C, nt_dims(1), 4);
    put_idx(fuzz_sample(samples), 0x0D, nt_dims(1, 1, 1, 1, 2, 1, 1, 3), 24);
    put_idx(fuzz_sample(samples), 0x0E, nt_dims(4, 0), 0);
}

/* ---- IDX in gzip ------------------------------------------------------------------------------------------------ */

/* Adds one member. The samples are small; a failure would show as a sample that is refused. */
static void put_gzip(fuzz_input *out, const void *bytes, size_t length) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)length,
                       .next_out = (Bytef *)out->bytes + out->length,
                       .avail_out = (uInt)(FUZZ_MOST_BYTES - out->length)};
    if (deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) return;
    if (deflate(&stream, Z_FINISH) == Z_STREAM_END) out->length = FUZZ_MOST_BYTES - stream.avail_out;
    deflateEnd(&stream);
}

static void add_gzip_samples(fuzz_samples *samples) {
    static fuzz_samples plain;
    static const char zeros[FUZZ_MOST_BYTES];
    plain.count = 0;
    add_idx_samples(&plain);
    for (size_t i = 0; i < plain.count; i++)
        put_gzip(fuzz_sample(samples), plain.items[i].bytes, plain.items[i].length);
    /* Two members, cut in the header. */
    fuzz_input *parts = fuzz_sample(samples);
    put_gzip(parts, plain.items[0].bytes, 6);
    put_gzip(parts, plain.items[0].bytes + 6, plain.items[0].length - 6);
    /* Much from little. */
    fuzz_input *large = &plain.items[0];
    large->length = 0;
    put_idx(large, 0x08, nt_dims(FUZZ_MOST_BYTES, 4), 0);
    fuzz_input *packed = fuzz_sample(samples);
    put_gzip(packed, large->bytes, large->length);
    for (int i = 0; i < 4; i++) put_gzip(packed, zeros, sizeof zeros);
}

/* The content is changed before it is packed; else the sums of gzip would refuse nearly everything. */
static void generate_gzip(fuzz_random *random, fuzz_input *out) {
    static fuzz_samples plain;
    static fuzz_input content;
    if (plain.count == 0) add_idx_samples(&plain);
    content = plain.items[fuzz_below(random, plain.count)];
    fuzz_mutate(random, &content, &plain.items[fuzz_below(random, plain.count)]);
    put_gzip(out, content.bytes, content.length);
}

/* ---- safetensors ------------------------------------------------------------------------------------------------ */

static nt_status look_at_tensors(const nt__safetensors *file) {
    for (size_t i = 0; i < file->count; i++) {
        size_t bytes;
        if (!nt__type_bytes(file->arrays[i].type, &bytes)) return broken("a tensor's shape is not possible");
        look_at(file->arrays[i].data, bytes);
        look_at(file->arrays[i].name, strlen(file->arrays[i].name));
    }
    for (size_t i = 0; i < file->unknown_count; i++) {
        look_at(file->unknown[i].name, strlen(file->unknown[i].name));
        look_at(file->unknown[i].type, strlen(file->unknown[i].type));
    }
    for (size_t i = 0; i < file->metadata_count; i++)
        for (int j = 0; j < 2; j++) look_at(file->metadata[i][j], strlen(file->metadata[i][j]));
    return NT_OK;
}

static nt_status read_safetensors(const char *path) {
    nt__safetensors file;
    nt_status status = nt__safetensors_read(path, &file);
    if (status != NT_OK) return file.bytes || file.count ? broken("a file that was refused is not empty") : status;
    status = look_at_tensors(&file);
    nt__safetensors_free(&file);
    return status;
}

/* The length of the header, the header, and the data after it. */
static void put_safetensors(fuzz_input *out, const char *header, size_t header_length, size_t data_length) {
    uint64_t length = header_length;
    fuzz_add(out, &length, sizeof length);
    fuzz_add(out, header, header_length);
    for (size_t i = 0; i < data_length; i++) fuzz_add(out, &(char){(char)(i & 1)}, 1);
}

static void add_safetensors_samples(fuzz_samples *samples) {
    static const struct {
        const char *header;
        size_t data_length;
    } rows[] = {
        {"{}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}      ", 24},
        {"{\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[4,12]},"
         "\"h\\u00e9\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
         "\"none\":{\"dtype\":\"F64\",\"shape\":[7,0],\"data_offsets\":[12,12]},"
         "\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}}",
         12},
        {"{\"c\":{\"dtype\":\"BOOL\",\"shape\":[1,2,1,2,1,1,1,1],\"data_offsets\":[0,4]},"
         "\"d\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,7],\"more\":[{\"x\":null}]},"
         "\"e\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[7,9]}}",
         9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        put_safetensors(fuzz_sample(samples), rows[i].header, strlen(rows[i].header), rows[i].data_length);
}

/* Any value of JSON, nested at most `depth` deep. */
static void add_value(fuzz_random *random, fuzz_input *out, int depth) {
    static const char *const plain[] = {"null",
                                        "true",
                                        "0",
                                        "-1",
                                        "1.5",
                                        "1e400",
                                        "\"\"",
                                        "\"F32\"",
                                        "\"\\ud800\"",
                                        "\"\\u0000\"",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "\"\\ud83d\\ude00\"",
                                        "[]",
                                        "{}"};
    enum { PLAIN = sizeof plain / sizeof *plain };
    size_t choice = fuzz_below(random, depth > 0 ? PLAIN + 6 : PLAIN);
    if (choice < PLAIN) {
        fuzz_add_text(out, "%s", plain[choice]);
        return;
    }
    bool is_list = choice % 2;
    fuzz_add_text(out, is_list ? "[" : "{");
    for (size_t i = 0, count = fuzz_below(random, 12); i < count; i++) {
        fuzz_add_text(out, i ? "," : "");
        if (!is_list) fuzz_add_text(out, "\"k%zu\":", fuzz_below(random, 20));
        add_value(random, out, depth - 1);
    }
    fuzz_add_text(out, is_list ? "]" : "}");
}

/* One in `rarity` times any value instead of the right one, which is added by the caller when this is false. */
static bool add_wrong_value(fuzz_random *random, fuzz_input *out, size_t rarity) {
    if (!fuzz_one_in(random, rarity)) return false;
    add_value(random, out, 3);
    return true;
}

/* Adds a tensor's entry whose data begins at *offset, and moves that after it. */
static void add_entry(fuzz_random *random, fuzz_input *out, size_t rarity, size_t *offset) {
    static const struct {
        const char *name;
        size_t size;
    } types[] = {{"F32", 4}, {"F64", 8}, {"BOOL", 1}, {"U8", 1}, {"BF16", 2}, {"I64", 8}, {"F8_E4M3", 1}};
    size_t type = fuzz_below(random, sizeof types / sizeof *types - !fuzz_one_in(random, rarity));
    size_t bytes = types[type].size;
    fuzz_add_text(out, "{\"dtype\":");
    if (!add_wrong_value(random, out, rarity)) fuzz_add_text(out, "\"%s\"", types[type].name);
    fuzz_add_text(out, ",\"shape\":");
    if (!add_wrong_value(random, out, rarity)) {
        size_t rank = fuzz_below(random, fuzz_one_in(random, rarity) ? 12 : 4);
        fuzz_add_text(out, "[");
        for (size_t i = 0; i < rank; i++) {
            size_t dim = fuzz_below(random, 4);
            bytes *= dim;
            fuzz_add_text(out, "%s%zu", i ? "," : "", dim);
        }
        fuzz_add_text(out, "]");
    }
    size_t begin = *offset + (fuzz_one_in(random, rarity) ? 1 : 0);
    *offset += bytes;
    fuzz_add_text(out, ",\"data_offsets\":");
    if (!add_wrong_value(random, out, rarity)) fuzz_add_text(out, "[%zu,%zu]", begin, *offset);
    fuzz_add_text(out, "}");
}

/* Half of the files are right throughout; in the others a value in six is not what its place asks for. */
static void generate_safetensors(fuzz_random *random, fuzz_input *out) {
    static fuzz_input header;
    size_t rarity = fuzz_one_in(random, 2) ? 1000000 : 6, offset = 0;
    header.length = 0;
    fuzz_add_text(&header, "{");
    if (fuzz_one_in(random, 3)) {
        fuzz_add_text(&header, "\"__metadata__\":");
        if (!add_wrong_value(random, &header, rarity)) fuzz_add_text(&header, "{\"k\":\"v\",\"l\":\"\\u00e9\"}");
        fuzz_add_text(&header, ",");
    }
    for (size_t i = 0, count = 1 + fuzz_below(random, 8); i < count; i++) {
        fuzz_add_text(&header, "%s\"t%zu\":", i ? "," : "", fuzz_one_in(random, rarity) ? 0 : i);
        if (!add_wrong_value(random, &header, rarity)) add_entry(random, &header, rarity, &offset);
    }
    fuzz_add_text(&header, "}");
    if (rarity == 6 && fuzz_one_in(random, 3)) fuzz_mutate(random, &header, out);
    put_safetensors(out, header.bytes, header.length, offset);
}

/* ---- records of runs, and the lists of them --------------------------------------------------------------------- */

enum { HASH_DIGITS = 32 };

/* A safetensors file whose metadata holds the facts, and the hash of all bytes with zeros in the place of its digits.
 */
static void put_record(fuzz_input *out, const char *facts) {
    char header[FUZZ_MOST_BYTES], digits[HASH_DIGITS + 1];
    json_t *text = json_string(facts);
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    int length = snprintf(header, sizeof header,
                          "{\"__metadata__\":{\"content_hash\":\"%032d\",\"nitro_record\":%s},"
                          "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                          0, quoted ? quoted : "\"\"");
    void (*release)(void *);
    json_get_alloc_funcs(NULL, &release);
    if (quoted) release(quoted);
    json_decref(text);
    if (length >= (int)sizeof header) length = 2;
    put_safetensors(out, header, (size_t)length, 8);
    char *zeros = memmem(out->bytes, out->length, "\":\"000000", 9);
    nt__hash_hex(nt__hash_bytes(out->bytes, out->length), digits);
    if (zeros) memcpy(zeros + 3, digits, HASH_DIGITS);
}

static nt_status read_checkpoint(const char *path) {
    nt__record record;
    nt_checkpoint_about *about;
    nt_status status = nt_checkpoint_info(path, &about);
    if (status == NT_OK) {
        look_at(about->run, strlen(about->run));
        for (size_t i = 0; i < about->metric_count; i++)
            look_at(about->metrics[i].name, strlen(about->metrics[i].name));
        for (size_t i = 0; i < about->anchor_count; i++)
            if (about->anchor_hashes[i]) look_at(about->anchor_hashes[i], strlen(about->anchor_hashes[i]));
        nt_checkpoint_info_free(about);
    }
    status = nt__record_read(path, &record);
    if (status != NT_OK)
        return record.facts || record.count ? broken("a record that was refused is not empty") : status;
    status = look_at_tensors(&record.file);
    nt__record_free(&record);
    return status;
}

static const char *const facts_samples[] = {
    "{\"format_version\":1,\"framework_version\":\"0.1.0\",\"run\":\"A\",\"parent\":null,\"epoch\":1,\"batch\":0,"
    "\"step\":4,\"seed\":42,\"preset\":\"p\",\"metrics\":{\"val_loss\":0.5,\"other\":\"nan\"},\"stop_reason\":null,"
    "\"anchor_hashes\":[\"0f\",null],\"entry\":{\"file\":\"a.safetensors\",\"written\":1.5}}",
    "{\"format_version\":1}",
};

static void add_record_samples(fuzz_samples *samples) {
    for (size_t i = 0; i < sizeof facts_samples / sizeof *facts_samples; i++)
        put_record(fuzz_sample(samples), facts_samples[i]);
}

/* An object with these keys, each with a right value or with any. */
static void add_object(fuzz_random *random, fuzz_input *out, const char *const (*members)[2], size_t count) {
    fuzz_add_text(out, "{");
    for (size_t i = 0; i < count; i++) {
        fuzz_add_text(out, "%s\"%s\":", i ? "," : "", members[i][0]);
        if (!add_wrong_value(random, out, 6)) fuzz_add_text(out, "%s", members[i][1]);
    }
    fuzz_add_text(out, "}");
}

static void generate_record(fuzz_random *random, fuzz_input *out) {
    static const char *const members[][2] = {{"format_version", "1"},
                                             {"run", "\"A\""},
                                             {"epoch", "3"},
                                             {"step", "12"},
                                             {"metrics", "{\"m\":1}"},
                                             {"anchor_hashes", "[null,\"1\"]"},
                                             {"entry", "{\"written\":2}"},
                                             {"preset", "null"}};
    static fuzz_input facts;
    facts.length = 0;
    add_object(random, &facts, members, sizeof members / sizeof *members);
    fuzz_add(&facts, "", 1);
    put_record(out, facts.bytes);
}

static nt_status read_manifest(const char *path) {
    nt__manifest manifest;
    nt__run_summary *runs;
    size_t count;
    nt_status status = nt__manifest_read_file(path, &manifest);
    if (status != NT_OK) return manifest.count ? broken("a list that was refused is not empty") : status;
    for (size_t i = 0; i < manifest.count; i++)
        if (strchr(manifest.entries[i].file, '/')) status = broken("a file of the list lies elsewhere");
    if (status == NT_OK) status = nt__manifest_runs(&manifest, &runs, &count);
    nt__manifest_free(&manifest);
    return status;
}

static void add_manifest_samples(fuzz_samples *samples) {
    fuzz_add_text(fuzz_sample(samples), "{\"format_version\":1,\"checkpoints\":[]}");
    fuzz_add_text(fuzz_sample(samples),
                  "{\"checkpoints\":[{\"file\":\"a.safetensors\",\"epoch\":1,\"score\":0.5,\"stop_reason\":null},"
                  "{\"file\":\"b.safetensors\",\"run\":\"A\",\"parent\":\"p\",\"epoch\":2,\"batch\":3,\"step\":4,"
                  "\"metric\":\"m\",\"mode\":\"max\",\"score\":1,\"written\":1.5,"
                  "\"hash\":\"0123456789abcdef0123456789abcdef\"}]}");
}

static void generate_manifest(fuzz_random *random, fuzz_input *out) {
    static const char *const members[][2] = {
        {"run", "\"A\""},    {"epoch", "2"},      {"batch", "0"},
        {"metric", "\"m\""}, {"mode", "\"min\""}, {"score", "0.5"},
        {"written", "1.5"},  {"parent", "null"},  {"stop_reason", "\"completed\""}};
    fuzz_add_text(out, "{\"checkpoints\":[");
    for (size_t i = 0, count = fuzz_below(random, 4); i < count; i++) {
        fuzz_add_text(out, "%s", i ? "," : "");
        add_object(random, out, members, sizeof members / sizeof *members);
        out->length--; /* the brace */
        fuzz_add_text(out, ",\"file\":\"%zu.safetensors\"}", fuzz_below(random, 9));
    }
    fuzz_add_text(out, "]}");
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const fuzz_reader readers[] = {
    {"idx", read_idx, add_idx_samples, NULL, false},
    {"idx.gz", read_idx, add_gzip_samples, generate_gzip, false},
    {"safetensors", read_safetensors, add_safetensors_samples, generate_safetensors, false},
    {"record", read_checkpoint, add_record_samples, generate_record, false},
    {"checkpoints.json", read_manifest, add_manifest_samples, generate_manifest, false},
};
enum { OWN = sizeof readers / sizeof *readers, READERS = OWN + FUZZ_MORE_READERS };

static fuzz_samples samples[READERS];

const fuzz_reader *fuzz_reader_at(size_t index) {
    if (index >= READERS) return NULL;
    return index < OWN ? &readers[index] : &fuzz_more_readers[index - OWN];
}

size_t fuzz_reader_count(void) {
    return READERS;
}

const fuzz_samples *fuzz_samples_of(size_t index) {
    return &samples[index];
}

fuzz_input *fuzz_sample(fuzz_samples *list) {
    /* One more than fits takes the place of the last. */
    fuzz_input *sample = &list->items[list->count < FUZZ_MOST_SAMPLES ? list->count++ : FUZZ_MOST_SAMPLES - 1];
    sample->length = 0;
    return sample;
}

static const fuzz_input *any_sample(fuzz_random *random, size_t reader) {
    return &samples[reader].items[fuzz_below(random, samples[reader].count)];
}

void fuzz_make(fuzz_random *random, size_t reader, fuzz_input *out) {
    out->length = 0;
    const fuzz_reader *row = fuzz_reader_at(reader);
    if (row->generate && fuzz_one_in(random, 2)) {
        row->generate(random, out);
        if (!fuzz_one_in(random, 4)) return;
    } else {
        const fuzz_input *sample = any_sample(random, reader);
        fuzz_add(out, sample->bytes, sample->length);
    }
    fuzz_mutate(random, out, any_sample(random, reader));
}

/* ---- the limits ------------------------------------------------------------------------------------------------- */

/* Far above what the largest input accounts for, far below what a length in a header can ask for. */
enum { MOST_MEMORY_MB = 256, MOST_SECONDS = 20 };

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Blocks of the JSON library, which has an allocator of its own. */
static size_t json_blocks;

static void *json_alloc(size_t size) {
    void *block = malloc(size);
    json_blocks += block != NULL;
    return block;
}

static void json_free(void *block) {
    json_blocks -= block != NULL;
    free(block);
}

/* The address sanitizer asks for its options here. It reserves more addresses than any limit, so that the limit has to
 * be its own; without it nobody calls this. */
const char *__asan_default_options(void);  /* NOLINT(bugprone-reserved-identifier): the sanitizer's name */
const char *__asan_default_options(void) { /* NOLINT(bugprone-reserved-identifier) */
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

static bool is_sanitized(void) {
#if defined __SANITIZE_ADDRESS__
    return true;
#elif defined __has_feature
    return __has_feature(address_sanitizer);
#else
    return false;
#endif
}

static void limit_memory(void) {
    const rlim_t most = (rlim_t)MOST_MEMORY_MB * 1024 * 1024;
    if (!is_sanitized()) setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

/* The file lies in memory where that can be had: most of the time would go into a disk. */
static char folder[64], path[96];
static int file = -1, free_descriptor;
static pid_t maker;

/* Not in the children, which share it. */
static void remove_file(void) {
    if (getpid() != maker) return;
    unlink(path);
    rmdir(folder);
}

static bool make_file(void) {
    static const char *const parents[] = {"/dev/shm", P_tmpdir};
    for (size_t i = 0; i < sizeof parents / sizeof *parents && file < 0; i++) {
        snprintf(folder, sizeof folder, "%s/nitro-fuzz-XXXXXX", parents[i]);
        if (!mkdtemp(folder)) continue;
        snprintf(path, sizeof path, "%s/input", folder);
        file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    maker = getpid();
    if (file >= 0) return atexit(remove_file) == 0;
    nt__fail(NT_IO, "cannot make a file for the inputs: %s", strerror(errno));
    return false;
}

static nt_status go_on(const char *line, void *context) {
    (void)line, (void)context;
    return NT_OK;
}

bool fuzz_open(void) {
    nt_set_notice(NULL, NULL);
    nt_set_warning(go_on, NULL);
    if (!make_file()) return false;
    free_descriptor = dup(file);
    close(free_descriptor);
    json_set_alloc_funcs(json_alloc, json_free);
    for (size_t i = 0; i < READERS; i++) {
        samples[i].count = 0;
        fuzz_reader_at(i)->add_samples(&samples[i]);
    }
    limit_memory();
    return true;
}

bool fuzz_save(const char *to) {
    char *bytes;
    size_t length;
    bool good = nt__read_file(path, &bytes, &length) == NT_OK && nt__write_file(to, bytes, length) == NT_OK;
    nt__free(bytes);
    return good;
}

static bool put_file(const void *bytes, size_t length) {
    return ftruncate(file, 0) == 0 && pwrite(file, bytes, length, 0) == (ssize_t)length;
}

static bool is_input(int descriptor) {
    char link[32], name[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, name, sizeof name - 1);
    return length > 0 && strncmp(name, folder, strlen(folder)) == 0;
}

/* The next file gets the same number as at the start: it rises when one is left open. Not only readers open files: a
 * sanitizer that shows a stack has pipes to its symbolizer from then on. */
static bool is_all_closed(void) {
    enum { MOST = 64 };
    int next = dup(file);
    close(next);
    for (int i = 0; next != free_descriptor && i < MOST; i++)
        if (i != file && is_input(i)) return false;
    free_descriptor = next;
    return true;
}

/* The message of a refusal names the file and can be shown. */
static bool is_told(const fuzz_reader *reader, nt_status status) {
    const char *message = nt_error_message(), *name = reader->is_text ? "" : path;
    if (nt_error_status() != status || !strstr(message, name) || strlen(message) < strlen(name) + 16) return false;
    for (const char *at = message; *at; at++)
        if (iscntrl((unsigned char)*at) && *at != '\n' && *at != '\t') return false;
    return nt__is_utf8(message, strlen(message));
}

static const char *promise_broken(const fuzz_reader *reader, nt_status status, nt__memory_stats before,
                                  size_t json_before) {
    if (nt__memory().live != before.live) return "blocks of memory are lost";
    if (json_blocks != json_before) return "blocks of the JSON library's memory are lost";
    if (!is_all_closed()) return "a file was left open";
    if (status == NT_OK) return NULL;
    if (status == NT_ENGINE) return "what was read is not sound";
    if (status == NT_OUT_OF_MEMORY) return "it asked for more memory than the file accounts for";
    if (status != NT_INVALID) return "the status is not that of a bad file";
    return is_told(reader, status) ? NULL : "the message does not say what is wrong with which file";
}

/* A reader that does not end is ended by the alarm. */
fuzz_verdict fuzz_check(size_t reader, const void *bytes, size_t length) {
    nt__memory_stats before = nt__memory();
    size_t json_before = json_blocks;
    if (!put_file(bytes, length)) {
        nt__fail(NT_IO, "cannot write the input: %s", strerror(errno));
        return FUZZ_FOUND;
    }
    nt__fail_nothing();
    alarm(MOST_SECONDS);
    nt_status status = fuzz_reader_at(reader)->read(path);
    alarm(0);
    const char *promise = promise_broken(fuzz_reader_at(reader), status, before, json_before);
    if (!promise) return status == NT_OK ? FUZZ_READ : FUZZ_REFUSED;
    nt__fail_in(NT_INVALID, "%s: %s (%s)", fuzz_reader_at(reader)->name, promise, nt_status_name(status));
    return FUZZ_FOUND;
}
