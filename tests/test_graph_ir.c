/* Graph IR: text in and out, the verifier's rules one by one, and running out of memory. */
#include <stdio.h>
#include <string.h>

#include "ir/graph.h"
#include "ir/support/memory.h"
#include "ir/support/text.h"
#include "tests/support/runner.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char every_form[] =
    "graph scalars=2 offsets=1 {\n"
    "  leaf l0 f32 6 reusable\n"
    "  leaf l1 i64 4 may_alias\n"
    "  leaf l2 f32 24 reusable may_alias\n"
    "  n0 = leaf.f32 l0\n"
    "  n1 = mul.f32 [2, 3] n0 (o0 + 0; 3, 1), s0.f32\n"
    "  n2 = reduce_sum.f32 [2 | 3] n1 (0; 3, 1) keep\n"
    "  n3 = write_view.f32 [2] n0, n2 (0; 1) into (1; 3) keep home=l0\n"
    "  n7 = leaf.i64 l1\n"
    "  n8 = gather.f32 [4, 3] n0 (0; 0, 1), n7 (3; -1, 0) index=3 of 2 keep\n"
    "  n9 = scatter_add.f32 [3 | 4] n1, n8 (0; 1, 3), n7 (0; 0, 1) into (0; 1, 0) index=3 of 2 "
    "keep\n"
    "  n10 = index.i64 [2, 3] d1 keep\n"
    "  n11 = leaf.f32 l2\n"
    "  n12 = matmul.f32 [2, 2, 2 | 3] n0 (0; 0, 3, 0, 1), n11 (0; 6, 0, 1, 2) keep\n"
    "  n13 = reduce_any.bool [] s1.bool keep\n"
    "  n14 = reduce_max.f32 [| 0] n0 (7; 9) keep\n"
    "}\n";

static void parse(const char *text, kl_graph *out) {
  ck_assert_msg(kl_graph_parse(text, strlen(text), out) == KL_OK, "%s\n%s", kl_error_message(),
                text);
}

START_TEST(a_printed_graph_reads_back_to_the_same_text) {
  kl_graph graph;
  kl_text out = {0};
  parse(every_form, &graph);
  ck_assert_msg(kl_graph_verify(&graph) == KL_OK, "%s", kl_error_message());
  ck_assert_int_eq(kl_graph_print(&graph, &out), KL_OK);
  ck_assert_str_eq(kl_text_string(&out), every_form);
  kl_graph_finish(&graph);
  kl_text_finish(&out);
}
END_TEST

START_TEST(the_parser_fills_every_field) {
  kl_graph graph;
  parse(every_form, &graph);
  const kl_node *nodes = graph.nodes.data;
  ck_assert_uint_eq(graph.nodes.count, 15);
  ck_assert(graph.leaves.data[2].reusable && graph.leaves.data[2].may_alias);
  ck_assert_int_eq(nodes[0].numel, 6);
  ck_assert_uint_eq(nodes[1].operands[0].offset_slot, 0);
  ck_assert_int_eq(nodes[1].operands[0].strides[0], 3);
  ck_assert_int_eq(nodes[1].operands[1].node, -1);
  ck_assert_uint_eq(nodes[1].operands[1].dtype, KL_F32);
  ck_assert_uint_eq(nodes[2].n_reduced, 1);
  ck_assert_int_eq(nodes[2].numel, 2);
  ck_assert_int_eq(nodes[3].home, 0);
  ck_assert_int_eq(nodes[3].numel, 6);
  ck_assert_int_eq(nodes[3].out_offset, 1);
  ck_assert_int_eq(nodes[3].out_strides[0], 3);
  ck_assert(nodes[4].flags & nodes[5].flags & nodes[6].flags & KL_NODE_DEAD);
  ck_assert_int_eq(nodes[8].operands[1].strides[0], -1);
  ck_assert_int_eq(nodes[8].index_stride, 3);
  ck_assert_int_eq(nodes[9].index_extent, 2);
  ck_assert_uint_eq(nodes[10].attr, 1);
  ck_assert_int_eq(nodes[12].numel, 8);
  ck_assert_int_eq(nodes[13].home, -1);
  kl_graph_finish(&graph);
}
END_TEST

START_TEST(parse_errors_say_where_and_what_was_expected) {
#define HEAD "graph scalars=1 offsets=0 {\n"
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"kernel", "1:1: expected 'graph', found 'kernel'"},
      {HEAD "leaf l1 f32 2", "2:6: expected leaves numbered in order"},
      {HEAD "n0 = store.f32", "2:6: expected an operation of graphs, found 'store'"},
      {HEAD "n0 = neg [2]", "2:10: expected '.', found '['"},
      {HEAD "n0 = neg.f32 [2] n0 (0; 1)", "2:18: expected a node defined above, found 'n0'"},
      {HEAD "n0 = neg.f32 [2] s0.f32 n0 = neg.f32", "2:25: expected a node number above"},
      {HEAD "n9999999 = neg.f32 [2] s0.f32", "2:1: expected a node (n0 to n"},
      {HEAD "n0 = neg.f32 [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] s0", "2:47: expected no more dims"},
      {HEAD "n0 = neg.f32 [9223372036854775808] s0.f32", "2:15: expected a number (a number up to"},
      {HEAD "n0 = index.i64 [2] d0 n1 = neg.i64 [2] n0 (0)", "2:45: expected ';', found ')'"},
      {HEAD "n0 = index.i64 [2] d0 n1 = neg.i64 [2] n0 (0; 1, 1)", "2:48: expected ')'"},
      {HEAD "n0 = neg.f32 [2] s0.f32 keep home=k0", "2:35: expected a leaf"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    kl_graph graph = {.n_scalars = 77};
    ck_assert_int_eq(kl_graph_parse(cases[i].text, strlen(cases[i].text), &graph), KL_ERR_VALUE);
    ck_assert_msg(strncmp(kl_error_message(), cases[i].message, strlen(cases[i].message)) == 0,
                  "'%s' instead of '%s'", kl_error_message(), cases[i].message);
    ck_assert_uint_eq(graph.n_scalars, 77);
  }
}
END_TEST

START_TEST(each_broken_rule_is_found) {
  /* n0 is the leaf l0 of 6 floats, n1 the leaf l1 of 4 i64. */
  static const struct {
    const char *body, *message;
  } cases[] = {
      {"n2 = leaf.f32 l2", "leaf does not exist"},
      {"n2 = leaf.i64 l0", "not the leaf's"},
      {"n4 = neg.f32 [1] n0 (0; 1) n5 = neg.f32 [1] n3 (0; 1)", "has been removed"},
      {"n2 = neg.f32 [2] s1.f32", "scalar slot of an operand does not exist"},
      {"n2 = neg.f32 [-1] s0.f32", "a dim is negative"},
      {"n2 = neg.f32 [3037000500, 3037000500] s0.f32", "iteration space is too large"},
      {"n2 = neg.f32 [7] n0 (0; 1)", "reads outside"},
      {"n2 = neg.f32 [6] n0 (1; 1)", "reads outside"},
      {"n2 = neg.f32 [2] n0 (0; -1)", "reads outside"},
      {"n2 = neg.f32 [] n0 (-1)", "reads outside"},
      {"n2 = neg.f32 [3, 3] n0 (0; 2, 1)", "reads outside"},
      {"n2 = neg.f32 [3] n0 (0; 9223372036854775807)", "reads outside"},
      {"n2 = neg.f32 [3] n0 (o0 + 0; 3)", "reads outside"},
      {"n2 = neg.f32 [3] n0 (o1 + 0; 1)", "run-time offset does not exist"},
      {"n2 = neg.f32 [6] n0 (0; 1) n3 = neg.f32 [2] n2 (o0 + 0; 1)", "not into a leaf"},
      {"n2 = reduce_sum.f32 [| 7] n0 (0; 1)", "reads outside"},
      {"n2 = neg.f32 [2 | 3] n0 (0; 1, 0)", "number of reduced dims"},
      {"n2 = matmul.f32 [2, 2] n0 (0; 1, 0), n0 (0; 0, 1)", "number of reduced dims"},
      {"n2 = matmul.f32 [2, 2 | 2] n0 (0; 2, 1, 1), n0 (0; 0, 1, 2)",
       "a dim that it does not have"},
      {"n2 = matmul.f32 [2, 2 | 2] n0 (0; 2, 0, 1), n0 (0; 1, 1, 2)",
       "a dim that it does not have"},
      {"n2 = matmul.f32 [2, 2 | 2] n0 (0; 2, 0, 1), s0.f32", "cannot be a scalar"},
      {"n2 = index.i64 [2] d1", "no such dim"},
      {"n2 = add.f32 [2] n0 (0; 1), n1 (0; 1)", "do not go together"},
      {"n2 = add.f32 [2] n0 (0; 1), s0.f64", "do not go together"},
      {"n2 = neg.f64 [2] n0 (0; 1)", "does not follow"},
      {"n2 = sqrt.i64 [2] n1 (0; 1)", "does not take operands"},
      {"n2 = gather.f32 [4] n0 (0; 0), n1 (0; 1) index=1 of 7", "reads outside"},
      {"n2 = gather.f32 [4] n0 (0; 0), n1 (0; 1) index=1 of 0", "reads outside"},
      {"n2 = gather.f32 [4] n0 (0; 0), n0 (0; 1) index=1 of 6", "do not go together"},
      {"n2 = write_view.f32 [2] n0, s0.f32 into (0; 6)", "writes outside"},
      {"n2 = write_view.f32 [2] n0, s0.f32 into (-1; 1)", "writes outside"},
      {"n2 = write_view.f32 [2] s0.f32, s0.f32 into (0; 1)", "cannot be a scalar"},
      {"n2 = scatter.f32 [| 4] n0, s0.f32, n1 (0; 1) into (0; 0) index=1 of 7", "writes outside"},
      {"n2 = scatter.f32 [| 4] n0, s0.f32, n1 (0; 1) into (0; 1) index=1 of 6", "ascending dim"},
      {"n2 = neg.f32 [6] n0 (0; 1) home=l0", "has a home but is not kept"},
      {"n2 = neg.f32 [6] n0 (0; 1) keep home=l2", "home does not exist"},
      {"n2 = neg.f32 [5] n0 (0; 1) keep home=l0", "home is of another size"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    char text[1024];
    kl_graph graph;
    snprintf(text, sizeof text,
             "graph scalars=1 offsets=1 { leaf l0 f32 6 leaf l1 i64 4\n"
             "n0 = leaf.f32 l0 n1 = leaf.i64 l1 %s }",
             cases[i].body);
    parse(text, &graph);
    ck_assert_msg(kl_graph_verify(&graph) == KL_ERR_INTERNAL, "accepted: %s", cases[i].body);
    ck_assert_msg(strstr(kl_error_message(), cases[i].message) != NULL,
                  "'%s' instead of '%s' for %s", kl_error_message(), cases[i].message,
                  cases[i].body);
    kl_graph_finish(&graph);
  }
}
END_TEST

START_TEST(impossible_fields_are_found) {
  for (int fault = 0; fault < 9; fault++) {
    kl_graph graph;
    kl_text out = {0};
    parse(every_form, &graph);
    kl_node *nodes = graph.nodes.data;
    switch (fault) {
      case 0:
        nodes[1].op = KL_OP_COUNT;
        break;
      case 1:
        nodes[1].dtype = KL_DTYPE_COUNT;
        break;
      case 2:
        nodes[1].n_operands = 1;
        break;
      case 3:
        nodes[1].operands[0].node = 1;
        break;
      case 4:
        nodes[1].operands[0].node = -2;
        break;
      case 5:
        nodes[1].numel = 5;
        break;
      case 6:
        nodes[3].numel = 5;
        break;
      case 7:
        nodes[1].op = KL_OP_STORE;
        break;
      case 8:
        graph.leaves.data[0].numel = -1;
        break;
    }
    ck_assert_msg(kl_graph_verify(&graph) == KL_ERR_INTERNAL, "fault %d was accepted", fault);
    ck_assert_int_eq(kl_graph_print(&graph, &out), KL_OK);
    kl_text_finish(&out);
    kl_graph_finish(&graph);
  }
}
END_TEST

static kl_status round_trip(const char *text) {
  kl_graph graph;
  kl_text out = {0};
  KL_TRY(kl_graph_parse(text, strlen(text), &graph));
  kl_status status = kl_graph_verify(&graph);
  if (status == KL_OK) status = kl_graph_print(&graph, &out);
  kl_text_finish(&out);
  kl_graph_finish(&graph);
  return status;
}

START_TEST(every_failed_allocation_is_a_status) {
  long nth = 1;
  for (kl_status status = KL_ERR_OUT_OF_MEMORY; status != KL_OK; nth++) {
    kl_memory_fail_nth(nth);
    status = round_trip(every_form);
    kl_memory_fail_nth(0);
    if (status != KL_OK) ck_assert_int_eq(status, KL_ERR_OUT_OF_MEMORY);
  }
  ck_assert_int_gt(nth, 5);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("graph_ir");
  TCase *cases = tcase_create("graph_ir");
  tcase_add_test(cases, a_printed_graph_reads_back_to_the_same_text);
  tcase_add_test(cases, the_parser_fills_every_field);
  tcase_add_test(cases, parse_errors_say_where_and_what_was_expected);
  tcase_add_test(cases, each_broken_rule_is_found);
  tcase_add_test(cases, impossible_fields_are_found);
  tcase_add_test(cases, every_failed_allocation_is_a_status);
  suite_add_tcase(suite, cases);
  return kl_test_run(suite);
}
