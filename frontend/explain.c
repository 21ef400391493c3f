/* kael_explain: a tensor, its storage, and what is pending, as text. */
#include "kael/explain.h"

#include "frontend/extract.h"
#include "frontend/materialize.h"
#include "frontend/ops.h"
#include "frontend/report.h"
#include "ir/support/text.h"

enum { MAX_SHOWN_NODES = 64 };

/* What the storage's value is, read under the lock. */
typedef struct value_facts {
  int state, op;
  int64_t n_pending;
  int ir_references;
  const char *site;
} value_facts;

static void add_tensor(kl_text *text, const kael_tensor *tensor) {
  char autograd[160] = "no history, requires no grad";
  if (tensor->autograd) kl_autograd_describe(tensor, autograd, sizeof autograd);
  kl_text_add(text, "tensor: %s %s, strides %s, offset %lld, cpu\n",
              kl_dtype_torch_name((kl_dtype)tensor->dtype),
              kl_shape_text(tensor->ndim, tensor->shape),
              kl_shape_text(tensor->ndim, tensor->strides), (long long)tensor->offset);
  int held = atomic_load(&tensor->held_refs);
  kl_text_add(text, "  handles: %d, and %d references of autograd\n",
              atomic_load(&tensor->refs) - held, held);
  kl_text_add(text, "  autograd: %s\n", autograd);
}

static const char *why(const kl_storage *storage, const value_facts *facts) {
  if (kl_storage_is_shared(storage))
    return "not lazy: the bytes are SHARED with the caller, so that each read and write runs at "
           "the "
           "call";
  if (facts->state == KL_VALUE_REAL)
    return kl_jit_current() == KL_JIT_OFF ? "not lazy: the mode is eager"
                                          : "the bytes are there; operations on it are recorded";
  return facts->state == KL_VALUE_RUNNING
             ? "being computed by another thread"
             : "lazy: recorded, and computed when its bytes are needed";
}

static void add_storage(kl_text *text, const kl_storage *storage, const value_facts *facts) {
  static const char *const states[] = {"PENDING", "RUNNING", "REAL"};
  int impls = atomic_load(&storage->impl_refs);
  kl_text_add(text, "storage: %zu bytes, references: %d, version %llu, %s\n", storage->nbytes,
              impls, (unsigned long long)atomic_load(&storage->version), states[facts->state]);
  kl_text_add(text, "  other references: %d of autograd and the caller, %d of the IR\n",
              atomic_load(&storage->refs) - impls, facts->ir_references);
  if (storage->flags & KL_STORAGE_EXTERNAL)
    kl_text_add(text, "  external memory%s\n",
                storage->flags & KL_STORAGE_READONLY ? ", read-only" : "");
  kl_text_add(text, "  %s\n", why(storage, facts));
  if (facts->state != KL_VALUE_REAL)
    kl_text_add(text, "  last recorded by %s, as %s\n", facts->site ? facts->site : "?",
                kl_op_table[facts->op].text);
}

/* The pending graph; its nodes are copied under the lock and printed after it. */
static kl_status add_graph(kl_text *text, kl_value *value, int64_t n_pending) {
  if (n_pending == 0) return KL_OK;
  kl_text_add(text, "pending graph: %lld nodes\n", (long long)n_pending);
  if (n_pending > MAX_SHOWN_NODES) return KL_OK;
  kl_extraction extraction = {0};
  kl_graph graph = {0};
  KL_TRY(kl_run_lock());
  kl_graph_lock();
  kl_status status = kl_extract(&value, 1, &extraction);
  if (!status && extraction.values.count > 0) status = kl_extract_graph(&extraction, &graph);
  kl_graph_unlock();
  kl_run_unlock();
  if (!status && graph.nodes.count > 0) status = kl_graph_print(&graph, text);
  kl_graph_finish(&graph);
  kl_extraction_finish(&extraction);
  return status;
}

static kl_status find_facts(kl_value *value, value_facts *facts) {
  kl_extraction extraction = {0};
  KL_TRY(kl_run_lock());
  kl_graph_lock();
  facts->state = value->state;
  facts->op = value->op;
  facts->site = value->site;
  facts->ir_references = atomic_load(&value->refs) - 2; /* the storage's, and ours */
  kl_status status = KL_OK;
  if (value->state == KL_VALUE_PENDING) status = kl_extract(&value, 1, &extraction);
  facts->n_pending = extraction.values.count;
  kl_graph_unlock();
  kl_run_unlock();
  kl_extraction_finish(&extraction);
  return status;
}

/* Which run a value came from is not kept: this is the last one of the process, most often its own. */
static void add_last_run(kl_text *text) {
  kl_report *report = kl_report_last();
  if (!report) return;
  kl_text_add(text, "last run: %d kernels\n", kl_report_count(report));
  kl_report_print(report, text);
  kl_report_release(report);
}

static kl_status explain(const kael_tensor *tensor, kl_text *text) {
  kl_value *value = kl_storage_get_value(tensor->storage);
  value_facts facts = {0};
  kl_status status = find_facts(value, &facts);
  if (!status) {
    add_tensor(text, tensor);
    add_storage(text, tensor->storage, &facts);
    status = add_graph(text, value, facts.n_pending);
  }
  kl_value_release(value);
  if (!status && facts.state == KL_VALUE_REAL) add_last_run(text);
  return status ? status : kl_text_status(text);
}

char *kael_explain(const kael_tensor *tensor) {
  if (KL_MISSING(tensor)) return NULL;
  kl_text text = {0};
  if (explain(tensor, &text)) {
    kl_text_finish(&text);
    return NULL;
  }
  return text.data;
}
