/* Repeated instructions become loops. */
#ifndef KL_PASSES_ROLL_H
#define KL_PASSES_ROLL_H

#include "passes/section.h"

/* Requires: a section as lowered, stores last in each loop. Ensures: a run of at least ROLL_LEAST
 * like periods of elementwise instructions stands once, in REPEAT ... END; the count is an int
 * argument (an index into `constants`), scalars advance by a constant step. */
kl_status kl_roll_section(kl_section_builder *builder) KL_MUST_CHECK;

/* Marks the nodes of a graph that repeat the ones a short period before them: of their kernels they
 * will take no room. `out_repeats`: one flag a node, zeroed by the caller. */
void kl_find_repeats(const kl_graph *graph, bool *out_repeats);

#endif
