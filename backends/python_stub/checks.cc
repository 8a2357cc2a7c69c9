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
  const std::vector<std::filesystem::path> folders = result.python->PackageFolders();
  result.checks.push_back(CheckNumpy(folders, *result.stub));
  result.checks.push_back(CheckEndcap(subject.model_folder, folders));
  result.checks.push_back(CheckSharedMemory(subject));
  return result;
}

}  // namespace endcap::python_stub
