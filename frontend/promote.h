/* PyTorch's type promotion, and numbers as elements. */
#ifndef KL_FRONTEND_PROMOTE_H
#define KL_FRONTEND_PROMOTE_H

#include "frontend/record.h"

/* The smallest dtype that both go into, as torch.promote_types. */
kl_dtype kl_promote_dtypes(kl_dtype a, kl_dtype b);
/* As torch.result_type: tensors with dims count before 0-d ones, those before the number (NULL:
 * there is none), unless their kind (bool, integer, float) is higher. At least one operand. */
kl_dtype kl_result_type(kael_tensor *const *tensors, int n_tensors, const kael_scalar *number);
/* Whether a result may be written into a tensor of dtype `to`: never float into integer, nor a
 * number into bool. */
bool kl_can_cast(kl_dtype from, kl_dtype to);
/* dtypes that this version computes with. */
kl_status kl_check_dtype(const char *op, int dtype) KL_MUST_CHECK;
/* A number that an integer dtype cannot hold is an error, as in torch.full. */
kl_status kl_check_number(const char *op, kael_scalar number, kl_dtype dtype) KL_MUST_CHECK;
bool kl_number_is_zero(kael_scalar number);

#endif
