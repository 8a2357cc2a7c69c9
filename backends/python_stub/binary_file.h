// ELF files: libraries, build id, and the Python that a stub embeds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace endcap::python_stub {

// A 64-bit little-endian ELF file of this machine, in memory. Layout: elf(5).
class BinaryFile {
 public:
  // Returns none if the file cannot be read or is another kind of file.
  static std::optional<BinaryFile> Read(const std::filesystem::path& path);

  // Returns the libraries of its DT_NEEDED entries.
  std::vector<std::string> NeededLibraries() const;

  // Returns the GNU build id in hexadecimal digits; empty if there is none.
  std::string BuildId() const;

  bool Contains(std::string_view text) const;

  // Whether the loader can be asked for its libraries without running code: it has no audit
  // libraries (DT_AUDIT, DT_DEPAUDIT), which the loader starts even then, and its segments are laid
  // out so that the loader reads the same dynamic entries. See rtld-audit(7).
  bool IsSafeToTrace() const;

 private:
  explicit BinaryFile(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;
};

// Returns the minor version of the Python 3 that a stub embeds, by the libpython that it needs.
std::optional<int> FindPythonMinor(const BinaryFile& stub);

// Whether a stub supports arrays of NumPy 2. pybind11 imports NumPy's C functions by the name of a
// module, which differs in NumPy 2; only releases that support NumPy 2 contain that name. None if
// the stub contains neither name.
std::optional<bool> SupportsNumpy2(const BinaryFile& stub);

// Whether the Python that a stub embeds uses PYTHONPATH and the user's packages. One that is
// initialised by PyConfig_InitIsolatedConfig does not. Source: Python's initialization
// configuration, docs.python.org/3/c-api/init_config.html
bool UsesEnvironmentVariables(const BinaryFile& stub);

}  // namespace endcap::python_stub
