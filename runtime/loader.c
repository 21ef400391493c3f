/* The loader of compiled code (loader.h): parse, place, copy, relocate, protect. */
#include "runtime/loader.h"

#include <elf.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/support/memory.h"

#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#else
#define HOST_MACHINE EM_NONE
#endif

enum {
  MAX_SECTIONS = 4096,
  MAX_IMAGE = 1 << 28,
  STUB_NBYTES = 16, /* a jump to an absolute address, for callees that are out of reach */
};

struct kl_module {
  char *base;
  size_t nbytes;
  void *symbol;
  const char *code;
  size_t code_nbytes;
  void *frames; /* registered unwind data, NULL: none */
};

/* What generated code may call: the C library's answers are exact, so bits do not depend on it. */
static const struct {
  const char *name;
  void *address;
} callees[] = {
    {"memset", (void *)memset}, {"memcpy", (void *)memcpy}, {"memmove", (void *)memmove},
    {"fma", (void *)fma},       {"fmaf", (void *)fmaf},     {"floor", (void *)floor},
    {"floorf", (void *)floorf}, {"ceil", (void *)ceil},     {"ceilf", (void *)ceilf},
    {"trunc", (void *)trunc},   {"truncf", (void *)truncf}, {"rint", (void *)rint},
    {"rintf", (void *)rintf},
};
enum { N_CALLEES = sizeof callees / sizeof *callees };

/* The compiler's unwinder, where the program has one. */
extern void __register_frame(void *) __attribute__((weak));
extern void __deregister_frame(void *) __attribute__((weak));

/* An object being read: nothing is believed before it was checked. */
typedef struct reader {
  const unsigned char *bytes;
  size_t nbytes;
  Elf64_Ehdr header;
  const unsigned char *sections; /* of header.e_shnum */
  size_t place[MAX_SECTIONS];    /* offset in the image; SIZE_MAX: not loaded */
  size_t image_nbytes, code_end, stubs;
  char *image;
  const unsigned char *symbols, *strings;
  size_t n_symbols, strings_nbytes;
} reader;

static kl_status bad(const char *what) {
  return kl_fail(KL_ERR_COMPILER, "compiled code cannot be loaded: %s", what);
}

static bool inside(const reader *r, uint64_t offset, uint64_t nbytes) {
  return offset <= r->nbytes && nbytes <= r->nbytes - offset;
}

static Elf64_Shdr section_at(const reader *r, size_t index) {
  Elf64_Shdr section;
  memcpy(&section, r->sections + index * sizeof section, sizeof section);
  return section;
}

static kl_status read_header(reader *r) {
  Elf64_Ehdr *h = &r->header;
  if (r->nbytes < sizeof *h) return bad("shorter than an ELF header");
  memcpy(h, r->bytes, sizeof *h);
  if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0) return bad("not an ELF file");
  if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
    return bad("not a 64-bit little-endian object");
  if (h->e_type != ET_REL) return bad("not a relocatable object");
  if (h->e_machine != HOST_MACHINE) return bad("for another machine");
  if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shnum == 0 || h->e_shnum > MAX_SECTIONS)
    return bad("its section table has a wrong size");
  if (!inside(r, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
    return bad("its section table is outside the file");
  r->sections = r->bytes + h->e_shoff;
  return KL_OK;
}

static bool is_loaded(const Elf64_Shdr *section) {
  bool kind = section->sh_type == SHT_PROGBITS || section->sh_type == SHT_NOBITS ||
              section->sh_type == SHT_X86_64_UNWIND;
  return (section->sh_flags & SHF_ALLOC) && kind && section->sh_size > 0;
}

/* Code first, the stubs after it, on pages of their own; then data. Data that code could write has
 * no place in a kernel, so all of the second part is mapped read-only. */
static kl_status place_sections(reader *r, size_t page) {
  size_t at = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < r->header.e_shnum; i++) {
      Elf64_Shdr section = section_at(r, i);
      if (pass == 0) r->place[i] = SIZE_MAX;
      if (!is_loaded(&section)) continue;
      bool code = (section.sh_flags & SHF_EXECINSTR) != 0;
      if (code != (pass == 0)) continue;
      if (section.sh_flags & SHF_WRITE) {
        return bad("it has writable data");
      }
      uint64_t align = section.sh_addralign ? section.sh_addralign : 1;
      if (align > page || (align & (align - 1)))
        return bad("a section has an impossible alignment");
      if (section.sh_type != SHT_NOBITS && !inside(r, section.sh_offset, section.sh_size))
        return bad("a section is outside the file");
      if (section.sh_size > MAX_IMAGE) return bad("a section is too large");
      at = (at + align - 1) & ~(size_t)(align - 1);
      r->place[i] = at;
      at += section.sh_size;
      if (at > MAX_IMAGE) return bad("it is too large");
    }
    if (pass == 0) {
      if (at == 0) return bad("it has no code");
      r->stubs = (at + STUB_NBYTES - 1) & ~(size_t)(STUB_NBYTES - 1);
      at = r->stubs + (size_t)N_CALLEES * STUB_NBYTES;
      at = r->code_end = (at + page - 1) & ~(page - 1);
    }
  }
  r->image_nbytes = (at + page - 1) & ~(page - 1);
  return KL_OK;
}

static kl_status find_symbols(reader *r) {
  for (size_t i = 0; i < r->header.e_shnum; i++) {
    Elf64_Shdr table = section_at(r, i);
    if (table.sh_type != SHT_SYMTAB) continue;
    if (table.sh_link >= r->header.e_shnum) return bad("its symbols have no names");
    Elf64_Shdr names = section_at(r, table.sh_link);
    if (!inside(r, table.sh_offset, table.sh_size) || !inside(r, names.sh_offset, names.sh_size))
      return bad("its symbol table is outside the file");
    if (names.sh_size == 0 || r->bytes[names.sh_offset + names.sh_size - 1] != 0)
      return bad("its symbol names do not end");
    r->symbols = r->bytes + table.sh_offset;
    r->n_symbols = table.sh_size / sizeof(Elf64_Sym);
    r->strings = r->bytes + names.sh_offset;
    r->strings_nbytes = names.sh_size;
    return KL_OK;
  }
  return bad("it has no symbols");
}

static kl_status symbol_at(const reader *r, size_t index, Elf64_Sym *out_symbol) {
  if (index >= r->n_symbols) return bad("it names a symbol that does not exist");
  memcpy(out_symbol, r->symbols + index * sizeof *out_symbol, sizeof *out_symbol);
  if (out_symbol->st_name >= r->strings_nbytes) return bad("a symbol has no name");
  return KL_OK;
}

static const char *name_of(const reader *r, const Elf64_Sym *symbol) {
  return (const char *)r->strings + symbol->st_name;
}

static void write_stub(char *at, const void *target) {
#if defined(__x86_64__)
  /* jmp *[rip + 0], and the address */
  static const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0};
#else
  /* ldr x16, [pc + 8]; br x16, and the address */
  static const unsigned char jump[] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6};
#endif
  memcpy(at, jump, sizeof jump);
  memcpy(at + sizeof jump, &target, sizeof target);
}

/* The address a relocation against `index` means. */
static kl_status resolve(const reader *r, size_t index, uint64_t *out_address) {
  Elf64_Sym symbol;
  KL_TRY(symbol_at(r, index, &symbol));
  if (symbol.st_shndx == SHN_UNDEF) {
    const char *name = name_of(r, &symbol);
    for (size_t i = 0; i < N_CALLEES; i++) {
      if (strcmp(name, callees[i].name) != 0) continue;
      char *stub = r->image + r->stubs + i * STUB_NBYTES;
      write_stub(stub, callees[i].address);
      *out_address = (uint64_t)(uintptr_t)stub;
      return KL_OK;
    }
    return kl_fail(KL_ERR_COMPILER,
                   "compiled code cannot be loaded: it calls '%.100s', which is not in the table",
                   name);
  }
  if (symbol.st_shndx >= r->header.e_shnum || r->place[symbol.st_shndx] == SIZE_MAX)
    return bad("a symbol is in no loaded section");
  if (symbol.st_value > section_at(r, symbol.st_shndx).sh_size)
    return bad("a symbol is outside its section");
  *out_address = (uint64_t)(uintptr_t)(r->image + r->place[symbol.st_shndx]) + symbol.st_value;
  return KL_OK;
}

static bool fits_i32(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

/* How many bytes a relocation writes; 0 for a kind that is not known. */
static unsigned relocation_nbytes(uint32_t type) {
#if defined(__x86_64__)
  switch (type) {
    case R_X86_64_64:
    case R_X86_64_PC64:
      return 8;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      return 4;
    default:
      return 0;
  }
#elif defined(__aarch64__)
  switch (type) {
    case R_AARCH64_ABS64:
    case R_AARCH64_PREL64:
      return 8;
    case R_AARCH64_PREL32:
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return 4;
    default:
      return 0;
  }
#else
  (void)type;
  return 0;
#endif
}

#if defined(__aarch64__)
/* Instructions with an immediate: `mask` bits at `shift`. */
static void patch(char *at, uint32_t mask, unsigned shift, uint64_t value) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  word = (word & ~(mask << shift)) | (((uint32_t)value & mask) << shift);
  memcpy(at, &word, sizeof word);
}

static kl_status apply_aarch64(uint32_t type, char *at, uint64_t target) {
  int64_t page = (int64_t)(target >> 12) - (int64_t)((uint64_t)(uintptr_t)at >> 12);
  int64_t words = (int64_t)(target - (uint64_t)(uintptr_t)at) / 4;
  unsigned low = (unsigned)target & 0xfff;
  switch (type) {
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      patch(at, 0x3ffffff, 0, (uint64_t)words);
      break;
    case R_AARCH64_ADR_PREL_PG_HI21:
      patch(at, 3, 29, (uint64_t)page);
      patch(at, 0x7ffff, 5, (uint64_t)page >> 2);
      break;
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      patch(at, 0xfff, 10, low);
      break;
    case R_AARCH64_LDST16_ABS_LO12_NC:
      patch(at, 0xfff, 10, low >> 1);
      break;
    case R_AARCH64_LDST32_ABS_LO12_NC:
      patch(at, 0xfff, 10, low >> 2);
      break;
    case R_AARCH64_LDST64_ABS_LO12_NC:
      patch(at, 0xfff, 10, low >> 3);
      break;
    default:
      patch(at, 0xfff, 10, low >> 4);
      break;
  }
  return KL_OK;
}
#endif

static kl_status apply(uint32_t type, char *at, uint64_t target) {
  int64_t distance = (int64_t)(target - (uint64_t)(uintptr_t)at);
#if defined(__x86_64__)
  bool absolute = type == R_X86_64_64;
#elif defined(__aarch64__)
  bool absolute = type == R_AARCH64_ABS64;
  if (type != R_AARCH64_ABS64 && type != R_AARCH64_PREL64 && type != R_AARCH64_PREL32)
    return apply_aarch64(type, at, target);
#else
  bool absolute = true;
#endif
  if (relocation_nbytes(type) == 8) {
    uint64_t value = absolute ? target : (uint64_t)distance;
    memcpy(at, &value, sizeof value);
    return KL_OK;
  }
  if (!fits_i32(distance)) return bad("a relocation reaches too far");
  int32_t value = (int32_t)distance;
  memcpy(at, &value, sizeof value);
  return KL_OK;
}

static kl_status relocate_section(const reader *r, const Elf64_Shdr *table) {
  if (table->sh_info >= r->header.e_shnum || r->place[table->sh_info] == SIZE_MAX) return KL_OK;
  Elf64_Shdr target = section_at(r, table->sh_info);
  if (!inside(r, table->sh_offset, table->sh_size)) return bad("relocations are outside the file");
  if (target.sh_type == SHT_NOBITS) return bad("it relocates an empty section");
  for (size_t i = 0; i < table->sh_size / sizeof(Elf64_Rela); i++) {
    Elf64_Rela rela;
    memcpy(&rela, r->bytes + table->sh_offset + i * sizeof rela, sizeof rela);
    uint32_t type = (uint32_t)ELF64_R_TYPE(rela.r_info);
    unsigned nbytes = relocation_nbytes(type);
    if (type == 0) continue;
    if (nbytes == 0)
      return kl_fail(KL_ERR_COMPILER,
                     "compiled code cannot be loaded: relocation of unknown kind %u", type);
    if (rela.r_offset > target.sh_size || nbytes > target.sh_size - rela.r_offset)
      return bad("a relocation is outside its section");
    uint64_t address = 0;
    KL_TRY(resolve(r, ELF64_R_SYM(rela.r_info), &address));
    char *at = r->image + r->place[table->sh_info] + rela.r_offset;
    KL_TRY(apply(type, at, address + (uint64_t)rela.r_addend));
  }
  return KL_OK;
}

static kl_status fill_image(const reader *r) {
  for (size_t i = 0; i < r->header.e_shnum; i++) {
    Elf64_Shdr section = section_at(r, i);
    if (r->place[i] != SIZE_MAX && section.sh_type != SHT_NOBITS)
      memcpy(r->image + r->place[i], r->bytes + section.sh_offset, section.sh_size);
  }
  for (size_t i = 0; i < r->header.e_shnum; i++) {
    Elf64_Shdr section = section_at(r, i);
    if (section.sh_type == SHT_RELA) KL_TRY(relocate_section(r, &section));
    if (section.sh_type == SHT_REL) return bad("relocations without addends");
  }
  return KL_OK;
}

static kl_status find_function(const reader *r, const char *name, kl_module *module) {
  for (size_t i = 0; i < r->n_symbols; i++) {
    Elf64_Sym symbol;
    KL_TRY(symbol_at(r, i, &symbol));
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || strcmp(name_of(r, &symbol), name) != 0)
      continue;
    if (symbol.st_shndx >= r->header.e_shnum || r->place[symbol.st_shndx] == SIZE_MAX) break;
    Elf64_Shdr section = section_at(r, symbol.st_shndx);
    if (!(section.sh_flags & SHF_EXECINSTR) || symbol.st_value >= section.sh_size) break;
    module->code = r->image + r->place[symbol.st_shndx];
    module->code_nbytes = section.sh_size;
    module->symbol = r->image + r->place[symbol.st_shndx] + symbol.st_value;
    return KL_OK;
  }
  return kl_fail(KL_ERR_COMPILER, "compiled code cannot be loaded: it has no function '%.100s'",
                 name);
}

/* An .eh_frame must end in a zero word, which a relocatable object leaves to the linker; the image
 * has room for it only by chance, so the data is registered where it is followed by zeros. */
static void register_frames(const reader *r, kl_module *module) {
  if (!__register_frame || !__deregister_frame) return;
  Elf64_Shdr names;
  if (r->header.e_shstrndx >= r->header.e_shnum) return;
  names = section_at(r, r->header.e_shstrndx);
  if (!inside(r, names.sh_offset, names.sh_size)) return;
  for (size_t i = 0; i < r->header.e_shnum; i++) {
    Elf64_Shdr section = section_at(r, i);
    static const char wanted[] = ".eh_frame";
    if (r->place[i] == SIZE_MAX || section.sh_name > names.sh_size ||
        names.sh_size - section.sh_name < sizeof wanted)
      continue;
    if (memcmp(r->bytes + names.sh_offset + section.sh_name, wanted, sizeof wanted) != 0) continue;
    size_t end = r->place[i] + section.sh_size;
    uint32_t after = 1;
    if (end + sizeof after <= r->image_nbytes) memcpy(&after, r->image + end, sizeof after);
    if (after != 0) continue;
    module->frames = r->image + r->place[i];
    __register_frame(module->frames);
    return;
  }
}

static kl_status protect(const reader *r) {
  size_t data = r->image_nbytes - r->code_end;
  __builtin___clear_cache(r->image, r->image + r->code_end);
  if (mprotect(r->image, r->code_end, PROT_READ | PROT_EXEC) != 0 ||
      (data && mprotect(r->image + r->code_end, data, PROT_READ) != 0))
    return bad("the system does not let memory become executable");
  return KL_OK;
}

static kl_status map_image(reader *r, const char *symbol, kl_module *module) {
  void *image =
      mmap(NULL, r->image_nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (image == MAP_FAILED) return kl_fail_memory("compiled code", r->image_nbytes);
  r->image = module->base = image;
  module->nbytes = r->image_nbytes;
  KL_TRY(fill_image(r));
  KL_TRY(find_function(r, symbol, module));
  KL_TRY(protect(r));
  register_frames(r, module);
  return KL_OK;
}

kl_status kl_loader_map(const void *bytes, size_t nbytes, const char *symbol,
                        kl_module **out_module) {
  long page = sysconf(_SC_PAGESIZE);
  kl_module *module = kl_calloc(1, sizeof *module);
  reader *r = kl_calloc(1, sizeof *r);
  kl_status status = KL_OK;
  if (!module || !r) {
    status = kl_fail_memory("compiled code", sizeof *module + sizeof *r);
    goto done;
  }
  r->bytes = bytes;
  r->nbytes = nbytes;
  KL_TRY_GOTO(status, read_header(r), done);
  KL_TRY_GOTO(status, place_sections(r, (size_t)page), done);
  KL_TRY_GOTO(status, find_symbols(r), done);
  KL_TRY_GOTO(status, map_image(r, symbol, module), done);
  *out_module = module;
done:
  kl_free(r);
  if (status != KL_OK) kl_module_unload(module);
  return status;
}

void *kl_module_symbol(const kl_module *module) { return module->symbol; }

const void *kl_module_code(const kl_module *module, size_t *out_nbytes) {
  *out_nbytes = module->code_nbytes;
  return module->code;
}

void kl_module_unload(kl_module *module) {
  if (!module) return;
  if (module->frames) __deregister_frame(module->frames);
  if (module->base) munmap(module->base, module->nbytes);
  kl_free(module);
}
