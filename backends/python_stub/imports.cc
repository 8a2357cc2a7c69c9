#include "imports.h"

#include <fstream>
#include <string_view>

namespace endcap::python_stub {
namespace {

constexpr std::string_view kSpaces = " \t\r\f";

// `import PACKAGE` or `from PACKAGE` at the start of a line, or a part of the package.
bool ImportsAtItsStart(std::string_view line, std::string_view package) {
  for (const std::string_view keyword : {"import", "from"}) {
    if (line.substr(0, keyword.size()) != keyword) {
      continue;
    }
    const std::string_view behind = line.substr(keyword.size());
    const std::size_t name = behind.find_first_not_of(kSpaces);
    if (name == 0 || name == std::string_view::npos ||
        behind.substr(name, package.size()) != package) {
      continue;
    }
    const std::string_view rest = behind.substr(name + package.size());
    return rest.empty() || std::string_view(" \t\r\f.,;#").find(rest[0]) != std::string_view::npos;
  }
  return false;
}

// Keeps account of texts in triple quotes, line by line.
class TripleQuotes {
 public:
  bool Open() const { return !open_.empty(); }

  void Read(std::string_view line) {
    for (std::size_t at = 0; at < line.size();) {
      at = Open() ? BehindEnd(line, at) : BehindNext(line, at);
    }
  }

 private:
  std::size_t BehindEnd(std::string_view line, std::size_t at) {
    if (line[at] == '\\') {
      return at + 2;
    }
    if (line.substr(at, 3) != open_) {
      return at + 1;
    }
    open_.clear();
    return at + 3;
  }

  std::size_t BehindNext(std::string_view line, std::size_t at) {
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

  std::string open_;  // the quotes that the text ends with; "" outside one
};

}  // namespace

bool Imports(const std::filesystem::path& python_file, const std::string& package) {
  std::ifstream lines(python_file);
  TripleQuotes quotes;
  for (std::string line; std::getline(lines, line);) {
    if (!quotes.Open() && ImportsAtItsStart(line, package)) {
      return true;
    }
    quotes.Read(line);
  }
  return false;
}

}  // namespace endcap::python_stub
