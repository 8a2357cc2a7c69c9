#include "packages.h"

#include <fstream>
#include <regex>

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

// The version in the name of the folder that installers leave: numpy-1.26.4.dist-info.
std::string InstalledVersion(const fs::path& folder, const std::string& name) {
  const std::regex pattern(name + R"(-([0-9][^-]*?)(?:-py[0-9.]+)?\.(?:dist|egg)-info)");
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::smatch match;
    const std::string file_name = entry.path().filename().string();
    if (std::regex_match(file_name, match, pattern)) {
      return match[1];
    }
  }
  return "";
}

// The version that the package's own version.py writes down.
std::string WrittenVersion(const fs::path& package) {
  static const std::regex kLine(R"(version\s*(?::\s*\w+\s*)?=\s*["']([^"']+)["'].*)");
  std::ifstream lines(package / "version.py");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kLine)) {
      return match[1];
    }
  }
  return "";
}

}  // namespace

std::optional<FoundPackage> FindPackage(const std::vector<fs::path>& folders,
                                        const std::string& name) {
  std::error_code error;
  for (const fs::path& folder : folders) {
    const fs::path package = folder / name;
    const std::string installed = InstalledVersion(folder, name);
    // An editable installation leaves its metadata and a hook for imports, without the package.
    if (fs::exists(package / "__init__.py", error) || !installed.empty()) {
      return FoundPackage{package, installed.empty() ? WrittenVersion(package) : installed};
    }
  }
  return std::nullopt;
}

bool Imports(const fs::path& python_file, const std::string& package) {
  const std::regex line_pattern(R"(\s*(?:import|from)\s+)" + package + R"((?:[.\s,].*)?)");
  std::ifstream lines(python_file);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, line_pattern)) {
      return true;
    }
  }
  return false;
}

}  // namespace endcap::python_stub
