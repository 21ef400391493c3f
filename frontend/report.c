/* Reports are lists of lines; names are collected in the order of recording, repetitions counted. */
#include "frontend/report.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ir/support/fork.h"
#include "ir/support/log.h"
#include "ir/support/memory.h"
#include "ir/support/text.h"

enum { MOST_NAMES = 24 /* of primitives, and of operations, in a line */ };

typedef struct report_launch {
  size_t text_at;
  int64_t n_operations; /* arithmetic ones, of the whole launch */
  int64_t bytes_read, bytes_written;
} report_launch;

struct kl_report {
  atomic_int refs;
  kl_text text; /* the lines, each with its NUL */
  KL_VEC(report_launch) launches;
};

/* --- making ------------------------------------------------------------------------------------ */

/* Names in a row: equal neighbours are counted, those past the limit left out. */
typedef struct name_list {
  kl_text *text;
  const char *name; /* the last, not yet written */
  uint32_t n_times, n_written, n_left_out;
} name_list;

static void write_name(name_list *list) {
  if (!list->name) return;
  if (list->n_written == MOST_NAMES) {
    list->n_left_out += list->n_times;
    return;
  }
  kl_text_add(list->text, list->n_written++ > 0 ? " %s" : "%s", list->name);
  if (list->n_times > 1) kl_text_add(list->text, " x%u", list->n_times);
}

static void add_name(name_list *list, const char *name) {
  if (list->name && strcmp(list->name, name) == 0) {
    list->n_times++;
    return;
  }
  write_name(list);
  list->name = name;
  list->n_times = 1;
}

static void end_names(name_list *list) {
  write_name(list);
  if (list->n_left_out > 0) kl_text_add(list->text, " and %u more", list->n_left_out);
}

typedef KL_VEC(int32_t) node_list;

static int compare_nodes(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* The nodes of a launch in the order in which they were recorded, operands first. */
static kl_status list_nodes(const kl_launch *launch, node_list *nodes) {
  nodes->count = 0;
  if (launch->nodes.count == 0) return KL_OK;
  if (!kl_vec_reserve(nodes, launch->nodes.count))
    return kl_fail_memory("report", sizeof(int32_t) * launch->nodes.count);
  nodes->count = launch->nodes.count;
  memcpy(nodes->data, launch->nodes.data, sizeof(int32_t) * nodes->count);
  qsort(nodes->data, nodes->count, sizeof(int32_t), compare_nodes);
  return KL_OK;
}

static void add_primitives(kl_text *text, const kl_graph *graph, const node_list *nodes) {
  name_list list = {.text = text};
  for (uint32_t i = 0; i < nodes->count; i++)
    add_name(&list, kl_op_table[graph->nodes.data[nodes->data[i]].op].text);
  end_names(&list);
}

/* The public operation that recorded a node; NULL for what a pass has made. */
static const char *site_of(const kl_extraction *extraction, int32_t node) {
  uint32_t at = (uint32_t)node - extraction->leaves.count;
  return at < extraction->values.count ? extraction->values.data[at].value->site : NULL;
}

static void add_operations(kl_text *text, const kl_extraction *extraction, const node_list *nodes) {
  name_list list = {.text = text};
  kl_text_add(text, " (");
  for (uint32_t i = 0; i < nodes->count; i++) {
    const char *site = site_of(extraction, nodes->data[i]);
    if (site && (!list.name || strcmp(list.name, site) != 0)) add_name(&list, site);
  }
  end_names(&list);
  kl_text_add(text, ")");
}

static void add_space(kl_text *text, const kl_launch *launch, const kl_kernel *kernel) {
  const kl_section *section = &kernel->sections.data[0];
  kl_text_add(text, "[");
  for (int d = 0; d < section->n_dims; d++) {
    const char *before = d == 0 ? "" : d == section->n_rows ? " | " : ", ";
    kl_text_add(text, "%s%lld", before, (long long)launch->ints.data[section->extents_at + (uint32_t)d]);
  }
  kl_text_add(text, "]");
}

static void add_line(kl_text *text, const kl_extraction *extraction, const kl_graph *graph,
                     const kl_program *program, const kl_launch *launch, const node_list *nodes) {
  if (launch->kind == KL_LAUNCH_COPY) {
    kl_text_add(text, "copy of %lld bytes", (long long)launch->bytes_written);
    return;
  }
  const kl_node *last = &graph->nodes.data[nodes->data[nodes->count - 1]];
  if (launch->kind == KL_LAUNCH_MATMUL) {
    kl_text_add(text, "matmul %s [", kl_dtype_name((kl_dtype)last->dtype));
    for (int d = 0; d < last->n_dims; d++)
      kl_text_add(text, d == 0 ? "%lld" : d == last->n_dims - 1 ? " | %lld" : ", %lld",
                  (long long)last->dims[d]);
    kl_text_add(text, "]");
  } else {
    kl_text_add(text, "kernel %s ", kl_dtype_name((kl_dtype)last->dtype));
    add_space(text, launch, &program->kernels.data[launch->kernel]);
    kl_text_add(text, ": ");
    add_primitives(text, graph, nodes);
  }
  add_operations(text, extraction, nodes);
}

static int64_t count_operations(const kl_graph *graph, const kl_launch *launch) {
  int64_t total = 0;
  for (uint32_t i = 0; i < launch->nodes.count; i++) {
    const kl_node *node = &graph->nodes.data[launch->nodes.data[i]];
    if (node->op == KL_OP_COPY || node->op == KL_OP_GATHER || node->op == KL_OP_WRITE_VIEW) continue;
    int64_t n = node->op == KL_OP_MATMUL ? 2 : 1;
    for (int d = 0; d < node->n_dims; d++) n *= node->dims[d];
    total += n;
  }
  return total;
}

kl_status kl_report_create(const kl_extraction *extraction, const kl_graph *graph,
                           const kl_program *program, kl_report **out_report) {
  kl_report *report = kl_calloc(1, sizeof *report);
  if (!report) return kl_fail_memory("report", sizeof *report);
  report->refs = 1;
  node_list nodes = {0};
  kl_status status = KL_OK;
  for (uint32_t l = 0; l < program->launches.count; l++) {
    const kl_launch *launch = &program->launches.data[l];
    report_launch entry = {report->text.nbytes, count_operations(graph, launch), launch->bytes_read,
                           launch->bytes_written};
    if (!kl_vec_push(&report->launches, entry)) status = kl_fail_memory("report", sizeof entry);
    if (!status) status = list_nodes(launch, &nodes);
    if (status) break;
    add_line(&report->text, extraction, graph, program, launch, &nodes);
    kl_text_bytes(&report->text, "", 1);
  }
  kl_vec_finish(&nodes);
  if (!status) status = kl_text_status(&report->text);
  if (status)
    kl_report_release(report);
  else
    *out_report = report;
  return status;
}

kl_report *kl_report_retain(kl_report *report) {
  atomic_fetch_add(&report->refs, 1);
  return report;
}

void kl_report_release(kl_report *report) {
  if (!report || atomic_fetch_sub(&report->refs, 1) != 1) return;
  kl_text_finish(&report->text);
  kl_vec_finish(&report->launches);
  kl_free(report);
}

/* --- showing ----------------------------------------------------------------------------------- */

int kl_report_count(const kl_report *report) { return (int)report->launches.count; }

const char *kl_report_line(const kl_report *report, int launch) {
  return report->text.data + report->launches.data[launch].text_at;
}

void kl_report_print(const kl_report *report, kl_text *out) {
  for (int l = 0; l < kl_report_count(report); l++) {
    const report_launch *launch = &report->launches.data[l];
    kl_text_add(out, "  %s, reads %lld bytes, writes %lld\n", kl_report_line(report, l),
                (long long)launch->bytes_read, (long long)launch->bytes_written);
  }
}

void kl_report_log(const kl_report *report, const int64_t *launch_ns) {
  for (int l = 0; l < kl_report_count(report); l++) {
    const report_launch *launch = &report->launches.data[l];
    double ns = launch_ns[l] > 0 ? (double)launch_ns[l] : 1;
    kl_log_message(2, "  %s: %.1f us, %.2f GB/s, %.2f GFLOP/s", kl_report_line(report, l), ns / 1e3,
                   (double)(launch->bytes_read + launch->bytes_written) / ns,
                   (double)launch->n_operations / ns);
  }
}

/* --- the last run ------------------------------------------------------------------------------ */

static pthread_mutex_t last_mutex = PTHREAD_MUTEX_INITIALIZER;
static kl_report *last_report; /* guarded by last_mutex */

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_REPORT, &last_mutex, NULL);
}

void kl_report_set_last(kl_report *report) {
  pthread_mutex_lock(&last_mutex);
  kl_report *old = last_report;
  if (old != report) last_report = kl_report_retain(report);
  pthread_mutex_unlock(&last_mutex);
  if (old != report) kl_report_release(old);
}

kl_report *kl_report_last(void) {
  pthread_mutex_lock(&last_mutex);
  kl_report *report = last_report ? kl_report_retain(last_report) : NULL;
  pthread_mutex_unlock(&last_mutex);
  return report;
}
