// The Python environment of a stub, found by its files; no program is started.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace endcap::python_stub {

struct PythonEnvironment {
  std::filesystem::path program;  // .../bin/python3, as found on PATH
  std::optional<int> minor;       // 11 for Python 3.11; none if no file has it
  std::filesystem::path prefix;   // of the environment, with its own packages
  std::filesystem::path
      base_prefix;            // of the installation, with libpython and the standard library
  bool base_packages = true;  // whether the installation's packages are importable, too

  std::string Version() const;

  // Returns the folders that are searched for packages, in their order, with those of .pth files.
  //
  // python_path, user_base: PYTHONPATH and ~/.local, if the Python uses them.
  std::vector<std::filesystem::path> ListPackageFolders(
      const std::string& python_path = "", const std::filesystem::path& user_base = {}) const;
};

// Returns every python3 on a search path (folders between colons), in its order.
std::vector<PythonEnvironment> FindPythons(const std::string& search_path);

// Returns the environment that the server has activated for a model: its bin and lib folders are
// the first ones of PATH and LD_LIBRARY_PATH. None for a model that runs in the server's own
// Python. One without a bin/python3 need not be the first one of PATH.
std::optional<std::filesystem::path> FindActivatedPrefix(const std::string& search_path,
                                                         const std::string& library_path);

// Splits a list of folders at colons; empty parts are left out.
std::vector<std::string> SplitFolders(const std::string& folders);

}  // namespace endcap::python_stub
