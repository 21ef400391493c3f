/* What the main function of every test program needs: it runs one suite, and says what a skip is.
 *
 * scripts/test counts the cases from the summary line that Check prints, and the skips from the
 * lines that begin with "SKIP: ".
 */
#ifndef TESTS_SUPPORT_RUNNER_H
#define TESTS_SUPPORT_RUNNER_H

#include <check.h>

/* Runs `suite`, takes ownership of it, and returns the exit status of the program. */
int kl_test_run(Suite *suite);

/* Says that the running test is skipped and why; the test returns after it. */
void kl_test_skip(const char *test, const char *reason);

/* Leaves the running test, which is then counted as skipped. */
#define KL_TEST_SKIP(reason)                                                                       \
  do {                                                                                             \
    kl_test_skip(__func__, (reason));                                                              \
    return;                                                                                        \
  } while (0)

#endif
