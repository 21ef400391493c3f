/* Gradients of operators that pick elements by number, and of cat. */
#include "frontend/autograd/grad.h"
#include "kael/nn.h"

#define GRADIENT(name) kl_status kl_backward_##name(kl_grad_call *c)

typedef kael_tensor T;

static T *zeros_of_input(kl_grad_call *c, uint32_t i) {
  const kl_autograd_spec *spec = kl_expr_spec(c, i);
  return kl_expr_zeros(c, spec->ndim, spec->shape, (kl_dtype)spec->dtype);
}

GRADIENT(cat) {
  const int dim = c->node->args.dim;
  T *grad = kl_expr_grad(c);
  int64_t start = 0;
  for (uint32_t i = 0; i < c->node->n_edges; i++) {
    const int64_t length = c->node->extra[i];
    if (kl_expr_wants(c, i)) {
      const bool same_rank = kl_expr_spec(c, i)->ndim == grad->ndim; /* else it was [0], left out */
      kl_expr_give(c, i,
                   same_rank ? kl_expr_narrow(c, grad, dim, start, length) : zeros_of_input(c, i));
    }
    start += length;
  }
  return c->status;
}

GRADIENT(flip) {
  T *out = NULL;
  kl_status status = kl_flip(kl_expr_grad(c), c->node->args.mask, &out);
  kl_expr_give(c, 0, kl_expr_own(c, status, out));
  return c->status;
}

static kl_status triangle(kl_grad_call *c, bool upper) {
  T *out = NULL;
  kl_status status = kl_triangle(kl_expr_grad(c), upper, c->node->args.start, &out);
  kl_expr_give(c, 0, kl_expr_own(c, status, out));
  return c->status;
}
GRADIENT(tril) { return triangle(c, false); }
GRADIENT(triu) { return triangle(c, true); }

/* The index along `dim`, repeated over all other dims. */
static T *spread_index(kl_grad_call *c, T *index, const T *like, int dim) {
  if (!index || like->ndim == 0) return index;
  int64_t shape[KL_MAX_RANK];
  for (int d = 0; d < like->ndim; d++) shape[d] = d == dim ? index->numel : 1;
  return kl_expr_expand(c, kl_expr_reshape(c, index, like->ndim, shape), like->ndim, like->shape);
}

GRADIENT(index_select) {
  T *grad = kl_expr_grad(c);
  const int dim = c->node->args.dim;
  T *index = spread_index(c, kl_expr_saved(c, 1), grad, dim);
  if (index && grad->ndim == 0) index = kl_expr_reshape(c, index, 0, NULL);
  kl_expr_give(c, 0, kl_expr_scatter_add(c, zeros_of_input(c, 0), dim, index, grad));
  return c->status;
}

GRADIENT(gather) {
  T *sum = kl_expr_scatter_add(c, zeros_of_input(c, 0), c->node->args.dim, kl_expr_saved(c, 1),
                               kl_expr_grad(c));
  kl_expr_give(c, 0, sum);
  return c->status;
}

GRADIENT(scatter_add) {
  T *grad = kl_expr_grad(c);
  kl_expr_give(c, 0, grad);
  if (kl_expr_wants(c, 2))
    kl_expr_give(c, 2, kl_expr_gather(c, grad, c->node->args.dim, kl_expr_saved(c, 1)));
  return c->status;
}

/* 0 to n - 1 along the class dim. */
static T *class_numbers(kl_grad_call *c, int64_t n, int ndim, int class_dim) {
  T *numbers = NULL;
  kl_status status = kl_record_index(n, &numbers);
  int64_t shape[KL_MAX_RANK];
  for (int d = 0; d < ndim; d++) shape[d] = d == class_dim ? n : 1;
  return kl_expr_reshape(c, kl_expr_own(c, status, numbers), ndim, shape);
}

/* Minus the (mean's share of the) gradient where the class is the target, else 0: no scatter, so
 * that it fuses with what comes before and after. */
GRADIENT(nll_loss) {
  const kl_autograd_spec *in = kl_expr_spec(c, 0);
  const int class_dim = in->ndim == 1 ? 0 : 1;
  T *grad = kl_expr_grad(c), *input = kl_expr_saved(c, 0), *target = kl_expr_saved(c, 1);
  if (!input || !target) return c->status;
  if (c->node->args.reduction == KAEL_REDUCTION_MEAN)
    grad = kl_expr_div_number(c, grad, kael_i(target->numel));
  else if (c->node->args.reduction == KAEL_REDUCTION_NONE)
    grad = kl_expr_unsqueeze(c, grad, class_dim);
  T *numbers = class_numbers(c, in->shape[class_dim], in->ndim, class_dim);
  T *hit = kl_expr_eq(c, numbers, kl_expr_unsqueeze(c, target, class_dim));
  T *nothing = kl_expr_zeros(c, 0, NULL, (kl_dtype)in->dtype);
  T *share = kl_expr_where(c, hit, kl_expr_neg(c, grad), nothing);
  kl_expr_give(c, 0, share);
  return c->status;
}
