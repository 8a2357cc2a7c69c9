#include "processes.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace endcap::python_stub {
namespace {

// Returns pointers for execv; valid as long as the texts.
std::vector<char*> MakePointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::string ReadAll(int descriptor) {
  std::string text;
  std::array<char, 4096> block;
  for (;;) {
    const ssize_t count = read(descriptor, block.data(), block.size());
    if (count > 0) {
      text.append(block.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return text;
    }
  }
}

}  // namespace

Output RunProgram(const std::vector<std::string>& arguments, const std::string& library_path) {
  const std::vector<char*> pointers = MakePointers(arguments);
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {};
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    setenv("LD_LIBRARY_PATH", library_path.c_str(), 1);
    execv(pointers[0], pointers.data());
    _exit(126);
  }
  close(ends[1]);
  Output output;
  if (child > 0) {
    output.text = ReadAll(ends[0]);
    int status = 0;
    if (waitpid(child, &status, 0) == child && WIFEXITED(status)) {
      output.exit_code = WEXITSTATUS(status);
    }
  }
  close(ends[0]);
  return output;
}

std::string ReplaceProcess(const std::filesystem::path& program,
                           const std::vector<std::string>& argv) {
  std::vector<std::string> arguments = argv;
  arguments[0] = program.string();
  execv(program.c_str(), MakePointers(arguments).data());
  return std::strerror(errno);
}

std::vector<std::string> SplitFolders(const std::string& folders) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    if (end > begin) {
      parts.push_back(folders.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return parts;
}

std::string AppendFolder(const std::string& folders, const std::filesystem::path& folder) {
  return folders.empty() ? folder.string() : folders + ":" + folder.string();
}

}  // namespace endcap::python_stub
