// Preloaded into tritonserver: puts the key of a restricted API into its arguments.
//
// Triton takes such a key on its command line only, which every local user reads in
// /proc/PID/cmdline. This gives the key in the environment, which only the server's user reads: a
// place holder stands on the command line, and is replaced in `argv` before main sees it. The place
// holder has a line break, which no HTTP header can hold, so that the API stays closed where this
// library does not work.

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

// As in pyext/endcap/server/restriction.py.
constexpr char kVariable[] = "ENDCAP_SERVER_KEY";
constexpr std::string_view kPlaceHolder = "\r\nENDCAP_SERVER_KEY";
constexpr char kPreload[] = "LD_PRELOAD";
constexpr std::string_view kProgram = "tritonserver";

// Whether this process is the server, and not what starts it: that would show the key as it passes
// its arguments on.
bool IsServer() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) {
    return false;
  }
  const std::string_view program(path, static_cast<std::size_t>(length));
  return program.substr(program.rfind('/') + 1) == kProgram;
}

void InsertKey(char** argv, const std::string& key) {
  for (char** argument = argv; *argument != nullptr; ++argument) {
    const std::string_view text = *argument;
    if (text.size() >= kPlaceHolder.size() &&
        text.substr(text.size() - kPlaceHolder.size()) == kPlaceHolder) {
      const std::string_view option = text.substr(0, text.size() - kPlaceHolder.size());
      *argument = strdup((std::string(option) + key).c_str());  // for the life of the process
    }
  }
}

// Keeps the key and this library from the processes that the server starts.
void CleanEnvironment(char* key) {
  std::memset(key, 0, std::strlen(key));
  unsetenv(kVariable);
  const char* const preloaded = std::getenv(kPreload);
  const char* const others = preloaded == nullptr ? nullptr : std::strchr(preloaded, ':');
  if (others == nullptr) {
    unsetenv(kPreload);
  } else {
    const std::string rest = others + 1;
    setenv(kPreload, rest.c_str(), 1);
  }
}

// glibc passes main's arguments to constructors.
__attribute__((constructor)) void Start(int /*argc*/, char** argv, char** /*environment*/) {
  char* const key = std::getenv(kVariable);
  if (key == nullptr || !IsServer()) {
    return;
  }
  InsertKey(argv, key);
  CleanEnvironment(key);
}

}  // namespace
