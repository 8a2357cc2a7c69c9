// Runs a fuzz target once on each file that the command line names, or that lies in a folder that
// it names: what any compiler builds, where libFuzzer takes Clang. `--random COUNT BYTES` runs it
// on COUNT inputs of at most BYTES pseudo-random bytes as well, the same on every machine.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
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

void RunRandom(size_t count, size_t max_bytes) {
  for (size_t i = 0; i < count; ++i) {
    std::mt19937 random(static_cast<uint32_t>(i));
    std::vector<uint8_t> bytes(random() % (max_bytes + 1));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    std::fprintf(stderr, "random input %zu\n", i);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--random") == 0 && i + 2 < argc) {
      const auto random = static_cast<size_t>(std::atoi(argv[i + 1]));
      RunRandom(random, static_cast<size_t>(std::atoi(argv[i + 2])));
      count += random;
      i += 2;
      continue;
    }
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
