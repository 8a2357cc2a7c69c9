#include "library_path.h"

#include <sstream>

#include "environment.h"
#include "process.h"
#include "real_stub.h"

namespace endcap::python_stub {

namespace fs = std::filesystem;

namespace {

// One that the loader looks into anyway.
constexpr char kSystemFolder[] = "/usr/lib";

}  // namespace

std::string LibraryPathForStub(const std::string& given, const Settings& settings,
                               const fs::path& server_folder, bool with_colon) {
  std::vector<std::string> folders = SplitFolders(given);
  folders.insert(folders.end(), settings.library_folders.begin(), settings.library_folders.end());
  const fs::path installation = ServerInstallation(server_folder);
  if (!installation.empty()) {
    // site-packages/pytriton/tritonserver/backends/python, and the libraries in site-packages
    const fs::path packages = installation / ".." / ".." / ".." / "..";
    const fs::path libraries = (packages / "nvidia_pytriton.libs").lexically_normal();
    std::error_code error;
    if (fs::is_directory(libraries, error)) {
      folders.push_back(libraries.string());
    }
  }
  while (with_colon && folders.size() < 2) {
    folders.push_back(folders.empty() ? kSystemFolder : folders[0]);
  }
  std::string joined;
  for (const std::string& folder : folders) {
    joined = WithFolder(joined, folder);
  }
  return joined;
}

std::string WithFolder(const std::string& library_path, const fs::path& folder) {
  return library_path.empty() ? folder.string() : library_path + ":" + folder.string();
}

std::optional<std::vector<std::string>> MissingLibraries(const fs::path& program,
                                                         const std::string& library_path) {
  std::istringstream lines(
      CaptureOutput(program, {"LD_TRACE_LOADED_OBJECTS=1", "LD_LIBRARY_PATH=" + library_path}));
  std::vector<std::string> missing;
  bool told = false;
  for (std::string line; std::getline(lines, line);) {
    told = true;
    const std::size_t begin = line.find_first_not_of(" \t");
    const std::size_t arrow = line.find(" => not found");
    if (arrow != std::string::npos && begin < arrow) {
      missing.push_back(line.substr(begin, arrow - begin));
    } else if (line.find("not found (required by") != std::string::npos) {
      missing.push_back(line.substr(begin));
    }
  }
  if (!told) {
    return std::nullopt;
  }
  return missing;
}

}  // namespace endcap::python_stub
