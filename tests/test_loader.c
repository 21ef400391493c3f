/*
 * test_loader.c: objects are mapped and run; whatever is wrong with one is a status.
 *
 * The object is written here, byte by byte, so that the test needs no compiler: a function that
 * loads a constant and calls `floorf`.
 */
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/loader.h"
#include "tests/support/runner.h"

#ifdef __x86_64__

enum { N_SECTIONS = 6, S_TEXT = 1, S_RODATA, S_RELA, S_SYMBOLS, S_STRINGS };

/* movss xmm0, [rip + constant]; jmp floorf; then endless traps */
static const unsigned char code[16] = {0xf3, 0x0f, 0x10, 0x05, 0, 0,    0,    0,
                                       0xe9, 0,    0,    0,    0, 0xcc, 0xcc, 0xcc};
static const char strings[] = "\0run\0floorf\0missing\0";

typedef struct object {
  Elf64_Ehdr header;
  unsigned char text[16];
  float constants[4];
  Elf64_Rela relocations[2];
  Elf64_Sym symbols[4];
  char strings[sizeof strings];
  Elf64_Shdr sections[N_SECTIONS];
} object;

static Elf64_Shdr make_section(uint32_t type, uint64_t flags, size_t offset, size_t nbytes,
                               uint32_t link, uint32_t info) {
  return (Elf64_Shdr){.sh_type = type,
                      .sh_flags = flags,
                      .sh_offset = offset,
                      .sh_size = nbytes,
                      .sh_link = link,
                      .sh_info = info,
                      .sh_addralign = 16};
}

static object make_object(void) {
  object o;
  memset(&o, 0, sizeof o);
  memcpy(o.header.e_ident, ELFMAG, SELFMAG);
  o.header.e_ident[EI_CLASS] = ELFCLASS64;
  o.header.e_ident[EI_DATA] = ELFDATA2LSB;
  o.header.e_type = ET_REL;
  o.header.e_machine = EM_X86_64;
  o.header.e_shoff = offsetof(object, sections);
  o.header.e_shentsize = sizeof(Elf64_Shdr);
  o.header.e_shnum = N_SECTIONS;
  memcpy(o.text, code, sizeof code);
  o.constants[1] = 2.75f;
  o.relocations[0] =
      (Elf64_Rela){.r_offset = 4, .r_addend = 0, .r_info = ELF64_R_INFO(3, R_X86_64_PC32)};
  o.relocations[1] =
      (Elf64_Rela){.r_offset = 9, .r_addend = -4, .r_info = ELF64_R_INFO(2, R_X86_64_PLT32)};
  o.symbols[1] = (Elf64_Sym){.st_name = 1,
                             .st_shndx = S_TEXT,
                             .st_size = sizeof code,
                             .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)};
  o.symbols[2] = (Elf64_Sym){.st_name = 5, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)};
  o.symbols[3] =
      (Elf64_Sym){.st_shndx = S_RODATA, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION)};
  memcpy(o.strings, strings, sizeof strings);
  o.sections[S_TEXT] = make_section(SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, offsetof(object, text),
                                    sizeof o.text, 0, 0);
  o.sections[S_RODATA] =
      make_section(SHT_PROGBITS, SHF_ALLOC, offsetof(object, constants), sizeof o.constants, 0, 0);
  o.sections[S_RELA] = make_section(SHT_RELA, 0, offsetof(object, relocations),
                                    sizeof o.relocations, S_SYMBOLS, S_TEXT);
  o.sections[S_SYMBOLS] =
      make_section(SHT_SYMTAB, 0, offsetof(object, symbols), sizeof o.symbols, S_STRINGS, 0);
  o.sections[S_STRINGS] =
      make_section(SHT_STRTAB, 0, offsetof(object, strings), sizeof o.strings, 0, 0);
  return o;
}

typedef float run_fn(void);

static void expect_failure(const object *o, const char *part_of_message) {
  kl_module *module = NULL;
  ck_assert_int_eq(kl_loader_map(o, sizeof *o, "run", &module), KL_ERR_COMPILER);
  ck_assert_ptr_null(module);
  ck_assert_msg(strstr(kl_error_message(), part_of_message) != NULL, "the message is: %s",
                kl_error_message());
}

START_TEST(mapped_object_runs_with_its_constants_and_callees) {
  object o = make_object();
  kl_module *module;
  /* The relocation has no addend for the four bytes after it, so the second constant is meant. */
  ck_assert_int_eq(kl_loader_map(&o, sizeof o, "run", &module), KL_OK);
  void *symbol = kl_module_symbol(module);
  run_fn *run;
  memcpy(&run, &symbol, sizeof run);
  ck_assert_float_eq(run(), 2.0f);
  kl_module_unload(module);
  kl_module_unload(NULL);
}
END_TEST

START_TEST(code_pages_are_not_writable) {
  object o = make_object();
  kl_module *module;
  ck_assert_int_eq(kl_loader_map(&o, sizeof o, "run", &module), KL_OK);
  char line[512];
  unsigned long long at = (unsigned long long)(uintptr_t)kl_module_symbol(module);
  FILE *maps = fopen("/proc/self/maps", "r");
  bool found = false;
  ck_assert_ptr_nonnull(maps);
  while (fgets(line, sizeof line, maps)) {
    unsigned long long first, end;
    char mode[8];
    if (sscanf(line, "%llx-%llx %7s", &first, &end, mode) != 3 || at < first || at >= end) continue;
    ck_assert_str_eq(mode, "r-xp");
    found = true;
  }
  fclose(maps);
  ck_assert(found);
  kl_module_unload(module);
}
END_TEST

START_TEST(every_truncation_is_a_status) {
  object o = make_object();
  for (size_t n = 0; n < sizeof o; n++) {
    kl_module *module = NULL;
    void *copy = malloc(n ? n : 1); /* so that a sanitizer sees a read past the end */
    memcpy(copy, &o, n);
    ck_assert_int_ne(kl_loader_map(copy, n, "run", &module), KL_OK);
    free(copy);
  }
}
END_TEST

START_TEST(every_corrupted_byte_is_a_status_or_harmless) {
  object o = make_object();
  static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  for (size_t at = 0; at < sizeof o; at++) {
    for (size_t v = 0; v < sizeof values; v++) {
      object *copy = malloc(sizeof *copy);
      memcpy(copy, &o, sizeof o);
      ((unsigned char *)copy)[at] = values[v];
      kl_module *module = NULL;
      if (kl_loader_map(copy, sizeof *copy, "run", &module) == KL_OK) kl_module_unload(module);
      free(copy);
    }
  }
}
END_TEST

START_TEST(faults_are_named) {
  object o = make_object();
  o.header.e_machine = EM_386;
  expect_failure(&o, "another machine");
  o = make_object();
  o.header.e_type = ET_DYN;
  expect_failure(&o, "not a relocatable object");
  o = make_object();
  o.relocations[0].r_offset = sizeof o.text - 3;
  expect_failure(&o, "outside its section");
  o = make_object();
  o.relocations[0].r_info = ELF64_R_INFO(99, R_X86_64_PC32);
  expect_failure(&o, "does not exist");
  o = make_object();
  o.relocations[0].r_info = ELF64_R_INFO(3, R_X86_64_GOTPCREL);
  expect_failure(&o, "unknown kind");
  o = make_object();
  o.relocations[0].r_addend = INT64_C(1) << 40;
  expect_failure(&o, "too far");
  o = make_object();
  o.symbols[2].st_name = 12;
  expect_failure(&o, "'missing'");
  o = make_object();
  o.sections[S_RODATA].sh_flags |= SHF_WRITE;
  expect_failure(&o, "writable data");
  o = make_object();
  o.symbols[1].st_value = sizeof o.text;
  expect_failure(&o, "no function 'run'");
  o = make_object();
  o.strings[sizeof strings - 1] = 'x';
  expect_failure(&o, "names do not end");
}
END_TEST

START_TEST(many_modules_live_at_once) {
  enum { N = 200 };
  kl_module *modules[N];
  object o = make_object();
  for (int i = 0; i < N; i++) {
    o.constants[1] = (float)i + 0.5f;
    ck_assert_int_eq(kl_loader_map(&o, sizeof o, "run", &modules[i]), KL_OK);
  }
  for (int i = 0; i < N; i++) {
    void *symbol = kl_module_symbol(modules[i]);
    run_fn *run;
    memcpy(&run, &symbol, sizeof run);
    ck_assert_float_eq(run(), (float)i);
  }
  for (int i = 0; i < N; i++) kl_module_unload(modules[i]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("loader");
  TCase *tests = tcase_create("objects");
  tcase_add_test(tests, mapped_object_runs_with_its_constants_and_callees);
  tcase_add_test(tests, code_pages_are_not_writable);
  tcase_add_test(tests, every_truncation_is_a_status);
  tcase_add_test(tests, every_corrupted_byte_is_a_status_or_harmless);
  tcase_add_test(tests, faults_are_named);
  tcase_add_test(tests, many_modules_live_at_once);
  suite_add_tcase(suite, tests);
  return kl_test_run(suite);
}

#else

int main(void) {
  kl_test_skip("loader", "the object of this test is for x86-64");
  return 0;
}

#endif
