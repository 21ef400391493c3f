/* Mutated IR text: nothing crashes, and what parses prints to a text that reads back the same.
 *
 * Compiled with -DKL_LIBFUZZER it is an entry for libFuzzer. Otherwise a program that mutates the
 * cases of tests/ir, the same way each time: fuzz_ir [--count N] [--seed S]. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "ir/graph.h"
#include "ir/kernel.h"
#include "ir/support/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void expect(bool holds, const char *what, const uint8_t *data, size_t nbytes) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n--- input\n%.*s\n", what, kl_error_message(), (int)nbytes,
          (const char *)data);
  abort();
}

static bool texts_equal(const kl_text *a, const kl_text *b) {
  return a->nbytes == b->nbytes && memcmp(a->data, b->data, a->nbytes) == 0;
}

static bool try_kernel(const uint8_t *data, size_t nbytes) {
  kl_kernel kernel, again;
  kl_text first = {0}, second = {0}, cuda = {0};
  if (kl_kernel_parse((const char *)data, nbytes, &kernel) != KL_OK) return false;
  expect(kl_kernel_print(&kernel, &first) == KL_OK, "print", data, nbytes);
  expect(kl_kernel_parse(first.data, first.nbytes, &again) == KL_OK, "parse again", data, nbytes);
  expect(kl_kernel_print(&again, &second) == KL_OK, "print again", data, nbytes);
  expect(texts_equal(&first, &second), "the texts differ", data, nbytes);
  if (kl_kernel_verify(&kernel) == KL_OK) {
    expect(kl_kernel_verify(&again) == KL_OK, "verify again", data, nbytes);
    first.nbytes = second.nbytes = 0;
    expect(kl_kernel_key(&kernel, &first) == KL_OK, "key", data, nbytes);
    expect(kl_kernel_key(&again, &second) == KL_OK, "key again", data, nbytes);
    expect(texts_equal(&first, &second), "the keys differ", data, nbytes);
    if (kl_cuda_emit(&kernel, &cuda) != KL_OK)
      expect(kl_error_code() == KL_ERR_VALUE, "cuda", data, nbytes);
  }
  kl_text_finish(&first);
  kl_text_finish(&second);
  kl_text_finish(&cuda);
  kl_kernel_finish(&kernel);
  kl_kernel_finish(&again);
  return true;
}

static bool try_graph(const uint8_t *data, size_t nbytes) {
  kl_graph graph, again;
  kl_text first = {0}, second = {0};
  if (kl_graph_parse((const char *)data, nbytes, &graph) != KL_OK) return false;
  expect(kl_graph_print(&graph, &first) == KL_OK, "print", data, nbytes);
  expect(kl_graph_parse(first.data, first.nbytes, &again) == KL_OK, "parse again", data, nbytes);
  expect(kl_graph_print(&again, &second) == KL_OK, "print again", data, nbytes);
  expect(texts_equal(&first, &second), "the texts differ", data, nbytes);
  bool correct = kl_graph_verify(&graph) == KL_OK;
  expect((kl_graph_verify(&again) == KL_OK) == correct, "verify again", data, nbytes);
  kl_text_finish(&first);
  kl_text_finish(&second);
  kl_graph_finish(&graph);
  kl_graph_finish(&again);
  return true;
}

static uint64_t n_parsed;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes) {
  n_parsed += try_kernel(data, nbytes) || try_graph(data, nbytes);
  return 0;
}

#ifndef KL_LIBFUZZER

enum { MAX_SEEDS = 64, CAPACITY = 1 << 16 };

static struct {
  char *text;
  size_t nbytes;
} seeds[MAX_SEEDS];
static size_t n_seeds;

/* xorshift64* (Vigna, 2016) */
static uint64_t random_state;
static size_t pick(size_t n) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return n ? (size_t)((random_state * 0x2545F4914F6CDD1DULL) >> 32) % n : 0;
}

static void read_seeds(void) {
  const char *root = getenv("KAEL_SOURCE_DIR");
  char path[2048];
  snprintf(path, sizeof path, "%s/tests/ir", root ? root : ".");
  DIR *folder = opendir(path);
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder)) && n_seeds < MAX_SEEDS;) {
    if (!strstr(entry->d_name, ".kir")) continue;
    snprintf(path, sizeof path, "%s/tests/ir/%s", root ? root : ".", entry->d_name);
    FILE *file = fopen(path, "rb");
    if (!file) continue;
    seeds[n_seeds].text = malloc(CAPACITY / 4);
    seeds[n_seeds].nbytes = fread(seeds[n_seeds].text, 1, CAPACITY / 4, file);
    fclose(file);
    n_seeds++;
  }
  closedir(folder);
}

/* The n bytes at `at` are replaced. */
static size_t splice(char *text, size_t nbytes, size_t at, size_t n, const char *by, size_t by_n) {
  if (at > nbytes || n > nbytes - at || nbytes - n + by_n > CAPACITY) return nbytes;
  memmove(text + at + by_n, text + at + n, nbytes - at - n);
  memcpy(text + at, by, by_n);
  return nbytes - n + by_n;
}

static bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_'; }

/* A word somewhere, as [at, at + n). */
static size_t find_word(const char *text, size_t nbytes, size_t *n) {
  size_t at = pick(nbytes);
  while (at > 0 && is_word(text[at - 1])) at--;
  *n = 0;
  while (at + *n < nbytes && is_word(text[at + *n])) ++*n;
  return at;
}

static size_t mutate(char *text, size_t nbytes) {
  static const char *const words[] = {"0",
                                      "1",
                                      "2",
                                      "17",
                                      "65535",
                                      "65536",
                                      "16777216",
                                      "4294967295",
                                      "9223372036854775807",
                                      "-1",
                                      "-9223372036854775808",
                                      "f16",
                                      "i64",
                                      "bool",
                                      "zero",
                                      "one",
                                      "any",
                                      "row",
                                      "cols",
                                      "seq",
                                      "none",
                                      "repeat",
                                      "}",
                                      "{",
                                      "store",
                                      "load",
                                      "carry",
                                      "next",
                                      "reduce_sum",
                                      "select",
                                      "phase",
                                      "v0",
                                      "v3",
                                      "b1",
                                      "i0",
                                      "s0",
                                      "n0",
                                      "n1",
                                      "keep",
                                      "scratch",
                                      "write",
                                      "at v0",
                                      "step 1"};
  const size_t n_words = sizeof words / sizeof *words;
  size_t n, at = find_word(text, nbytes, &n), other_n;
  switch (pick(6)) {
    case 0: { /* another word from the list */
      const char *word = words[pick(n_words)];
      return splice(text, nbytes, at, n, word, strlen(word));
    }
    case 1: { /* a word from elsewhere */
      const size_t other = find_word(text, nbytes, &other_n);
      char word[64];
      if (other_n > sizeof word) return nbytes;
      memcpy(word, text + other, other_n);
      return splice(text, nbytes, at, n, word, other_n);
    }
    case 2: { /* a piece of another case */
      const size_t seed = pick(n_seeds), from = pick(seeds[seed].nbytes);
      const size_t rest = seeds[seed].nbytes - from;
      return splice(text, nbytes, at, 0, seeds[seed].text + from, pick(rest < 200 ? rest : 200));
    }
    case 3:
      return splice(text, nbytes, at, pick(nbytes - at < 80 ? nbytes - at : 80), "", 0);
    case 4:
      return splice(text, nbytes, at, n, "", 0);
    default:
      if (nbytes) text[pick(nbytes)] = (char)pick(256);
      return nbytes;
  }
}

int main(int argc, char **argv) {
  static char text[CAPACITY];
  uint64_t count = 2000, seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
  }
  random_state = seed * 0x9E3779B97F4A7C15ULL + 1;
  read_seeds();
  if (n_seeds == 0) {
    fprintf(stderr, "fuzz_ir: no cases under KAEL_SOURCE_DIR/tests/ir\n");
    return 1;
  }
  for (uint64_t i = 0; i < count; i++) {
    const size_t from = pick(n_seeds);
    size_t nbytes = seeds[from].nbytes;
    memcpy(text, seeds[from].text, nbytes);
    for (size_t n = 1 + pick(3); n > 0; n--) nbytes = mutate(text, nbytes);
    LLVMFuzzerTestOneInput((const uint8_t *)text, nbytes);
  }
  printf("%llu inputs, %llu of them parsed\n", (unsigned long long)count,
         (unsigned long long)n_parsed);
  /* A mutator that breaks nearly every text would test the first error only. */
  return n_parsed * 20 > count ? 0 : 1;
}
#endif
