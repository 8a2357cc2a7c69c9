#include "process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace endcap::python_stub {
namespace {

// What execve takes: the texts must outlive the pointers.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const std::vector<std::string>& variables) {
  std::vector<std::string> environment = variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    bool replaced = false;
    for (const std::string& other : variables) {
      replaced =
          replaced || text.compare(0, text.find('=') + 1, other, 0, other.find('=') + 1) == 0;
    }
    if (!replaced) {
      environment.push_back(text);
    }
  }
  return environment;
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

std::string CaptureOutput(const std::filesystem::path& program,
                          const std::vector<std::string>& variables) {
  const std::vector<std::string> environment = EnvironmentWith(variables);
  const std::vector<std::string> arguments = {program.string()};
  const std::vector<char*> environment_pointers = Pointers(environment);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return "";
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execve(program.c_str(), argument_pointers.data(), environment_pointers.data());
    _exit(127);
  }
  close(ends[1]);
  const std::string text = child > 0 ? ReadAll(ends[0]) : std::string();
  close(ends[0]);
  if (child > 0) {
    waitpid(child, nullptr, 0);
  }
  return text;
}

std::string Become(const std::filesystem::path& program, const std::vector<std::string>& argv) {
  std::vector<std::string> arguments = argv;
  arguments[0] = program.string();
  execv(program.c_str(), Pointers(arguments).data());
  return std::strerror(errno);
}

}  // namespace endcap::python_stub
