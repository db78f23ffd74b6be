/* Optimizer rules: how a step turns gradients into new parameters.
 *
 * x is a parameter, g its gradient, eta the learning rate, t the step counted from 1; x becomes x - dx. All state lives
 * on the device, one array for each group of parameters. A rule has numbers. Some are inputs of the program: another
 * value compiles nothing, and a schedule may set them. The others are constants of the program. The learning rate is an
 * input of every rule, so it is not given to a constructor.
 *
 * A member of an options struct that is not given, or is 0, has its default. Members are given by name, as in
 * nt_adam(.beta1 = 0.8). Where a rule uses the rate the first member is a pointer that is never set, so that
 * nt_adam(1e-3), which other libraries take for the rate and which would be beta1 here, does not compile.
 */
#ifndef NITRO_OPTIM_H
#define NITRO_OPTIM_H

#include "nitro/rule.h"
#include "nitro/rules.h"
#include "nitro/transforms.h"

#endif
