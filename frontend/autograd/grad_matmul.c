/* Gradients of matrix products, for all ranks. */
#include "frontend/autograd/grad.h"

#define GRADIENT(name) kl_status kl_backward_##name(kl_grad_call *c)

typedef kael_tensor T;

static T *transposed(kl_grad_call *c, T *a) {
  return a ? kl_expr_transpose(c, a, a->ndim - 2, a->ndim - 1) : NULL;
}

/* All dims but the last folded into one. */
static T *as_rows(kl_grad_call *c, T *a) {
  if (!a || a->ndim == 2) return a;
  int64_t n_rows = 1;
  for (int d = 0; d + 1 < a->ndim; d++) n_rows *= a->shape[d];
  const int64_t shape[2] = {n_rows, a->shape[a->ndim - 1]};
  return kl_expr_reshape(c, a, 2, shape);
}

/* The gradient of a matrix: without the dims of size 1 that were put in for a vector, and summed
 * over the batches that were broadcast (by the engine). `vector_dim` 0: it was no vector. */
static void give(kl_grad_call *c, uint32_t i, T *grad, int dim_put_in) {
  if (!grad || dim_put_in == 0) {
    kl_expr_give(c, i, grad);
    return;
  }
  int64_t shape[KL_MAX_RANK];
  int n = 0;
  for (int d = 0; d < grad->ndim; d++)
    if (d != grad->ndim + dim_put_in) shape[n++] = grad->shape[d];
  kl_expr_give(c, i, kl_expr_reshape(c, grad, n, shape));
}

/* The transposed left factor times grad. Where the right factor is one matrix for all rows of all
 * batches, they are one product, as PyTorch folds them too. */
static T *right_gradient(kl_grad_call *c, T *left, T *grad, bool right_is_matrix) {
  if (right_is_matrix && left && left->ndim > 2) {
    left = as_rows(c, left);
    grad = as_rows(c, grad);
  }
  return kl_expr_matmul(c, transposed(c, left), grad);
}

static int saved_ndim(const kl_autograd_node *node, int source) {
  for (uint32_t i = 0; i < node->n_saved; i++)
    if (node->saved[i].source == source) return node->saved[i].ndim;
  return 0;
}

/* The rank of an operand: known by its edge, or by what was saved of it. */
static int operand_ndim(const kl_grad_call *c, uint32_t i) {
  const kl_autograd_edge *edge = &c->node->edges[i];
  return edge->node ? kl_edge_spec(edge)->ndim : saved_ndim(c->node, (int)i);
}

GRADIENT(matmul) {
  const int left_ndim = operand_ndim(c, 0), right_ndim = operand_ndim(c, 1);
  T *grad = kl_expr_grad(c);
  /* A vector on the left is a row, one on the right a column. */
  if (right_ndim == 1) grad = kl_expr_unsqueeze(c, grad, grad->ndim);
  if (grad && left_ndim == 1) grad = kl_expr_unsqueeze(c, grad, grad->ndim - 1);
  if (kl_expr_wants(c, 0)) {
    T *right = kl_expr_saved(c, 1);
    if (right && right_ndim == 1) right = kl_expr_unsqueeze(c, right, 1);
    give(c, 0, kl_expr_matmul(c, grad, transposed(c, right)), left_ndim == 1 ? -2 : 0);
  }
  if (kl_expr_wants(c, 1)) {
    T *left = kl_expr_saved(c, 0);
    if (left && left_ndim == 1) left = kl_expr_unsqueeze(c, left, 0);
    give(c, 1, right_gradient(c, left, grad, right_ndim <= 2), right_ndim == 1 ? -1 : 0);
  }
  return c->status;
}

/* input weight^T + bias: the bias's gradient is summed over the rows by the engine. */
GRADIENT(linear) {
  T *grad = kl_expr_grad(c);
  kl_expr_give(c, 2, grad);
  if (kl_expr_wants(c, 0)) {
    T *row = grad->ndim == 1 ? kl_expr_unsqueeze(c, grad, 0) : grad;
    T *product = kl_expr_matmul(c, row, kl_expr_saved(c, 1));
    give(c, 0, product, grad->ndim == 1 ? -2 : 0);
  }
  if (kl_expr_wants(c, 1)) {
    T *input = kl_expr_saved(c, 0);
    if (input && input->ndim == 1) {
      input = kl_expr_unsqueeze(c, input, 0);
      grad = kl_expr_unsqueeze(c, grad, 0);
    }
    T *rows = as_rows(c, grad);
    kl_expr_give(c, 1, kl_expr_matmul(c, transposed(c, rows), as_rows(c, input)));
  }
  return c->status;
}
