/* The order of dims by PyTorch's TensorIterator rule, and the merging of neighbours. */
#include "frontend/layout.h"

void kl_layout_broadcast(const kael_tensor *tensor, int ndim, const int64_t *shape,
                         int64_t *out_strides) {
  int lead = ndim - tensor->ndim;
  for (int d = 0; d < ndim; d++) {
    bool repeated = d < lead || (tensor->shape[d - lead] == 1 && shape[d] != 1);
    out_strides[d] = repeated ? 0 : tensor->strides[d - lead];
  }
}

/* > 0: dim `fast` must go slower than `slow`, < 0: they stand rightly, 0: nobody cares. */
static int compare_dims(const kl_walk *walk, int fast, int slow) {
  for (int i = 0; i < walk->n_walked; i++) {
    int64_t stride_fast = walk->strides[i][fast], stride_slow = walk->strides[i][slow];
    if (stride_fast == 0 || stride_slow == 0) continue;
    if (stride_fast != stride_slow) return stride_fast < stride_slow ? -1 : 1;
    if (walk->dims[fast] > walk->dims[slow]) return 1;
  }
  return 0;
}

void kl_layout_order(const kl_walk *walk, int *order) {
  int n = walk->n_dims;
  int fastest_first[KL_MAX_RANK];
  for (int i = 0; i < n; i++) fastest_first[i] = n - 1 - i;
  /* An insertion sort that goes past pairs which nobody cares about: such pairs may still be moved
   * apart by a third dim, so that the order of comparisons is part of the rule. */
  for (int i = 1; i < n; i++) {
    int moving = i;
    for (int other = i - 1; other >= 0; other--) {
      int verdict = compare_dims(walk, fastest_first[other], fastest_first[moving]);
      if (verdict < 0) break;
      if (verdict == 0) continue;
      int swapped = fastest_first[other];
      fastest_first[other] = fastest_first[moving];
      fastest_first[moving] = swapped;
      moving = other;
    }
  }
  for (int i = 0; i < n; i++) order[i] = fastest_first[n - 1 - i];
}

void kl_layout_order_by_first(const kl_walk *walk, int *order) {
  const int64_t *strides = walk->strides[0];
  int n = 0;
  for (int d = 0; d < walk->n_dims; d++) {
    if (walk->dims[d] == 1) continue;
    int at = n++;
    for (; at > 0 && strides[order[at - 1]] < strides[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  /* The stride of a dim of size 1 means nothing: those go last. */
  for (int d = 0; d < walk->n_dims; d++)
    if (walk->dims[d] == 1) order[n++] = d;
}

void kl_layout_dense_strides(const kl_walk *walk, const int *order, int64_t *out_strides) {
  int64_t stride = 1;
  for (int i = walk->n_dims - 1; i >= 0; i--) {
    out_strides[order[i]] = stride;
    stride *= walk->dims[order[i]];
  }
}

static bool merges(const kl_walk *walk, int outer, int64_t size, const int64_t *inner_strides) {
  for (int i = 0; i < walk->n_walked; i++)
    if (walk->strides[i][outer] != inner_strides[i] * size) return false;
  return true;
}

void kl_layout_compact(kl_walk *walk, const int *order) {
  kl_walk from = *walk;
  int n = 0;
  for (int at = 0; at < from.n_dims; at++) {
    int d = order ? order[at] : at;
    if (from.dims[d] == 1) continue;
    int64_t strides[KL_MAX_WALKED];
    for (int i = 0; i < from.n_walked; i++) strides[i] = from.strides[i][d];
    bool merge = n > 0 && merges(walk, n - 1, from.dims[d], strides);
    int place = merge ? n - 1 : n++;
    walk->dims[place] = merge ? walk->dims[place] * from.dims[d] : from.dims[d];
    for (int i = 0; i < from.n_walked; i++) walk->strides[i][place] = strides[i];
  }
  walk->n_dims = n;
}

void kl_layout_append(kl_walk *walk, const kl_walk *tail) {
  for (int d = 0; d < tail->n_dims; d++) {
    int place = walk->n_dims++;
    walk->dims[place] = tail->dims[d];
    for (int i = 0; i < walk->n_walked; i++) walk->strides[i][place] = tail->strides[i][d];
  }
}
