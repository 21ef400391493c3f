/* What statements compute: the arithmetic side of the model, on whole tensors of scalars. */
#ifndef TESTS_RANDOM_PROGRAM_VALUE_H
#define TESTS_RANDOM_PROGRAM_VALUE_H

#include "ir/dtype.h"
#include "tests/random/program.h"

/* A tensor's elements, row-major. */
typedef struct program_value {
  bool there;
  kl_dtype dtype;
  int rank;
  int64_t shape[KAEL_MAX_DIMS];
  int64_t numel;
  kl_scalar *elems;
} program_value;

/* Sets rank, shape and numel, and makes room. */
void value_shape(program_value *v, kl_dtype dtype, int rank, const int64_t *shape);
void value_free(program_value *v);
kl_scalar value_cast(kl_scalar scalar, kl_dtype from, kl_dtype to);

/* The value of a statement that makes a tensor, or what an in-place one puts into `a`, before the
 * cast to a's dtype. False: the model does not know. */
bool value_of_statement(const statement *s, const program_value *a, const program_value *b,
                        const program_value *c, program_value *out);

#endif
