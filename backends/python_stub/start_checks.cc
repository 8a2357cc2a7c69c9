// What a stub needs to start: a Python, a stub for it of the server's release, and libraries.
#include <algorithm>

#include "each_check.h"
#include "library_path.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

std::string InstallCommand(const Subject& subject) {
  return "`endcap stub install " + subject.model_folder.string() + "`";
}

}  // namespace

Check CheckPython(const Subject& subject, std::optional<PythonEnvironment>& python) {
  Check check{"python", "none", ""};
  const std::optional<fs::path> prefix = ActivatedPrefix(subject.search_path, subject.library_path);
  const std::vector<PythonEnvironment> pythons = FindPythons(subject.search_path);
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
  auto missing = MissingLibraries(stub.path, library_path);
  const auto is_libpython = [](const std::string& name) { return name.rfind("libpython", 0) == 0; };
  const fs::path beside = python.base_prefix / "lib";
  if (missing && std::any_of(missing->begin(), missing->end(), is_libpython)) {
    const std::string more = WithFolder(library_path, beside);
    missing = MissingLibraries(stub.path, more);
    if (missing && missing->empty()) {
      library_path = more;
      check.found = "all found, libpython in " + beside.string();
    }
  }
  if (!missing) {
    check.found = "not looked at";
    check.problem = stub.path.string() +
                    " cannot be executed; see that it is for this machine, and `chmod +x` it";
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

}  // namespace endcap::python_stub
