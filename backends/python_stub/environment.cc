#include "environment.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

std::string Trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  const std::size_t last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

// Reads the `key = value` lines of a virtual environment's pyvenv.cfg.
std::map<std::string, std::string> ReadVenvConfig(const fs::path& file) {
  std::map<std::string, std::string> values;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) {
      values[Trimmed(line.substr(0, equals))] = Trimmed(line.substr(equals + 1));
    }
  }
  return values;
}

std::optional<int> ParseMinor(const std::string& text, const char* pattern) {
  std::smatch match;
  if (std::regex_match(text, match, std::regex(pattern))) {
    return std::stoi(match[1]);
  }
  return std::nullopt;
}

// Returns "3.11" for "3.11.7". Not by std::regex, which recurses for every character.
std::string TruncateVersion(const std::string& version) {
  return version.substr(0,
                        std::min(version.find_first_not_of("0123456789."), version.find('.', 2)));
}

// Returns the version of the standard library; none if there are several.
std::optional<int> FindLibraryMinor(const fs::path& prefix) {
  std::optional<int> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", error)) {
    const auto minor = ParseMinor(entry.path().filename().string(), R"(python3\.(\d{1,3}))");
    if (minor && fs::exists(entry.path() / "os.py", error)) {
      if (found) {
        return std::nullopt;
      }
      found = minor;
    }
  }
  return found;
}

PythonEnvironment Describe(const fs::path& program) {
  PythonEnvironment python;
  python.program = program;
  std::error_code error;
  const fs::path real = fs::canonical(program, error);
  python.base_prefix = real.parent_path().parent_path();
  python.prefix = python.base_prefix;
  const fs::path beside = program.parent_path().parent_path();
  if (fs::exists(beside / "pyvenv.cfg", error)) {
    auto config = ReadVenvConfig(beside / "pyvenv.cfg");
    python.prefix = beside;
    python.base_packages = config["include-system-site-packages"] == "true";
    const fs::path home = fs::canonical(config["home"], error);
    if (!home.empty()) {
      python.base_prefix = home.parent_path();
    }
    const std::string& version =
        config.count("version_info") ? config["version_info"] : config["version"];
    python.minor = ParseMinor(TruncateVersion(version), R"(3\.(\d{1,3}))");
  }
  if (!python.minor) {
    python.minor = ParseMinor(real.filename().string(), R"(python3\.(\d{1,3}))");
  }
  if (!python.minor) {
    python.minor = FindLibraryMinor(python.base_prefix);
  }
  return python;
}

void AddPackageFolders(const fs::path& prefix, const std::string& version,
                       std::vector<fs::path>& folders) {
  const std::string python = "python" + version;
  // Debian's Python has separate folders for Debian's packages.
  if (prefix == "/usr") {
    folders.push_back(fs::path("/usr/local/lib") / python / "dist-packages");
    folders.push_back("/usr/lib/python3/dist-packages");
  }
  folders.push_back(prefix / "lib" / python / "site-packages");
  folders.push_back(prefix / "lib64" / python / "site-packages");
}

std::vector<fs::path> ListPathFileFolders(const fs::path& packages) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(packages, error)) {
    if (entry.path().extension() != ".pth") {
      continue;
    }
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);) {
      line = Trimmed(line);
      if (!line.empty() && line[0] != '#' && line.rfind("import", 0) != 0) {
        folders.push_back(packages / line);
      }
    }
  }
  std::sort(folders.begin(), folders.end());  // directory order is unspecified
  return folders;
}

}  // namespace

std::string PythonEnvironment::Version() const {
  return minor ? "3." + std::to_string(*minor) : "3";
}

std::vector<fs::path> PythonEnvironment::ListPackageFolders(const std::string& python_path,
                                                            const fs::path& user_base) const {
  std::vector<fs::path> folders;
  if (base_packages && !user_base.empty()) {  // see docs.python.org/3/library/site.html
    folders.push_back(user_base / "lib" / ("python" + Version()) / "site-packages");
  }
  AddPackageFolders(prefix, Version(), folders);
  if (base_packages && base_prefix != prefix) {
    AddPackageFolders(base_prefix, Version(), folders);
  }
  std::vector<fs::path> all;
  for (const std::string& folder : SplitFolders(python_path)) {
    all.emplace_back(folder);
  }
  for (const fs::path& folder : folders) {
    all.push_back(folder);
    const std::vector<fs::path> more = ListPathFileFolders(folder);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::vector<PythonEnvironment> FindPythons(const std::string& search_path) {
  std::vector<PythonEnvironment> found;
  for (const std::string& folder : SplitFolders(search_path)) {
    const fs::path program = fs::path(folder) / "python3";
    if (access(program.c_str(), X_OK) == 0) {
      found.push_back(Describe(program));
    }
  }
  return found;
}

std::optional<fs::path> FindActivatedPrefix(const std::string& search_path,
                                            const std::string& library_path) {
  const fs::path folder(library_path.substr(0, library_path.find(':')));
  const fs::path programs = folder.parent_path() / "bin";
  std::error_code error;
  if (folder.filename() != "lib" || !fs::exists(programs / "activate", error)) {
    return std::nullopt;
  }
  const fs::path first(search_path.substr(0, search_path.find(':')));
  if (fs::equivalent(first, programs, error) || !fs::exists(programs / "python3", error)) {
    return folder.parent_path();
  }
  return std::nullopt;
}

std::vector<std::string> SplitFolders(const std::string& folders) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    if (end > begin) {
      parts.push_back(folders.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return parts;
}

}  // namespace endcap::python_stub
