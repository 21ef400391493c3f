/* A section while it is built: accesses keep their addresses over the group's whole space until
 * the dims are final, then become int arguments. */
#ifndef KL_PASSES_SECTION_H
#define KL_PASSES_SECTION_H

#include "ir/program.h"
#include "passes/space.h"

typedef struct kl_pending_access {
  kl_address address;
  uint32_t buf;
  uint32_t offset_slot; /* run offset added, or KL_NO_SLOT */
  bool dynamic;
  int64_t index_stride;
} kl_pending_access;

typedef struct kl_section_builder {
  kl_section section;
  kl_space space; /* the group's; rows first */
  int n_rows;
  KL_VEC(kl_pending_access) accesses;
  KL_VEC(int64_t) constants; /* values of INT instructions, by their attr until finished */
  bool fixed_order;          /* the order of column dims is that of a reduction or a scatter */
} kl_section_builder;

/* Drops dims of size 1, orders free dims by stride, merges dims that all accesses walk as one;
 * then appends extents, offsets and strides to the launch's ints and the section to the kernel. */
kl_status kl_section_finish(kl_section_builder *builder, kl_kernel *kernel, kl_launch *launch)
    KL_MUST_CHECK;
void kl_section_builder_drop(kl_section_builder *builder);

#endif
