#include "packages.h"

#include <fstream>
#include <regex>
#include <string_view>

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

// Returns the version in the name of the metadata folder: numpy-1.26.4.dist-info.
std::string ReadInstalledVersion(const fs::path& folder, const std::string& name) {
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

// Returns the string that a line assigns to `version`, with or without a type annotation; else "".
std::string ParseVersionLine(const std::string& line) {
  constexpr std::string_view kName = "version";
  const std::size_t equals = line.find('=');
  const std::size_t after = line.find_first_not_of(" \t", kName.size());
  const bool assigns = line.compare(0, kName.size(), kName) == 0 && equals != std::string::npos &&
                       (after == equals || line[after] == ':');
  const std::size_t quote = assigns ? line.find_first_not_of(" \t", equals + 1) : std::string::npos;
  if (quote == std::string::npos || (line[quote] != '"' && line[quote] != '\'')) {
    return "";
  }
  const std::size_t end = line.find(line[quote], quote + 1);
  return end == std::string::npos ? "" : line.substr(quote + 1, end - quote - 1);
}

// Returns the version in the package's version.py; else "".
std::string ReadVersionFile(const fs::path& package) {
  std::ifstream lines(package / "version.py");
  for (std::string line; std::getline(lines, line);) {
    const std::string version = ParseVersionLine(line);
    if (!version.empty()) {
      return version;
    }
  }
  return "";
}

constexpr std::string_view kSpaces = " \t\r\f";

// Whether a line begins with `import PACKAGE` or `from PACKAGE`, or imports a submodule.
bool BeginsWithImport(std::string_view line, std::string_view package) {
  for (const std::string_view keyword : {"import", "from"}) {
    if (line.substr(0, keyword.size()) != keyword) {
      continue;
    }
    const std::string_view after = line.substr(keyword.size());
    const std::size_t name = after.find_first_not_of(kSpaces);
    if (name == 0 || name == std::string_view::npos ||
        after.substr(name, package.size()) != package) {
      continue;
    }
    const std::string_view rest = after.substr(name + package.size());
    return rest.empty() || std::string_view(" \t\r\f.,;#").find(rest[0]) != std::string_view::npos;
  }
  return false;
}

// Tracks strings in triple quotes, line by line.
class TripleQuoteParser {
 public:
  bool open() const { return !open_.empty(); }

  void Read(std::string_view line) {
    for (std::size_t at = 0; at < line.size();) {
      at = open() ? SkipString(line, at) : SkipCode(line, at);
    }
  }

 private:
  std::size_t SkipString(std::string_view line, std::size_t at) {
    if (line[at] == '\\') {
      return at + 2;
    }
    if (line.substr(at, 3) != open_) {
      return at + 1;
    }
    open_.clear();
    return at + 3;
  }

  std::size_t SkipCode(std::string_view line, std::size_t at) {
    if (line[at] == '#') {
      return line.size();
    }
    if (line[at] != '"' && line[at] != '\'') {
      return at + 1;
    }
    const std::string three(3, line[at]);
    if (line.substr(at, 3) == three) {
      open_ = three;
      return at + 3;
    }
    std::size_t end = at + 1;
    while (end < line.size() && line[end] != line[at]) {
      end += line[end] == '\\' ? 2 : 1;
    }
    return end + 1;
  }

  std::string open_;  // the quotes that end the string; "" outside a string
};

}  // namespace

std::optional<FoundPackage> FindPackage(const std::vector<fs::path>& folders,
                                        const std::string& name) {
  std::error_code error;
  for (const fs::path& folder : folders) {
    const fs::path package = folder / name;
    const std::string installed = ReadInstalledVersion(folder, name);
    const bool exists =
        fs::exists(package / "__init__.py", error) || fs::exists(folder / (name + ".py"), error);
    // An editable installation has metadata and an import hook, but no package here.
    if (exists || !installed.empty()) {
      return FoundPackage{package, installed.empty() ? ReadVersionFile(package) : installed};
    }
  }
  return std::nullopt;
}

bool ImportsPackage(const std::filesystem::path& python_file, const std::string& package) {
  std::ifstream lines(python_file);
  TripleQuoteParser quotes;
  for (std::string line; std::getline(lines, line);) {
    if (!quotes.open() && BeginsWithImport(line, package)) {
      return true;
    }
    quotes.Read(line);
  }
  return false;
}

}  // namespace endcap::python_stub
