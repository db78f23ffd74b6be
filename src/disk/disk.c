/* A compiled program as a file: a head of fixed size, three texts, and the engine's bytes. Nothing of a file is
 * believed before its checksum is right, because the engine may end the process on bytes that it did not write. Not
 * here: the folder (folder.c), what the bytes mean (the engine).
 */
#include "disk/disk.h"
#include "base/files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char magic[8] = {'n', 'i', 't', 'r', 'o', 'p', 'r', 'g'};
/* To be raised when the head, the texts, or the meaning of a key change. */
enum { FORMAT = 1 };

typedef struct head {
    char magic[8];
    uint32_t format, texts_length;
    uint64_t length; /* of the engine's bytes */
    int64_t made;
    double seconds;
    nt__hash content;
    nt__environment environment;
    nt__hash checksum; /* of the head before it, and of all after the head */
} head;

static nt__hash checksum_of(const head *h, const void *behind, size_t length) {
    const nt__hash parts[2] = {nt__hash_bytes(h, offsetof(head, checksum)), nt__hash_bytes(behind, length)};
    return nt__hash_bytes(parts, sizeof parts);
}

static bool same_environment(const nt__environment *a, const nt__environment *b) {
    return nt__hash_equal(a->plugin, b->plugin) && nt__hash_equal(a->processor, b->processor) &&
           nt__hash_equal(a->flags, b->flags);
}

void nt__disk_name(const nt__disk_key *key, char out[NT__DISK_NAME]) {
    struct {
        nt__environment environment;
        uint64_t format;
    } rest = {key->environment, FORMAT};
    char content[33], environment[33];
    nt__hash_hex(key->content, content);
    nt__hash_hex(nt__hash_bytes(&rest, sizeof rest), environment);
    snprintf(out, NT__DISK_NAME, "%s-%s%s", content, environment, nt__disk_program_ending);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Three texts, each with its NUL. */
static bool split_texts(const char *texts, size_t length, nt__disk_program *out) {
    const char **to[] = {&out->program, &out->experiment, &out->plugin};
    size_t at = 0;
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        size_t left = length - at, text = strnlen(texts + at, left);
        if (text == left) return false;
        *to[i] = texts + at;
        at += text + 1;
    }
    return at == length;
}

/* NULL when the file is whole; else what is wrong with it. */
static const char *check(const char *data, size_t length, head *h, nt__disk_program *out) {
    if (length < sizeof *h) return "it is cut short";
    memcpy(h, data, sizeof *h);
    if (memcmp(h->magic, magic, sizeof magic) != 0) return "it is no program of nitro's";
    if (h->format != FORMAT) return "it has another format";
    size_t behind = length - sizeof *h;
    if (h->texts_length > behind || h->length != behind - h->texts_length) return "its length is wrong";
    if (!nt__hash_equal(checksum_of(h, data + sizeof *h, behind), h->checksum)) return "its checksum is wrong";
    if (!split_texts(data + sizeof *h, h->texts_length, out)) return "its texts are wrong";
    out->seconds = h->seconds;
    out->made = h->made;
    out->bytes = (const uint8_t *)data + sizeof *h + h->texts_length;
    out->length = h->length;
    return NULL;
}

/* A file that is not there leaves out->data NULL and *problem "". */
static nt_status read_program(const nt__disk *disk, const char *name, head *h, nt__disk_program *out,
                              const char **problem) {
    char path[PATH_MAX];
    size_t length;
    *out = (nt__disk_program){0};
    *problem = "";
    if (snprintf(path, sizeof path, "%s/%s", disk->folder, name) >= (int)sizeof path) return NT_OK;
    nt_status status = nt__read_trusted(path, nt__disk_most(disk), &out->data, &length);
    if (status == NT_OUT_OF_MEMORY) return status;
    if (status != NT_OK) {
        if (status != NT_NOT_FOUND) *problem = "it cannot be read";
        if (status == NT_INVALID) *problem = "another user may have written it";
        nt__fail_nothing();
        return NT_OK;
    }
    *problem = check(out->data, length, h, out);
    if (!*problem) return NT_OK;
    nt__free(out->data);
    *out = (nt__disk_program){0};
    return NT_OK;
}

nt_status nt__disk_look(const nt__disk *disk, const char *name, nt__disk_program *out) {
    head h;
    const char *problem;
    return read_program(disk, name, &h, out, &problem);
}

/* ---- programs of others ----------------------------------------------------------------------------------------- */

static void say_what_differs(const head *h, const nt__disk_program *found, const nt__disk_key *key,
                             char why[NT__DISK_WHY]) {
    if (!nt__hash_equal(h->environment.plugin, key->environment.plugin))
        snprintf(why, NT__DISK_WHY, "the saved one is of another plugin (%.100s)", found->plugin);
    else if (!nt__hash_equal(h->environment.processor, key->environment.processor))
        snprintf(why, NT__DISK_WHY, "the saved one is of a processor of another model or with other features");
    else
        snprintf(why, NT__DISK_WHY, "the saved one was compiled with other XLA_FLAGS");
}

/* The same text and options, compiled by something else. The very program may have come since it was looked for: it is
 * no relative. */
static nt_status look_for_relatives(const nt__disk *disk, const nt__disk_key *key, nt__disk_answer *answer,
                                    char why[NT__DISK_WHY]) {
    nt__disk_file *files;
    size_t count;
    char content[33], own[NT__DISK_NAME];
    nt__hash_hex(key->content, content);
    nt__disk_name(key, own);
    nt_status status = nt__disk_files(disk, nt__disk_program_ending, &files, &count);
    for (size_t i = 0; status == NT_OK && i < count && *answer == NT__DISK_ABSENT; i++) {
        head h = {0};
        nt__disk_program found;
        const char *problem;
        if (strncmp(files[i].name, content, 32) != 0 || strcmp(files[i].name, own) == 0) continue;
        status = read_program(disk, files[i].name, &h, &found, &problem);
        if (status != NT_OK || (problem && !*problem)) continue;
        *answer = NT__DISK_REFUSED;
        if (problem)
            snprintf(why, NT__DISK_WHY, "the saved one is not used: %s", problem);
        else
            say_what_differs(&h, &found, key, why);
        nt__free(found.data);
    }
    nt__free(files);
    return status;
}

nt_status nt__disk_read(const nt__disk *disk, const nt__disk_key *key, nt__disk_program *out, nt__disk_answer *answer,
                        char why[NT__DISK_WHY]) {
    char name[NT__DISK_NAME];
    const char *problem;
    head h = {0};
    *why = 0;
    *answer = NT__DISK_ABSENT;
    nt__disk_name(key, name);
    nt_status status = read_program(disk, name, &h, out, &problem);
    if (status != NT_OK) return status;
    if (!problem && (!nt__hash_equal(h.content, key->content) || !same_environment(&h.environment, &key->environment)))
        problem = "it is another program's, under this one's name";
    if (!problem) {
        *answer = NT__DISK_FOUND;
        return NT_OK;
    }
    nt__free(out->data);
    *out = (nt__disk_program){0};
    if (!*problem) return look_for_relatives(disk, key, answer, why);
    snprintf(why, NT__DISK_WHY, "the saved one is not used: %s", problem);
    *answer = NT__DISK_REFUSED;
    return NT_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static nt_status write_pieces(const nt__disk *disk, const nt__disk_key *key, head *h, const nt__text *all,
                              const nt__disk_program *program) {
    char name[NT__DISK_NAME], path[PATH_MAX];
    if (sizeof *h + all->length > disk->limit)
        return nt__fail(NT_INVALID, "'%s' has %zu bytes, and the limit of all is %llu", program->program, all->length,
                        (unsigned long long)disk->limit);
    nt__disk_name(key, name);
    if (snprintf(path, sizeof path, "%s/%s", disk->folder, name) >= (int)sizeof path)
        return nt__fail(NT_INVALID, "the path of the folder '%s' is too long", disk->folder);
    h->checksum = checksum_of(h, all->data, all->length);
    const nt__piece pieces[] = {{h, sizeof *h}, {all->data, all->length}};
    return nt__write_kept(path, pieces, 2);
}

nt_status nt__disk_write(const nt__disk *disk, const nt__disk_key *key, const nt__disk_program *program) {
    head h = {.format = FORMAT,
              .length = program->length,
              .made = (int64_t)time(NULL),
              .seconds = program->seconds,
              .content = key->content,
              .environment = key->environment};
    const char *const texts[] = {program->program, program->experiment, program->plugin};
    nt__text all = {0};
    memcpy(h.magic, magic, sizeof magic);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) nt__text_put(&all, texts[i], strlen(texts[i]) + 1);
    h.texts_length = (uint32_t)all.length;
    nt__text_put(&all, (const char *)program->bytes, program->length);
    nt_status status = all.failed ? NT_OUT_OF_MEMORY : write_pieces(disk, key, &h, &all, program);
    nt__text_free(&all);
    return status == NT_OK ? nt__disk_shrink(disk) : status;
}
