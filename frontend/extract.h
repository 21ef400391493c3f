/* Extraction: from recorded values to the graph of one run, its key and its arguments. */
#ifndef KL_FRONTEND_EXTRACT_H
#define KL_FRONTEND_EXTRACT_H

#include "ir/graph.h"
#include "runtime/storage.h"

typedef struct kl_run_leaf {
  kl_value *value;   /* REAL, borrowed; NULL: a buffer that is only written ... */
  kl_value *written; /* ... by this value, whose home it is */
  kl_buffer *buffer; /* borrowed */
  bool reusable, may_alias;
  bool is_home;      /* some value must end in it */
  uint32_t n_refs;   /* from values of the run */
} kl_run_leaf;

typedef struct kl_run_value {
  kl_value *value; /* PENDING, borrowed */
  bool keep;
  int32_t home;    /* leaf, or -1 */
  uint32_t n_refs; /* from values of the run */
} kl_run_value;

/* Everything about one run; reused from run to run. */
typedef struct kl_extraction {
  KL_VEC(kl_run_value) values; /* in the order of recording; node n_leaves + i of the graph */
  KL_VEC(kl_run_leaf) leaves;  /* node and leaf i */
  KL_VEC(kl_scalar) scalars;
  KL_VEC(int64_t) offsets;
  KL_VEC(uint32_t) offset_leaf;   /* the leaf of each offset slot */
  KL_VEC(uint32_t) operand_slots; /* of the operands that have one, in order */
  KL_VEC(char) key;
  KL_VEC(kl_value *) work;
} kl_extraction;

/* Collects what the pending among `values` need. Under the recording lock, one at a time. */
kl_status kl_extract(kl_value *const *values, int n_values, kl_extraction *extraction) KL_MUST_CHECK;
/* The graph that the key stands for. */
kl_status kl_extract_graph(const kl_extraction *extraction, kl_graph *out_graph) KL_MUST_CHECK;
void kl_extraction_finish(kl_extraction *extraction);

#endif
