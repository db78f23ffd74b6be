/* Operations on tensors.
 *
 * Every operation is a macro over a function that takes the place of the call. x, a, b are tensors or C numbers. Two
 * operands broadcast as in numpy: aligned at the last axis, an axis of size 1 stretches. Element types must be equal
 * (nt_convert converts); a C number takes the type of the other operand. Axes may be negative: -1 is the last.
 * "Gradient" gives the cotangent of each operand in terms of the cotangent c of the result y.
 */
#ifndef NITRO_OPS_H
#define NITRO_OPS_H

#include "nitro/conv.h"
#include "nitro/elementwise.h"
#include "nitro/reduce.h"
#include "nitro/shape.h"

#endif
