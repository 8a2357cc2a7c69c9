// The checks of a model's environment, and the report of an error message.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "checks.h"
#include "error_report.h"
#include "python_stub_files.h"

namespace endcap::python_stub {
namespace {

// A model with a stub for Python 3.99, and an activated environment that has this Python.
class ChecksTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("env/bin/activate");
    folder_.WriteProgram("env/bin/python3.99");
    folder_.Link("env/bin/python3", "python3.99");
    folder_.Link("env/lib/libpython3.99.so.1.0", FAKE_LIBPYTHON);
    AddPackage("numpy", "1.26.4");
    folder_.Write("model/1/model.py", "import numpy\n");
    folder_.Link("model/triton_python_backend_stub.real", FAKE_PYTHON_STUB);
    context_.model_folder = folder_.path() / "model";
    context_.server_folder = folder_.path() / "server";
    context_.search_path = Env("bin") + ":/usr/bin";
    context_.library_path = Env("lib") + ":";
    context_.shared_memory = folder_.path();
  }

  std::string Env(const std::string& name) const {
    return (folder_.path() / "env" / name).string();
  }

  void AddPackage(const std::string& name, const std::string& version) const {
    const std::string packages = "env/lib/python3.99/site-packages/";
    folder_.Write(packages + name + "/__init__.py");
    folder_.Write(packages + name + "-" + version + ".dist-info/METADATA");
  }

  void Remove(const std::string& name) const { std::filesystem::remove_all(folder_.path() / name); }

  // Returns the name of the first check with a problem, and its message; empty if there is none.
  std::pair<std::string, std::string> FindFirstProblem() const {
    for (const Check& check : RunChecks(context_).checks) {
      if (!check.problem.empty()) {
        return {check.name, check.problem};
      }
    }
    return {"", ""};
  }

  void ExpectProblem(const std::string& name, const std::string& part) const {
    const auto [found, message] = FindFirstProblem();
    EXPECT_EQ(found, name) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("; "), std::string::npos) << "no advice: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }

  TemporaryFolder folder_;
  StartContext context_;
};

TEST_F(ChecksTest, AValidEnvironmentHasNoProblem) {
  const CheckResults results = RunChecks(context_);
  EXPECT_EQ(results.FindProblem(), "");
  EXPECT_TRUE(results.stub_starts);
  EXPECT_EQ(results.checks.size(), 7U);
  EXPECT_EQ(results.library_path, Env("lib") + ":" + Env("lib"));
}

TEST_F(ChecksTest, NoPython) {
  context_.search_path = "/nowhere";
  ExpectProblem("python", "no python3 on PATH");
}

TEST_F(ChecksTest, EnvironmentWithoutPython3) {
  Remove("env/bin/python3");
  folder_.WriteProgram("other/bin/python3.99");
  folder_.Link("other/bin/python3", "python3.99");
  context_.search_path = Env("bin") + ":" + (folder_.path() / "other/bin").string();
  ExpectProblem("python", "has no bin/python3");
}

TEST_F(ChecksTest, LibrariesOfAnotherEnvironmentDoNotActivateIt) {
  folder_.Write("other/bin/activate");
  folder_.WriteProgram("other/bin/python3");
  context_.library_path = (folder_.path() / "other/lib").string() + ":" + Env("lib");
  EXPECT_EQ(FindFirstProblem().second, "");
}

TEST_F(ChecksTest, PythonOfUnknownVersion) {
  Remove("env/bin/python3");
  folder_.WriteProgram("env/bin/python3");
  ExpectProblem("python", "cannot be determined");
}

TEST_F(ChecksTest, StubForAnotherPython) {
  Remove("env/bin/python3");
  folder_.WriteProgram("env/bin/python3.98");
  folder_.Link("env/bin/python3", "python3.98");
  ExpectProblem("stub", "has Python 3.98");
}

TEST_F(ChecksTest, NoStub) {
  Remove("model/triton_python_backend_stub.real");
  ExpectProblem("stub", "has no stub");
}

TEST_F(ChecksTest, AStubThatWasReplaced) {
  folder_.Write("model/endcap-stub.json", R"({"stub_build_id": "00", "release": "r 1"})");
  ExpectProblem("release", "installed from r 1");
}

TEST_F(ChecksTest, AnotherServer) {
  folder_.Write("server/libtriton_python.so", MakeElfFile({}, "\x01"));
  folder_.Write("model/endcap-stub.json", R"({"server_build_id": "01"})");
  EXPECT_EQ(FindFirstProblem().second, "");
  folder_.Write("model/endcap-stub.json", R"({"server_build_id": "02", "release": "r 1"})");
  ExpectProblem("release", "for the Python backend of r 1");
}

TEST_F(ChecksTest, LibpythonOfTheInstallationIsFound) {
  context_.library_path = "";  // no environment is activated
  const CheckResults results = RunChecks(context_);
  EXPECT_EQ(results.FindProblem(), "");
  EXPECT_EQ(results.library_path, Env("lib"));
}

TEST_F(ChecksTest, NoLibpython) {
  Remove("env/lib/libpython3.99.so.1.0");
  ExpectProblem("libraries", "libpython3.99.so.1.0, which the loader does not find");
  EXPECT_FALSE(RunChecks(context_).stub_starts);
}

TEST_F(ChecksTest, AStubThatCannotBeExecuted) {
  Remove("model/triton_python_backend_stub.real");
  folder_.Write("model/triton_python_backend_stub.real",
                MakeElfFile({"libpython3.99.so.1.0"}, "1"));
  ExpectProblem("libraries", "cannot be executed");
}

TEST_F(ChecksTest, NumpyMustBeSupportedByTheStub) {
  Remove("env/lib/python3.99/site-packages/numpy");
  Remove("env/lib/python3.99/site-packages/numpy-1.26.4.dist-info");
  ExpectProblem("numpy", "not installed");
  AddPackage("numpy", "2.0.0");
  ExpectProblem("numpy", "NumPy 2.0.0");
  EXPECT_TRUE(RunChecks(context_).stub_starts);
}

TEST_F(ChecksTest, NumpyMayBeFoundByEnvironmentVariables) {
  folder_.Write("path/numpy/version.py", "version = '2.1.0'\n");
  folder_.Write("path/numpy/__init__.py");
  context_.python_path = (folder_.path() / "path").string();
  ExpectProblem("numpy", "NumPy 2.1.0");
  context_.python_path = "";
  folder_.Write("user/lib/python3.99/site-packages/numpy-2.2.0.dist-info/METADATA");
  context_.user_base = folder_.path() / "user";
  ExpectProblem("numpy", "NumPy 2.2.0");
}

TEST_F(ChecksTest, EndcapMustBeInstalledIfImported) {
  folder_.Write("model/1/model.py", "from endcap import nms\n");
  ExpectProblem("endcap", "1/model.py imports endcap");
  AddPackage("endcap", "0.1.0");
  EXPECT_EQ(FindFirstProblem().second, "");
}

TEST_F(ChecksTest, EndcapMayBeInTheModelsFolder) {
  folder_.Write("model/1/model.py", "import endcap\n");
  folder_.Write("model/1/endcap.py");
  EXPECT_EQ(FindFirstProblem().second, "");
  Remove("model/1/endcap.py");
  folder_.Write("model/endcap/__init__.py");
  EXPECT_EQ(FindFirstProblem().second, "");
}

TEST_F(ChecksTest, SharedMemoryMustHaveSpace) {
  context_.arguments = Arguments{"", "region", std::int64_t{1} << 60, 0, ""};
  ExpectProblem("shared_memory", "the instance's region needs");
  context_.shared_memory = folder_.path() / "absent";
  ExpectProblem("shared_memory", "does not exist");
}

TEST_F(ChecksTest, SettingsThatCannotBeRead) {
  folder_.Write("model/endcap-stub.json", "nonsense");
  ExpectProblem("settings", "no JSON object");
  folder_.Write("model/endcap-stub.json", "{" + std::string(1 << 20, ' ') + "}");
  ExpectProblem("settings", "has more than 65536 bytes");
  Remove("model/endcap-stub.json");
  ASSERT_EQ(mkfifo((context_.model_folder / "endcap-stub.json").c_str(), 0600), 0);
  ExpectProblem("settings", "not a regular file");
}

TEST_F(ChecksTest, ALogHoldsTheLastMessage) {
  const std::filesystem::path log = context_.model_folder / kLogFile;
  testing::internal::CaptureStderr();
  WriteErrorMessage(context_.model_folder, "the first");
  WriteErrorMessage(context_.model_folder, "the second");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "endcap stub: model 'model': the first\nendcap stub: model 'model': the second\n");
  std::ifstream lines(log);
  std::string time;
  std::string message;
  lines >> time >> std::ws;
  std::getline(lines, message);
  EXPECT_EQ(message, "the second");
  EXPECT_FALSE(std::getline(lines, message));
  RemoveLog(context_.model_folder);
  EXPECT_FALSE(std::filesystem::exists(log));
}

TEST_F(ChecksTest, ALogOfTheSameMessageIsNotWrittenAgain) {
  namespace fs = std::filesystem;
  const fs::path log = context_.model_folder / kLogFile;
  testing::internal::CaptureStderr();
  WriteErrorMessage(context_.model_folder, "the first");
  const fs::file_time_type before = fs::last_write_time(log) - std::chrono::hours(1);
  fs::last_write_time(log, before);
  WriteErrorMessage(context_.model_folder, "the first");
  EXPECT_EQ(fs::last_write_time(log), before);
  WriteErrorMessage(context_.model_folder, "the first and more");
  EXPECT_GT(fs::last_write_time(log), before);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3);
}

TEST_F(ChecksTest, ALogThatCannotBeWrittenIsReported) {
  testing::internal::CaptureStderr();
  WriteErrorMessage(folder_.path() / "absent", "the message");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("endcap-stub.log cannot be written"),
            std::string::npos);
}

TEST_F(ChecksTest, AFileThatIsNoLogIsLeftAlone) {
  namespace fs = std::filesystem;
  const fs::path log = context_.model_folder / kLogFile;
  const fs::path other = folder_.path() / "other";
  const auto read = [](const fs::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
  };
  const std::string logged = "2026-01-01T00:00:00Z of another model";
  for (const bool is_link : {true, false}) {
    for (const std::string& content : {std::string("precious"), logged}) {
      std::ofstream(other) << content << '\n';
      is_link ? fs::create_symlink(other, log) : fs::create_hard_link(other, log);
      testing::internal::CaptureStderr();
      WriteErrorMessage(context_.model_folder, "the message");
      EXPECT_NE(testing::internal::GetCapturedStderr().find("is no log of this stub"),
                std::string::npos);
      RemoveLog(context_.model_folder);
      EXPECT_TRUE(fs::exists(log));
      EXPECT_EQ(read(other), content);
      fs::remove(log);
    }
  }
  std::ofstream(log) << "my notes\n";
  WriteErrorMessage(context_.model_folder, "the message");
  RemoveLog(context_.model_folder);
  EXPECT_EQ(read(log), "my notes");
}

TEST_F(ChecksTest, AReportingStubMayUseAnotherPython) {
  EXPECT_EQ(FindReportingStub(context_, RunChecks(context_))->stub,
            context_.model_folder / "triton_python_backend_stub.real");
  // No stub starts in the environment; the server has a Python and a stub of its own.
  Remove("env/bin/python3");
  folder_.WriteProgram("env/bin/python3.98");
  folder_.Link("env/bin/python3", "python3.98");
  EXPECT_FALSE(FindReportingStub(context_, RunChecks(context_)));
  folder_.Link("server/triton_python_backend_stub", FAKE_PYTHON_STUB);
  folder_.WriteProgram("other/bin/python3.99");
  folder_.Link("other/bin/python3", "python3.99");
  const std::string other = (folder_.path() / "other/bin").string();
  const std::string libraries = std::filesystem::path(FAKE_LIBPYTHON).parent_path().string();
  context_.search_path = Env("bin") + ":" + other;
  context_.library_path = Env("lib") + ":" + libraries;
  const auto reporting = FindReportingStub(context_, RunChecks(context_));
  ASSERT_TRUE(reporting);
  EXPECT_EQ(reporting->stub, context_.server_folder / "triton_python_backend_stub");
  EXPECT_EQ(reporting->search_path, other + ":" + other);
  EXPECT_EQ(reporting->library_path, libraries + ":" + libraries);
}

}  // namespace
}  // namespace endcap::python_stub
