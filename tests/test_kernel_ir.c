/* Kernel IR: text in and out, the verifier's rules one by one, keys, and running out of memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/kernel.h"
#include "ir/support/memory.h"
#include "ir/support/text.h"
#include "tests/support/runner.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char softmax[] =
    "kernel ints=11 scalars=0 {\n"
    "  buf b0 f32 read noalias\n"
    "  buf b1 f32 write noalias\n"
    "  buf b2 f32 scratch\n"
    "  section rows=1 dims=2 extents=i0 vector=cols {\n"
    "    cols {\n"
    "      v0 = load.f32 b0 [i2; any, one]\n"
    "      v1 = reduce_max.f32 v0\n"
    "    }\n"
    "    cols {\n"
    "      v2 = load.f32 b0 [i2; any, one]\n"
    "      v3 = sub.f32 v2, v1\n"
    "      v4 = exp.f32 v3\n"
    "      store.f32 b2 [i5; zero, one], v4\n"
    "      v6 = reduce_sum.f32 v4\n"
    "    }\n"
    "    row {\n"
    "      v7 = reciprocal.f32 v6\n"
    "    }\n"
    "    cols {\n"
    "      v8 = load.f32 b2 [i5; zero, one]\n"
    "      v9 = mul.f32 v8, v7\n"
    "      store.f32 b1 [i8; any, one], v9\n"
    "    }\n"
    "    phase rows\n"
    "  }\n"
    "}\n";

/* A mean over few long rows: columns shared among workers, partials combined. */
static const char split_mean[] =
    "kernel ints=8 scalars=1 {\n"
    "  buf b0 f32 read noalias\n"
    "  buf b1 f32 write\n"
    "  section rows=1 dims=2 extents=i0 vector=cols {\n"
    "    row {\n"
    "      v0 = scalar.f32 s0\n"
    "    }\n"
    "    cols {\n"
    "      v1 = load.f32 b0 [i2; any, one]\n"
    "      v2 = mul.f32 v1, v0\n"
    "      v3 = reduce_sum.f32 v2\n"
    "    }\n"
    "    row {\n"
    "      store.f32 b1 [i5; one, zero], v3\n"
    "    }\n"
    "    phase cols 1..2\n"
    "    phase combine 2..3\n"
    "  }\n"
    "}\n";

/* x += s, many times over with a scalar of its own each, and a second section that scatters. */
static const char repeat_and_scatter[] =
    "kernel ints=16 scalars=9 {\n"
    "  buf b0 f32 read write noalias\n"
    "  buf b1 i64 read noalias\n"
    "  buf b2 f16 read write\n"
    "  section rows=0 dims=1 extents=i0 vector=cols {\n"
    "    cols {\n"
    "      v0 = load.f32 b0 [i2; one]\n"
    "      repeat i1 carries 1 {\n"
    "        v2 = carry.f32 v0\n"
    "        v3 = scalar.f32 s0 step 2\n"
    "        v4 = add.f32 v2, v3\n"
    "        next.f32 v2, v4\n"
    "      }\n"
    "      store.f32 b0 [i2; one], v2\n"
    "    }\n"
    "    phase cols\n"
    "  }\n"
    "  section rows=1 dims=2 extents=i4 vector=cols {\n"
    "    seq {\n"
    "      v0 = load.i64 b1 [i6; zero, any]\n"
    "      v1 = index.i64 d1\n"
    "      v2 = int.i64 i7\n"
    "      v3 = add.i64 v1, v2\n"
    "      v4 = lt.bool v3, v0\n"
    "      v5 = cast.f32 v3\n"
    "      v6 = scalar.f32 s8\n"
    "      v7 = select.f32 v4, v5, v6\n"
    "      store_add.f32 b0 [i9; one, zero] at v0, v7\n"
    "      v9 = load.f16 b2 [i12; any, any] at v3\n"
    "      store.f16 b2 [i12; any, any] at v3, v9\n"
    "    }\n"
    "    phase rows\n"
    "  }\n"
    "}\n";

static const char *const texts[] = {softmax, split_mean, repeat_and_scatter,
                                    "kernel ints=0 scalars=0 {\n}\n"};

static void parse(const char *text, kl_kernel *out) {
  ck_assert_msg(kl_kernel_parse(text, strlen(text), out) == KL_OK, "%s\n%s", kl_error_message(),
                text);
}

START_TEST(a_printed_kernel_reads_back_to_the_same_text) {
  for (size_t i = 0; i < COUNT(texts); i++) {
    kl_kernel kernel;
    kl_text out = {0};
    parse(texts[i], &kernel);
    ck_assert_int_eq(kl_kernel_print(&kernel, &out), KL_OK);
    ck_assert_str_eq(kl_text_string(&out), texts[i]);
    kl_kernel_finish(&kernel);
    kl_text_finish(&out);
  }
}
END_TEST

START_TEST(correct_kernels_are_accepted) {
  for (size_t i = 0; i < COUNT(texts); i++) {
    kl_kernel kernel;
    parse(texts[i], &kernel);
    ck_assert_msg(kl_kernel_verify(&kernel) == KL_OK, "%s", kl_error_message());
    kl_kernel_finish(&kernel);
  }
}
END_TEST

START_TEST(the_parser_fills_every_field) {
  kl_kernel kernel;
  parse(repeat_and_scatter, &kernel);
  ck_assert_uint_eq(kernel.n_ints, 16);
  ck_assert_uint_eq(kernel.n_scalars, 9);
  ck_assert_uint_eq(kernel.bufs.count, 3);
  ck_assert(kernel.bufs.data[0].read && kernel.bufs.data[0].written && kernel.bufs.data[0].noalias);
  ck_assert(!kernel.bufs.data[2].noalias);
  const kl_section *first = &kernel.sections.data[0], *second = &kernel.sections.data[1];
  ck_assert_uint_eq(first->instrs.count, 8);
  ck_assert_uint_eq(first->instrs.data[1].op, KL_OP_REPEAT);
  ck_assert_uint_eq(first->instrs.data[1].attr, 1);
  ck_assert_uint_eq(first->instrs.data[1].arg[1], 1);
  ck_assert_uint_eq(first->instrs.data[3].arg[0], 2);
  ck_assert_uint_eq(first->instrs.data[5].attr, 2);
  ck_assert_uint_eq(first->instrs.data[6].op, KL_OP_END);
  ck_assert_uint_eq(first->phases.data[0].end_loop, 1);
  const kl_instr *store = &second->instrs.data[8];
  ck_assert_uint_eq(store->op, KL_OP_STORE_ADD);
  ck_assert_uint_eq(store->arg[0], 7);
  ck_assert_uint_eq(store->arg[1], 0);
  ck_assert(second->accesses.data[store->attr].dynamic);
  ck_assert_uint_eq(second->accesses.data[store->attr].ints_at, 9);
  ck_assert_uint_eq(second->accesses.data[store->attr].stride[0], KL_STRIDE_ONE);
  ck_assert_uint_eq(second->loops.data[0].kind, KL_LOOP_SEQ);
  kl_kernel_finish(&kernel);
}
END_TEST

START_TEST(value_numbers_may_have_gaps_and_are_given_anew) {
  static const char text[] =
      "kernel ints=3 scalars=0 { buf b0 f32 read write // in place\n"
      "section rows=0 dims=1 extents=i0 vector=cols { cols {\n"
      "v7=load.f32 b0[i1;one] v100=neg . f32 v7 store.f32 b0[i1;one],v100 } } }";
  kl_kernel kernel;
  kl_text out = {0};
  parse(text, &kernel);
  ck_assert_int_eq(kl_kernel_verify(&kernel), KL_OK);
  ck_assert_int_eq(kl_kernel_print(&kernel, &out), KL_OK);
  ck_assert_ptr_nonnull(strstr(out.data, "v1 = neg.f32 v0\n      store.f32 b0 [i1; one], v1\n"));
  kl_kernel_finish(&kernel);
  kl_text_finish(&out);
}
END_TEST

START_TEST(parse_errors_say_where_and_what_was_expected) {
#define HEAD "kernel ints=9 scalars=1 {\n  buf b0 f32 read\n"
#define SECTION HEAD "  section rows=1 dims=2 extents=i0 vector=cols {\n"
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "1:1: expected 'kernel', found the end of the text"},
      {"kernel\n  ints=x", "2:8: expected ints (a number up to 16777216), found 'x'"},
      {"kernel ints=99999999999999999999999 scalars=0 {}", "1:13: expected ints"},
      {"kernel ints=0 scalars=0 {} 7", "1:28: expected the end of the text, found '7'"},
      {"kernel ints=0 scalars=0 {\n  buf b1 f32",
       "2:7: expected buffers numbered in order, found 'b1'"},
      {"kernel ints=0 scalars=0 { buf b0 f31 }", "1:34: expected a dtype, found 'f31'"},
      {"kernel ints=0 scalars=0 { \001 }", "1:27: expected '}', found '?'"},
      {HEAD "section rows=17 dims=2", "3:14: expected rows (a number up to 16)"},
      {HEAD "section rows=1 dims=2 extents=i0 vector=diag", "3:41: expected 'cols', found 'diag'"},
      {SECTION "cols { add.f32", "4:8: expected 'vN =' before it, found 'add'"},
      {SECTION "cols { v0 = store.f32", "4:13: expected an operation that has a value"},
      {SECTION "cols { v0 = leaf.f32", "4:13: expected an operation of kernels, found 'leaf'"},
      {SECTION "cols { v0 = end.f32", "4:13: expected an operation of kernels"},
      {SECTION "cols { v0 = neg.f32 v0", "4:21: expected a value defined above in this section"},
      {SECTION "cols { v1 = int.i64 i0 v1 = int.i64 i0", "4:24: expected a value number above"},
      {SECTION "cols { v0 = load.f32 b0 [i0; one]", "4:33: expected ',', found ']'"},
      {SECTION "cols { v0 = load.f32 b0 [i0; one, two]", "4:35: expected a stride class"},
      {SECTION "cols { v0 = load.f32 b0 [i0; one, one, one]", "4:38: expected ']', found ','"},
      {SECTION "cols { repeat i0 carries 0 { repeat", "4:30: expected an operation of kernels"},
      {SECTION "phase diag", "4:7: expected a kind of phase"},
      {SECTION "phase rows 0..1", "4:15: expected the loop after the last (a number up to 0)"},
      {SECTION "cols { } } ", "4:12: expected '}', found the end of the text"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    kl_kernel kernel = {.n_ints = 77};
    ck_assert_int_eq(kl_kernel_parse(cases[i].text, strlen(cases[i].text), &kernel), KL_ERR_VALUE);
    ck_assert_msg(strncmp(kl_error_message(), cases[i].message, strlen(cases[i].message)) == 0,
                  "'%s' instead of '%s'", kl_error_message(), cases[i].message);
    ck_assert_uint_eq(kernel.n_ints, 77);
  }
}
END_TEST

/* A kernel around the loops and phases under test. */
static void wrap(const char *body, char *out, size_t capacity) {
  snprintf(out, capacity,
           "kernel ints=9 scalars=2 {\n"
           "buf b0 f32 read write noalias buf b1 f32 write noalias buf b2 f32 scratch\n"
           "buf b3 f32 read noalias buf b4 f16 read write buf b5 i64 read\n"
           "section rows=1 dims=2 extents=i0 vector=cols {\n%s\n} }",
           body);
}

#define LOAD(v, buf) v " = load.f32 " buf " [i2; any, one]\n"

START_TEST(each_broken_rule_is_found) {
  static const struct {
    const char *body, *message;
  } cases[] = {
      {"cols { v0 = load.f32 b7 [i2; any, one] }", "its buffer does not exist"},
      {"cols { v0 = load.f32 b1 [i2; any, one] }", "not declared as read"},
      {"cols {" LOAD("v0", "b0") "store.f32 b3 [i2; any, one], v0 }", "not declared as written"},
      {"cols {" LOAD("v0", "b0") "store_add.f32 b1 [i2; any, one], v0 }", "not declared as read"},
      {"cols { v0 = load.f32 b0 [i7; any, one] }", "int slots past the last"},
      {"cols { v0 = load.f64 b0 [i2; any, one] }", "dtype is not the buffer's"},
      {"cols {" LOAD("v0", "b0") "v1 = load.f32 b0 [i2; any, one] at v0 }", "dtype of an operand"},
      {"row { v0 = load.f32 b0 [i2; any, one] }", "stride in a column dim"},
      {"cols {" LOAD("v0", "b2") "}", "stride in a row dim"},
      {"cols { v0 = load.f32 b2 [i2; zero, one] }", "nothing above has written"},
      {"cols { v0 = index.i64 d2 }", "no such dim"},
      {"row { v0 = index.i64 d1 }", "no such dim"},
      {"row { v0 = int.i64 i9 }", "int slot does not exist"},
      {"row { v0 = scalar.f32 s2 }", "scalar slot does not exist"},
      {"row { v0 = scalar.f32 s0 step 1 }", "step stands outside a repeat"},
      /* dtypes */
      {"cols {" LOAD("v0", "b0") "v1 = add.f64 v0, v0 }", "result does not follow"},
      {"cols {" LOAD("v0", "b0") "v1 = lt.f32 v0, v0 }", "result does not follow"},
      {"cols {" LOAD("v0", "b0") "v1 = not.f32 v0 }", "does not take operands of this dtype"},
      {"cols {" LOAD("v0", "b0") "v1 = index.i64 d0 v2 = add.f32 v0, v1 }", "do not go together"},
      {"cols {" LOAD("v0", "b0") "v1 = select.f32 v0, v0, v0 }", "does not take operands"},
      {"cols {" LOAD("v0", "b0") "v1 = bitcast.f64 v0 }", "sizes of its dtypes differ"},
      {"row { v0 = scalar.u8 s0 v1 = bitcast.bool v0 }", "neither 0 nor 1"},
      {"row { v0 = scalar.i32 s0 v1 = int.i64 i0 v2 = shl.i32 v0, v1 }", "do not go together"},
      {"cols { v0 = load.f16 b4 [i2; any, one] v1 = add.f16 v0, v0 }", "does not take operands"},
      {"cols { v0 = load.f16 b4 [i2; any, one] v1 = reduce_max.f16 v0 }", "does not take operands"},
      {"cols { v0 = load.f16 b4 [i2; any, one] store_add.f16 b4 [i2; any, one], v0 }",
       "does not take operands"},
      {"cols { v0 = scalar.i32 s0 v1 = random.i32 v0, v0, v0 }", "must be i64"},
      {"cols { v0 = index.i64 d1 v1 = reduce_argmax.i32 v0 }", "result does not follow"},
      {"cols { v0 = index.i64 d1 v1 = lt.bool v0, v0 v2 = reduce_sum.bool v1 }", "does not take"},
      /* what sees what */
      {"cols {" LOAD("v0", "b0") "} cols { v1 = neg.f32 v0 }", "another column loop"},
      {"cols {" LOAD("v0", "b0") "} row { v1 = neg.f32 v0 }", "another column loop"},
      {"cols {" LOAD("v0", "b0") "v1 = reduce_sum.f32 v0 v2 = neg.f32 v1 }", "not yet complete"},
      {"row { v0 = scalar.f32 s0 v1 = reduce_sum.f32 v0 }", "outside a column loop"},
      {"seq { v0 = scalar.f32 s0 v1 = reduce_sum.f32 v0 }", "outside a column loop"},
      /* repeats */
      {"row { v0 = scalar.f32 s0 v1 = carry.f32 v0 }", "outside the head of a repeat"},
      {"row { v0 = scalar.f32 s0 repeat i0 carries 1 { } }", "not as many as it says"},
      {"row { v0 = scalar.f32 s0 repeat i0 carries 1 { v1 = carry.f32 v0 } }", "not as many"},
      {"row { v0 = scalar.f32 s0 repeat i0 carries 0 { v1 = carry.f32 v0 } }", "outside the head"},
      {"row { v0 = scalar.f32 s0 repeat i9 carries 0 { } }", "int slot does not exist"},
      {"row { v0 = scalar.f32 s0 next.f32 v0, v0 }", "outside a repeat"},
      {"row { v0 = scalar.f32 s0 repeat i0 carries 1 { v1 = carry.f32 v0 next.f32 v0, v1 } }",
       "whose turn it is"},
      {"row { v0 = scalar.f32 s0 v1 = scalar.f64 s1 repeat i0 carries 1 { v2 = carry.f32 v0\n"
       "next.f64 v2, v1 } }",
       "not the carry's"},
      {"row { v0 = scalar.f32 s0 repeat i0 carries 1 { v1 = carry.f32 v0 next.f32 v1, v1\n"
       "v2 = neg.f32 v1 } }",
       "after the first next"},
      {"row { repeat i0 carries 0 { v0 = scalar.f32 s0 } v1 = neg.f32 v0 }", "repeat that is over"},
      {"cols {" LOAD("v0", "b0") "repeat i0 carries 0 { store.f32 b1 [i2; any, one], v0 } }",
       "a repeat cannot store"},
      {"cols {" LOAD("v0", "b0") "repeat i0 carries 0 { v1 = reduce_sum.f32 v0 } }",
       "a repeat cannot reduce"},
      /* phases */
      {"cols { } row { } phase rows 0..1", "does not cover all loops"},
      {"cols { } phase rows phase rows", "not the only phase"},
      {"cols { } cols { } phase cols 0..2", "not one column loop"},
      {"seq { } phase cols 0..1", "not one column loop"},
      {"cols { } cols { } phase cols 1..2 phase cols 0..1", "not take the loops in order"},
      {"cols { } cols { } phase cols 0..1", "not take the loops in order"},
      {"row { } phase combine 0..1", "does not follow a cols phase"},
      {"cols { } cols { } phase cols 0..1 phase combine 1..2", "no row loop"},
      {"cols {" LOAD("v0", "b0") "v1 = reduce_sum.f32 v0 } phase cols", "no combine phase follows"},
      {"row { v0 = scalar.f32 s0 store.f32 b1 [i2; any, zero], v0 } cols { } phase cols 1..2",
       "row loop that stores is in no phase"},
      {"cols {" LOAD("v0", "b0") "store.f32 b2 [i2; zero, one], v0 } phase cols",
       "scratch needs a rows phase"},
      {"row { v0 = load.f32 b0 [i2; any, zero] } cols { store.f32 b0 [i2; any, one], v0 }\n"
       "phase cols 1..2",
       "a later phase loads it again"},
      {"cols {" LOAD(
           "v0", "b3") "v1 = reduce_sum.f32 v0 }\n"
                       "row { v2 = load.f32 b0 [i2; any, zero] store.f32 b0 [i2; any, zero], v1 }\n"
                       "cols { store.f32 b1 [i2; any, one], v2 }\n"
                       "phase cols 0..1 phase combine 1..2 phase cols 2..3",
       "a later phase loads it again"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    char text[2048];
    kl_kernel kernel;
    wrap(cases[i].body, text, sizeof text);
    parse(text, &kernel);
    ck_assert_msg(kl_kernel_verify(&kernel) == KL_ERR_INTERNAL, "accepted: %s", cases[i].body);
    ck_assert_msg(strstr(kl_error_message(), cases[i].message) != NULL,
                  "'%s' instead of '%s' for %s", kl_error_message(), cases[i].message,
                  cases[i].body);
    kl_kernel_finish(&kernel);
  }
}
END_TEST

START_TEST(row_values_may_be_stored_over_once_no_phase_needs_them) {
  static const char *const bodies[] = {
      /* updated in place, in the phase that read it */
      "cols {" LOAD("v0", "b3") "v1 = reduce_sum.f32 v0 }\n"
      "row { v2 = load.f32 b0 [i2; any, zero] v3 = add.f32 v1, v2 store.f32 b0 [i2; any, "
      "zero], v3 }\n"
      "phase cols 0..1 phase combine 1..2",
      /* the store comes after the last use */
      "row { v0 = load.f32 b0 [i2; any, zero] }\n"
      "cols { store.f32 b1 [i2; any, one], v0 } cols { v2 = load.f32 b3 [i2; any, one]\n"
      "store.f32 b0 [i2; any, one], v2 } phase cols 1..2 phase cols 2..3",
      /* a rows phase computes nothing again */
      ("row { v0 = load.f32 b0 [i2; any, zero] } cols { store.f32 b0 [i2; any, one], v0 } "
       "phase rows")};
  for (size_t i = 0; i < COUNT(bodies); i++) {
    char text[2048];
    kl_kernel kernel;
    wrap(bodies[i], text, sizeof text);
    parse(text, &kernel);
    ck_assert_msg(kl_kernel_verify(&kernel) == KL_OK, "%s", kl_error_message());
    kl_kernel_finish(&kernel);
  }
}
END_TEST

/* Faults that the text form cannot express are put into a correct kernel. */
START_TEST(impossible_fields_are_found) {
  for (int fault = 0; fault < 11; fault++) {
    kl_kernel kernel;
    parse(softmax, &kernel);
    kl_section *section = &kernel.sections.data[0];
    switch (fault) {
      case 0:
        section->instrs.data[0].op = KL_OP_COUNT;
        break;
      case 1:
        section->instrs.data[3].dtype = KL_DTYPE_COUNT;
        break;
      case 2:
        section->instrs.data[3].arg[0] = KL_NO_VALUE;
        break;
      case 3:
        section->instrs.data[7].arg[1] = 6;
        break;
      case 4:
        section->loops.data[1].first = 1;
        break;
      case 5:
        section->loops.data[3].end = 10;
        break;
      case 6:
        section->n_reduces = 3;
        break;
      case 7:
        section->n_dims = 17;
        break;
      case 8:
        section->accesses.data[0].stride[1] = 3;
        break;
      case 9:
        kernel.bufs.data[0].dtype = KL_DTYPE_COUNT;
        break;
      case 10:
        section->accesses.data[0].dynamic = true;
        break;
    }
    ck_assert_msg(kl_kernel_verify(&kernel) == KL_ERR_INTERNAL, "fault %d was accepted", fault);
    kl_text out = {0};
    ck_assert_int_eq(kl_kernel_print(&kernel, &out), KL_OK); /* for debugging, whatever is wrong */
    kl_text_finish(&out);
    kl_kernel_finish(&kernel);
  }
}
END_TEST

static bool keys_equal(const kl_kernel *a, const kl_kernel *b) {
  kl_text key_a = {0}, key_b = {0};
  ck_assert_int_eq(kl_kernel_key(a, &key_a), KL_OK);
  ck_assert_int_eq(kl_kernel_key(b, &key_b), KL_OK);
  bool equal = key_a.nbytes == key_b.nbytes && memcmp(key_a.data, key_b.data, key_a.nbytes) == 0;
  kl_text_finish(&key_a);
  kl_text_finish(&key_b);
  return equal;
}

START_TEST(keys_ignore_what_code_does_not_depend_on) {
  kl_kernel a, b;
  parse(softmax, &a);
  parse(softmax, &b);
  kl_section *section = &b.sections.data[0];
  section->instrs.data[2].attr = section->instrs.data[0].attr; /* one access for both loads */
  section->instrs.data[3].attr = 9;
  section->accesses.data[0].stride[5] = 1;
  section->instrs.data[8].arg[2] = 3;
  b.bufs.data[2].written = b.bufs.data[2].read = false;
  b.n_ints = 100;
  ck_assert(keys_equal(&a, &b));
  kl_kernel_finish(&a);
  kl_kernel_finish(&b);
}
END_TEST

START_TEST(keys_differ_wherever_code_differs) {
  kl_kernel a;
  parse(repeat_and_scatter, &a);
  for (int change = 0; change < 17; change++) {
    kl_kernel b;
    parse(repeat_and_scatter, &b);
    kl_section *first = &b.sections.data[0], *second = &b.sections.data[1];
    switch (change) {
      case 0:
        first->instrs.data[1].attr = 2;
        break;
      case 1:
        first->instrs.data[3].attr = 1;
        break;
      case 2:
        first->instrs.data[3].arg[0] = 1;
        break;
      case 3:
        first->instrs.data[4].op = KL_OP_SUB;
        break;
      case 4:
        first->instrs.data[4].arg[1] = 2;
        break;
      case 5:
        first->instrs.data[5].arg[0] = 3;
        break;
      case 6:
        second->instrs.data[1].attr = 0;
        break;
      case 7:
        second->instrs.data[2].attr = 8;
        break;
      case 8:
        second->instrs.data[5].dtype = KL_F64;
        break;
      case 9:
        second->instrs.data[8].arg[1] = 2;
        break;
      case 10:
        second->accesses.data[0].stride[1] = KL_STRIDE_ONE;
        break;
      case 11:
        second->accesses.data[0].ints_at = 7;
        break;
      case 12:
        second->extents_at = 5;
        break;
      case 13:
        second->loops.data[0].kind = KL_LOOP_COL;
        break;
      case 14:
        b.bufs.data[0].noalias = false;
        break;
      case 15:
        first->phases.data[0].kind = KL_PHASE_ROWS;
        break;
      case 16:
        second->vector = KL_VECTOR_ROWS;
        break;
    }
    ck_assert_msg(!keys_equal(&a, &b), "change %d is not in the key", change);
    kl_kernel_finish(&b);
  }
  kl_kernel_finish(&a);
}
END_TEST

static kl_status round_trip(const char *text) {
  kl_kernel kernel;
  kl_text out = {0};
  KL_TRY(kl_kernel_parse(text, strlen(text), &kernel));
  kl_status status = kl_kernel_verify(&kernel);
  if (status == KL_OK) status = kl_kernel_print(&kernel, &out);
  if (status == KL_OK) status = kl_kernel_key(&kernel, &out);
  kl_text_finish(&out);
  kl_kernel_finish(&kernel);
  return status;
}

START_TEST(every_failed_allocation_is_a_status) {
  long nth = 1;
  for (kl_status status = KL_ERR_OUT_OF_MEMORY; status != KL_OK; nth++) {
    kl_memory_fail_nth(nth);
    status = round_trip(repeat_and_scatter);
    kl_memory_fail_nth(0);
    if (status != KL_OK) ck_assert_int_eq(status, KL_ERR_OUT_OF_MEMORY);
  }
  ck_assert_int_gt(nth, 10);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("kernel_ir");
  TCase *cases = tcase_create("kernel_ir");
  tcase_add_test(cases, a_printed_kernel_reads_back_to_the_same_text);
  tcase_add_test(cases, correct_kernels_are_accepted);
  tcase_add_test(cases, the_parser_fills_every_field);
  tcase_add_test(cases, value_numbers_may_have_gaps_and_are_given_anew);
  tcase_add_test(cases, parse_errors_say_where_and_what_was_expected);
  tcase_add_test(cases, each_broken_rule_is_found);
  tcase_add_test(cases, row_values_may_be_stored_over_once_no_phase_needs_them);
  tcase_add_test(cases, impossible_fields_are_found);
  tcase_add_test(cases, keys_ignore_what_code_does_not_depend_on);
  tcase_add_test(cases, keys_differ_wherever_code_differs);
  tcase_add_test(cases, every_failed_allocation_is_a_status);
  suite_add_tcase(suite, cases);
  return kl_test_run(suite);
}
