// Temporary folders and ELF files for tests of the Python stub.
#pragma once

#include <elf.h>
#include <stdlib.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace endcap::python_stub {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "endcap_stub_test_XXXXXX").string();
    path_ = std::filesystem::canonical(mkdtemp(name.data()));
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file, and creates its parent folders.
  std::filesystem::path Write(const std::string& name, const std::string& content = "") const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

  std::filesystem::path WriteProgram(const std::string& name,
                                     const std::string& content = "") const {
    const std::filesystem::path file = Write(name, content);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }

  std::filesystem::path Link(const std::string& name, const std::string& target) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::filesystem::create_symlink(target, path_ / name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Returns an ELF file with DT_NEEDED entries and a build id, without code; `text` is appended.
inline std::string MakeElfFile(const std::vector<std::string>& needed, const std::string& build_id,
                               const std::string& text = "") {
  struct Layout {
    Elf64_Ehdr header;
    Elf64_Phdr segments[3];
  } layout = {};
  std::string names(1, '\0');
  std::vector<Elf64_Dyn> entries;
  for (const std::string& library : needed) {
    entries.push_back({DT_NEEDED, {names.size()}});
    names += library + '\0';
  }
  const std::size_t dynamic_at = sizeof(Layout);
  const std::size_t names_at = dynamic_at + (entries.size() + 2) * sizeof(Elf64_Dyn);
  const std::size_t note_at = (names_at + names.size() + 3) / 4 * 4;
  entries.push_back({DT_STRTAB, {names_at}});
  entries.push_back({DT_NULL, {0}});
  const Elf64_Nhdr note = {4, static_cast<Elf64_Word>(build_id.size()), NT_GNU_BUILD_ID};
  const std::size_t end = note_at + sizeof(note) + 4 + build_id.size();

  std::memcpy(layout.header.e_ident, ELFMAG, SELFMAG);
  layout.header.e_ident[EI_CLASS] = ELFCLASS64;
  layout.header.e_ident[EI_DATA] = ELFDATA2LSB;
#if defined(__aarch64__)
  layout.header.e_machine = EM_AARCH64;
#else
  layout.header.e_machine = EM_X86_64;
#endif
  layout.header.e_phoff = sizeof(Elf64_Ehdr);
  layout.header.e_phnum = 3;
  layout.segments[0] = {PT_LOAD, PF_R, 0, 0, 0, end, end, 4096};
  layout.segments[1] = {PT_DYNAMIC, PF_R, dynamic_at, dynamic_at, 0, names_at - dynamic_at, 0, 8};
  layout.segments[2] = {PT_NOTE, PF_R, note_at, note_at, 0, end - note_at, 0, 4};

  std::string bytes(end, '\0');
  std::memcpy(bytes.data(), &layout, sizeof(layout));
  std::memcpy(bytes.data() + dynamic_at, entries.data(), entries.size() * sizeof(Elf64_Dyn));
  std::memcpy(bytes.data() + names_at, names.data(), names.size());
  std::memcpy(bytes.data() + note_at, &note, sizeof(note));
  std::memcpy(bytes.data() + note_at + sizeof(note), ELF_NOTE_GNU, 4);
  std::memcpy(bytes.data() + note_at + sizeof(note) + 4, build_id.data(), build_id.size());
  return bytes + text;
}

}  // namespace endcap::python_stub
