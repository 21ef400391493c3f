/* The engine: counts for every node the edges that lead to it, then takes ready nodes, the latest
 * first, applies them, and hands the gradients on. No step recurses.
 *
 * With inputs given, only nodes between the roots and the inputs run, and what reaches an input is
 * caught instead of accumulated. */
#include "frontend/autograd/engine.h"

#include "frontend/autograd/grad.h"
#include "frontend/autograd/hook.h"
#include "frontend/autograd/tasks.h"

enum { SMALL_EDGES = 8 };

typedef struct engine {
  const kl_backward_run *run;
  kl_tasks tasks;
  uint32_t *next_input; /* chains the inputs that are caught at one task */
} engine;

static kl_status out_of_memory(void) { return kl_fail_memory("a backward pass", 0); }

/* --- Before ------------------------------------------------------------------------------------
 */

/* Finds all nodes behind the roots and counts the edges to each. New tasks go to the end of the
 * list, which so is the work list too. */
static kl_status discover(engine *e) {
  uint32_t id;
  bool is_new;
  for (uint32_t i = 0; i < e->run->n_roots; i++)
    KL_TRY(kl_tasks_add(&e->tasks, e->run->roots[i].node, &id, &is_new));
  for (uint32_t i = 0; i < e->tasks.list.count; i++) {
    const kl_autograd_node *node = e->tasks.list.data[i].node;
    for (uint32_t k = 0; k < node->n_edges; k++) {
      if (!node->edges[k].node) continue;
      KL_TRY(kl_tasks_add(&e->tasks, node->edges[k].node, &id, &is_new));
      e->tasks.list.data[id].waits++;
    }
  }
  return KL_OK;
}

static kl_status mark_inputs(engine *e) {
  e->next_input = kl_calloc(e->run->n_inputs, sizeof *e->next_input);
  if (!e->next_input) return out_of_memory();
  for (uint32_t i = 0; i < e->run->n_inputs; i++) {
    const int64_t id = kl_tasks_find(&e->tasks, e->run->inputs[i].node);
    if (id == KL_TASK_NONE) continue;
    kl_task *task = &e->tasks.list.data[id];
    e->next_input[i] = task->first_input;
    task->first_input = i + 1;
  }
  return KL_OK;
}

/* Whether the task leads to an input, itself included. */
static bool is_on_the_way(const kl_task *task) { return task->executes || task->first_input; }

static bool leads_on(const engine *e, const kl_autograd_node *node) {
  for (uint32_t k = 0; k < node->n_edges; k++) {
    if (!node->edges[k].node) continue;
    const int64_t id = kl_tasks_find(&e->tasks, node->edges[k].node);
    if (is_on_the_way(&e->tasks.list.data[id])) return true;
  }
  return false;
}

/* Decides which tasks run, from the last in topological order back to the first. */
static kl_status mark_executing(engine *e) {
  const uint32_t n = e->tasks.list.count;
  uint32_t *order = kl_malloc(2 * (size_t)n * sizeof *order);
  if (!order) return out_of_memory();
  uint32_t *waits = order + n, n_ordered = 0;
  for (uint32_t i = 0; i < n; i++) {
    waits[i] = e->tasks.list.data[i].waits;
    if (!waits[i]) order[n_ordered++] = i;
  }
  for (uint32_t i = 0; i < n_ordered; i++) {
    const kl_autograd_node *node = e->tasks.list.data[order[i]].node;
    for (uint32_t k = 0; k < node->n_edges; k++) {
      if (!node->edges[k].node) continue;
      const uint32_t id = (uint32_t)kl_tasks_find(&e->tasks, node->edges[k].node);
      if (--waits[id] == 0) order[n_ordered++] = id;
    }
  }
  for (uint32_t i = n_ordered; i-- > 0;) {
    kl_task *task = &e->tasks.list.data[order[i]];
    task->executes = leads_on(e, task->node);
  }
  kl_free(order);
  return KL_OK;
}

static kl_status prepare(engine *e) {
  KL_TRY(discover(e));
  if (!e->run->n_inputs) {
    for (uint32_t i = 0; i < e->tasks.list.count; i++) e->tasks.list.data[i].executes = true;
    return KL_OK;
  }
  KL_TRY(mark_inputs(e));
  return mark_executing(e);
}

/* --- Gradients on their way --------------------------------------------------------------------
 */

static bool broadcasts_to(const kl_autograd_spec *spec, const kael_tensor *grad) {
  if (spec->ndim > grad->ndim) return false;
  const int64_t *shape = grad->shape + (grad->ndim - spec->ndim);
  for (int d = 0; d < spec->ndim; d++)
    if (spec->shape[d] != 1 && spec->shape[d] != shape[d]) return false;
  return true;
}

/* Sums over broadcast dims and casts, so that the gradient fits what it is the gradient of. */
static kl_status fit(const kl_autograd_node *from, uint32_t index, const kl_autograd_spec *spec,
                     kael_tensor **grad) {
  kael_tensor *fitted = NULL;
  if (!kl_shape_equal((*grad)->ndim, (*grad)->shape, spec->ndim, spec->shape)) {
    if (!broadcasts_to(spec, *grad))
      return kl_fail(KL_ERR_RUNTIME,
                     "Function %s returned an invalid gradient at index %u - got %s but expected "
                     "shape compatible with %s",
                     kl_node_name(from), index, kl_shape_text((*grad)->ndim, (*grad)->shape),
                     kl_shape_text(spec->ndim, spec->shape));
    KL_TRY(kl_sum_to_shape(*grad, spec->ndim, spec->shape, &fitted));
    kl_tensor_release(*grad);
    *grad = fitted;
  }
  if ((*grad)->dtype == spec->dtype) return KL_OK;
  KL_TRY(kl_to_dtype(*grad, (kl_dtype)spec->dtype, &fitted));
  kl_tensor_release(*grad);
  *grad = fitted;
  return KL_OK;
}

/* Adds the gradient (taken over) to what has come already. */
static kl_status gather(kl_task *task, uint32_t slot, kael_tensor *grad) {
  kael_tensor **grads, *sum;
  kl_status status = kl_task_grads(task, &grads);
  if (!status && grads[slot]) {
    status = kl_add(grads[slot], grad, &sum);
    kl_tensor_release(grad);
    if (status) return status;
    kl_tensor_release(grads[slot]);
    grad = sum;
  }
  if (status)
    kl_tensor_release(grad);
  else
    grads[slot] = grad;
  return status;
}

static kl_status seed(engine *e) {
  for (uint32_t i = 0; i < e->run->n_roots; i++) {
    const kl_autograd_edge *root = &e->run->roots[i];
    kael_tensor *grad = kl_tensor_retain(e->run->seeds[i]);
    kl_status status = fit(root->node, i, kl_edge_spec(root), &grad);
    if (status) {
      kl_tensor_release(grad);
      return status;
    }
    const int64_t id = kl_tasks_find(&e->tasks, root->node);
    KL_TRY(gather(&e->tasks.list.data[id], root->slot, grad));
  }
  for (uint32_t i = 0; i < e->tasks.list.count; i++)
    if (!e->tasks.list.data[i].waits && is_on_the_way(&e->tasks.list.data[i]))
      KL_TRY(kl_tasks_push_ready(&e->tasks, i));
  return KL_OK;
}

/* --- One node ----------------------------------------------------------------------------------
 */

static kl_status run_hooks(kl_task *task) {
  const kl_autograd_node *node = task->node;
  const kl_hook_entry *hooks = node->variable ? node->variable->autograd->hooks : node->hooks;
  if (!hooks && !node->retainers) return KL_OK;
  for (uint32_t slot = 0; slot < node->n_outputs; slot++) {
    if (!task->grads[slot]) continue;
    KL_TRY(kl_hooks_run(hooks, slot, &task->grads[slot]));
    KL_TRY(kl_retain_grads(node, slot, task->grads[slot]));
  }
  return KL_OK;
}

static void catch_inputs(engine *e, const kl_task *task) {
  for (uint32_t i = task->first_input; i; i = e->next_input[i - 1]) {
    kael_tensor *grad = task->grads[e->run->inputs[i - 1].slot];
    if (grad) e->run->caught[i - 1] = kl_tensor_retain(grad);
  }
}

static bool has_grads(const kl_task *task) {
  if (!task->grads) return false;
  for (uint32_t i = 0; i < task->node->n_outputs; i++)
    if (task->grads[i]) return true;
  return false;
}

/* Hands on what an edge brought (taken over; NULL counts as well). */
static kl_status hand_on(engine *e, const kl_autograd_node *node, uint32_t k, kael_tensor *grad) {
  const kl_autograd_edge *edge = &node->edges[k];
  if (!edge->node) {
    kl_tensor_release(grad);
    return KL_OK;
  }
  const uint32_t id = (uint32_t)kl_tasks_find(&e->tasks, edge->node);
  kl_task *task = &e->tasks.list.data[id];
  if (grad) {
    kl_status status = fit(node, k, kl_edge_spec(edge), &grad);
    if (status) {
      kl_tensor_release(grad);
      return status;
    }
    KL_TRY(gather(task, edge->slot, grad));
  }
  if (--task->waits == 0 && is_on_the_way(task)) return kl_tasks_push_ready(&e->tasks, id);
  return KL_OK;
}

static void want_edges(const engine *e, const kl_autograd_node *node, bool *wanted) {
  for (uint32_t k = 0; k < node->n_edges; k++) {
    wanted[k] = node->edges[k].node != NULL;
    if (!wanted[k] || !e->run->n_inputs) continue;
    const int64_t id = kl_tasks_find(&e->tasks, node->edges[k].node);
    wanted[k] = is_on_the_way(&e->tasks.list.data[id]);
  }
}

/* Applies the node and hands its gradients on. `wanted` and `out` have room for its edges. */
static kl_status apply(engine *e, kl_task *task, bool *wanted, kael_tensor **out) {
  kl_autograd_node *node = task->node;
  for (uint32_t k = 0; k < node->n_edges; k++) out[k] = NULL;
  if (has_grads(task)) {
    want_edges(e, node, wanted);
    kl_status status = kl_grad_apply(node, task->grads, wanted, out);
    kl_task_drop_grads(task); /* before they are handed on: a leaf may take what it alone has */
    if (!e->run->retain_graph) {
      kl_node_free_saved(node);
      if (node->inner) kl_node_free_saved(node->inner);
      node->released = true;
    }
    KL_TRY(status);
  }
  kl_status status = KL_OK;
  for (uint32_t k = 0; k < node->n_edges; k++) {
    if (!status)
      status = hand_on(e, node, k, out[k]);
    else
      kl_tensor_release(out[k]);
  }
  return status;
}

static kl_status run_function(engine *e, kl_task *task) {
  const uint32_t n = task->node->n_edges;
  bool few_wanted[SMALL_EDGES];
  kael_tensor *few_out[SMALL_EDGES];
  if (n <= SMALL_EDGES) return apply(e, task, few_wanted, few_out);
  bool *wanted = kl_malloc(n * sizeof *wanted);
  kael_tensor **out = kl_malloc(n * sizeof *out);
  kl_status status = wanted && out ? apply(e, task, wanted, out) : out_of_memory();
  kl_free(wanted);
  kl_free(out);
  return status;
}

static kl_status run_task(engine *e, kl_task *task) {
  if (has_grads(task)) {
    KL_TRY(run_hooks(task));
    catch_inputs(e, task);
  }
  if (!task->executes) {
    kl_task_drop_grads(task);
    return KL_OK;
  }
  if (!task->node->variable) return run_function(e, task);
  kl_status status = KL_OK;
  if (has_grads(task)) status = kl_accumulate(task->node->variable, &task->grads[0]);
  kl_task_drop_grads(task);
  return status;
}

static kl_status execute(engine *e) {
  KL_TRY(seed(e));
  while (e->tasks.heap.count)
    KL_TRY(run_task(e, &e->tasks.list.data[kl_tasks_pop_ready(&e->tasks)]));
  return KL_OK;
}

kl_status kl_engine_run(const kl_backward_run *run) {
  engine e = {.run = run};
  const bool was_disabled = kl_thread.grad_disabled;
  kl_thread.grad_disabled = !run->create_graph;
  kl_status status = prepare(&e);
  if (!status) status = execute(&e);
  kl_thread.grad_disabled = was_disabled;
  kl_tasks_finish(&e.tasks);
  kl_free(e.next_input);
  for (uint32_t i = 0; status && i < run->n_inputs; i++) {
    kl_tensor_release(run->caught[i]);
    run->caught[i] = NULL;
  }
  return status;
}
