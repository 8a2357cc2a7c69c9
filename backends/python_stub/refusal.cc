#include "refusal.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>

#include "library_path.h"
#include "process.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

constexpr char kMessageVariable[] = "ENDCAP_STUB_REFUSAL";

// Its folder serves one import, so the module removes it. The exception's name is what
// `endcap serve` knows the message by.
constexpr char kRefusingModel[] = R"(import os
import shutil

shutil.rmtree(os.path.dirname(os.path.dirname(__file__)), ignore_errors=True)


class EndcapStub(Exception):
    pass


raise EndcapStub(os.environ["ENDCAP_STUB_REFUSAL"])
)";

std::string TimeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::array<char, 32> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// What a log tells behind its time; "" where there is none.
std::string LoggedMessage(const fs::path& log) {
  std::ifstream file(log);
  std::string time;
  std::string message;
  if (file >> time && file.get() == ' ') {
    std::getline(file, message);
  }
  return message;
}

// One line in one piece: stubs of other models and the server write to the same pipe.
void SayToServer(const std::string& message) {
  std::cerr << "endcap stub: " + message + "\n" << std::flush;
}

// The search path without the folders of the environment that the server has activated.
std::string WithoutEnvironment(const std::string& folders, const std::optional<fs::path>& prefix) {
  std::string kept;
  for (const std::string& folder : SplitFolders(folders)) {
    if (!prefix || folder.rfind(prefix->string() + "/", 0) != 0) {
      kept = WithFolder(kept, folder);
    }
  }
  return kept;
}

// Writes the module where the stub of the release looks for a model; "" where that fails.
fs::path WriteRefusingModel(const std::string& version) {
  std::string folder = (fs::temp_directory_path() / "endcap_stub_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return {};
  }
  std::error_code error;
  const fs::path file = fs::path(folder) / version / "model.py";
  fs::create_directory(file.parent_path(), error);
  std::ofstream text(file);
  text << kRefusingModel;
  text.close();
  return text ? file : fs::path();
}

}  // namespace

void Tell(const fs::path& model_folder, const std::string& message) {
  SayToServer("model '" + model_folder.filename().string() + "': " + message);
  const fs::path path = model_folder / kLogFile;
  if (LoggedMessage(path) == message) {
    return;
  }
  std::ofstream log(path);
  log << TimeNow() << ' ' << message << '\n';
  log.close();
  if (!log) {
    SayToServer(path.string() + " cannot be written");
  }
}

void ForgetRefusal(const fs::path& model_folder) {
  std::error_code error;
  fs::remove(model_folder / kLogFile, error);
}

std::optional<Speaker> FindSpeaker(const Subject& subject, const Examination& examination) {
  if (examination.stub && examination.stub_starts) {
    return Speaker{examination.stub->path, subject.search_path, examination.library_path};
  }
  const auto prefix = ActivatedPrefix(subject.search_path, subject.library_path);
  const std::string search_path = WithoutEnvironment(subject.search_path, prefix);
  const std::string library_path = LibraryPathForStub(
      WithoutEnvironment(subject.library_path, prefix), examination.settings, subject.server_folder,
      subject.library_path.find(':') != std::string::npos);
  for (const PythonEnvironment& python : FindPythons(search_path)) {
    if (!python.minor) {
      continue;
    }
    // Only the server's own: one that the model brings may be of another release.
    for (const fs::path& place : ServerStubPlaces(subject.server_folder, *python.minor)) {
      const std::optional<BinaryFile> stub = BinaryFile::Read(place);
      if (stub && FindPythonMinor(*stub) == python.minor &&
          MissingLibraries(place, library_path) == std::vector<std::string>()) {
        const std::string first = python.program.parent_path().string();
        return Speaker{place, WithFolder(first, search_path), library_path};
      }
    }
  }
  return std::nullopt;
}

void ReportToServer(const std::vector<std::string>& argv, const Subject& subject,
                    const Examination& examination, const std::string& message) {
  const std::optional<Speaker> speaker = FindSpeaker(subject, examination);
  if (!speaker) {
    return;
  }
  const fs::path version = fs::path(argv[kModelFilePosition]).parent_path().filename();
  const fs::path module = WriteRefusingModel(version.string());
  if (module.empty()) {
    return;
  }
  std::vector<std::string> arguments = argv;
  arguments[kModelFilePosition] = module.string();
  if (arguments.size() > kRuntimeModelPosition) {
    arguments[kRuntimeModelPosition] = "DEFAULT";  // the module is a model, not a backend's
  }
  setenv(kMessageVariable, message.c_str(), 1);
  setenv("PATH", speaker->search_path.c_str(), 1);
  setenv("LD_LIBRARY_PATH", speaker->library_path.c_str(), 1);
  Become(speaker->stub, arguments);
  std::error_code error;
  fs::remove_all(module.parent_path().parent_path(), error);
}

}  // namespace endcap::python_stub
