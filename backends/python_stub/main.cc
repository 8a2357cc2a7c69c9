// The stub that Triton's Python backend starts for a model whose folder holds it. It looks whether
// the model's environment can work, and becomes the stub of the server's release.

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "checks.h"
#include "process.h"
#include "refusal.h"
#include "report.h"

namespace {

using namespace endcap::python_stub;

// The server starts a stub without arguments to see that it may be executed, and expects a 1.
constexpr int kRefused = 1;

constexpr char kUsage[] =
    "triton_python_backend_stub is started by Triton. To look at a model:\n"
    "  triton_python_backend_stub --check MODEL_FOLDER [BACKENDS/python]\n"
    "  triton_python_backend_stub --describe STUB\n";

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As Python's site module finds it.
std::filesystem::path UserBase() {
  if (!Variable("PYTHONNOUSERSITE").empty()) {
    return {};
  }
  const std::string base = Variable("PYTHONUSERBASE");
  const std::string home = Variable("HOME");
  return !base.empty() || home.empty() ? std::filesystem::path(base)
                                       : std::filesystem::path(home) / ".local";
}

Subject SubjectHere() {
  Subject subject;
  subject.search_path = Variable("PATH");
  subject.library_path = Variable("LD_LIBRARY_PATH");
  subject.python_path = Variable("PYTHONPATH");
  subject.user_base = UserBase();
  return subject;
}

int PrintReport(const std::vector<std::string>& argv) {
  Subject subject = SubjectHere();
  subject.model_folder = argv[2];
  subject.server_folder = argv.size() > 3 ? argv[3] : "";
  const Examination examination = Examine(subject);
  std::cout << FormatReport(examination) << '\n';
  return examination.Problem().empty() ? EXIT_SUCCESS : kRefused;
}

int PrintDescription(const std::string& file) {
  const auto description = DescribeFile(file);
  if (!description) {
    std::cerr << file << " is no ELF file of this machine" << '\n';
    return kRefused;
  }
  std::cout << *description << '\n';
  return EXIT_SUCCESS;
}

// Copies from object stores lose the permission.
void MakeExecutable(const std::filesystem::path& program) {
  std::error_code error;
  if (access(program.c_str(), X_OK) != 0) {
    std::filesystem::permissions(program, std::filesystem::perms::owner_all,
                                 std::filesystem::perm_options::add, error);
  }
}

int Serve(const std::vector<std::string>& argv, const Arguments& arguments) {
  Subject subject = SubjectHere();
  subject.arguments = arguments;
  subject.model_folder = arguments.ModelFolder();
  subject.server_folder = arguments.server_folder;
  Examination examination;
  std::string problem;
  try {
    // `endcap serve` hands over a link, which is gone when someone reads the log.
    subject.model_folder = std::filesystem::canonical(subject.model_folder);
    MakeExecutable(subject.model_folder / kRealStubFile);
    examination = Examine(subject);
    problem = examination.Problem();
  } catch (const std::exception& error) {  // of the file system: a server must not wait for this
    problem = std::string("the environment cannot be looked at: ") + error.what();
  }
  if (problem.empty() && examination.stub) {
    const std::filesystem::path stub = examination.stub->path;
    ForgetRefusal(subject.model_folder);
    setenv("LD_LIBRARY_PATH", examination.library_path.c_str(), 1);
    problem = stub.string() + " cannot be started: " + Become(stub, argv);
  }
  Tell(subject.model_folder, problem);
  ReportToServer(argv, subject, examination, problem);
  return kRefused;
}

int Run(const std::vector<std::string>& argv) {
  if (argv.size() >= 3 && argv[1] == "--check") {
    return PrintReport(argv);
  }
  if (argv.size() == 3 && argv[1] == "--describe") {
    return PrintDescription(argv[2]);
  }
  if (const auto arguments = ReadArguments(argv)) {
    return Serve(argv, *arguments);
  }
  std::cerr << kUsage;
  return kRefused;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(std::vector<std::string>(argv, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << "endcap stub: " << error.what() << '\n';
    return kRefused;
  }
}
