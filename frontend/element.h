/* Single elements in memory. */
#ifndef KL_FRONTEND_ELEMENT_H
#define KL_FRONTEND_ELEMENT_H

#include "frontend/tensor.h"

double kl_element_double(const void *element, kl_dtype dtype);
int64_t kl_element_int(const void *element, kl_dtype dtype); /* as a cast: saturates, NaN is 0 */
/* The tensor's first element in memory, after evaluation; valid until the caller releases
 * *out_held, whatever other threads write. */
kl_status kl_tensor_bytes(const kael_tensor *tensor, kl_buffer **out_held,
                          const char **out_first) KL_MUST_CHECK;

#endif
