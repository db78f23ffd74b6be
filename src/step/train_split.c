/* Whether the split 'train' can be trained on, and how many steps it gives.
 * Not here: reading it (the folder data).
 */
#include "step/step.h"

int64_t nt__steps_of_all_epochs(const nt__traced *traced) {
    int64_t steps, an_epoch = nt__split_batches(traced->train) / traced->task->settings.accum;
    return __builtin_mul_overflow(an_epoch, traced->task->settings.max_epochs, &steps) ? INT64_MAX : steps;
}

nt_status nt__train_split_check(const nt__traced *traced) {
    const nt__split *train = traced->train;
    int64_t batches = nt__split_batches(train), accum = traced->task->settings.accum, below = batches / accum * accum,
            above = below + accum;
    if (!traced->task->experiment->hooks.loss && !traced->task->settings.manual)
        return nt__fail(NT_INVALID,
                        "%s: experiment '%s' has a split 'train' but no loss hook: write .loss = loss in its NT_DEFINE",
                        traced->task->experiment->file, traced->task->experiment->name);
    if (train->options.batch > train->rows)
        return nt__fail(NT_INVALID,
                        "split 'train' has %lld rows, and a batch of %lld is larger than that: training needs full "
                        "batches, so choose one of at most %lld rows",
                        (long long)train->rows, (long long)train->options.batch, (long long)train->rows);
    if (!train->options.drop_last && train->rows % train->options.batch != 0)
        return nt__fail(NT_INVALID,
                        "split 'train' has %lld rows and batches of %lld, so its last batch is short, and training "
                        "needs full ones: add "
                        ".drop_last = true to its nt_split, or choose a batch that divides %lld",
                        (long long)train->rows, (long long)train->options.batch, (long long)train->rows);
    if (batches % accum == 0) return NT_OK;
    if (below == 0)
        return nt__fail(
            NT_INVALID,
            "split 'train' has %lld batches, and accum %lld is more than these: a step never spans two "
            "epochs. Choose an accum that divides %lld, or a batch or number of rows that gives %lld batches",
            (long long)batches, (long long)accum, (long long)batches, (long long)above);
    return nt__fail(
        NT_INVALID,
        "split 'train' has %lld batches, which accum %lld does not divide: a step never spans two epochs. The nearest "
        "numbers of batches that work are %lld and %lld: choose another accum, batch or number of rows",
        (long long)batches, (long long)accum, (long long)below, (long long)above);
}

/* A line of flags may be used again for an evaluation, so settings and schedules are no mistake there. */
nt_status nt__settings_check_trained(const nt__traced *traced, const nt_run_options *options) {
    bool evaluates = traced->task->settings.evaluate_only;
    const struct {
        const char *name;
        bool is_given;
    } all[] = {{"resume", options->resume != NULL},     {"restore_optimizer", options->restore_optimizer},
               {"restore_best", options->restore_best}, {"gradient_norm", options->gradient_norm},
               {"histograms", options->histograms},     {"schedules", options->schedules && !evaluates}};
    for (size_t i = 0; !traced->train && i < sizeof all / sizeof *all; i++) {
        if (!all[i].is_given) continue;
        if (evaluates)
            return nt__fail(NT_INVALID, "%s is for training, and run '%s' only evaluates or predicts: leave it out",
                            all[i].name, traced->task->experiment->name);
        return nt__fail(NT_INVALID,
                        "%s is for training, and experiment '%s' has no split 'train' (its splits: %s): leave it out, "
                        "or add the split in build_data",
                        all[i].name, traced->task->experiment->name, nt__data_split_names(traced->data));
    }
    return NT_OK;
}
