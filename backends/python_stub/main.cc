// The stub that Triton's Python backend starts for a model whose folder contains it. It checks the
// model's environment and replaces itself by the stub of the server's release.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "checks.h"
#include "error_report.h"
#include "processes.h"

namespace {

using namespace endcap::python_stub;

// The server starts a stub without arguments to check that it is executable, and expects 1.
constexpr int kFailed = 1;

std::string GetVariable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Object stores do not keep the permission.
void MakeExecutable(const std::filesystem::path& program) {
  if (access(program.c_str(), X_OK) == 0) {
    return;
  }
  // A link may lead to a file of somebody else.
  const int file = open(program.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat status = {};
  if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    fchmod(file, (status.st_mode & 07777) | S_IRWXU);
  }
  if (file >= 0) {
    close(file);
  }
}

int Run(const std::vector<std::string>& argv) {
  const auto arguments = ReadArguments(argv);
  if (!arguments) {
    std::cerr << "triton_python_backend_stub is started by Triton\n";
    return kFailed;
  }
  StartContext context = {arguments->model_file, arguments->server_folder, GetVariable("PATH"),
                          GetVariable("LD_LIBRARY_PATH")};
  // `endcap serve` passes a temporary link, which messages must not have.
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::canonical(context.model_file.parent_path(), error);
  if (!error) {
    context.model_file = folder / context.model_file.filename();
  }
  MakeExecutable(context.ModelFolder() / kRealStubFile);
  CheckResult result = CheckEnvironment(context);
  if (result.problem.empty() && result.stub) {
    RemoveLog(context.ModelFolder());
    setenv("LD_LIBRARY_PATH", result.stub->library_path.c_str(), 1);
    result.problem = result.stub->path.string() +
                     " cannot be started: " + ReplaceProcess(result.stub->path, argv);
  }
  WriteErrorMessage(context.ModelFolder(), result.problem);
  const auto stub = result.stub ? result.stub : FindReportingStub(context);
  if (stub) {
    ReportToServer(argv, *stub, result.problem);
  }
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(std::vector<std::string>(argv, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << "endcap stub: " << error.what() << '\n';
    return kFailed;
  }
}
