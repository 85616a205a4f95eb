// The check of a kernel object before the loader sees it.
//
// What is read of the file (System V gABI, chapters 4 and 5): the ELF header; the program headers,
// of which PT_DYNAMIC leads to the dynamic section and PT_LOAD maps addresses to file offsets; of
// the dynamic section the relocation tables; the dynamic symbol table through the section headers.
#include "runtime/device/KernelObject.h"
#include "runtime/support/Json.h"

#include <cstring>
#include <elf.h>
#include <optional>
#include <vector>

namespace gemma {

namespace {

class ElfCheck {
public:
  ElfCheck(std::string_view elf, std::string where) : elf(elf), where(std::move(where)) {}

  Status run() {
    std::optional<Elf64_Ehdr> read = at<Elf64_Ehdr>(0);
    if (!read || std::memcmp(read->e_ident, ELFMAG, SELFMAG) != 0)
      return refuse("expected an ELF file");
    header = *read;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != EM_X86_64 || header.e_type != ET_DYN)
      return refuse("expected a shared object for x86-64");
    if (Status status = checkSegments(); !status)
      return status;
    if (Status status = checkDynamic(); !status)
      return status;
    return checkSymbols();
  }

private:
  Status refuse(const std::string &what) const { return badInput(where + ": " + what); }

  template <typename T> std::optional<T> at(uint64_t offset) const {
    if (offset > elf.size() || sizeof(T) > elf.size() - offset)
      return std::nullopt;
    T value;
    std::memcpy(&value, elf.data() + offset, sizeof value);
    return value;
  }

  /// File offset of `bytes` bytes at a virtual address; nothing if they are not all in the file.
  std::optional<uint64_t> offsetOf(uint64_t address, uint64_t bytes) const {
    for (const Elf64_Phdr &load : loads)
      if (address >= load.p_vaddr && address - load.p_vaddr <= load.p_filesz &&
          bytes <= load.p_filesz - (address - load.p_vaddr))
        return load.p_offset + (address - load.p_vaddr);
    return std::nullopt;
  }

  Status checkSegments() {
    if (header.e_phentsize != sizeof(Elf64_Phdr))
      return refuse("program headers of an unknown size");
    uint64_t mapped = 0;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      std::optional<Elf64_Phdr> segment =
          header.e_phoff <= elf.size()
              ? at<Elf64_Phdr>(header.e_phoff + uint64_t(i) * sizeof(Elf64_Phdr))
              : std::nullopt;
      if (!segment)
        return refuse("program headers beyond the end of the file");
      switch (segment->p_type) {
      case PT_LOAD:
        if (segment->p_offset > elf.size() || segment->p_filesz > elf.size() - segment->p_offset ||
            segment->p_memsz < segment->p_filesz || segment->p_memsz > (uint64_t(1) << 30) ||
            segment->p_vaddr > (uint64_t(1) << 32) || segment->p_vaddr < mapped ||
            (segment->p_align > 1 && (segment->p_vaddr - segment->p_offset) % segment->p_align))
          return refuse("a segment that is not inside the file");
        if ((segment->p_flags & PF_W) && (segment->p_flags & PF_X))
          return refuse("a segment that is writable and executable");
        mapped = segment->p_vaddr + segment->p_memsz;
        loads.push_back(*segment);
        break;
      case PT_DYNAMIC:
        if (dynamic)
          return refuse("two dynamic sections");
        dynamic = *segment;
        break;
      case PT_TLS:
        return refuse("thread-local storage, which kernels may not have");
      case PT_INTERP:
        return refuse("an interpreter, which kernels may not have");
      case PT_GNU_STACK:
        if (segment->p_flags & PF_X)
          return refuse("it asks for an executable stack");
        break;
      default:
        break;
      }
    }
    if (!dynamic)
      return refuse("no dynamic section");
    return {};
  }

  Status checkDynamic() {
    // The loader reads it in memory: by address, not by file offset.
    std::optional<uint64_t> offset = offsetOf(dynamic->p_vaddr, dynamic->p_memsz);
    if (!offset)
      return refuse("a dynamic section that is not inside the file");
    uint64_t rela = 0, relaBytes = 0, relaEntry = sizeof(Elf64_Rela);
    bool ended = false;
    for (uint64_t i = 0; i < dynamic->p_memsz / sizeof(Elf64_Dyn) && !ended; ++i) {
      std::optional<Elf64_Dyn> entry = at<Elf64_Dyn>(*offset + i * sizeof(Elf64_Dyn));
      if (!entry)
        return refuse("a dynamic section that is not inside the file");
      switch (entry->d_tag) {
      case DT_NULL:
        ended = true;
        break;
      case DT_NEEDED:
      case DT_AUXILIARY:
      case DT_FILTER:
        return refuse("it needs a library, which kernels may not");
      case DT_INIT:
      case DT_FINI:
      case DT_INIT_ARRAY:
      case DT_FINI_ARRAY:
      case DT_PREINIT_ARRAY:
        return refuse("code that runs when it is loaded, which kernels may not have");
      case DT_REL:
      case DT_JMPREL:
      case DT_RELR:
      case DT_TEXTREL:
        return refuse("relocations of a kind that kernels may not have");
      case DT_RELA:
        rela = entry->d_un.d_ptr;
        break;
      case DT_RELASZ:
        relaBytes = entry->d_un.d_val;
        break;
      case DT_RELAENT:
        relaEntry = entry->d_un.d_val;
        break;
      default:
        break;
      }
    }
    if (!ended || relaEntry != sizeof(Elf64_Rela))
      return refuse("a damaged dynamic section");
    if (relaBytes == 0)
      return {};
    std::optional<uint64_t> table = offsetOf(rela, relaBytes);
    if (!table)
      return refuse("relocations that are not inside the file");
    for (uint64_t i = 0; i < relaBytes / sizeof(Elf64_Rela); ++i) {
      std::optional<Elf64_Rela> entry = at<Elf64_Rela>(*table + i * sizeof(Elf64_Rela));
      if (!entry || ELF64_R_TYPE(entry->r_info) != R_X86_64_RELATIVE)
        return refuse("a relocation that is not relative: kernels may not use symbols of others");
      // Within what is mapped writable, or the loader would crash.
      bool inside = false;
      for (const Elf64_Phdr &load : loads)
        inside |= (load.p_flags & PF_W) && entry->r_offset >= load.p_vaddr &&
                  entry->r_offset - load.p_vaddr <= load.p_memsz &&
                  8 <= load.p_memsz - (entry->r_offset - load.p_vaddr);
      if (!inside)
        return refuse("a relocation outside of writable memory");
    }
    return {};
  }

  Status checkSymbols() {
    // Section headers say how long the dynamic symbol table is. Without them no undefined symbol
    // could be bound either: that takes a relocation.
    for (unsigned i = 0; i < header.e_shnum && header.e_shentsize == sizeof(Elf64_Shdr); ++i) {
      std::optional<Elf64_Shdr> section =
          header.e_shoff <= elf.size()
              ? at<Elf64_Shdr>(header.e_shoff + uint64_t(i) * sizeof(Elf64_Shdr))
              : std::nullopt;
      if (!section)
        return refuse("section headers beyond the end of the file");
      if (section->sh_type != SHT_DYNSYM)
        continue;
      for (uint64_t s = 1; s < section->sh_size / sizeof(Elf64_Sym); ++s) {
        std::optional<Elf64_Sym> symbol = at<Elf64_Sym>(section->sh_offset + s * sizeof(Elf64_Sym));
        if (!symbol)
          return refuse("a symbol table that is not inside the file");
        if (symbol->st_shndx == SHN_UNDEF)
          return refuse("undefined symbol " + nameOf(*symbol, *section));
        if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
          return refuse("a symbol that is found by running code: " + nameOf(*symbol, *section));
      }
    }
    return {};
  }

  std::string nameOf(const Elf64_Sym &symbol, const Elf64_Shdr &table) const {
    std::optional<Elf64_Shdr> strings =
        at<Elf64_Shdr>(header.e_shoff + uint64_t(table.sh_link) * sizeof(Elf64_Shdr));
    if (!strings || strings->sh_offset > elf.size() ||
        symbol.st_name >= elf.size() - strings->sh_offset)
      return "?";
    std::string_view rest = elf.substr(strings->sh_offset + symbol.st_name, 200);
    return quoteForMessage(rest.substr(0, rest.find('\0')));
  }

  std::string_view elf;
  std::string where;
  Elf64_Ehdr header{};
  std::vector<Elf64_Phdr> loads;
  std::optional<Elf64_Phdr> dynamic;
};

} // namespace

Status checkKernelElf(std::string_view elf, const std::string &where) {
  return ElfCheck(elf, where).run();
}

} // namespace gemma
