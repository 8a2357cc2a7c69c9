#include "checks.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <stdexcept>

#include "packages.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

// The default size of a region in Triton's Python backend.
constexpr std::int64_t kDefaultRegionBytes = 1 << 20;

std::string InstallCommand(const StartContext& context) {
  return "`endcap stub install " + context.model_folder.string() + "`";
}

// Sets `python` to the first one on PATH.
Check CheckPython(const StartContext& context, std::optional<PythonEnvironment>& python) {
  Check check{"python", "none", ""};
  const std::optional<fs::path> prefix =
      FindActivatedPrefix(context.search_path, context.library_path);
  const std::vector<PythonEnvironment> pythons = FindPythons(context.search_path);
  if (pythons.empty()) {
    check.problem =
        "there is no python3 on PATH, from which the stub takes its packages; put the "
        "folder of one in front of PATH, or give the model an environment";
    return check;
  }
  python = pythons.front();
  check.found = python->Version() + " (" + python->program.string() + ")";
  std::error_code error;
  if (prefix && !fs::equivalent(python->program.parent_path(), *prefix / "bin", error)) {
    check.problem = "the environment " + prefix->string() +
                    " has no bin/python3, so that the stub would take " + python->program.string() +
                    "; pack it again with `endcap env pack`";
  } else if (!python->minor) {
    check.problem =
        "the version of " + python->program.string() +
        " cannot be determined from its files; put a python3 that is a program or a link to "
        "one, with its lib/python3.N, in front of PATH";
  }
  return check;
}

// Whether there is a stub, and it embeds this version of Python.
Check CheckStub(const StartContext& context, const PythonEnvironment& python,
                const std::optional<RealStub>& stub) {
  Check check{"stub", "none", ""};
  const std::string wanted = "Python " + python.Version() + " (" + python.program.string() + ")";
  if (!stub) {
    check.problem = "the environment has " + wanted +
                    ", for which the server has no stub and the model's folder none either; use "
                    "another Python, or bring a stub with `endcap stub install " +
                    context.model_folder.string() + " --real STUB`";
    return check;
  }
  const std::string embedded = stub->minor ? "3." + std::to_string(*stub->minor) : "unknown";
  check.found = stub->path.string() + " for Python " + embedded;
  if (stub->minor != python.minor) {
    check.problem = "the environment has " + wanted + ", and " + stub->path.string() +
                    " is for Python " + embedded + "; give the model an environment with Python " +
                    embedded + ", or run `endcap stub install " + context.model_folder.string() +
                    " --python " + python.Version() + "`";
  }
  return check;
}

// Whether stub and server have the recorded build ids.
Check CheckRelease(const StartContext& context, const Settings& settings, const RealStub& stub) {
  Check check{"release", settings.release.empty() ? "not recorded" : settings.release, ""};
  if (!settings.stub_build_id.empty() && settings.stub_build_id != stub.file.BuildId()) {
    check.problem = stub.path.string() + " is another file than the one that was installed" +
                    (settings.release.empty() ? "" : " from " + settings.release) + "; run " +
                    InstallCommand(context) + " again";
    return check;
  }
  const std::optional<BinaryFile> server =
      BinaryFile::Read(context.server_folder / "libtriton_python.so");
  if (!settings.server_build_id.empty() && server &&
      server->BuildId() != settings.server_build_id) {
    check.problem = "the stub was installed for the Python backend of " +
                    (settings.release.empty() ? "another release" : settings.release) +
                    ", and this server has another build of it; run " + InstallCommand(context) +
                    " with this server";
  }
  return check;
}

// Whether the loader finds the stub's libraries; appends the folder of libpython to `library_path`
// if that is needed.
Check CheckLibraries(const PythonEnvironment& python, const RealStub& stub,
                     std::string& library_path) {
  Check check{"libraries", "all found", ""};
  auto missing = FindMissingLibraries(stub.path, library_path);
  const auto is_libpython = [](const std::string& name) { return name.rfind("libpython", 0) == 0; };
  const fs::path beside = python.base_prefix / "lib";
  if (missing && std::any_of(missing->begin(), missing->end(), is_libpython)) {
    const std::string more = AppendFolder(library_path, beside);
    missing = FindMissingLibraries(stub.path, more);
    if (missing && missing->empty()) {
      library_path = more;
      check.found = "all found, libpython in " + beside.string();
    }
  }
  if (!missing) {
    check.found = "not checked";
    check.problem = stub.path.string() +
                    " cannot be executed; check that it is for this machine, and `chmod +x` it";
    return check;
  }
  if (missing->empty()) {
    return check;
  }
  check.found = "incomplete";
  check.problem = "the stub needs " + missing->front() + ", which the loader does not find";
  if (is_libpython(missing->front())) {
    check.problem += " in " + beside.string() + " or elsewhere; install libpython" +
                     python.Version() +
                     ", or pack an environment that has it with `endcap env pack`";
  } else {
    check.problem += "; install it, or name its folder in LD_LIBRARY_PATH";
  }
  return check;
}

// Whether NumPy is installed, in a version that the stub supports.
Check CheckNumpy(const std::vector<fs::path>& folders, const RealStub& stub) {
  Check check{"numpy", "none", ""};
  const std::optional<FoundPackage> numpy = FindPackage(folders, "numpy");
  const std::optional<bool> supports_2 = SupportsNumpy2(stub.file);
  if (!numpy) {
    check.problem = std::string(
                        "NumPy is not installed in the environment, and the stub needs it; "
                        "install ") +
                    (supports_2 == true ? "numpy" : "'numpy<2'") + " there";
    return check;
  }
  check.found = numpy->version.empty() ? "unknown version" : numpy->version;
  // A release that supports NumPy 2 supports NumPy 1, too.
  const bool is_1 = numpy->version.rfind("0.", 0) == 0 || numpy->version.rfind("1.", 0) == 0;
  if (supports_2 == false && !numpy->version.empty() && !is_1) {
    check.problem =
        "NumPy " + numpy->version + " (" + numpy->folder.string() +
        ") is newer than this release's stub can take, with which the model "
        "would return empty tensors without an error; install 'numpy<2' in the environment";
  }
  return check;
}

// Whether endcap is installed if the model imports it.
Check CheckEndcap(const fs::path& model_folder, const std::vector<fs::path>& folders) {
  Check check{"endcap", "not imported by this model", ""};
  std::error_code error;
  for (const fs::directory_entry& version : fs::directory_iterator(model_folder, error)) {
    for (const fs::directory_entry& file : fs::directory_iterator(version.path(), error)) {
      if (file.path().extension() != ".py" || !ImportsPackage(file.path(), "endcap")) {
        continue;
      }
      // The stub appends these folders to sys.path.
      std::vector<fs::path> all = folders;
      all.insert(all.end(), {version.path(), model_folder});
      const std::optional<FoundPackage> endcap = FindPackage(all, "endcap");
      if (endcap) {
        check.found = endcap->version.empty() ? endcap->folder.string() : endcap->version;
        return check;
      }
      check.found = "none";
      check.problem = file.path().string() +
                      " imports endcap, which is not installed in the environment; install it "
                      "there, or pack it with `endcap env pack`";
      return check;
    }
  }
  return check;
}

// Whether shared memory has free space for the instance's region.
Check CheckSharedMemory(const StartContext& context) {
  Check check{"shared_memory", "unknown", ""};
  struct statvfs space = {};
  if (statvfs(context.shared_memory.c_str(), &space) != 0) {
    check.problem = context.shared_memory.string() +
                    " does not exist, through which the server passes tensors; mount a tmpfs on "
                    "it";
    return check;
  }
  const auto free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  std::int64_t needed =
      context.arguments ? context.arguments->shared_memory_bytes : kDefaultRegionBytes;
  struct stat region = {};
  if (context.arguments) {
    const fs::path file = context.shared_memory / context.arguments->shared_memory_region;
    if (stat(file.c_str(), &region) == 0) {
      needed -= static_cast<std::int64_t>(region.st_blocks) * 512;  // already allocated
    }
  }
  check.found = std::to_string(free / 1024) + " KiB free";
  if (free < needed) {
    check.problem = context.shared_memory.string() + " has " + check.found +
                    ", and the instance's region needs " + std::to_string(needed / 1024) +
                    " KiB more; in Docker give `--shm-size=1g`";
  }
  return check;
}

}  // namespace

std::string CheckResults::FindProblem() const {
  for (const Check& check : checks) {
    if (!check.problem.empty()) {
      return check.problem;
    }
  }
  return "";
}

CheckResults RunChecks(const StartContext& context) {
  CheckResults result;
  try {
    result.settings = ReadSettings(context.model_folder);
  } catch (const std::runtime_error& error) {
    result.checks.push_back({"settings", "unusable", error.what()});
    return result;
  }
  result.library_path =
      MakeLibraryPath(context.library_path, result.settings, context.server_folder,
                      context.library_path.find(':') != std::string::npos);
  std::optional<PythonEnvironment> python;
  result.checks.push_back(CheckPython(context, python));
  result.python = python;
  if (!python || !python->minor || !result.FindProblem().empty()) {
    return result;
  }
  const std::optional<RealStub> stub =
      FindRealStub(context.model_folder, result.settings, context.server_folder, *python->minor);
  result.checks.push_back(CheckStub(context, *python, stub));
  result.stub = stub;
  if (!stub || !result.FindProblem().empty()) {
    return result;
  }
  result.checks.push_back(CheckRelease(context, result.settings, *stub));
  result.checks.push_back(CheckLibraries(*python, *stub, result.library_path));
  result.stub_starts = result.FindProblem().empty();
  const std::vector<fs::path> folders =
      UsesEnvironmentVariables(stub->file)
          ? python->ListPackageFolders(context.python_path, context.user_base)
          : python->ListPackageFolders();
  result.checks.push_back(CheckNumpy(folders, *stub));
  result.checks.push_back(CheckEndcap(context.model_folder, folders));
  result.checks.push_back(CheckSharedMemory(context));
  return result;
}

}  // namespace endcap::python_stub
