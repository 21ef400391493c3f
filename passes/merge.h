/* Launches that become sections of one kernel. */
#ifndef KL_PASSES_MERGE_H
#define KL_PASSES_MERGE_H

#include "ir/program.h"

/* Requires: a program as lowered. Ensures: a launch that only folds a few values which an earlier
 * launch wrote (the mean of a loss) is a further section of that launch's kernel, and so is a write
 * into memory that the launch just before it wrote (the pieces of a cat). Slots keep their places. */
kl_status kl_merge_launches(kl_program *program) KL_MUST_CHECK;

#endif
