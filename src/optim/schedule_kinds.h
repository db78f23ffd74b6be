/* The kinds of schedules, a row each: for schedule.c and schedule_text.c only. */
#ifndef NT_OPTIM_SCHEDULE_KINDS_H
#define NT_OPTIM_SCHEDULE_KINDS_H

#include "optim/optim.h"

/* Where a number must lie; all must be finite. */
typedef enum nt__range { NT__ANY, NT__POSITIVE, NT__ONE_OR_MORE, NT__FRACTION } nt__range;

typedef struct nt__schedule_number {
    const char *name;
    nt__range range;
    double default_value; /* of one that is 0 */
} nt__schedule_number;

typedef enum nt__schedule_holds { NT__PLAIN, NT__POINTS, NT__PARTS } nt__schedule_holds;

typedef struct nt_schedule_kind {
    const char *name;
    const char *spelling, *meaning; /* what stands after the name in text, and what it is; NULL: no text of its own */
    nt__schedule_number numbers[NT_SCHEDULE_NUMBERS]; /* no name ends them */
    int required;                                     /* how many of them text must have */
    bool varies;
    nt__schedule_holds holds;
    double (*value)(const nt_schedule *s, int64_t step, int64_t total);
} nt_schedule_kind;

enum {
    NT__CONSTANT,
    NT__LINEAR,
    NT__COSINE,
    NT__RESTARTS,
    NT__EXPONENTIAL,
    NT__POLYNOMIAL,
    NT__STEP,
    NT__ONE_CYCLE,
    NT__INVERSE_SQRT,
    NT__PIECEWISE,
    NT__INTERPOLATED,
    NT__SEQUENCE,
    NT__FUNCTION,
    NT__KIND_COUNT
};
extern const nt_schedule_kind nt__schedule_kinds[];

/* Gives the numbers that are 0 their defaults. */
void nt__schedule_fill(nt_schedule *schedule);

#endif
