// Packages of an environment, found by their files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace endcap::python_stub {

struct FoundPackage {
  std::filesystem::path folder;  // the package itself: .../site-packages/numpy
  std::string version;           // "" where no file tells
};

// The package or module that an import of `name` would take; folders are looked at in their order.
std::optional<FoundPackage> FindPackage(const std::vector<std::filesystem::path>& folders,
                                        const std::string& name);

}  // namespace endcap::python_stub
