/* A tiny reference interpreter beside the eager run of a program.
 *
 * It keeps the bytes of every storage by itself, and computes each statement's values with plain
 * loops over scalar functions. From the library it takes which calls succeed, and the strides of
 * tensors; random numbers, gradients and a few composed operators are adopted, not judged. */
#ifndef TESTS_RANDOM_PROGRAM_MODEL_H
#define TESTS_RANDOM_PROGRAM_MODEL_H

#include "tests/random/program.h"

typedef struct program_model program_model;

program_model *model_create(void);
void model_destroy(program_model *model);

/* Before and after a statement is run. `after` is false when a dtype, a shape or a value is not
 * what the model has. */
void model_before(program_model *model, machine *m, const statement *s);
bool model_after(program_model *model, machine *m, const statement *s, kael_status status);

const char *model_fault(const program_model *model);
long model_values(const program_model *model); /* values computed, not adopted */

#endif
