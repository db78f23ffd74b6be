/* Which checkpoints a run keeps and which is the best, as its settings say it.
 */
#include <string.h>

#include "setting/setting.h"

bool nt__keeps_checkpoints(const nt__settings *s) {
    return s->checkpoint && !s->no_log;
}

nt__retention nt__retention_of(const nt__settings *s) {
    nt__retention kept = nt__retention_default();
    kept.best = s->checkpoint_keep;
    kept.metric = s->checkpoint_metric;
    kept.higher_is_better = s->checkpoint_mode && strcmp(s->checkpoint_mode, "max") == 0;
    kept.keep_latest = s->checkpoint_keep_latest;
    kept.every_epochs = s->checkpoint_keep_epochs;
    kept.every_steps = s->checkpoint_keep_steps;
    kept.whole_folder = strcmp(s->checkpoint_scope, "dir") == 0;
    return kept;
}

nt_status nt__check_direction(const nt__settings *s) {
    if (s->checkpoint_mode) return NT_OK;
    return nt__fail(NT_INVALID,
                    "checkpoints are ranked by '%s' (checkpoint_metric), and its name does not say whether larger or "
                    "smaller values are better: give checkpoint_mode \"max\" or \"min\"",
                    s->checkpoint_metric);
}
