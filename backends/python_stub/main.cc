// The stub that Triton's Python backend starts for a model whose folder contains it. It checks the
// model's environment and replaces itself by the stub of the server's release.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checks.h"
#include "error_report.h"

namespace {

using namespace endcap::python_stub;

// The server starts a stub without arguments to check that it is executable, and expects 1.
constexpr int kFailed = 1;

constexpr char kUsage[] =
    "triton_python_backend_stub is started by Triton. To check a model:\n"
    "  triton_python_backend_stub --check MODEL_FOLDER BACKENDS/python LIBRARY_PATH\n"
    "  triton_python_backend_stub --describe STUB\n";

using nlohmann::json;

// Replaces bytes of paths that are not UTF-8.
std::string Serialize(const json& document) {
  return document.dump(2, ' ', false, json::error_handler_t::replace);
}

json TextOrNull(const std::string& text) { return text.empty() ? json() : json(text); }

// {"python", "stub", "checks": [{"name", "found", "problem"}], "problem"}; null for what is absent.
// Read by `endcap stub check`.
std::string FormatResults(const CheckResults& results) {
  json checks = json::array();
  for (const Check& check : results.checks) {
    checks.push_back(
        {{"name", check.name}, {"found", check.found}, {"problem", TextOrNull(check.problem)}});
  }
  json report = {{"checks", checks}, {"problem", TextOrNull(results.FindProblem())}};
  report["python"] = results.python ? json(results.python->program.string()) : json();
  report["stub"] = results.stub ? json(results.stub->path.string()) : json();
  return Serialize(report);
}

// {"python", "build_id", "takes_numpy_2"} of an ELF file; none for another file. Read by
// `endcap stub install`.
std::optional<std::string> DescribeFile(const std::filesystem::path& file) {
  const std::optional<BinaryFile> binary = BinaryFile::Read(file);
  if (!binary) {
    return std::nullopt;
  }
  json description = {{"build_id", binary->BuildId()}};
  const std::optional<int> minor = FindPythonMinor(*binary);
  description["python"] = minor ? json("3." + std::to_string(*minor)) : json();
  const std::optional<bool> takes_numpy_2 = SupportsNumpy2(*binary);
  description["takes_numpy_2"] = takes_numpy_2 ? json(*takes_numpy_2) : json();
  return Serialize(description);
}

std::string GetVariable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the folder that Python's site module uses; empty if it uses none.
std::filesystem::path FindUserBase() {
  if (!GetVariable("PYTHONNOUSERSITE").empty()) {
    return {};
  }
  const std::string base = GetVariable("PYTHONUSERBASE");
  const std::string home = GetVariable("HOME");
  return !base.empty() || home.empty() ? std::filesystem::path(base)
                                       : std::filesystem::path(home) / ".local";
}

StartContext ReadStartContext() {
  StartContext context;
  context.search_path = GetVariable("PATH");
  context.library_path = GetVariable("LD_LIBRARY_PATH");
  context.python_path = GetVariable("PYTHONPATH");
  context.user_base = FindUserBase();
  return context;
}

int PrintResults(const std::vector<std::string>& argv) {
  StartContext context = ReadStartContext();
  context.model_folder = argv[2];
  context.server_folder = argv[3];
  // Not the variable's: this program would load libraries of the model's environment by that.
  context.library_path = argv[4];
  const CheckResults results = RunChecks(context);
  std::cout << FormatResults(results) << '\n';
  return results.FindProblem().empty() ? EXIT_SUCCESS : kFailed;
}

int PrintDescription(const std::string& file) {
  const auto description = DescribeFile(file);
  if (!description) {
    std::cerr << file << " is not an ELF file of this machine" << '\n';
    return kFailed;
  }
  std::cout << *description << '\n';
  return EXIT_SUCCESS;
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

int Serve(const std::vector<std::string>& argv, const Arguments& arguments) {
  StartContext context = ReadStartContext();
  context.arguments = arguments;
  context.model_folder = arguments.ModelFolder();
  context.server_folder = arguments.server_folder;
  CheckResults results;
  std::string problem;
  try {
    // `endcap serve` passes a temporary link, which messages must not have.
    context.model_folder = std::filesystem::canonical(context.model_folder);
    MakeExecutable(context.model_folder / kRealStubFile);
    results = RunChecks(context);
    problem = results.FindProblem();
  } catch (const std::exception& error) {  // reported below, because the server waits for a report
    problem = std::string("the environment cannot be checked: ") + error.what();
  }
  if (problem.empty() && results.stub) {
    const std::filesystem::path stub = results.stub->path;
    RemoveLog(context.model_folder);
    setenv("LD_LIBRARY_PATH", results.library_path.c_str(), 1);
    problem = stub.string() + " cannot be started: " + ReplaceProcess(stub, argv);
  }
  WriteErrorMessage(context.model_folder, problem);
  ReportToServer(argv, context, results, problem);
  return kFailed;
}

int Run(const std::vector<std::string>& argv) {
  if (argv.size() == 5 && argv[1] == "--check") {
    return PrintResults(argv);
  }
  if (argv.size() == 3 && argv[1] == "--describe") {
    return PrintDescription(argv[2]);
  }
  if (const auto arguments = ReadArguments(argv)) {
    return Serve(argv, *arguments);
  }
  std::cerr << kUsage;
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
