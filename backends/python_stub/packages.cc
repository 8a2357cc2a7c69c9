#include "packages.h"

#include <fstream>
#include <regex>
#include <string_view>

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

// The text that a line assigns to `version`, with or without a type; "" of another line.
std::string AssignedVersion(const std::string& line) {
  constexpr std::string_view kName = "version";
  const std::size_t equals = line.find('=');
  const std::size_t behind = line.find_first_not_of(" \t", kName.size());
  const bool assigns = line.compare(0, kName.size(), kName) == 0 && equals != std::string::npos &&
                       (behind == equals || line[behind] == ':');
  const std::size_t quote = assigns ? line.find_first_not_of(" \t", equals + 1) : std::string::npos;
  if (quote == std::string::npos || (line[quote] != '"' && line[quote] != '\'')) {
    return "";
  }
  const std::size_t end = line.find(line[quote], quote + 1);
  return end == std::string::npos ? "" : line.substr(quote + 1, end - quote - 1);
}

// The version that the package's own version.py writes down.
std::string WrittenVersion(const fs::path& package) {
  std::ifstream lines(package / "version.py");
  for (std::string line; std::getline(lines, line);) {
    const std::string version = AssignedVersion(line);
    if (!version.empty()) {
      return version;
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
    const bool is_there =
        fs::exists(package / "__init__.py", error) || fs::exists(folder / (name + ".py"), error);
    // An editable installation leaves its metadata and a hook for imports, without the package.
    if (is_there || !installed.empty()) {
      return FoundPackage{package, installed.empty() ? WrittenVersion(package) : installed};
    }
  }
  return std::nullopt;
}

}  // namespace endcap::python_stub
