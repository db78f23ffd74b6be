/* Whether a file may be given to dlopen, which maps a file as long as its headers say: where the file is cut short, the
 * first touch of what is missing ends the process with SIGBUS.
 * Not here: loading it.
 */
#include "base/files.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The header of the object that this code is part of, which the linker defines: a file that can be loaded here has its
 * class, byte order and machine. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden"))); /* NOLINT(bugprone-reserved-identifier) */

static bool read_at(int file, void *to, size_t length, uint64_t offset) {
    if (offset > INT64_MAX) return false;
    ssize_t got;
    do got = pread(file, to, length, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)length;
}

static nt_status check_end(const char *what, uint64_t start, uint64_t length, uint64_t file_size) {
    uint64_t end;
    bool impossible = __builtin_add_overflow(start, length, &end);
    if (!impossible && end <= file_size) return NT_OK;
    return nt__fail(NT_INVALID, "the file has %" PRIu64 " bytes, and its %s end at byte %" PRIu64 ": it is cut short",
                    file_size, what, impossible ? UINT64_MAX : end);
}

static nt_status check_kind(const ElfW(Ehdr) * header) {
    const ElfW(Ehdr) *own = &__ehdr_start;
    if (header->e_ident[EI_CLASS] != own->e_ident[EI_CLASS] || header->e_ident[EI_DATA] != own->e_ident[EI_DATA] ||
        header->e_machine != own->e_machine)
        return nt__fail(NT_INVALID,
                        "it was made for another machine: ELF class %d, byte order %d, machine %d, and this process is "
                        "class %d, byte order %d, machine %d",
                        header->e_ident[EI_CLASS], header->e_ident[EI_DATA], header->e_machine, own->e_ident[EI_CLASS],
                        own->e_ident[EI_DATA], own->e_machine);
    if (header->e_type != ET_DYN || header->e_phentsize != sizeof(ElfW(Phdr)))
        return nt__fail(NT_INVALID,
                        "it is an ELF file of type %d with program headers of %d bytes, a shared object "
                        "has type %d and %zu bytes",
                        header->e_type, header->e_phentsize, ET_DYN, sizeof(ElfW(Phdr)));
    return NT_OK;
}

static nt_status check_segments(int file, const ElfW(Ehdr) * header, uint64_t size) {
    nt_status status =
        check_end("program headers", header->e_phoff, (uint64_t)header->e_phnum * header->e_phentsize, size);
    for (uint64_t i = 0; status == NT_OK && i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        if (!read_at(file, &segment, sizeof segment, header->e_phoff + i * sizeof segment))
            return nt__fail(NT_IO, "its program headers cannot be read: %s", strerror(errno));
        if (segment.p_type == PT_LOAD) status = check_end("segments", segment.p_offset, segment.p_filesz, size);
    }
    return status;
}

static nt_status check_file(int file, uint64_t size) {
    ElfW(Ehdr) header;
    if (size < sizeof header)
        return nt__fail(NT_INVALID, "the file has %" PRIu64 " bytes, fewer than the header of a shared object", size);
    if (!read_at(file, &header, sizeof header, 0))
        return nt__fail(NT_IO, "its header cannot be read: %s", strerror(errno));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return nt__fail(NT_INVALID, "it does not start with the four bytes of an ELF file but with %02x %02x %02x %02x",
                        header.e_ident[0], header.e_ident[1], header.e_ident[2], header.e_ident[3]);
    nt_status status = check_kind(&header);
    if (status == NT_OK) status = check_segments(file, &header, size);
    /* The table of sections is usually the last of a file. Not every object has one. */
    if (status != NT_OK || header.e_shoff == 0) return status;
    return check_end("sections", header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize, size);
}

nt_status nt__check_shared_object(const char *path) {
    struct stat info;
    int file;
    nt_status status = nt__open_trusted(path, &file);
    if (status != NT_OK) return status;
    status = fstat(file, &info) == 0 ? check_file(file, (uint64_t)info.st_size)
                                     : nt__fail(NT_IO, "it cannot be looked at: %s", strerror(errno));
    close(file);
    return status;
}
