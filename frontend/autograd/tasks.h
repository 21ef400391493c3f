/* The nodes that one backward pass meets: found by address, taken out in order of sequence. */
#ifndef KL_FRONTEND_AUTOGRAD_TASKS_H
#define KL_FRONTEND_AUTOGRAD_TASKS_H

#include "frontend/autograd/node.h"
#include "ir/support/vec.h"

typedef struct kl_task {
  kl_autograd_node *node; /* borrowed: the roots keep the graph alive */
  kael_tensor **grads;    /* one for each output, owned; NULL until the first comes */
  kael_tensor *single;    /* what `grads` points to where there is one output */
  uint32_t waits;         /* edges over which something may still come */
  uint32_t first_input;   /* caught here: number + 1 of the first input of the pass; 0: none */
  bool executes;          /* its gradients are needed further on */
} kl_task;

typedef struct kl_tasks {
  KL_VEC(kl_task) list;
  KL_VEC(uint32_t) heap; /* ready tasks, the latest node on top */
  uint32_t *slots;       /* hash table: task number + 1 */
  uint32_t n_slots;
} kl_tasks;

enum { KL_TASK_NONE = -1 };

/* The node's task, made where there is none. */
kl_status kl_tasks_add(kl_tasks *tasks, kl_autograd_node *node, uint32_t *out_task,
                       bool *out_is_new) KL_MUST_CHECK;
/* KL_TASK_NONE where the pass does not meet the node. */
int64_t kl_tasks_find(const kl_tasks *tasks, const kl_autograd_node *node);
kl_status kl_tasks_push_ready(kl_tasks *tasks, uint32_t task) KL_MUST_CHECK;
uint32_t kl_tasks_pop_ready(kl_tasks *tasks);
/* Where the gradients of the task's node are gathered. */
kl_status kl_task_grads(kl_task *task, kael_tensor ***out_grads) KL_MUST_CHECK;
void kl_task_drop_grads(kl_task *task);
void kl_tasks_finish(kl_tasks *tasks);

#endif
