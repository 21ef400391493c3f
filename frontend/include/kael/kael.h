/* kael/kael.h: all of kael.
 *
 *   float data[] = {1, 2, 3};
 *   kael_tensor *x = kael_from_data(data, 1, (int64_t[]){3}, KAEL_F32);
 *   kael_tensor *y = kael_add_scalar(x, kael_i(1));
 *   double first;
 *   ...
 *   kael_release(y);
 *   kael_release(x);
 */
#ifndef KAEL_KAEL_H
#define KAEL_KAEL_H

#include "kael/autograd.h"
#include "kael/error.h"
#include "kael/explain.h"
#include "kael/factory.h"
#include "kael/jit.h"
#include "kael/nn.h"
#include "kael/ops.h"
#include "kael/random.h"
#include "kael/reduce.h"
#include "kael/scope.h"
#include "kael/stats.h"
#include "kael/tensor.h"
#include "kael/types.h"
#include "kael/view.h"

#endif
