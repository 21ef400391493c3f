/* Child processes for checks. See isolate.h. */
#include "tests/random/isolate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

bool isolate(bool (*work)(void *user), void *user, isolate_mode mode) {
  int state;
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) return work(user);
  if (child == 0) {
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    bool fine = work(user);
    fflush(stdout);
    _exit(fine ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  if (waitpid(child, &state, 0) != child) return false;
  if (mode == ISOLATE_LOUD && WIFSIGNALED(state))
    printf("crashed: %s\n", strsignal(WTERMSIG(state)));
  return WIFEXITED(state) && WEXITSTATUS(state) == EXIT_SUCCESS;
}

void *isolate_share(size_t nbytes) {
  void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

void isolate_unshare(void *memory, size_t nbytes) { munmap(memory, nbytes); }
