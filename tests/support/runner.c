/* Runs one suite of Check. See runner.h. */
#include "tests/support/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kl_test_run(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

void kl_test_skip(const char *test, const char *reason) {
  int length = (int)strlen(test);
  /* Check names the function of the test `claim` claim_fn. */
  if (length > 3 && strcmp(test + length - 3, "_fn") == 0) length -= 3;
  /* Each test runs in a forked child, whose buffered output would be lost if the test crashed. */
  printf("\nSKIP: %.*s: %s\n", length, test, reason);
  fflush(stdout);
}
