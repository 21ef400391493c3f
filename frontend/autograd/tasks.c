/* Tasks: an open-addressing table over a list, and a binary heap. */
#include "frontend/autograd/tasks.h"

#include <string.h>

enum { FIRST_SLOTS = 64 };

static uint32_t hash_of(const kl_autograd_node *node, uint32_t n_slots) {
  return (uint32_t)(((uint64_t)(uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u >> 32) & (n_slots - 1);
}

/* The slot that holds the node, or the free one where it belongs. */
static uint32_t slot_of(const kl_tasks *tasks, const kl_autograd_node *node) {
  uint32_t slot = hash_of(node, tasks->n_slots);
  while (tasks->slots[slot] && tasks->list.data[tasks->slots[slot] - 1].node != node)
    slot = (slot + 1) & (tasks->n_slots - 1);
  return slot;
}

static kl_status grow(kl_tasks *tasks) {
  const uint32_t n_slots = tasks->n_slots ? tasks->n_slots * 2 : FIRST_SLOTS;
  uint32_t *slots = kl_calloc(n_slots, sizeof *slots);
  if (!slots) return kl_fail_memory("a backward pass", n_slots * sizeof *slots);
  kl_free(tasks->slots);
  tasks->slots = slots;
  tasks->n_slots = n_slots;
  for (uint32_t i = 0; i < tasks->list.count; i++)
    slots[slot_of(tasks, tasks->list.data[i].node)] = i + 1;
  return KL_OK;
}

kl_status kl_tasks_add(kl_tasks *tasks, kl_autograd_node *node, uint32_t *out_task,
                       bool *out_is_new) {
  if (tasks->list.count * 2 >= tasks->n_slots) KL_TRY(grow(tasks));
  const uint32_t slot = slot_of(tasks, node);
  *out_is_new = tasks->slots[slot] == 0;
  if (*out_is_new) {
    if (!kl_vec_push(&tasks->list, ((kl_task){.node = node})))
      return kl_fail_memory("a backward pass", sizeof(kl_task));
    tasks->slots[slot] = tasks->list.count;
  }
  *out_task = tasks->slots[slot] - 1;
  return KL_OK;
}

int64_t kl_tasks_find(const kl_tasks *tasks, const kl_autograd_node *node) {
  return tasks->n_slots ? (int64_t)tasks->slots[slot_of(tasks, node)] - 1 : KL_TASK_NONE;
}

/* --- Order -------------------------------------------------------------------------------------
 */

static bool is_later(const kl_tasks *tasks, uint32_t a, uint32_t b) {
  return tasks->list.data[a].node->sequence > tasks->list.data[b].node->sequence;
}

kl_status kl_tasks_push_ready(kl_tasks *tasks, uint32_t task) {
  if (!kl_vec_push(&tasks->heap, task)) return kl_fail_memory("a backward pass", sizeof task);
  uint32_t *heap = tasks->heap.data;
  uint32_t i = tasks->heap.count - 1;
  for (; i > 0 && is_later(tasks, task, heap[(i - 1) / 2]); i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i] = task;
  return KL_OK;
}

uint32_t kl_tasks_pop_ready(kl_tasks *tasks) {
  uint32_t *heap = tasks->heap.data;
  const uint32_t top = heap[0], count = --tasks->heap.count;
  const uint32_t moved = heap[count];
  uint32_t i = 0;
  for (uint32_t child = 1; child < count; child = 2 * i + 1) {
    if (child + 1 < count && is_later(tasks, heap[child + 1], heap[child])) child++;
    if (!is_later(tasks, heap[child], moved)) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = moved;
  return top;
}

/* --- Gradients ---------------------------------------------------------------------------------
 */

/* The list of tasks is complete, and so at rest, before the first gradient is put in. */
kl_status kl_task_grads(kl_task *task, kael_tensor ***out_grads) {
  if (!task->grads) {
    const uint32_t n = task->node->n_outputs;
    task->grads = n == 1 ? &task->single : kl_calloc(n, sizeof *task->grads);
    if (!task->grads) return kl_fail_memory("gradients", n * sizeof *task->grads);
  }
  *out_grads = task->grads;
  return KL_OK;
}

void kl_task_drop_grads(kl_task *task) {
  if (!task->grads) return;
  for (uint32_t i = 0; i < task->node->n_outputs; i++) kl_tensor_release(task->grads[i]);
  if (task->grads != &task->single) kl_free(task->grads);
  task->grads = NULL;
  task->single = NULL;
}

void kl_tasks_finish(kl_tasks *tasks) {
  for (uint32_t i = 0; i < tasks->list.count; i++) kl_task_drop_grads(&tasks->list.data[i]);
  kl_vec_finish(&tasks->list);
  kl_vec_finish(&tasks->heap);
  kl_free(tasks->slots);
}
