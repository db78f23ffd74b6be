/* A crash in the code of an experiment: the last line says in which hook, by which signal, and where. Then the signal
 * does what it does without a handler.
 * Not here: which hook runs (base/hook.c); signals that ask for the end (signals.c).
 */
#include "process/process.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/base.h"

static const struct {
    int number;
    const char *name;
} crashes[] = {
    {SIGSEGV, "SIGSEGV, memory that is not there"},
    {SIGBUS, "SIGBUS, memory that is not there"},
    {SIGFPE, "SIGFPE, an arithmetic error as a division by 0"},
    {SIGILL, "SIGILL, an instruction that is none"},
    {SIGABRT, "SIGABRT, as assert and abort send it"},
    {SIGTRAP, "SIGTRAP"},
    {SIGSYS, "SIGSYS"},
};
enum {
    CRASHES = sizeof crashes / sizeof *crashes,
    ALTERNATIVE = 128 << 10,
    FRAMES = 64,
    PLACE = 256,
    PATIENCE = 2000 /* milliseconds */
};

/* Of the main thread, for a stack that has no room left. */
static _Alignas(64) char alternative[ALTERNATIVE];
static char object[PATH_MAX]; /* the compiled experiment; "": none */

void nt__crash_object(const char *path) {
    snprintf(object, sizeof object, "%s", path);
}

/* ---- the line in the source ------------------------------------------------------------------------------------- */

/* In a process of its own, so that whatever goes wrong here leaves the line that is written anyway. */

/* The instruction that crashed, where it is known how the machine says it; else NULL. */
static void *instruction_of(const ucontext_t *context) {
#if defined __x86_64__
    return (void *)context->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return (void *)context->uc_mcontext.pc;
#else
    (void)context;
    return NULL;
#endif
}

/* addr2line, with the place in the experiment's code that is nearest to the crash; without it there is none. */
static void find_place(const ucontext_t *context, int out) {
    void *frames[FRAMES];
    Dl_info info;
    char offset[32];
    int count = backtrace(frames, FRAMES);
    for (int i = 0; i < count; i++) {
        if (!dladdr(frames[i], &info) || !info.dli_fname) continue;
        if (strncmp(info.dli_fname, object, strlen(object)) != 0) continue;
        /* A call's frame has the address after it. */
        unsigned long at = (unsigned long)((const char *)frames[i] - (const char *)info.dli_fbase);
        snprintf(offset, sizeof offset, "0x%lx", frames[i] == instruction_of(context) ? at : at - 1);
        dup2(out, STDOUT_FILENO);
        close(STDERR_FILENO);
        execlp("addr2line", "addr2line", "-s", "-e", object, offset, (char *)NULL);
        break;
    }
    _exit(1);
}

static void read_place(int in, char place[PLACE]) {
    size_t length = 0;
    struct pollfd input = {.fd = in, .events = POLLIN};
    while (length < PLACE - 1 && poll(&input, 1, PATIENCE) > 0) {
        ssize_t got = read(in, place + length, PLACE - 1 - length);
        if (got <= 0) break;
        length += (size_t)got;
    }
    place[length] = 0;
    place[strcspn(place, " \n")] = 0;
    if (*place == '?' || strstr(place, ":?") || strstr(place, ":0")) *place = 0;
}

/* "" when it cannot be had. Safe in a handler up to the fork. */
static void ask_place(const ucontext_t *context, char place[PLACE]) {
    int ends[2];
    *place = 0;
    if (!*object || pipe(ends) != 0) return;
    pid_t process = _Fork();
    if (process == 0) {
        for (size_t i = 0; i < CRASHES; i++) signal(crashes[i].number, SIG_DFL);
        find_place(context, ends[1]);
    }
    close(ends[1]);
    if (process > 0) {
        read_place(ends[0], place);
        kill(process, SIGKILL);
        waitpid(process, NULL, 0);
    }
    close(ends[0]);
}

/* ---- the line --------------------------------------------------------------------------------------------------- */

typedef struct line {
    char text[1024];
    size_t length;
} line;

static void add(line *l, const char *text) {
    for (; *text && l->length < sizeof l->text - 1; text++) l->text[l->length++] = *text;
}

static void add_number(line *l, int number) {
    char digits[16];
    size_t at = sizeof digits;
    digits[--at] = 0;
    do digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    add(l, digits + at);
}

static void add_where(line *l, const ucontext_t *context, const nt_running_hook_t *hook) {
    char place[PLACE];
    ask_place(context, place);
    if (*place) {
        add(l, " at ");
        add(l, place);
    } else if (hook && hook->file) {
        add(l, " after the call at ");
        add(l, hook->file);
        add(l, ":");
        add_number(l, hook->line);
    }
}

static void tell(int number, const ucontext_t *context) {
    line l = {.length = 0};
    nt_running_hook_t hook;
    bool in_hook = nt_running_hook(&hook);
    add(&l, "\nnitro: crashed ");
    add(&l, in_hook ? "in " : "outside of a hook");
    if (in_hook) add(&l, hook.hook);
    if (in_hook && hook.of) add(&l, " of ");
    if (in_hook && hook.of) add(&l, hook.of);
    add_where(&l, context, in_hook ? &hook : NULL);
    add(&l, ": signal ");
    add_number(&l, number);
    for (size_t i = 0; i < CRASHES; i++) {
        if (crashes[i].number != number) continue;
        add(&l, " (");
        add(&l, crashes[i].name);
        add(&l, ")");
    }
    add(&l, "; the log is complete up to here, and nothing more is saved\n");
    ssize_t written = write(STDERR_FILENO, l.text, l.length);
    (void)written;
}

/* The first thread that crashes has the word. The signal comes again when the handler returns, with its usual end. */
static void crashed(int number, siginfo_t *info, void *context) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    (void)info;
    signal(number, SIG_DFL);
    if (!atomic_flag_test_and_set(&told)) tell(number, context);
    raise(number);
}

/* A handler that is there already, as a sanitizer's, stays. */
void nt__crash_watch(void) {
    stack_t stack;
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_ONSTACK | SA_SIGINFO}, before;
    void *frame;
    sigemptyset(&action.sa_mask);
    (void)backtrace(&frame, 1); /* loads what it needs, which a handler must not */
    if (sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_DISABLE) {
        stack = (stack_t){.ss_sp = alternative, .ss_size = sizeof alternative};
        sigaltstack(&stack, NULL);
    }
    for (size_t i = 0; i < CRASHES; i++)
        if (sigaction(crashes[i].number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(crashes[i].number, &action, NULL);
}
