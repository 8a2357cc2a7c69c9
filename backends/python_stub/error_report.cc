#include "error_report.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>

#include "processes.h"
#include "settings.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

// `endcap stub` recognises this program, of any version, by this name.
constexpr char kMessageVariable[] = "ENDCAP_STUB_REFUSAL";

// The module removes its folder, which is used once. `endcap serve` recognises the message by the
// name of the exception.
constexpr char kRaisingModel[] = R"(import os
import shutil

shutil.rmtree(os.path.dirname(os.path.dirname(__file__)), ignore_errors=True)


class EndcapStub(Exception):
    pass


raise EndcapStub(os.environ["ENDCAP_STUB_REFUSAL"])
)";

std::string FormatTimeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::array<char, 32> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// Returns the message of a log file, which follows the time; empty if there is none.
std::string ReadLoggedMessage(const fs::path& log) {
  std::ifstream file(log);
  std::string time;
  std::string message;
  if (file >> time && file.get() == ' ') {
    std::getline(file, message);
  }
  return message;
}

// Whether a file is one that WriteErrorMessage has made: a regular file with no other name, which
// begins with a time of FormatTimeNow.
bool IsLog(const fs::path& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) {
    return false;
  }
  constexpr char kForm[] = "dddd-dd-ddTdd:dd:ddZ";
  std::ifstream file(path);
  std::string time;
  if (!(file >> time) || time.size() != sizeof(kForm) - 1) {
    return false;
  }
  for (std::size_t i = 0; i < time.size(); ++i) {
    const bool is_digit = time[i] >= '0' && time[i] <= '9';
    if (kForm[i] == 'd' ? !is_digit : time[i] != kForm[i]) {
      return false;
    }
  }
  return true;
}

// Writes a file whole, in the place of the one before; returns whether that succeeded.
bool ReplaceFile(const fs::path& path, const std::string& text) {
  std::string partial = path.string() + ".XXXXXX";
  const int file = mkstemp(partial.data());
  if (file < 0) {
    return false;
  }
  const bool written = fchmod(file, 0644) == 0 &&
                       write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = close(file) == 0;
  if (written && closed && rename(partial.c_str(), path.c_str()) == 0) {
    return true;
  }
  unlink(partial.c_str());
  return false;
}

// Writes one line with one call, because the server and other stubs write to the same pipe.
void WriteToServer(const std::string& message) {
  std::cerr << "endcap stub: " + message + "\n" << std::flush;
}

// Writes the module as REPOSITORY/VERSION/model.py and returns its path; empty on failure.
fs::path WriteRaisingModel(const std::string& version) {
  std::string folder = (fs::temp_directory_path() / "endcap_stub_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return {};
  }
  std::error_code error;
  const fs::path file = fs::path(folder) / version / "model.py";
  fs::create_directory(file.parent_path(), error);
  std::ofstream text(file);
  text << kRaisingModel;
  text.close();
  return text ? file : fs::path();
}

}  // namespace

void WriteErrorMessage(const fs::path& model_folder, const std::string& message) {
  WriteToServer("model '" + model_folder.filename().string() + "': " + message);
  const fs::path path = model_folder / kLogFile;
  const bool exists = fs::symlink_status(path).type() != fs::file_type::not_found;
  if (exists && !IsLog(path)) {
    WriteToServer(path.string() + " is not a log of this stub, and is left unchanged");
  } else if (!exists || ReadLoggedMessage(path) != message) {
    if (!ReplaceFile(path, FormatTimeNow() + ' ' + message + '\n')) {
      WriteToServer(path.string() + " cannot be written");
    }
  }
}

void RemoveLog(const fs::path& model_folder) {
  const fs::path path = model_folder / kLogFile;
  if (IsLog(path)) {
    std::error_code error;
    fs::remove(path, error);
  }
}

void ReportToServer(const std::vector<std::string>& argv, const RealStub& stub,
                    const std::string& message) {
  const fs::path version = fs::path(argv[kModelFilePosition]).parent_path().filename();
  const fs::path module = WriteRaisingModel(version.string());
  if (module.empty()) {
    return;
  }
  std::vector<std::string> arguments = argv;
  arguments[kModelFilePosition] = module.string();
  if (arguments.size() > kRuntimeModelPosition) {
    arguments[kRuntimeModelPosition] = "DEFAULT";  // the module is a model
  }
  setenv(kMessageVariable, message.c_str(), 1);
  setenv("PATH", stub.search_path.c_str(), 1);
  setenv("LD_LIBRARY_PATH", stub.library_path.c_str(), 1);
  ReplaceProcess(stub.path, arguments);
  std::error_code error;
  fs::remove_all(module.parent_path().parent_path(), error);
}

}  // namespace endcap::python_stub
