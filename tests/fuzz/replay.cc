// Runs a fuzz target once on each file that the command line names, or that lies in a folder that
// it names: what any compiler builds, where libFuzzer takes Clang.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FindFiles(const fs::path& place) {
  if (!fs::is_directory(place)) return {place};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(place)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool Replay(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> content((std::istreambuf_iterator<char>(stream)), {});
  if (!stream.is_open() || stream.bad()) {
    std::fprintf(stderr, "%s cannot be read: give files, or folders of files\n", file.c_str());
    return false;
  }
  // Before the run: the last line names the input that ended the process.
  std::fprintf(stderr, "%s, %zu bytes\n", file.c_str(), content.size());
  // Memory of the very size, so that a read beyond it is seen.
  const std::vector<uint8_t> bytes(content.begin(), content.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const fs::path& file : FindFiles(argv[i])) {
      if (!Replay(file)) return 2;
      ++count;
    }
  }
  if (count == 0) {
    std::fprintf(stderr, "no input was given: give files, or folders of files\n");
    return 2;
  }
  std::printf("%zu inputs\n", count);
  return 0;
}
