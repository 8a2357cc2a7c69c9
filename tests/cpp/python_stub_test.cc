// The stub in a model's folder: its arguments and settings, its checks, and its error report.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "checks.h"
#include "error_report.h"
#include "processes.h"
#include "settings.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

// A model with a stub for Python 3.99, and an activated environment whose python3 prints the report
// of one: no machine has that Python.
class StubTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "endcap_stub_test_XXXXXX").string();
    path_ = fs::canonical(mkdtemp(name.data()));
    Write("env/bin/activate");
    WritePython("env");
    Link("env/lib/libpython3.99.so.1.0", FAKE_LIBPYTHON);
    Write("model/1/model.py", "import numpy\n");
    Link("model/triton_python_backend_stub.real", FAKE_PYTHON_STUB);
    fs::create_directory(path_ / "server");
    context_ = {path_ / "model/1/model.py", path_ / "server", Path("env/bin") + ":/bin",
                Path("env/lib") + ":"};
  }
  void TearDown() override { fs::remove_all(path_); }

  std::string Path(const std::string& name) const { return (path_ / name).string(); }

  void Write(const std::string& name, const std::string& content = "") const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

  void WritePython(const std::string& environment, const std::string& minor = "99",
                   const std::string& numpy = "\"1.26.4\"", const std::string& missing = "") const {
    const std::string name = environment + "/bin/python3";
    Write(name, "#!/bin/sh\necho '{\"minor\": " + minor + ", \"numpy\": " + numpy +
                    ", \"numpy_folder\": \"/packages/numpy\", \"base\": \"" + Path(environment) +
                    "\", \"missing\": [" + missing + "]}'\n");
    fs::permissions(path_ / name, fs::perms::owner_all);
  }

  void Link(const std::string& name, const fs::path& target) const {
    fs::create_directories((path_ / name).parent_path());
    fs::create_symlink(target, path_ / name);
  }

  void Remove(const std::string& name) const { fs::remove_all(path_ / name); }

  void ExpectProblem(const std::string& part) const {
    const std::string message = CheckEnvironment(context_).problem;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("; "), std::string::npos) << "no advice: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }

  fs::path path_;
  StartContext context_;
};

TEST_F(StubTest, ReadsTheArgumentsOfTriton) {
  const auto arguments =
      ReadArguments({"stub", "/models/m/3/model.py", "region", "1048576", "65536", "17",
                     "/opt/backends/python", "0", "m_0", "DEFAULT"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->model_file, "/models/m/3/model.py");
  EXPECT_EQ(arguments->server_folder, "/opt/backends/python");
  EXPECT_FALSE(ReadArguments({"stub"}));
}

TEST_F(StubTest, AValidEnvironmentHasNoProblem) {
  const CheckResult result = CheckEnvironment(context_);
  EXPECT_EQ(result.problem, "");
  ASSERT_TRUE(result.stub);
  EXPECT_EQ(result.stub->path, Path("model/triton_python_backend_stub.real"));
  EXPECT_EQ(result.stub->library_path, Path("env/lib") + ":" + Path("env/lib"));
}

TEST_F(StubTest, ThereMustBeAPythonThatRuns) {
  context_.search_path = "/nowhere";
  ExpectProblem("no python3 on PATH");
  context_.search_path = Path("env/bin");
  Write("env/bin/python3", "#!/bin/sh\necho 'its library is gone' >&2\nexit 127\n");
  ExpectProblem("env/bin/python3, the first python3 on PATH, cannot run (its library is gone)");
  Remove("env/bin/python3");
  WritePython("other");
  context_.search_path = Path("env/bin") + ":" + Path("other/bin");
  ExpectProblem("has no bin/python3");
}

TEST_F(StubTest, TheStubMustBeForThePython) {
  WritePython("env", "98");
  ExpectProblem("has Python 3.98");
  ExpectProblem("is for Python 3.99");
  Remove("model/triton_python_backend_stub.real");
  ExpectProblem("neither the server nor the model's folder has a stub");
  WritePython("env");
  Link("server/triton_python_backend_stub", FAKE_PYTHON_STUB);
  EXPECT_EQ(CheckEnvironment(context_).stub->path, Path("server/triton_python_backend_stub"));
}

TEST_F(StubTest, TheServerMustBeThatOfTheStub) {
  Write("server/libtriton_python.so", "12345");
  Write("model/endcap-stub.json", R"({"server_bytes": 5})");
  EXPECT_EQ(CheckEnvironment(context_).problem, "");
  Write("model/endcap-stub.json", R"({"server_bytes": 6, "release": "r 1"})");
  ExpectProblem("for the Python backend of r 1");
}

TEST_F(StubTest, LibpythonIsFoundInTheInstallation) {
  context_.library_path = "";  // no environment is activated
  EXPECT_EQ(CheckEnvironment(context_).stub->library_path, Path("env/lib"));
  Remove("env/lib/libpython3.99.so.1.0");
  ExpectProblem("cannot be started");
  ExpectProblem("libpython3.99.so.1.0");
  EXPECT_FALSE(CheckEnvironment(context_).stub);
}

TEST_F(StubTest, NumpyMustBeSupportedByTheStub) {
  WritePython("env", "99", "null");
  ExpectProblem("NumPy cannot be imported");
  WritePython("env", "99", "\"2.0.0\"");
  ExpectProblem("NumPy 2.0.0 (/packages/numpy)");
  EXPECT_TRUE(CheckEnvironment(context_).stub);
}

TEST_F(StubTest, ModulesThatTheModelImportsMustBeInstalled) {
  WritePython("env", "99", "\"1.26.4\"", "\"endcap\", \"scipy\"");
  ExpectProblem("model/1/model.py imports endcap, scipy, not installed");
}

TEST_F(StubTest, SettingsThatCannotBeRead) {
  const std::string file = "model/endcap-stub.json";
  for (const std::string text : {"{", "[]", R"({"release": 1})"}) {
    Write(file, text);
    ExpectProblem("is not a JSON object");
  }
  Write(file, R"({"relase": ""})");
  ExpectProblem("unknown name 'relase'; known are release,");
  Write(file, "{" + std::string(1 << 20, ' ') + "}");
  ExpectProblem("has more than 65536 bytes");
  Remove(file);
  ASSERT_EQ(mkfifo((path_ / file).c_str(), 0600), 0);
  ExpectProblem("not a regular file");
}

TEST_F(StubTest, AReportingStubMayUseAnotherPython) {
  WritePython("env", "98");
  EXPECT_FALSE(FindReportingStub(context_));
  Link("server/triton_python_backend_stub", FAKE_PYTHON_STUB);
  WritePython("other");
  Link("other/lib/libpython3.99.so.1.0", FAKE_LIBPYTHON);
  context_.search_path = Path("env/bin") + ":" + Path("other/bin");
  const auto stub = FindReportingStub(context_);
  ASSERT_TRUE(stub);
  EXPECT_EQ(stub->path, Path("server/triton_python_backend_stub"));
  EXPECT_EQ(stub->search_path, Path("other/bin") + ":" + context_.search_path);
  EXPECT_EQ(stub->library_path, Path("other/lib") + ":" + Path("other/lib"));
}

class LogTest : public StubTest {
 protected:
  std::string WriteMessage(const std::string& message) const {
    testing::internal::CaptureStderr();
    WriteErrorMessage(path_ / "model", message);
    return testing::internal::GetCapturedStderr();
  }

  std::string ReadLine(const fs::path& file) const {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
  }
};

TEST_F(LogTest, HoldsTheLastMessage) {
  const fs::path log = path_ / "model" / kLogFile;
  EXPECT_EQ(WriteMessage("the first"), "endcap stub: model 'model': the first\n");
  WriteMessage("the second");
  const std::string line = ReadLine(log);
  EXPECT_EQ(line.substr(line.find(' ')), " the second");
  const fs::file_time_type before = fs::last_write_time(log) - std::chrono::hours(1);
  fs::last_write_time(log, before);
  WriteMessage("the second");  // not written again
  EXPECT_EQ(fs::last_write_time(log), before);
  RemoveLog(path_ / "model");
  EXPECT_FALSE(fs::exists(log));
}

TEST_F(LogTest, ThatCannotBeWrittenIsReported) {
  testing::internal::CaptureStderr();
  WriteErrorMessage(path_ / "absent", "the message");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("endcap-stub.log cannot be written"),
            std::string::npos);
}

TEST_F(LogTest, AnotherFileIsLeftUnchanged) {
  const fs::path log = path_ / "model" / kLogFile;
  const fs::path other = path_ / "other";
  for (const bool is_link : {true, false}) {
    for (const std::string content : {"precious", "2026-01-01T00:00:00Z of another model"}) {
      std::ofstream(other) << content << '\n';
      is_link ? fs::create_symlink(other, log) : fs::create_hard_link(other, log);
      EXPECT_NE(WriteMessage("the message").find("is not a log of this stub"), std::string::npos);
      RemoveLog(path_ / "model");
      EXPECT_TRUE(fs::exists(log));
      EXPECT_EQ(ReadLine(other), content);
      fs::remove(log);
    }
  }
  std::ofstream(log) << "my notes\n";
  WriteMessage("the message");
  RemoveLog(path_ / "model");
  EXPECT_EQ(ReadLine(log), "my notes");
}

}  // namespace
}  // namespace endcap::python_stub
