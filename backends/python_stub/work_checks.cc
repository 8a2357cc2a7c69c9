// What a stub that has started needs to work: packages, and memory that it shares with the server.
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "each_check.h"
#include "imports.h"
#include "packages.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

// What the Python backend makes a region of where the server's options say nothing else.
constexpr std::int64_t kDefaultRegionBytes = 1 << 20;

}  // namespace

Check CheckNumpy(const std::vector<fs::path>& folders, const RealStub& stub) {
  Check check{"numpy", "none", ""};
  const std::optional<FoundPackage> numpy = FindPackage(folders, "numpy");
  const std::optional<bool> takes_2 = TakesNumpy2(stub.file);
  if (!numpy) {
    check.problem = std::string(
                        "NumPy is not installed in the environment, and the stub needs it; "
                        "install ") +
                    (takes_2 == true ? "numpy" : "'numpy<2'") + " there";
    return check;
  }
  check.found = numpy->version.empty() ? "unknown version" : numpy->version;
  // A release that takes NumPy 2 takes NumPy 1 as well.
  const bool is_1 = numpy->version.rfind("0.", 0) == 0 || numpy->version.rfind("1.", 0) == 0;
  if (takes_2 == false && !numpy->version.empty() && !is_1) {
    check.problem =
        "NumPy " + numpy->version + " (" + numpy->folder.string() +
        ") is newer than this release's stub can take, with which the model "
        "would answer empty tensors without an error; install 'numpy<2' in the environment";
  }
  return check;
}

Check CheckEndcap(const fs::path& model_folder, const std::vector<fs::path>& folders) {
  Check check{"endcap", "not imported by this model", ""};
  std::error_code error;
  for (const fs::directory_entry& version : fs::directory_iterator(model_folder, error)) {
    for (const fs::directory_entry& file : fs::directory_iterator(version.path(), error)) {
      if (file.path().extension() != ".py" || !Imports(file.path(), "endcap")) {
        continue;
      }
      // The stub appends these folders to sys.path.
      std::vector<fs::path> all = folders;
      all.insert(all.end(), {version.path(), model_folder});
      const std::optional<FoundPackage> endcap = FindPackage(all, "endcap");
      if (endcap) {
        check.found = endcap->version.empty() ? endcap->folder.string() : endcap->version;
        return check;
      }
      check.found = "none";
      check.problem = file.path().string() +
                      " imports endcap, which is not installed in the environment; install it "
                      "there, or pack it with `endcap env pack`";
      return check;
    }
  }
  return check;
}

Check CheckSharedMemory(const Subject& subject) {
  Check check{"shared_memory", "unknown", ""};
  struct statvfs space = {};
  if (statvfs(subject.shared_memory.c_str(), &space) != 0) {
    check.problem = subject.shared_memory.string() +
                    " is not there, through which the server hands over tensors; mount a tmpfs on "
                    "it";
    return check;
  }
  const auto free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  std::int64_t needed =
      subject.arguments ? subject.arguments->shared_memory_bytes : kDefaultRegionBytes;
  struct stat region = {};
  if (subject.arguments) {
    const fs::path file = subject.shared_memory / subject.arguments->shared_memory_region;
    if (stat(file.c_str(), &region) == 0) {
      needed -= static_cast<std::int64_t>(region.st_blocks) * 512;  // what it holds already
    }
  }
  check.found = std::to_string(free / 1024) + " KiB free";
  if (free < needed) {
    check.problem = subject.shared_memory.string() + " has " + check.found +
                    ", and the instance's region needs " + std::to_string(needed / 1024) +
                    " KiB more; in Docker give `--shm-size=1g`";
  }
  return check;
}

}  // namespace endcap::python_stub
