// What an ELF file of this machine tells of itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace endcap::python_stub {

// One 64-bit little-endian ELF file, held in memory. Source of the layout: elf(5).
class BinaryFile {
 public:
  // Nothing where the file cannot be read or is no ELF file of this kind.
  static std::optional<BinaryFile> Read(const std::filesystem::path& path);

  // The names of the libraries that it asks the loader for.
  std::vector<std::string> NeededLibraries() const;

  // The linker's fingerprint of the content, in hexadecimal digits; "" where there is none.
  std::string BuildId() const;

  bool Contains(std::string_view text) const;

 private:
  explicit BinaryFile(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;
};

// The minor version of Python 3 that a stub embeds, by the libpython that it needs.
std::optional<int> FindPythonMinor(const BinaryFile& stub);

// Whether a stub can take arrays of NumPy 2. pybind11 looks for NumPy's C functions by a module's
// name, which is another in NumPy 2; only releases that know it contain it. Nothing where the stub
// names neither.
std::optional<bool> TakesNumpy2(const BinaryFile& stub);

// Whether the Python that a stub embeds looks at PYTHONPATH and at the user's own packages. One
// that is initialised by PyConfig_InitIsolatedConfig does not. Source: Python's initialization
// configuration, docs.python.org/3/c-api/init_config.html
bool ReadsVariables(const BinaryFile& stub);

}  // namespace endcap::python_stub
