#include "binary_file.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <regex>

namespace endcap::python_stub {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "The stub supports the machines of Triton: x86-64 and AArch64."
#endif

// Reads a value at an offset; none beyond the end of the file.
template <typename T>
std::optional<T> ReadAt(const std::string& bytes, std::size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::vector<Elf64_Phdr> ReadSegments(const std::string& bytes) {
  std::vector<Elf64_Phdr> segments;
  const auto header = ReadAt<Elf64_Ehdr>(bytes, 0);
  for (std::size_t i = 0; header && i < header->e_phnum; ++i) {
    const auto segment = ReadAt<Elf64_Phdr>(bytes, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) {
      break;
    }
    segments.push_back(*segment);
  }
  return segments;
}

// Returns the offset in the file of an address of the loaded program.
std::optional<std::size_t> FindFileOffset(const std::vector<Elf64_Phdr>& segments,
                                          Elf64_Addr address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

std::vector<Elf64_Dyn> ReadDynamicEntries(const std::string& bytes,
                                          const std::vector<Elf64_Phdr>& segments) {
  std::vector<Elf64_Dyn> entries;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) {
      continue;
    }
    for (std::size_t at = 0; at < segment.p_filesz; at += sizeof(Elf64_Dyn)) {
      const auto entry = ReadAt<Elf64_Dyn>(bytes, segment.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) {
        break;
      }
      entries.push_back(*entry);
    }
    break;  // a valid file has one; a corrupt one may have thousands that overlap
  }
  return entries;
}

// Whether the loadable segments ascend, in pages of their own: the loader maps whole pages, later
// ones over earlier ones.
bool AreDisjoint(const std::vector<Elf64_Phdr>& segments) {
  const auto page = static_cast<Elf64_Addr>(sysconf(_SC_PAGESIZE));
  constexpr Elf64_Addr kMaxAddress = Elf64_Addr{1} << 48;
  Elf64_Addr end = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD) {
      continue;
    }
    const bool is_valid = segment.p_filesz <= segment.p_memsz && segment.p_vaddr < kMaxAddress &&
                          segment.p_memsz < kMaxAddress && segment.p_vaddr / page * page >= end;
    if (!is_valid) {
      return false;
    }
    end = (segment.p_vaddr + segment.p_memsz + page - 1) / page * page;
  }
  return true;
}

std::string ReadStringAt(const std::string& bytes, std::size_t offset) {
  const std::size_t end = bytes.find('\0', offset);
  return offset < bytes.size() && end != std::string::npos ? bytes.substr(offset, end - offset)
                                                           : std::string();
}

std::string ToHexadecimal(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

constexpr std::size_t kMaxNameBytes = 255;  // of a file
constexpr std::uintmax_t kMaxFileBytes = 256 << 20;

constexpr std::size_t RoundUpTo4(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

}  // namespace

std::optional<BinaryFile> BinaryFile::Read(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);  // fails for a folder
  if (error || size > kMaxFileBytes) {
    return std::nullopt;
  }
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return std::nullopt;
  }
  const auto header = ReadAt<Elf64_Ehdr>(bytes, 0);
  const bool is_elf = header && bytes.compare(0, 4, ELFMAG) == 0 &&
                      header->e_ident[EI_CLASS] == ELFCLASS64 &&
                      header->e_ident[EI_DATA] == ELFDATA2LSB;
  if (!is_elf || header->e_machine != kMachine) {
    return std::nullopt;
  }
  return BinaryFile(std::move(bytes));
}

std::vector<std::string> BinaryFile::NeededLibraries() const {
  const std::vector<Elf64_Phdr> segments = ReadSegments(bytes_);
  const std::vector<Elf64_Dyn> entries = ReadDynamicEntries(bytes_, segments);
  std::optional<std::size_t> texts;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_STRTAB) {
      texts = FindFileOffset(segments, entry.d_un.d_ptr);
    }
  }
  std::vector<std::string> needed;
  for (const Elf64_Dyn& entry : entries) {
    if (texts && entry.d_tag == DT_NEEDED) {
      needed.push_back(ReadStringAt(bytes_, *texts + entry.d_un.d_val));
    }
  }
  return needed;
}

std::string BinaryFile::BuildId() const {
  for (const Elf64_Phdr& segment : ReadSegments(bytes_)) {
    if (segment.p_type != PT_NOTE) {
      continue;
    }
    std::size_t at = segment.p_offset;
    while (at < segment.p_offset + segment.p_filesz) {
      const auto note = ReadAt<Elf64_Nhdr>(bytes_, at);
      if (!note) {
        break;
      }
      const std::size_t name = at + sizeof(Elf64_Nhdr);
      const std::size_t content = name + RoundUpTo4(note->n_namesz);
      if (note->n_type == NT_GNU_BUILD_ID && content + note->n_descsz <= bytes_.size() &&
          bytes_.compare(name, sizeof(ELF_NOTE_GNU), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
        return ToHexadecimal(std::string_view(bytes_).substr(content, note->n_descsz));
      }
      at = content + RoundUpTo4(note->n_descsz);
    }
  }
  return "";
}

bool BinaryFile::IsSafeToTrace() const {
  const std::vector<Elf64_Phdr> segments = ReadSegments(bytes_);
  const auto is_dynamic = [](const Elf64_Phdr& segment) { return segment.p_type == PT_DYNAMIC; };
  const auto dynamic = std::find_if(segments.begin(), segments.end(), is_dynamic);
  if (!AreDisjoint(segments) || dynamic == segments.end() ||
      std::count_if(segments.begin(), segments.end(), is_dynamic) != 1) {
    return false;
  }
  // The loader reads to DT_NULL, at addresses; a size or an offset in the file does not count.
  Elf64_Addr address = dynamic->p_vaddr;
  for (;; address += sizeof(Elf64_Dyn)) {
    const auto offset = FindFileOffset(segments, address);
    const auto last = FindFileOffset(segments, address + sizeof(Elf64_Dyn) - 1);
    const auto entry = offset ? ReadAt<Elf64_Dyn>(bytes_, *offset) : std::nullopt;
    if (!entry || !last || *last != *offset + sizeof(Elf64_Dyn) - 1 || entry->d_tag == DT_AUDIT ||
        entry->d_tag == DT_DEPAUDIT) {
      return false;
    }
    if (entry->d_tag == DT_NULL) {
      return true;
    }
  }
}

bool BinaryFile::Contains(std::string_view text) const {
  return std::string_view(bytes_).find(text) != std::string_view::npos;
}

std::optional<int> FindPythonMinor(const BinaryFile& stub) {
  // Tools that bundle libraries put a hash into the name: libpython3-419a3a08.13.so.1.0.
  static const std::regex kName(R"(libpython3(?:-[0-9a-f]+)?\.(\d{1,3})[a-z]*\.so.*)");
  for (const std::string& library : stub.NeededLibraries()) {
    std::smatch match;
    // std::regex recurses for every character.
    if (library.size() <= kMaxNameBytes && std::regex_match(library, match, kName)) {
      return std::stoi(match[1]);
    }
  }
  return std::nullopt;
}

std::optional<bool> SupportsNumpy2(const BinaryFile& stub) {
  if (stub.Contains("numpy._core")) {
    return true;
  }
  if (stub.Contains("numpy.core.multiarray")) {
    return false;
  }
  return std::nullopt;
}

bool UsesEnvironmentVariables(const BinaryFile& stub) {
  return !stub.Contains("PyConfig_InitIsolatedConfig");
}

}  // namespace endcap::python_stub
