/* Options and log. Options are read once a process, so each case is a forked child with an
 * environment of its own that asserts there. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/support/log.h"
#include "ir/support/options.h"
#include "tests/support/runner.h"

/* Check forks for every test, so setting variables here touches no other test. */
static void set_only(const char *variable, const char *value) {
  for (size_t i = 0; kl_option_doc_at(i); i++) unsetenv(kl_option_doc_at(i)->variable);
  if (variable) setenv(variable, value, 1);
}

START_TEST(without_an_environment_every_option_has_its_default) {
  set_only(NULL, NULL);
  const kl_options *o = kl_options_get();
  ck_assert_int_eq(o->jit, KL_JIT_ON);
  ck_assert_int_eq(o->debug, 0);
  ck_assert_int_eq(o->debug_is_set, 0);
  ck_assert_ptr_null(o->dump);
  ck_assert_int_eq(o->threads, 0);
  ck_assert_int_eq(o->omp_threads, 0);
  ck_assert_int_eq(o->matmul, KL_MATMUL_KAEL);
  ck_assert_ptr_null(o->cache_dir);
  ck_assert_int_eq(o->flush_nodes, 16384);
  ck_assert_int_eq(o->flush_bytes, 64 << 20);
  ck_assert_int_eq(o->memory_limit, 0);
  ck_assert_int_eq(o->isa, 0);
  ck_assert_ptr_null(o->llvm_plugin);
}
END_TEST

START_TEST(values_are_read_from_the_environment) {
  set_only("KAEL_JIT", "sync");
  setenv("KAEL_DEBUG", "3", 1);
  setenv("KAEL_MATMUL", "openblas", 1);
  setenv("KAEL_MEMORY_LIMIT", "3g", 1);
  setenv("KAEL_FLUSH_BYTES", "1000", 1);
  setenv("OMP_NUM_THREADS", "4,2", 1);
  setenv("KAEL_ISA", "v3", 1);
  setenv("KAEL_CACHE_DIR", "/some/where", 1);
  const kl_options *o = kl_options_get();
  setenv("KAEL_CACHE_DIR", "/else/where", 1); /* read once */
  ck_assert_ptr_eq(kl_options_get(), o);
  ck_assert_int_eq(o->jit, KL_JIT_SYNC);
  ck_assert_int_eq(o->debug, 3);
  ck_assert_int_eq(o->debug_is_set, 1);
  ck_assert_int_eq(o->matmul, KL_MATMUL_OPENBLAS);
  ck_assert_int_eq(o->memory_limit, INT64_C(3) << 30);
  ck_assert_int_eq(o->flush_bytes, 1000);
  ck_assert_int_eq(o->omp_threads, 4);
  ck_assert_int_eq(o->isa, 3);
  ck_assert_str_eq(o->cache_dir, "/some/where");
}
END_TEST

/* Counts messages and keeps the last. */
static int n_messages;
static char last_message[512];

static void keep_message(int level, const char *message, void *user) {
  ck_assert_ptr_eq(user, &n_messages);
  ck_assert_int_ge(level, 0);
  n_messages++;
  strncpy(last_message, message, sizeof last_message - 1);
}

static const char *const bad_values[][2] = {
    {"KAEL_JIT", "2"},           {"KAEL_JIT", ""},          {"KAEL_DEBUG", "5"},
    {"KAEL_DEBUG", "-1"},        {"KAEL_DEBUG", "1x"},      {"KAEL_THREADS", "many"},
    {"KAEL_THREADS", "4,2"},     {"KAEL_ISA", "v5"},        {"KAEL_MATMUL", "mkl"},
    {"KAEL_MEMORY_LIMIT", "1T"}, {"KAEL_MEMORY_LIMIT", "M"}, {"KAEL_MEMORY_LIMIT", "1 "},
    {"KAEL_FLUSH_NODES", "99999999999999999999"},           {"KAEL_FLUSH_BYTES", "9999999999999G"},
};

START_TEST(a_bad_value_keeps_the_default_and_is_logged) {
  set_only(bad_values[_i][0], bad_values[_i][1]);
  kl_log_set_callback(keep_message, &n_messages);
  const kl_options *o = kl_options_get();
  ck_assert_int_eq(n_messages, 1);
  ck_assert_msg(strstr(last_message, bad_values[_i][0]) != NULL, "%s", last_message);
  ck_assert_int_eq(o->jit, KL_JIT_ON);
  ck_assert_int_eq(o->debug, 0);
  ck_assert_int_eq(o->threads, 0);
  ck_assert_int_eq(o->isa, 0);
  ck_assert_int_eq(o->matmul, KL_MATMUL_KAEL);
  ck_assert_int_eq(o->memory_limit, 0);
  ck_assert_int_eq(o->flush_nodes, 16384);
  ck_assert_int_eq(o->flush_bytes, 64 << 20);
}
END_TEST

START_TEST(messages_above_the_debug_level_are_dropped) {
  set_only("KAEL_DEBUG", "2");
  kl_log_set_callback(keep_message, &n_messages);
  ck_assert(kl_log_enabled(2));
  ck_assert(!kl_log_enabled(3));
  kl_log_message(3, "three");
  ck_assert_int_eq(n_messages, 0);
  kl_log_message(2, "two %d", 2);
  ck_assert_str_eq(last_message, "two 2");
}
END_TEST

static int long_length;

static void measure_message(int level, const char *message, void *user) {
  (void)level, (void)user;
  long_length = (int)strlen(message);
}

START_TEST(a_long_message_arrives_whole) {
  set_only(NULL, NULL);
  kl_log_set_callback(measure_message, NULL);
  kl_log_message(0, "%05000d", 7);
  ck_assert_int_eq(long_length, 5000);
}
END_TEST

/* Bytes that reach stderr by a warning, with KAEL_DEBUG set or not. */
static size_t stderr_nbytes(const char *debug) {
  set_only(debug ? "KAEL_DEBUG" : NULL, debug);
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    kl_log_message(0, "warning");
    _exit(0);
  }
  close(ends[1]);
  char bytes[64];
  ssize_t n = read(ends[0], bytes, sizeof bytes);
  close(ends[0]);
  waitpid(child, NULL, 0);
  return n > 0 ? (size_t)n : 0;
}

START_TEST(nothing_is_printed_unless_kael_debug_is_set) {
  ck_assert_uint_eq(stderr_nbytes(NULL), 0);
  ck_assert_uint_eq(stderr_nbytes("0"), strlen("kael: warning\n"));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("options");
  TCase *tc = tcase_create("options");
  tcase_add_test(tc, without_an_environment_every_option_has_its_default);
  tcase_add_test(tc, values_are_read_from_the_environment);
  tcase_add_loop_test(tc, a_bad_value_keeps_the_default_and_is_logged, 0,
                      (int)(sizeof bad_values / sizeof *bad_values));
  tcase_add_test(tc, messages_above_the_debug_level_are_dropped);
  tcase_add_test(tc, a_long_message_arrives_whole);
  tcase_add_test(tc, nothing_is_printed_unless_kael_debug_is_set);
  suite_add_tcase(suite, tc);
  return kl_test_run(suite);
}
