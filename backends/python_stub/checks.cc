#include "checks.h"

#include <stdexcept>

#include "each_check.h"
#include "library_path.h"

namespace endcap::python_stub {

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
                         subject.library_path.find(':') != std::string::npos);
  std::optional<PythonEnvironment> python;
  result.checks.push_back(CheckPython(subject, python));
  result.python = python;
  if (!python || !python->minor || !result.Problem().empty()) {
    return result;
  }
  const std::optional<RealStub> stub =
      FindRealStub(subject.model_folder, result.settings, subject.server_folder, *python->minor);
  result.checks.push_back(CheckStub(subject, *python, stub));
  result.stub = stub;
  if (!stub || !result.Problem().empty()) {
    return result;
  }
  result.checks.push_back(CheckRelease(subject, result.settings, *stub));
  result.checks.push_back(CheckLibraries(*python, *stub, result.library_path));
  result.stub_starts = result.Problem().empty();
  const std::vector<std::filesystem::path> folders =
      ReadsVariables(stub->file) ? python->PackageFolders(subject.python_path, subject.user_base)
                                 : python->PackageFolders();
  result.checks.push_back(CheckNumpy(folders, *stub));
  result.checks.push_back(CheckEndcap(subject.model_folder, folders));
  result.checks.push_back(CheckSharedMemory(subject));
  return result;
}

}  // namespace endcap::python_stub
