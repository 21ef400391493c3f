/* Gradients of views, and of operations in place through views. */
#include "frontend/autograd/grad.h"

#define GRADIENT(name) kl_status kl_backward_##name(kl_grad_call *c)

typedef kael_tensor T;

/* --- Other dims over the same elements ---------------------------------------------------------
 */

static kl_status reshape_back(kl_grad_call *c) {
  const kl_autograd_spec *in = kl_expr_spec(c, 0);
  kl_expr_give(c, 0, kl_expr_reshape(c, kl_expr_grad(c), in->ndim, in->shape));
  return c->status;
}
GRADIENT(view) { return reshape_back(c); }
GRADIENT(squeeze) { return reshape_back(c); }

GRADIENT(transpose) {
  const kl_node_args *args = &c->node->args;
  T *grad = kl_expr_grad(c);
  kl_expr_give(c, 0, grad->ndim ? kl_expr_transpose(c, grad, args->dim, args->dim1) : grad);
  return c->status;
}

GRADIENT(permute) {
  T *grad = kl_expr_grad(c);
  int64_t back[KL_MAX_RANK];
  for (int d = 0; d < grad->ndim; d++) back[c->node->extra[d]] = d;
  kl_expr_give(c, 0, kl_expr_permute(c, grad, back));
  return c->status;
}

/* The engine sums over what was repeated. */
GRADIENT(expand) {
  kl_expr_give(c, 0, kl_expr_grad(c));
  return c->status;
}

/* --- Parts: zeros with the gradient written into the part --------------------------------------
 */

static T *zeros_of_input(kl_grad_call *c) {
  const kl_autograd_spec *in = kl_expr_spec(c, 0);
  return kl_expr_zeros(c, in->ndim, in->shape, (kl_dtype)in->dtype);
}

/* `part` is a view of `whole` just made, owned by nobody yet. */
static kl_status write_part(kl_grad_call *c, T *whole, kl_status status, T *part) {
  part = kl_expr_own(c, status, part);
  if (kl_expr_copy_into(c, part, kl_expr_grad(c))) kl_expr_give(c, 0, whole);
  return c->status;
}

GRADIENT(slice) {
  const kl_node_args *args = &c->node->args;
  T *whole = zeros_of_input(c), *part = NULL;
  if (!whole) return c->status;
  kl_status status = kl_slice(whole, args->dim, args->start, args->end, args->step, &part);
  return write_part(c, whole, status, part);
}

GRADIENT(select) {
  const kl_node_args *args = &c->node->args;
  T *whole = zeros_of_input(c), *part = NULL;
  if (!whole) return c->status;
  kl_status status = kl_select(whole, args->dim, args->start, &part);
  return write_part(c, whole, status, part);
}

GRADIENT(diagonal) {
  const kl_node_args *args = &c->node->args;
  T *whole = zeros_of_input(c), *part = NULL;
  if (!whole) return c->status;
  kl_status status = kl_diagonal(whole, args->start, args->dim, args->dim1, &part);
  return write_part(c, whole, status, part);
}

/* --- Several views: the parts side by side, zeros for those without a gradient -------------------
 */

static kl_status join(kl_grad_call *c, bool add_dim) {
  const kl_autograd_node *node = c->node;
  const kl_autograd_spec *in = kl_expr_spec(c, 0);
  const int dim = node->args.dim;
  T **parts = kl_malloc(node->n_outputs * sizeof *parts);
  if (!parts) return kl_fail_memory("a gradient", node->n_outputs * sizeof *parts);
  for (uint32_t i = 0; i < node->n_outputs; i++) {
    const kl_autograd_spec *spec = &node->outputs[i];
    T *part = c->grads[i];
    if (!part) part = kl_expr_zeros(c, spec->ndim, spec->shape, (kl_dtype)in->dtype);
    parts[i] = add_dim ? kl_expr_unsqueeze(c, part, dim) : part;
  }
  if (!c->status) kl_expr_give(c, 0, kl_expr_cat(c, parts, (int)node->n_outputs, dim));
  kl_free(parts);
  return c->status;
}
GRADIENT(unbind) { return join(c, true); }
GRADIENT(split) { return join(c, false); }

/* --- Any geometry over one storage --------------------------------------------------------------
 */

typedef struct geometry {
  int ndim;
  const int64_t *shape, *strides;
  int64_t offset;
} geometry;

/* The lowest and the highest element reached; false where there is none. */
static bool reach(const geometry *g, int64_t *low, int64_t *high) {
  int64_t last = g->offset;
  for (int d = 0; d < g->ndim; d++) {
    if (g->shape[d] == 0) return false;
    last += (g->shape[d] - 1) * g->strides[d];
  }
  if (g->offset < *low) *low = g->offset;
  if (last > *high) *high = last;
  return true;
}

static T *see(kl_grad_call *c, T *flat, const geometry *g, int64_t low) {
  return kl_expr_as_strided(c, flat, g->ndim, g->shape, g->strides, g->offset - low);
}

/* Elements of the flat tensor, numbered, as seen through the geometry: one index a position. */
static T *positions(kl_grad_call *c, int64_t n_flat, const geometry *g, int64_t low) {
  T *numbers = NULL;
  kl_status status = kl_record_index(n_flat, &numbers);
  T *seen = see(c, kl_expr_own(c, status, numbers), g, low);
  if (!seen) return NULL;
  const int64_t shape[1] = {seen->numel};
  return kl_expr_reshape(c, seen, 1, shape);
}

/* Adds `grad`, which has the geometry's shape, to the elements of the flat tensor it stands for. */
static T *put(kl_grad_call *c, T *flat, const geometry *g, int64_t low, T *grad) {
  T *part = see(c, flat, g, low);
  if (!part || !grad) return NULL;
  if (!kl_tensor_overlaps_itself(part)) return kl_expr_copy_into(c, part, grad) ? flat : NULL;
  const int64_t shape[1] = {grad->numel};
  T *index = positions(c, flat->numel, g, low);
  return kl_expr_scatter_add(c, flat, 0, index, kl_expr_reshape(c, grad, 1, shape));
}

/* Where several positions of the input are one element, they share its gradient. */
static T *share(kl_grad_call *c, T *flat, const geometry *in, int64_t low) {
  T *seen = see(c, flat, in, low);
  if (!seen || !kl_tensor_overlaps_itself(seen)) return flat;
  T *ones = NULL, *index = positions(c, flat->numel, in, low);
  if (!index) return NULL;
  kl_status status = kl_full((kl_dtype)flat->dtype, 1, index->shape, kael_f(1), &ones);
  ones = kl_expr_own(c, status, ones);
  T *count = kl_expr_scatter_add(c, kl_expr_zeros_like(c, flat), 0, index, ones);
  return kl_expr_div(c, flat, count);
}

GRADIENT(as_strided) {
  const kl_autograd_node *node = c->node;
  const kl_autograd_spec *spec = kl_expr_spec(c, 0);
  const geometry in = {spec->ndim, spec->shape, node->extra + 1, node->extra[0]};
  const geometry view = {node->outputs[0].ndim, node->outputs[0].shape,
                         node->extra + 1 + spec->ndim, node->args.start};
  int64_t low = INT64_MAX, high = -1;
  T *grad = kl_expr_grad(c);
  const bool any = reach(&view, &low, &high) && reach(&in, &low, &high);
  if (!any) {
    kl_expr_give(c, 0, zeros_of_input(c));
    return c->status;
  }
  const int64_t n_flat[1] = {high - low + 1};
  T *flat = kl_expr_zeros(c, 1, n_flat, (kl_dtype)grad->dtype);
  flat = share(c, put(c, flat, &view, low, grad), &in, low);
  kl_expr_give(c, 0, see(c, flat, &in, low));
  return c->status;
}

/* --- In place through a view --------------------------------------------------------------------
 */

const kl_gradient kl_gradient_copy_slices = {"CopySlices", kl_backward_copy_slices, {0}, false};

/* Applies the operation to the view's part of the gradient; `part` gets what comes out. */
static kl_status replace_part(kl_grad_call *c, T *part) {
  kl_autograd_node *inner = c->node->inner;
  T *grad = kl_expr_clone(c, part);
  if (!grad) return c->status;
  KL_TRY(kl_grad_apply(inner, &grad, c->wanted, c->out));
  T *replacement = c->out[0];
  if (!kl_expr_wants(c, 0)) return KL_OK;
  c->out[0] = NULL;
  if (!replacement) return kl_zero_(part);
  kl_expr_copy_into(c, part, kl_expr_own(c, KL_OK, replacement));
  return c->status;
}

GRADIENT(copy_slices) {
  const kl_autograd_node *node = c->node;
  const kl_autograd_spec *spec = &node->outputs[0];
  if (node->released)
    return kl_fail(KL_ERR_RUNTIME,
                   "CopySlices: Trying to backward through the graph a second time. Saved "
                   "intermediate values of the graph are freed when you call backward or grad. "
                   "Specify retain_graph=True if you need to backward through it a second time");
  const int64_t *extra = node->extra + 1 + spec->ndim;
  const int view_ndim = node->inner->outputs[0].ndim;
  const geometry base = {spec->ndim, spec->shape, node->extra + 1, node->extra[0]};
  const geometry view = {view_ndim, extra + 1, extra + 1 + view_ndim, extra[0]};
  int64_t low = base.offset, high = base.offset;
  reach(&base, &low, &high);
  reach(&view, &low, &high);
  const int64_t n_flat[1] = {high - low + 1};
  T *flat = kl_expr_zeros(c, 1, n_flat, (kl_dtype)spec->dtype);
  T *whole = see(c, flat, &base, low);
  if (!kl_expr_copy_into(c, whole, kl_expr_grad(c))) return c->status;
  KL_TRY(replace_part(c, see(c, flat, &view, low)));
  kl_expr_give(c, 0, see(c, flat, &base, low));
  return c->status;
}
