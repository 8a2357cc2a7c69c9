#include "checks.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <stdexcept>

#include "library_path.h"
#include "packages.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

// What the Python backend makes a region of where the server's options say nothing else.
constexpr std::int64_t kDefaultRegionBytes = 1 << 20;

std::string InstallCommand(const Subject& subject) {
  return "`endcap stub install " + subject.model_folder.string() + "`";
}

Check CheckPython(const Subject& subject, std::optional<PythonEnvironment>& python) {
  Check check{"python", "none", ""};
  const std::optional<fs::path> prefix = ActivatedPrefix(subject.library_path);
  const std::vector<PythonEnvironment> pythons = FindPythons(subject.search_path);
  if (pythons.empty()) {
    check.problem =
        "there is no python3 on PATH, from which the stub takes its packages; put the "
        "folder of one in front of PATH, or give the model an environment";
    return check;
  }
  python = pythons.front();
  check.found = python->Version() + " (" + python->program.string() + ")";
  if (prefix && python->program.parent_path() != *prefix / "bin") {
    check.problem = "the environment " + prefix->string() +
                    " has no bin/python3, so that the stub would take " + python->program.string() +
                    "; pack it again with `endcap env pack`";
  } else if (!python->minor) {
    check.problem = "the version of " + python->program.string() +
                    " cannot be told by its files; put a python3 that is a program or a link to "
                    "one, with its lib/python3.N, in front of PATH";
  }
  return check;
}

Check CheckStub(const Subject& subject, const PythonEnvironment& python,
                const std::optional<RealStub>& stub) {
  Check check{"stub", "none", ""};
  const std::string wanted = "Python " + python.Version() + " (" + python.program.string() + ")";
  if (!stub) {
    check.problem = "the environment has " + wanted +
                    ", for which the server has no stub and the model's folder none either; use "
                    "another Python, or bring a stub with `endcap stub install " +
                    subject.model_folder.string() + " --real STUB`";
    return check;
  }
  const std::string embedded = stub->minor ? "3." + std::to_string(*stub->minor) : "unknown";
  check.found = stub->path.string() + " for Python " + embedded;
  if (stub->minor != python.minor) {
    check.problem = "the environment has " + wanted + ", and " + stub->path.string() +
                    " is for Python " + embedded + "; give the model an environment with Python " +
                    embedded + ", or run `endcap stub install " + subject.model_folder.string() +
                    " --python " + python.Version() + "`";
  }
  return check;
}

Check CheckRelease(const Subject& subject, const Settings& settings, const RealStub& stub) {
  Check check{"release", settings.release.empty() ? "not recorded" : settings.release, ""};
  if (!settings.stub_build_id.empty() && settings.stub_build_id != stub.file.BuildId()) {
    check.problem = stub.path.string() + " is another file than the one that was installed" +
                    (settings.release.empty() ? "" : " from " + settings.release) + "; run " +
                    InstallCommand(subject) + " again";
    return check;
  }
  const std::optional<BinaryFile> server =
      BinaryFile::Read(subject.server_folder / "libtriton_python.so");
  if (!settings.server_build_id.empty() && server &&
      server->BuildId() != settings.server_build_id) {
    check.problem = "the stub was installed for the Python backend of " +
                    (settings.release.empty() ? "another release" : settings.release) +
                    ", and this server has another build of it; run " + InstallCommand(subject) +
                    " with this server";
  }
  return check;
}

Check CheckLibraries(const PythonEnvironment& python, const RealStub& stub,
                     std::string& library_path) {
  Check check{"libraries", "all found", ""};
  std::vector<std::string> missing = MissingLibraries(stub.path, library_path);
  const auto is_libpython = [](const std::string& name) { return name.rfind("libpython", 0) == 0; };
  const fs::path beside = python.base_prefix / "lib";
  if (std::any_of(missing.begin(), missing.end(), is_libpython)) {
    const std::string more = WithFolder(library_path, beside);
    missing = MissingLibraries(stub.path, more);
    if (missing.empty()) {
      library_path = more;
      check.found = "all found, libpython in " + beside.string();
    }
  }
  if (missing.empty()) {
    return check;
  }
  check.found = "incomplete";
  check.problem = "the stub needs " + missing.front() + ", which the loader does not find";
  if (is_libpython(missing.front())) {
    check.problem += " in " + beside.string() + " or elsewhere; install libpython" +
                     python.Version() +
                     ", or pack an environment that has it with `endcap env pack`";
  } else {
    check.problem += "; install it, or name its folder in LD_LIBRARY_PATH";
  }
  return check;
}

Check CheckNumpy(const std::vector<fs::path>& folders, const RealStub& stub) {
  Check check{"numpy", "none", ""};
  const std::optional<FoundPackage> numpy = FindPackage(folders, "numpy");
  const std::optional<bool> takes_2 = TakesNumpy2(stub.file);
  if (!numpy) {
    check.problem = std::string(
                        "NumPy is not installed in the environment, and the stub needs it; "
                        "install ") +
                    (takes_2 == true ? "numpy" : "'numpy<2'") + " there";
    return check;
  }
  check.found = numpy->version.empty() ? "unknown version" : numpy->version;
  // A release that takes NumPy 2 takes NumPy 1 as well.
  const bool is_1 = numpy->version.rfind("0.", 0) == 0 || numpy->version.rfind("1.", 0) == 0;
  if (takes_2 == false && !numpy->version.empty() && !is_1) {
    check.problem =
        "NumPy " + numpy->version + " (" + numpy->folder.string() +
        ") is newer than this release's stub can take, with which the model "
        "would answer empty tensors without an error; install 'numpy<2' in the environment";
  }
  return check;
}

Check CheckEndcap(const fs::path& model_folder, const std::vector<fs::path>& folders) {
  Check check{"endcap", "not imported by this model", ""};
  std::error_code error;
  for (const fs::directory_entry& version : fs::directory_iterator(model_folder, error)) {
    for (const fs::directory_entry& file : fs::directory_iterator(version.path(), error)) {
      if (file.path().extension() != ".py" || !Imports(file.path(), "endcap")) {
        continue;
      }
      const std::optional<FoundPackage> endcap = FindPackage(folders, "endcap");
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

Check CheckSharedMemory(const Subject& subject) {
  Check check{"shared_memory", "unknown", ""};
  struct statvfs space = {};
  if (statvfs(subject.shared_memory.c_str(), &space) != 0) {
    check.problem = subject.shared_memory.string() +
                    " is not there, through which the server hands over tensors; mount a tmpfs on "
                    "it";
    return check;
  }
  const auto free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  std::int64_t needed =
      subject.arguments ? subject.arguments->shared_memory_bytes : kDefaultRegionBytes;
  struct stat region = {};
  if (subject.arguments) {
    const fs::path file = subject.shared_memory / subject.arguments->shared_memory_region;
    if (stat(file.c_str(), &region) == 0) {
      needed -= static_cast<std::int64_t>(region.st_blocks) * 512;  // what it holds already
    }
  }
  check.found = std::to_string(free / 1024) + " KiB free";
  if (free < needed) {
    check.problem = subject.shared_memory.string() + " has " + check.found +
                    ", and the instance's region needs " + std::to_string(needed / 1024) +
                    " KiB more; in Docker give `--shm-size=1g`";
  }
  return check;
}

}  // namespace

std::string Examination::Problem() const {
  for (const Check& check : checks) {
    if (!check.problem.empty()) {
      return check.problem;
    }
  }
  return "";
}

Examination Examine(const Subject& subject) {
  Examination result;
  try {
    result.settings = ReadSettings(subject.model_folder);
  } catch (const std::runtime_error& error) {
    result.checks.push_back({"settings", "unusable", error.what()});
    return result;
  }
  result.library_path =
      LibraryPathForStub(subject.library_path, result.settings, subject.server_folder,
                         ActivatedPrefix(subject.library_path).has_value());
  result.checks.push_back(CheckPython(subject, result.python));
  if (!result.Problem().empty()) {
    return result;
  }
  result.stub = FindRealStub(subject.model_folder, result.settings, subject.server_folder,
                             *result.python->minor);
  result.checks.push_back(CheckStub(subject, *result.python, result.stub));
  if (!result.Problem().empty()) {
    return result;
  }
  result.checks.push_back(CheckRelease(subject, result.settings, *result.stub));
  result.checks.push_back(CheckLibraries(*result.python, *result.stub, result.library_path));
  result.stub_starts = result.Problem().empty();
  const std::vector<fs::path> folders = result.python->PackageFolders();
  result.checks.push_back(CheckNumpy(folders, *result.stub));
  result.checks.push_back(CheckEndcap(subject.model_folder, folders));
  result.checks.push_back(CheckSharedMemory(subject));
  return result;
}

}  // namespace endcap::python_stub
