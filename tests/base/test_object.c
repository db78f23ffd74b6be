/* Files that dlopen must not see: cut short, of another machine, none of an object. Each is refused before it is
 * mapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>

#include "base/files.h"
#include "scratch.h"

static char *whole; /* a shared object that is loaded in this process */
static size_t whole_length;

static int read_whole(void **state) {
    Dl_info info;
    if (dladdr(dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"), &info) == 0) return -1;
    if (nt__read_file(info.dli_fname, &whole, &whole_length) != NT_OK) return -1;
    return scratch_make(state);
}

static int forget_whole(void **state) {
    nt__free(whole);
    return scratch_remove(state);
}

static void assert_refused(nt_status status, const char *part) {
    assert_int_equal(nt__check_shared_object(scratch("object.so")), status);
    if (!strstr(nt_error_message(), part)) fail_msg("'%s' is not in: %s", part, nt_error_message());
}

static void a_whole_object_is_taken(void **state) {
    (void)state;
    scratch_put("object.so", whole, whole_length);
    assert_int_equal(nt__check_shared_object(scratch("object.so")), NT_OK);
    char own[PATH_MAX];
    assert_non_null(realpath("/proc/self/exe", own));
    assert_int_equal(nt__check_shared_object(own), NT_OK);
}

static void every_cut_is_noticed(void **state) {
    (void)state;
    scratch_put("object.so", whole, whole_length);
    for (size_t length = whole_length; length-- > 0;) {
        if (length > 4096 && length < whole_length - 4096 && length % 97) continue;
        assert_int_equal(truncate(scratch("object.so"), (off_t)length), 0);
        if (nt__check_shared_object(scratch("object.so")) != NT_INVALID) fail_msg("%zu bytes are taken", length);
    }
    assert_refused(NT_INVALID, "the file has 0 bytes, fewer than the header");
}

/* The file says how long it is and where what is missing would end. */
static void the_message_has_the_numbers(void **state) {
    (void)state;
    char part[128];
    ElfW(Ehdr) header;
    memcpy(&header, whole, sizeof header);
    size_t end = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
    scratch_put("object.so", whole, end - 1);
    snprintf(part, sizeof part, "the file has %zu bytes, and its sections end at byte %zu: it is cut short", end - 1,
             end);
    assert_refused(NT_INVALID, part);
    scratch_put("object.so", whole, 100);
    assert_refused(NT_INVALID, "the file has 100 bytes, and its program headers end at byte ");
}

/* Puts the object with other bytes at a place of its header. */
static void put_changed(size_t offset, const void *bytes, size_t length) {
    char *copy = nt__alloc(whole_length, 1);
    memcpy(copy, whole, whole_length);
    memcpy(copy + offset, bytes, length);
    scratch_put("object.so", copy, whole_length);
    nt__free(copy);
}

static void what_is_no_object_of_this_machine_is_named(void **state) {
    (void)state;
    ElfW(Ehdr) header;
    memcpy(&header, whole, sizeof header);
    uint16_t machine = header.e_machine == EM_S390 ? EM_SPARC : EM_S390;
    uint16_t executable = ET_EXEC, size = 1;
    unsigned char class = header.e_ident[EI_CLASS] == ELFCLASS64 ? ELFCLASS32 : ELFCLASS64;
    put_changed(offsetof(ElfW(Ehdr), e_machine), &machine, sizeof machine);
    assert_refused(NT_INVALID, "it was made for another machine: ELF class");
    put_changed(EI_CLASS, &class, 1);
    assert_refused(NT_INVALID, "it was made for another machine");
    put_changed(offsetof(ElfW(Ehdr), e_type), &executable, sizeof executable);
    assert_refused(NT_INVALID, "it is an ELF file of type 2");
    put_changed(offsetof(ElfW(Ehdr), e_phentsize), &size, sizeof size);
    assert_refused(NT_INVALID, "program headers of 1 bytes");
    put_changed(0, "text", 4);
    assert_refused(NT_INVALID, "it does not start with the four bytes of an ELF file but with 74 65 78 74");
}

static void offsets_beyond_every_file_are_refused(void **state) {
    (void)state;
    ElfW(Ehdr) header;
    memcpy(&header, whole, sizeof header);
    ElfW(Off) far = (ElfW(Off)) - 8;
    put_changed(offsetof(ElfW(Ehdr), e_phoff), &far, sizeof far);
    assert_refused(NT_INVALID, "its program headers end at byte 18446744073709551615");
    put_changed(offsetof(ElfW(Ehdr), e_shoff), &far, sizeof far);
    assert_refused(NT_INVALID, "its sections end at byte 18446744073709551615");
    size_t first = 0;
    ElfW(Phdr) segment;
    do memcpy(&segment, whole + header.e_phoff + first++ * sizeof segment, sizeof segment);
    while (segment.p_type != PT_LOAD);
    put_changed(header.e_phoff + (first - 1) * sizeof segment + offsetof(ElfW(Phdr), p_offset), &far, sizeof far);
    assert_refused(NT_INVALID, "its segments end at byte 18446744073709551615");
    far = 0; /* no table of sections: many a small object has none */
    put_changed(offsetof(ElfW(Ehdr), e_shoff), &far, sizeof far);
    assert_int_equal(nt__check_shared_object(scratch("object.so")), NT_OK);
}

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    unlink(scratch("object.so"));
    assert_refused(NT_NOT_FOUND, "object.so': No such file or directory");
    assert_int_equal(mkdir(scratch("object.so"), 0700), 0);
    assert_refused(NT_IO, "it is a folder and no regular file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_object_is_taken),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(the_message_has_the_numbers),
        cmocka_unit_test(what_is_no_object_of_this_machine_is_named),
        cmocka_unit_test(offsets_beyond_every_file_are_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests_name("object", tests, read_whole, forget_whole);
}
