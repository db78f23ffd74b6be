/* nitro: a training framework in C on a tracing compiler. The headers in reading order. */
#ifndef NITRO_H
#define NITRO_H

#include "nitro/status.h"
#include "nitro/array.h"
#include "nitro/tensor.h"
#include "nitro/ops.h"
#include "nitro/gradient.h"
#include "nitro/control.h"
#include "nitro/check.h"
#include "nitro/random.h"
#include "nitro/nn.h"
#include "nitro/activations.h"
#include "nitro/layers.h"
#include "nitro/attention.h"
#include "nitro/recurrent.h"
#include "nitro/losses.h"
#include "nitro/optim.h"
#include "nitro/schedule.h"
#include "nitro/data.h"
#include "nitro/metrics.h"
#include "nitro/manual.h"
#include "nitro/experiment.h"
#include "nitro/cache.h"
#include "nitro/checkpoint.h"
#include "nitro/log.h"
#include "nitro/run.h"

#endif
