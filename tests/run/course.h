/* The course of resume.h with a rule that a test chooses, and with its notices kept. Include after cmocka.
 */
#ifndef NT_TESTS_RUN_COURSE_H
#define NT_TESTS_RUN_COURSE_H

#include "notices.h"
#include "resume.h"

static Course fields; /* of the newest course */
static nt_rule chosen;

static inline nt_rule choose(const void *e, const char *group) {
    (void)e;
    (void)group;
    return chosen;
}

/* Two epochs with Adam, in an empty folder, and without notices. */
static inline course make_course(void) {
    course c = {.experiment = *Course_experiment(), .fields = &fields};
    nt_array_free(fields.shift);
    fields = Course_defaults();
    fields.shift = course_shift();
    chosen = nt_adam();
    c.experiment.hooks.optimizer = choose;
    c.options.max_epochs = (nt_maybe_int){true, 2};
    scratch_remove_path(course_folder());
    nt__text_free(&notices);
    return c;
}

static inline int end_courses(void **state) {
    nt_set_notice(NULL, NULL);
    nt__text_free(&notices);
    nt_array_free(fields.shift);
    return shut_down_and_remove(state);
}

#endif
