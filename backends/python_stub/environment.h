// The Python that a stub would run, found by its files alone: nothing is started.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace endcap::python_stub {

struct PythonEnvironment {
  std::filesystem::path program;      // .../bin/python3, as found on PATH
  std::optional<int> minor;           // 11 for Python 3.11; nothing where no file tells
  std::filesystem::path prefix;       // of the environment: its own packages lie below
  std::filesystem::path base_prefix;  // of the installation: its libpython and standard library
  bool base_packages = true;          // whether the installation's packages are seen too

  std::string Version() const;

  // Where packages are looked for, in this order, folders named in .pth files included.
  //
  // python_path, user_base: PYTHONPATH and ~/.local, where the Python looks at them.
  std::vector<std::filesystem::path> PackageFolders(
      const std::string& python_path = "", const std::filesystem::path& user_base = {}) const;
};

// Every python3 on a search path (folders between colons), in its order.
std::vector<PythonEnvironment> FindPythons(const std::string& search_path);

// The environment that the server has activated for a model, told by PATH and LD_LIBRARY_PATH, in
// front of which are its bin and lib folders; nothing for a model that runs in the server's own
// Python. One without a bin/python3 need not be in front of PATH.
std::optional<std::filesystem::path> ActivatedPrefix(const std::string& search_path,
                                                     const std::string& library_path);

// The parts of a text between colons, empty ones left out.
std::vector<std::string> SplitFolders(const std::string& folders);

}  // namespace endcap::python_stub
