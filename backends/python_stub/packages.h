// Packages of an environment, and imports of Python files, found without running Python.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace endcap::python_stub {

struct FoundPackage {
  std::filesystem::path folder;  // of the package: .../site-packages/numpy
  std::string version;           // empty if no file has it
};

// Returns the package or module that an import of `name` loads; folders: in the order of sys.path.
std::optional<FoundPackage> FindPackage(const std::vector<std::filesystem::path>& folders,
                                        const std::string& name);

// Whether loading a Python file always imports the package: an import statement at the start of a
// line, outside strings in triple quotes. Imports in a `try`, an `if` or a function are indented
// and do not count.
bool ImportsPackage(const std::filesystem::path& python_file, const std::string& package);

}  // namespace endcap::python_stub
