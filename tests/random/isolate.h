/* Running a check in a child process, so that a crash is a failed check like any other. */
#ifndef TESTS_RANDOM_ISOLATE_H
#define TESTS_RANDOM_ISOLATE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum isolate_mode {
  ISOLATE_QUIET,
  ISOLATE_LOUD /* says which signal ended the child */
} isolate_mode;

/* Whether `work` returned true; false also when it crashed or ran too long. */
bool isolate(bool (*work)(void *user), void *user, isolate_mode mode);

/* Zeroed memory that the child's writes reach. */
void *isolate_share(size_t nbytes);
void isolate_unshare(void *memory, size_t nbytes);

#endif
