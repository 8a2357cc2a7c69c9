#include "checks.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "processes.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uintmax_t kMaxStubBytes = 256 << 20;
constexpr int kStubRuns = 1;  // the exit code of a stub without arguments, which the server expects
// The loader searches this folder anyway.
constexpr char kSystemFolder[] = "/usr/lib";

// Prints the Python's version and library folder, NumPy's version or its error, and the modules
// that the model's file imports and that are not installed. Imports inside a `try`, an `if` or a
// function do not count. Arguments: model.py and the folder of Triton's modules.
constexpr char kProbe[] = R"(
import ast, json, os, sys, sysconfig
from importlib.util import find_spec
file, server = sys.argv[1:]
sys.path[:] = [folder for folder in sys.path if folder]
version = os.path.dirname(file)
report = {"minor": sys.version_info[1], "library_folder": sysconfig.get_config_var("LIBDIR") or "",
          "base": sys.base_prefix, "numpy": None, "missing": []}
try:
    import numpy
    report["numpy"] = numpy.__version__
    report["numpy_folder"] = os.path.dirname(numpy.__file__)
except Exception as error:
    report["numpy_error"] = " ".join(str(error).split())[:500]
sys.path += [version, os.path.dirname(version), server]
try:
    with open(file, "rb") as source:
        body = ast.parse(source.read()).body
except (OSError, SyntaxError, ValueError):
    body = []
modules = []
for each in body:
    if isinstance(each, ast.Import):
        modules += [alias.name for alias in each.names]
    elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
        modules.append(each.module)
given = ("triton_python_backend_utils", "c_python_backend_utils")
for module in dict.fromkeys(name.partition(".")[0] for name in modules):
    try:
        is_there = module in sys.modules or find_spec(module) is not None
    except (ImportError, ValueError):
        is_there = False
    if module not in given and not is_there:
        report["missing"].append(module)
print()
print(json.dumps(report))
)";

std::string InstallCommand(const StartContext& context) {
  return "`endcap stub install " + context.ModelFolder().string() + "`";
}

// Returns the content of a stub; empty if the program is missing.
std::string ReadStub(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxStubBytes) {
    return "";
  }
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns the minor version of the Python 3 that a stub embeds, by the name of the libpython that
// it needs. Tools that bundle libraries put a hash into it: libpython3-419a3a08.13.so.1.0.
std::optional<int> FindEmbeddedMinor(const std::string& stub) {
  static const std::regex kName(R"(libpython3(-[0-9a-f]{1,40})?\.(\d{1,3})[a-z]?\.so[.0-9]{0,9})");
  constexpr char kStart[] = "libpython3";
  for (std::size_t at = 0; (at = stub.find(kStart, at)) != std::string::npos; ++at) {
    const std::string name = stub.substr(at, strnlen(stub.c_str() + at, 100));
    std::smatch match;
    if (std::regex_match(name, match, kName)) {
      return std::stoi(match[2]);
    }
  }
  return std::nullopt;
}

bool Contains(const std::string& stub, const char* text) {
  return stub.find(text) != std::string::npos;
}

// Whether the Python in a stub does not use PYTHONPATH and the user's packages.
bool IsIsolated(const std::string& stub) { return Contains(stub, "PyConfig_InitIsolatedConfig"); }

// Returns the folder of the server's libtriton_python.so, with links resolved; empty if there is
// none.
fs::path FindServerInstallation(const fs::path& server_folder) {
  std::error_code error;
  return fs::canonical(server_folder / "libtriton_python.so", error).parent_path();
}

// Returns the paths where the server's stub for a Python may be: its own, and that of its wheel.
std::vector<fs::path> ListServerStubs(const fs::path& server_folder, int minor) {
  std::vector<fs::path> paths = {server_folder / kStubFile};
  const fs::path installation = FindServerInstallation(server_folder);
  if (!installation.empty()) {
    paths.push_back(installation.parent_path().parent_path() / "python_backend_stubs" /
                    ("3." + std::to_string(minor)) / kStubFile);
  }
  return paths;
}

// Returns LD_LIBRARY_PATH for a stub: `given`, then the folders of endcap-stub.json, of the
// server's wheel, and of the environment's libpython.
std::string MakeLibraryPath(const std::string& given, const Settings& settings,
                            const fs::path& server_folder, const json& python) {
  std::vector<std::string> folders = SplitFolders(given);
  folders.insert(folders.end(), settings.library_folders.begin(), settings.library_folders.end());
  const fs::path installation = FindServerInstallation(server_folder);
  std::error_code error;
  if (!installation.empty()) {
    // site-packages/pytriton/tritonserver/backends/python, and the libraries in site-packages
    const fs::path packages = installation / ".." / ".." / ".." / "..";
    const fs::path libraries = (packages / "nvidia_pytriton.libs").lexically_normal();
    if (fs::is_directory(libraries, error)) {
      folders.push_back(libraries.string());
    }
  }
  const std::string name = "libpython3." + std::to_string(python["minor"].get<int>()) + ".so.1.0";
  for (const std::string& folder :
       {python.value("library_folder", ""), python.value("base", "") + "/lib"}) {
    if (!folder.empty() && fs::exists(fs::path(folder) / name, error)) {
      folders.push_back(folder);
      break;
    }
  }
  // Triton puts the folder of an activated environment in front; the stub of the release removes it
  // and requires a colon after it.
  while (given.find(':') != std::string::npos && folders.size() < 2) {
    folders.push_back(folders.empty() ? kSystemFolder : folders[0]);
  }
  std::string joined;
  for (const std::string& folder : folders) {
    joined = AppendFolder(joined, folder);
  }
  return joined;
}

std::vector<fs::path> FindPythons(const std::string& search_path) {
  std::vector<fs::path> found;
  for (const std::string& folder : SplitFolders(search_path)) {
    if (access((fs::path(folder) / "python3").c_str(), X_OK) == 0) {
      found.push_back(fs::path(folder) / "python3");
    }
  }
  return found;
}

// Returns the report of the probe. Throws std::runtime_error with an error message.
json RunProbe(const StartContext& context, const fs::path& python, bool isolated) {
  const std::vector<std::string> arguments = {
      python.string(), isolated ? "-IB" : "-B",     "-c",
      kProbe,          context.model_file.string(), context.server_folder.string()};
  const Output output = RunProgram(arguments, context.library_path);
  json report;
  std::string reason = "it prints nothing";
  std::istringstream lines(output.text);
  for (std::string line; std::getline(lines, line);) {  // modules that are imported may print, too
    const json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (value.is_object() && value.contains("minor")) {
      report = value;
    } else if (!line.empty()) {
      reason = line;
    }
  }
  if (report.is_null()) {
    throw std::runtime_error(python.string() + ", the first python3 on PATH, cannot run (" +
                             reason +
                             "); put another one in front of PATH, or give the model an "
                             "environment by `endcap env pack`");
  }
  return report;
}

// Returns the Python that the stub would use. Throws std::runtime_error with an error message.
fs::path FindPython(const StartContext& context) {
  const std::vector<fs::path> pythons = FindPythons(context.search_path);
  if (pythons.empty()) {
    throw std::runtime_error(
        "there is no python3 on PATH, from which the stub takes its packages; put the folder of "
        "one in front of PATH, or give the model an environment");
  }
  // Triton puts an activated environment's lib in front.
  const fs::path library_folder(context.library_path.substr(0, context.library_path.find(':')));
  const fs::path programs = library_folder.parent_path() / "bin";
  std::error_code error;
  if (library_folder.filename() == "lib" && fs::exists(programs / "activate", error) &&
      access((programs / "python3").c_str(), X_OK) != 0) {
    throw std::runtime_error("the environment " + library_folder.parent_path().string() +
                             " has no bin/python3, so that the stub would take " +
                             pythons[0].string() + "; pack it again with `endcap env pack`");
  }
  return pythons[0];
}

// Throws std::runtime_error if the server's Python backend is not that of the stub's release.
void CheckRelease(const StartContext& context, const Settings& settings) {
  std::error_code error;
  const auto size = fs::file_size(context.server_folder / "libtriton_python.so", error);
  if (settings.server_bytes != 0 && !error &&
      size != static_cast<std::uintmax_t>(settings.server_bytes)) {
    throw std::runtime_error("the stub was installed for the Python backend of " +
                             (settings.release.empty() ? "another release" : settings.release) +
                             ", and this server has another build of it; run " +
                             InstallCommand(context) + " with this server");
  }
}

// Returns the path of the stub for a Python: the model's, or one of the server's. Throws
// std::runtime_error if there is none.
fs::path FindStub(const StartContext& context, int minor, const fs::path& python) {
  const std::string version = "3." + std::to_string(minor);
  const std::string has = "the environment has Python " + version + " (" + python.string() + ")";
  fs::path own = context.ModelFolder() / kRealStubFile;
  const std::string content = ReadStub(own);
  if (!content.empty()) {
    const std::optional<int> embedded = FindEmbeddedMinor(content);
    if (embedded == minor) {
      return own;
    }
    const std::string wanted = embedded ? "3." + std::to_string(*embedded) : "of unknown version";
    throw std::runtime_error(has + ", and " + own.string() + " is for Python " + wanted +
                             "; give the model an environment with that Python, or run `endcap " +
                             "stub install " + context.ModelFolder().string() + " --python " +
                             version + "`");
  }
  for (const fs::path& path : ListServerStubs(context.server_folder, minor)) {
    if (FindEmbeddedMinor(ReadStub(path)) == minor) {
      return path;
    }
  }
  throw std::runtime_error(has +
                           ", for which neither the server nor the model's folder has a stub; use "
                           "another Python, or bring a stub with `endcap stub install " +
                           context.ModelFolder().string() + " --real STUB`");
}

// Whether a stub and its libraries can be loaded; sets `reason` if not.
bool CanStart(const RealStub& stub, std::string& reason) {
  const Output output = RunProgram({stub.path.string()}, stub.library_path);
  reason = output.text.substr(0, output.text.find('\n'));
  return output.exit_code == kStubRuns;
}

void CheckNumpy(const json& python, bool takes_only_1) {
  const std::string wanted = takes_only_1 ? "'numpy<2'" : "numpy";
  if (python["numpy"].is_null()) {
    throw std::runtime_error("NumPy cannot be imported in the environment (" +
                             python.value("numpy_error", "") +
                             "), and the stub needs it; install " + wanted + " there");
  }
  const std::string version = python["numpy"];
  const bool is_1 = version.rfind("0.", 0) == 0 || version.rfind("1.", 0) == 0;
  if (takes_only_1 && !is_1) {
    throw std::runtime_error("NumPy " + version + " (" + python.value("numpy_folder", "") +
                             ") is newer than this release's stub can take, with which the model "
                             "would return empty tensors without an error; install 'numpy<2' in "
                             "the environment");
  }
}

void CheckImports(const StartContext& context, const json& python) {
  std::string names;
  for (const json& module : python["missing"]) {
    names += (names.empty() ? "" : ", ") + module.get<std::string>();
  }
  if (!names.empty()) {
    throw std::runtime_error(context.model_file.string() + " imports " + names +
                             ", not installed in the environment; install it there, or pack it "
                             "with `endcap env pack`");
  }
}

}  // namespace

CheckResult CheckEnvironment(const StartContext& context) {
  CheckResult result;
  try {
    const Settings settings = ReadSettings(context.ModelFolder());
    const fs::path python = FindPython(context);
    const bool isolated = IsIsolated(ReadStub(context.ModelFolder() / kRealStubFile));
    json report = RunProbe(context, python, isolated);
    const fs::path path = FindStub(context, report["minor"], python);
    const std::string content = ReadStub(path);
    if (IsIsolated(content) != isolated) {
      report = RunProbe(context, python, !isolated);
    }
    CheckRelease(context, settings);
    const std::string library_path =
        MakeLibraryPath(context.library_path, settings, context.server_folder, report);
    const RealStub stub = {path, context.search_path, library_path};
    std::string reason;
    if (!CanStart(stub, reason)) {
      throw std::runtime_error(path.string() + " cannot be started (" + reason +
                               "); install what is missing, or pack an environment with `endcap "
                               "env pack`, which has libpython");
    }
    result.stub = stub;
    // Only releases that support NumPy 2 contain the name of its module.
    CheckNumpy(report,
               Contains(content, "numpy.core.multiarray") && !Contains(content, "numpy._core"));
    CheckImports(context, report);
  } catch (const std::exception& error) {
    result.problem = error.what();
  }
  return result;
}

std::optional<RealStub> FindReportingStub(const StartContext& context) {
  for (const fs::path& python : FindPythons(context.search_path)) {
    try {
      const json report = RunProbe(context, python, /*isolated=*/true);
      for (const fs::path& path : ListServerStubs(context.server_folder, report["minor"])) {
        RealStub stub = {path, AppendFolder(python.parent_path().string(), context.search_path),
                         MakeLibraryPath(":", {}, context.server_folder, report)};
        std::string reason;
        if (FindEmbeddedMinor(ReadStub(path)) == report["minor"] && CanStart(stub, reason)) {
          return stub;
        }
      }
    } catch (const std::exception&) {
      continue;  // another Python may run
    }
  }
  return std::nullopt;
}

}  // namespace endcap::python_stub
