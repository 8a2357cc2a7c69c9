#include "real_stub.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "environment.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

#if defined(__aarch64__)
constexpr char kLoader[] = "/lib/ld-linux-aarch64.so.1";
#else
constexpr char kLoader[] = "/lib64/ld-linux-x86-64.so.2";
#endif
// The loader searches this folder anyway.
constexpr char kSystemFolder[] = "/usr/lib";

fs::path MakeStubPath(const fs::path& folder, int minor) {
  return folder / ("3." + std::to_string(minor)) / kStubFile;
}

std::vector<fs::path> ListModelStubs(const fs::path& model_folder, const Settings& settings,
                                     int minor) {
  std::vector<fs::path> paths = {model_folder / kRealStubFile};
  if (!settings.stub.empty()) {
    std::error_code error;
    const bool is_folder = fs::is_directory(settings.stub, error);
    paths.insert(paths.begin(), is_folder ? MakeStubPath(settings.stub, minor) : settings.stub);
  }
  return paths;
}

// Returns the folder of the server's libtriton_python.so, with links resolved; empty if there is
// none.
fs::path FindServerInstallation(const fs::path& server_folder) {
  std::error_code error;
  return fs::canonical(server_folder / "libtriton_python.so", error).parent_path();
}

// Returns pointers for execve; valid as long as the texts.
std::vector<char*> MakePointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the environment of this process with more variables ("NAME=value").
std::vector<std::string> ExtendEnvironment(const std::vector<std::string>& variables) {
  std::vector<std::string> environment = variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    bool replaced = false;
    for (const std::string& other : variables) {
      replaced =
          replaced || text.compare(0, text.find('=') + 1, other, 0, other.find('=') + 1) == 0;
    }
    if (!replaced) {
      environment.push_back(text);
    }
  }
  return environment;
}

std::string ReadAll(int descriptor) {
  std::string text;
  std::array<char, 4096> block;
  for (;;) {
    const ssize_t count = read(descriptor, block.data(), block.size());
    if (count > 0) {
      text.append(block.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return text;
    }
  }
}

// Runs a program with more environment variables ("NAME=value"), and returns what it writes to
// standard output and standard error. Empty if it cannot run.
std::string CaptureOutput(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& variables) {
  const std::vector<std::string> environment = ExtendEnvironment(variables);
  const std::vector<char*> environment_pointers = MakePointers(environment);
  const std::vector<char*> argument_pointers = MakePointers(arguments);
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return "";
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execve(argument_pointers[0], argument_pointers.data(), environment_pointers.data());
    _exit(127);
  }
  close(ends[1]);
  const std::string text = child > 0 ? ReadAll(ends[0]) : std::string();
  close(ends[0]);
  if (child > 0) {
    waitpid(child, nullptr, 0);
  }
  return text;
}

}  // namespace

std::vector<fs::path> ListServerStubs(const fs::path& server_folder, int minor) {
  std::vector<fs::path> paths;
  if (!server_folder.empty()) {
    paths.push_back(server_folder / kStubFile);
  }
  const fs::path installation = FindServerInstallation(server_folder);
  if (!installation.empty()) {
    const fs::path root = installation.parent_path().parent_path();
    paths.push_back(MakeStubPath(root / "python_backend_stubs", minor));
  }
  return paths;
}

std::optional<RealStub> FindRealStub(const fs::path& model_folder, const Settings& settings,
                                     const fs::path& server_folder, int minor) {
  for (const fs::path& path : ListModelStubs(model_folder, settings, minor)) {
    if (std::optional<BinaryFile> file = BinaryFile::Read(path)) {
      const std::optional<int> embedded = FindPythonMinor(*file);
      return RealStub{path, std::move(*file), embedded};
    }
  }
  for (const fs::path& path : ListServerStubs(server_folder, minor)) {
    std::optional<BinaryFile> file = BinaryFile::Read(path);
    if (file && FindPythonMinor(*file) == minor) {
      return RealStub{path, std::move(*file), minor};
    }
  }
  return std::nullopt;
}

std::string MakeLibraryPath(const std::string& given, const Settings& settings,
                            const fs::path& server_folder, bool with_colon) {
  std::vector<std::string> folders = SplitFolders(given);
  folders.insert(folders.end(), settings.library_folders.begin(), settings.library_folders.end());
  const fs::path installation = FindServerInstallation(server_folder);
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
    joined = AppendFolder(joined, folder);
  }
  return joined;
}

std::string AppendFolder(const std::string& folders, const fs::path& folder) {
  return folders.empty() ? folder.string() : folders + ":" + folder.string();
}

std::optional<std::vector<std::string>> FindMissingLibraries(const fs::path& program,
                                                             const std::string& library_path) {
  // The loader starts audit libraries even when it only lists.
  const std::optional<BinaryFile> file = BinaryFile::Read(program);
  if (!file || !file->IsSafeToTrace() || access(program.c_str(), X_OK) != 0) {
    return std::nullopt;
  }
  // The system's loader lists them. Started itself, the program could name a loader of its own.
  std::istringstream lines(
      CaptureOutput({kLoader, program.string()},
                    {"LD_TRACE_LOADED_OBJECTS=1", "LD_LIBRARY_PATH=" + library_path}));
  std::vector<std::string> missing;
  bool has_output = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error while loading shared libraries") != std::string::npos) {
      return std::nullopt;  // no program of this machine
    }
    has_output = true;
    const std::size_t begin = line.find_first_not_of(" \t");
    const std::size_t arrow = line.find(" => not found");
    if (arrow != std::string::npos && begin < arrow) {
      missing.push_back(line.substr(begin, arrow - begin));
    } else if (line.find("not found (required by") != std::string::npos) {
      missing.push_back(line.substr(begin));
    }
  }
  if (!has_output) {
    return std::nullopt;
  }
  return missing;
}

std::string ReplaceProcess(const std::filesystem::path& program,
                           const std::vector<std::string>& argv) {
  std::vector<std::string> arguments = argv;
  arguments[0] = program.string();
  execv(program.c_str(), MakePointers(arguments).data());
  return std::strerror(errno);
}

}  // namespace endcap::python_stub
