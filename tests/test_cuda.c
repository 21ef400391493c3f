/* CUDA text: its form, and that NVRTC compiles it for sm_90 where NVRTC is installed. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "ir/op_check.h"
#include "tests/support/runner.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ------------------------------------------------------------------ kernels */

/* The text of tests/ir/<name>, to be freed. */
static char *read_case(const char *name) {
  const char *root = getenv("KAEL_SOURCE_DIR");
  char path[1024];
  snprintf(path, sizeof path, "%s/tests/ir/%s", root ? root : ".", name);
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file != NULL, "%s cannot be opened", path);
  char *text = calloc(1, 1 << 20);
  ck_assert_uint_lt(fread(text, 1, (1 << 20) - 1, file), (1 << 20) - 1);
  fclose(file);
  return text;
}

/* The CUDA text of a kernel's text. */
static void emit(const char *text, kl_text *out) {
  kl_kernel kernel;
  ck_assert_msg(kl_kernel_parse(text, strlen(text), &kernel) == KL_OK, "%s", kl_error_message());
  ck_assert_msg(kl_kernel_verify(&kernel) == KL_OK, "%s", kl_error_message());
  ck_assert_msg(kl_cuda_emit(&kernel, out) == KL_OK, "%s", kl_error_message());
  kl_kernel_finish(&kernel);
}

static void emit_case(const char *name, kl_text *out) {
  char *text = read_case(name);
  emit(text, out);
  free(text);
}

/* ------------------------------------------------------------------ NVRTC */

typedef struct nvrtc {
  int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
  int (*compile)(void *, int, const char *const *);
  int (*log_size)(void *, size_t *);
  int (*log)(void *, char *);
  int (*cubin_size)(void *, size_t *);
  int (*ptx_size)(void *, size_t *);
  int (*destroy)(void **);
} nvrtc;

static bool find_nvrtc(nvrtc *out) {
  static const char *const names[] = {"libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so",
                                      "libnvrtc.so.13", "libnvrtc.so.12"};
  void *library = NULL;
  for (size_t i = 0; i < COUNT(names) && !library; i++) library = dlopen(names[i], RTLD_NOW);
  if (!library) return false;
  *(void **)&out->create = dlsym(library, "nvrtcCreateProgram");
  *(void **)&out->compile = dlsym(library, "nvrtcCompileProgram");
  *(void **)&out->log_size = dlsym(library, "nvrtcGetProgramLogSize");
  *(void **)&out->log = dlsym(library, "nvrtcGetProgramLog");
  *(void **)&out->cubin_size = dlsym(library, "nvrtcGetCUBINSize");
  *(void **)&out->ptx_size = dlsym(library, "nvrtcGetPTXSize");
  *(void **)&out->destroy = dlsym(library, "nvrtcDestroyProgram");
  return out->create && out->compile && out->log_size && out->log && out->cubin_size &&
         out->ptx_size && out->destroy;
}

/* To machine code, or (much faster) to PTX only. Warnings count: the unit comes from us, and so
 * does what they warn of. */
static void assert_compiles(const nvrtc *rtc, const char *name, const char *text,
                            bool to_machine_code) {
  const char *const flags[] = {
      to_machine_code ? "--gpu-architecture=sm_90" : "--gpu-architecture=compute_90",
      "--fmad=false"};
  static char log[1 << 20];
  void *program = NULL;
  log[0] = '\0';
  size_t log_nbytes = 0, nbytes = 0;
  ck_assert_int_eq(rtc->create(&program, text, name, 0, NULL, NULL), 0);
  int error = rtc->compile(program, COUNT(flags), flags);
  if (rtc->log_size(program, &log_nbytes) == 0 && log_nbytes < sizeof log) rtc->log(program, log);
  ck_assert_msg(error == 0 && log[0] == '\0', "%s: NVRTC error %d\n%.3000s", name, error, log);
  ck_assert_int_eq((to_machine_code ? rtc->cubin_size : rtc->ptx_size)(program, &nbytes), 0);
  ck_assert_uint_gt(nbytes, 1000);
  rtc->destroy(&program);
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

START_TEST(every_kernel_of_the_cases_compiles) {
  nvrtc rtc;
  if (!find_nvrtc(&rtc)) KL_TEST_SKIP("NVRTC is not installed");
  const char *root = getenv("KAEL_SOURCE_DIR");
  char folder[1024];
  snprintf(folder, sizeof folder, "%s/tests/ir", root ? root : ".");
  DIR *cases = opendir(folder);
  ck_assert_ptr_nonnull(cases);
  int n_kernels = 0;
  for (struct dirent *entry; (entry = readdir(cases));) {
    if (!ends_with(entry->d_name, ".kir")) continue;
    char *text = read_case(entry->d_name);
    if (strstr(text, "\nkernel ") && !strstr(text, "// ERROR:")) {
      kl_text out = {0};
      emit(text, &out);
      assert_compiles(&rtc, entry->d_name, kl_text_string(&out), true);
      kl_text_finish(&out);
      n_kernels++;
    }
    free(text);
  }
  closedir(cases);
  /* softmax forward, backward and of columns, layer norm, argmax, column sum, ... */
  ck_assert_int_ge(n_kernels, 10);
}
END_TEST

/* A kernel that applies every elementwise operation to every dtype that it takes. */
static int kernel_of_every_operation(kl_text *out) {
  int n_ops = 0, value = KL_DTYPE_COUNT;
  kl_text_add(out, "kernel ints=3 scalars=0 {\n");
  for (int d = 0; d < KL_DTYPE_COUNT; d++)
    kl_text_add(out, "buf b%d %s read write\n", d, kl_dtype_name((kl_dtype)d));
  kl_text_add(out, "section rows=0 dims=1 extents=i0 vector=cols { cols {\n");
  for (int d = 0; d < KL_DTYPE_COUNT; d++)
    kl_text_add(out, "v%d = load.%s b%d [i1; one]\n", d, kl_dtype_name((kl_dtype)d), d);
  for (int op = 0; op < KL_OP_COUNT; op++) {
    if (!kl_op_is_elem(op) || op == KL_OP_INDEX) continue;
    for (int from = 0; from < KL_DTYPE_COUNT; from++) {
      for (int to = 0; to < KL_DTYPE_COUNT; to++) {
        const kl_dtype dtypes[2][3] = {{(kl_dtype)from, (kl_dtype)from, (kl_dtype)from},
                                       {KL_BOOL, (kl_dtype)from, (kl_dtype)from}};
        const kl_dtype *operands = dtypes[op == KL_OP_SELECT];
        if (kl_op_dtype_fault((kl_op)op, (kl_dtype)to, operands)) continue;
        kl_text_add(out, "v%d = %s.%s", value, kl_op_table[op].text, kl_dtype_name((kl_dtype)to));
        for (int a = 0; a < kl_op_table[op].arity; a++)
          kl_text_add(out, "%s v%d", a ? "," : "", operands[a]);
        kl_text_add(out, "\nstore.%s b%d [i1; one], v%d\n", kl_dtype_name((kl_dtype)to), to, value);
        value++;
        n_ops++;
      }
    }
  }
  kl_text_add(out, "} phase cols } }\n");
  return n_ops;
}

START_TEST(every_operation_of_every_dtype_compiles) {
  nvrtc rtc;
  if (!find_nvrtc(&rtc)) KL_TEST_SKIP("NVRTC is not installed");
  kl_text text = {0}, out = {0};
  ck_assert_int_gt(kernel_of_every_operation(&text), 300);
  emit(kl_text_string(&text), &out);
  assert_compiles(&rtc, "every_operation", kl_text_string(&out), false);
  kl_text_finish(&text);
  kl_text_finish(&out);
}
END_TEST

/* Every reduction of every dtype, in each way of running it. */
START_TEST(every_reduction_of_every_dtype_compiles) {
  static const char *const ends[] = {"vector=cols %s phase rows } }",
                                     "vector=rows %s phase rows } }",
                                     "vector=cols %s phase cols 0..1 phase combine 1..2 } }"};
  nvrtc rtc;
  if (!find_nvrtc(&rtc)) KL_TEST_SKIP("NVRTC is not installed");
  kl_text loops = {0};
  int value = KL_DTYPE_COUNT;
  kl_text_add(&loops, "{ cols {\n");
  for (int d = 0; d < KL_DTYPE_COUNT; d++)
    kl_text_add(&loops, "v%d = load.%s b%d [i3; any, any]\n", d, kl_dtype_name((kl_dtype)d), d);
  for (int op = KL_OP_REDUCE_SUM; op <= KL_OP_REDUCE_ARGMIN; op++) {
    for (int d = 0; d < KL_DTYPE_COUNT; d++) {
      kl_dtype dtype = (kl_dtype)d, to = kl_op_table[op].result == KL_RESULT_I64 ? KL_I64 : dtype;
      if (kl_op_dtype_fault((kl_op)op, to, &dtype)) continue;
      kl_text_add(&loops, "v%d = %s.%s v%d\n", value++, kl_op_table[op].text, kl_dtype_name(to), d);
    }
  }
  kl_text_add(&loops, "} row { } ");
  ck_assert_int_gt(value, KL_DTYPE_COUNT + 40);
  for (size_t way = 0; way < COUNT(ends); way++) {
    kl_text text = {0}, out = {0};
    kl_text_add(&text, "kernel ints=6 scalars=0 {\n");
    for (int d = 0; d < KL_DTYPE_COUNT; d++)
      kl_text_add(&text, "buf b%d %s read\n", d, kl_dtype_name((kl_dtype)d));
    kl_text_add(&text, "section rows=1 dims=2 extents=i0 ");
    size_t before = (size_t)(strstr(ends[way], "%s") - ends[way]);
    kl_text_bytes(&text, ends[way], before);
    kl_text_add(&text, "%s%s", kl_text_string(&loops), ends[way] + before + 2);
    emit(kl_text_string(&text), &out);
    assert_compiles(&rtc, ends[way], kl_text_string(&out), false);
    kl_text_finish(&text);
    kl_text_finish(&out);
  }
  kl_text_finish(&loops);
}
END_TEST

/* ------------------------------------------------------------------ form, without NVRTC */

START_TEST(the_text_includes_nothing) {
  kl_text out = {0};
  emit_case("elementwise.kir", &out);
  ck_assert_ptr_null(strstr(kl_text_string(&out), "#include"));
  ck_assert_ptr_null(strstr(kl_text_string(&out), "# 1 \""));
  kl_text_finish(&out);
}
END_TEST

START_TEST(each_phase_has_the_functions_that_the_header_names) {
  static const struct {
    const char *name, *functions[4];
  } cases[] = {
      {"softmax.kir", {"kl_s0_p0_warp(", "kl_s0_p0_block("}},
      {"column_sum.kir", {"kl_s0_p0_thread("}},
      {"split_sum.kir", {"kl_s0_p0_warp(", "kl_s0_p1_block(", "kl_s0_p2_block("}},
      {"elementwise.kir", {"kl_s0_p0_block(", "kl_s1_p0_block("}},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    kl_text out = {0};
    int n_functions = 0, n_expected = 0;
    emit_case(cases[i].name, &out);
    for (const char *at = out.data; (at = strstr(at, "__global__")); at++) n_functions++;
    for (; n_expected < 4 && cases[i].functions[n_expected]; n_expected++)
      ck_assert_msg(strstr(out.data, cases[i].functions[n_expected]) != NULL, "%s has no %s",
                    cases[i].name, cases[i].functions[n_expected]);
    ck_assert_int_eq(n_functions, n_expected);
    kl_text_finish(&out);
  }
}
END_TEST

START_TEST(many_arguments_go_by_address) {
  static const char form[] =
      "kernel ints=%d scalars=0 { buf b0 f32 read write\n"
      "section rows=0 dims=1 extents=i0 vector=cols { cols { v0 = load.f32 b0 [i1; one] v1 = "
      "neg.f32 v0\n"
      "store.f32 b0 [i1; one], v1 } phase cols } }";
  static const int n_ints[] = {494, 495};
  nvrtc rtc;
  bool have_nvrtc = find_nvrtc(&rtc);
  for (int i = 0; i < 2; i++) {
    char text[512];
    kl_text out = {0};
    snprintf(text, sizeof text, form, n_ints[i]);
    emit(text, &out);
    bool by_address = strstr(out.data, "KL_ARGS_PARAMETER const struct kl_args *const") != NULL;
    ck_assert_int_eq(by_address, i);
    if (have_nvrtc) assert_compiles(&rtc, "arguments", out.data, true);
    kl_text_finish(&out);
  }
}
END_TEST

START_TEST(a_kernel_without_schedule_is_refused) {
  static const char text[] =
      "kernel ints=1 scalars=0 { section rows=0 dims=1 extents=i0 vector=cols { } }";
  kl_kernel kernel;
  kl_text out = {0};
  ck_assert_int_eq(kl_kernel_parse(text, sizeof text - 1, &kernel), KL_OK);
  ck_assert_int_eq(kl_cuda_emit(&kernel, &out), KL_ERR_VALUE);
  kl_kernel_finish(&kernel);
  kl_text_finish(&out);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cuda");
  TCase *cases = tcase_create("cuda");
  tcase_set_timeout(cases, 240);
  tcase_add_test(cases, every_kernel_of_the_cases_compiles);
  tcase_add_test(cases, every_operation_of_every_dtype_compiles);
  tcase_add_test(cases, every_reduction_of_every_dtype_compiles);
  tcase_add_test(cases, the_text_includes_nothing);
  tcase_add_test(cases, each_phase_has_the_functions_that_the_header_names);
  tcase_add_test(cases, many_arguments_go_by_address);
  tcase_add_test(cases, a_kernel_without_schedule_is_refused);
  suite_add_tcase(suite, cases);
  return kl_test_run(suite);
}
