/* Graph IR from text: the form that ir/graph_print.c writes.
 *
 * The parser checks the form; what the graph means is for kl_graph_verify. Node numbers ascend; a
 * gap between them stands for removed nodes, so that numbers stay what they were before a pass.
 * Memory and time are linear in the text. Stored errors start with line:column. */
#include <inttypes.h>
#include <string.h>

#include "ir/graph.h"
#include "ir/support/scan.h"
#include "ir/support/text.h"

enum { MAX_SLOTS = 1 << 24, FREE_GAPS = 4096, LEAST_NODE_TEXT = 8 };

typedef struct parser {
  kl_scan scan;
  kl_graph graph;
  uint32_t max_number; /* of a node: bounds the memory that gaps can ask for */
} parser;

static kl_status parse_node_number(parser *p, uint32_t *out_number) {
  return kl_scan_numbered(&p->scan, 'n', "a node", p->max_number, out_number);
}

/* 2, 3, 4 up to the token `stop`, appended to `values`. */
static kl_status parse_list(parser *p, const char *stop, int64_t *values, uint8_t *count) {
  for (bool first = true; !kl_scan_is(&p->scan, stop) && !kl_scan_is(&p->scan, "|");
       first = false) {
    if (!first) KL_TRY(kl_scan_expect(&p->scan, ","));
    if (*count == KL_MAX_RANK) return kl_scan_fail(&p->scan, "no more dims");
    KL_TRY(kl_scan_int(&p->scan, "a number", &values[*count]));
    (*count)++;
  }
  return KL_OK;
}

/* [2, 3 | 4] */
static kl_status parse_dims(parser *p, int64_t *dims, uint8_t *out_n_dims, uint8_t *out_n_reduced) {
  uint8_t n_dims = 0, n_kept;
  KL_TRY(kl_scan_expect(&p->scan, "["));
  KL_TRY(parse_list(p, "]", dims, &n_dims));
  n_kept = n_dims;
  if (kl_scan_accept(&p->scan, "|")) KL_TRY(parse_list(p, "]", dims, &n_dims));
  *out_n_dims = n_dims;
  *out_n_reduced = (uint8_t)(n_dims - n_kept);
  return kl_scan_expect(&p->scan, "]");
}

/* (o0 + 4; 3, 1); `offset_slot` is NULL where none may stand. */
static kl_status parse_map(parser *p, unsigned n_dims, uint32_t *offset_slot, int64_t *offset,
                           int64_t *strides) {
  KL_TRY(kl_scan_expect(&p->scan, "("));
  if (offset_slot && kl_scan_is_numbered(&p->scan, 'o')) {
    KL_TRY(kl_scan_numbered(&p->scan, 'o', "an offset slot", MAX_SLOTS, offset_slot));
    KL_TRY(kl_scan_expect(&p->scan, "+"));
  }
  KL_TRY(kl_scan_int(&p->scan, "an offset", offset));
  for (unsigned d = 0; d < n_dims; d++) {
    KL_TRY(kl_scan_expect(&p->scan, d ? "," : ";"));
    KL_TRY(kl_scan_int(&p->scan, "a stride", &strides[d]));
  }
  return kl_scan_expect(&p->scan, ")");
}

static kl_status parse_scalar_operand(parser *p, kl_operand *operand) {
  kl_dtype dtype;
  KL_TRY(kl_scan_numbered(&p->scan, 's', "a scalar slot", MAX_SLOTS, &operand->scalar));
  KL_TRY(kl_scan_expect(&p->scan, "."));
  KL_TRY(kl_scan_dtype(&p->scan, &dtype));
  operand->dtype = (uint8_t)dtype;
  operand->strides = NULL;
  return KL_OK;
}

static kl_status parse_operand(parser *p, const kl_node *node, int a, kl_operand *operand) {
  if (kl_scan_is_numbered(&p->scan, 's')) return parse_scalar_operand(p, operand);
  kl_scan at = p->scan;
  uint32_t number;
  KL_TRY(parse_node_number(p, &number));
  if (number + 1 >= p->graph.nodes.count) return kl_scan_fail(&at, "a node defined above");
  operand->node = (int32_t)number;
  if (a == 0 && kl_op_is_write(node->op)) {
    operand->strides = NULL;
    return KL_OK;
  }
  return parse_map(p, node->n_dims, &operand->offset_slot, &operand->offset, operand->strides);
}

/* index=5 of 10 */
static kl_status parse_index(parser *p, kl_node *node) {
  KL_TRY(kl_scan_expect(&p->scan, "index"));
  KL_TRY(kl_scan_expect(&p->scan, "="));
  KL_TRY(kl_scan_int(&p->scan, "an index stride", &node->index_stride));
  KL_TRY(kl_scan_expect(&p->scan, "of"));
  return kl_scan_int(&p->scan, "an index extent", &node->index_extent);
}

static kl_status parse_flags(parser *p, kl_node *node) {
  if (kl_scan_accept(&p->scan, "keep")) node->flags |= KL_NODE_KEEP;
  if (!kl_scan_accept(&p->scan, "home")) return KL_OK;
  uint32_t leaf;
  KL_TRY(kl_scan_expect(&p->scan, "="));
  KL_TRY(kl_scan_numbered(&p->scan, 'l', "a leaf", MAX_SLOTS, &leaf));
  node->home = (int32_t)leaf;
  return KL_OK;
}

/* All after the dims; the node is the graph's last. */
static kl_status parse_rest(parser *p, kl_node *node) {
  if (node->op == KL_OP_LEAF)
    KL_TRY(kl_scan_numbered(&p->scan, 'l', "a leaf", MAX_SLOTS, &node->attr));
  if (node->op == KL_OP_INDEX)
    KL_TRY(kl_scan_numbered(&p->scan, 'd', "a dim", KL_MAX_RANK, &node->attr));
  for (int a = 0; a < node->n_operands; a++) {
    if (a) KL_TRY(kl_scan_expect(&p->scan, ","));
    KL_TRY(parse_operand(p, node, a, &node->operands[a]));
  }
  if (kl_op_is_write(node->op)) {
    KL_TRY(kl_scan_expect(&p->scan, "into"));
    KL_TRY(parse_map(p, node->n_dims, NULL, &node->out_offset, node->out_strides));
  }
  if (node->op == KL_OP_GATHER || node->op == KL_OP_SCATTER || node->op == KL_OP_SCATTER_ADD)
    KL_TRY(parse_index(p, node));
  return parse_flags(p, node);
}

/* Elements of the node's memory; 0 where the product has no 64-bit value (the verifier rejects it).
 */
static int64_t count_elems(const kl_graph *graph, const kl_node *node) {
  if (node->op == KL_OP_LEAF)
    return node->attr < graph->leaves.count ? graph->leaves.data[node->attr].numel : 0;
  if (kl_op_is_write(node->op))
    return node->operands[0].node < 0 ? 0 : graph->nodes.data[node->operands[0].node].numel;
  int64_t numel = 1;
  for (int d = 0; d < node->n_dims - node->n_reduced; d++)
    if (__builtin_mul_overflow(numel, node->dims[d], &numel)) return 0;
  return numel;
}

static kl_status parse_op(parser *p, kl_op *out_op, kl_dtype *out_dtype) {
  if (p->scan.kind != KL_TOKEN_NAME || !kl_op_from_text(p->scan.text, p->scan.nbytes, out_op) ||
      kl_op_table[*out_op].kind == KL_KIND_KERNEL)
    return kl_scan_fail(&p->scan, "an operation of graphs");
  kl_scan_next(&p->scan);
  KL_TRY(kl_scan_expect(&p->scan, "."));
  return kl_scan_dtype(&p->scan, out_dtype);
}

/* Removed nodes up to `number`. */
static kl_status fill_gap(parser *p, uint32_t number) {
  const kl_node removed = {.op = KL_OP_LEAF, .flags = KL_NODE_DEAD, .home = -1};
  while (p->graph.nodes.count < number)
    if (!kl_vec_push(&p->graph.nodes, removed)) return kl_fail_memory("graph text", sizeof removed);
  return KL_OK;
}

static kl_status parse_node(parser *p) {
  int64_t dims[KL_MAX_RANK];
  uint8_t n_dims = 0, n_reduced = 0;
  uint32_t number;
  int32_t id;
  kl_op op;
  kl_dtype dtype;
  kl_scan at = p->scan;
  KL_TRY(parse_node_number(p, &number));
  if (number < p->graph.nodes.count)
    return kl_scan_fail(&at, "a node number above those before it");
  KL_TRY(kl_scan_expect(&p->scan, "="));
  KL_TRY(parse_op(p, &op, &dtype));
  if (op != KL_OP_LEAF || kl_scan_is(&p->scan, "["))
    KL_TRY(parse_dims(p, dims, &n_dims, &n_reduced));
  KL_TRY(fill_gap(p, number));
  KL_TRY(kl_graph_add(&p->graph, op, dtype, n_dims, n_reduced, &id));
  kl_node *node = &p->graph.nodes.data[id];
  if (n_dims) memcpy(node->dims, dims, n_dims * sizeof *dims);
  KL_TRY(parse_rest(p, node));
  node->numel = count_elems(&p->graph, node);
  return KL_OK;
}

/* leaf l0 f32 6 reusable may_alias */
static kl_status parse_leaf(parser *p) {
  kl_leaf leaf = {0};
  uint32_t number;
  kl_dtype dtype;
  KL_TRY(kl_scan_expect(&p->scan, "leaf"));
  kl_scan at = p->scan;
  KL_TRY(kl_scan_numbered(&p->scan, 'l', "a leaf", MAX_SLOTS, &number));
  if (number != p->graph.leaves.count) return kl_scan_fail(&at, "leaves numbered in order");
  KL_TRY(kl_scan_dtype(&p->scan, &dtype));
  KL_TRY(kl_scan_int(&p->scan, "a number of elements", &leaf.numel));
  leaf.dtype = (uint8_t)dtype;
  leaf.reusable = kl_scan_accept(&p->scan, "reusable");
  leaf.may_alias = kl_scan_accept(&p->scan, "may_alias");
  if (!kl_vec_push(&p->graph.leaves, leaf)) return kl_fail_memory("graph text", sizeof leaf);
  return KL_OK;
}

static kl_status parse_graph(parser *p) {
  uint64_t n_scalars, n_offsets;
  KL_TRY(kl_scan_expect(&p->scan, "graph"));
  KL_TRY(kl_scan_setting(&p->scan, "scalars", MAX_SLOTS, &n_scalars));
  KL_TRY(kl_scan_setting(&p->scan, "offsets", MAX_SLOTS, &n_offsets));
  KL_TRY(kl_scan_expect(&p->scan, "{"));
  p->graph.n_scalars = (uint32_t)n_scalars;
  p->graph.n_offsets = (uint32_t)n_offsets;
  while (kl_scan_is(&p->scan, "leaf")) KL_TRY(parse_leaf(p));
  while (!kl_scan_accept(&p->scan, "}")) KL_TRY(parse_node(p));
  return kl_scan_expect_end(&p->scan);
}

kl_status kl_graph_parse(const char *text, size_t nbytes, kl_graph *out_graph) {
  size_t most = FREE_GAPS + nbytes / LEAST_NODE_TEXT;
  parser p = {.max_number = most < INT32_MAX ? (uint32_t)most : INT32_MAX};
  kl_scan_init(&p.scan, text, nbytes);
  kl_status status = parse_graph(&p);
  if (status == KL_OK)
    *out_graph = p.graph;
  else
    kl_graph_finish(&p.graph);
  return status;
}
