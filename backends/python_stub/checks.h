// What can keep a Python-backend model from working, looked at before it starts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "environment.h"
#include "real_stub.h"
#include "settings.h"

namespace endcap::python_stub {

// The model, and the environment that the server starts its stub in.
struct Subject {
  std::filesystem::path model_folder;
  std::filesystem::path server_folder;  // the server's backends/python; empty where not known
  std::string search_path;              // PATH
  std::string library_path;             // LD_LIBRARY_PATH
  std::string python_path;              // PYTHONPATH
  std::filesystem::path user_base;      // ~/.local; empty where the user's packages do not count
  std::optional<Arguments> arguments;   // from the server; nothing where only looked at
  std::filesystem::path shared_memory = "/dev/shm";
};

// One thing that was looked at.
struct Check {
  std::string name;
  std::string found;
  std::string problem;  // one error message, "" where all is well
};

struct Examination {
  std::vector<Check> checks;  // later ones are missing where an earlier one makes them pointless
  Settings settings;
  std::optional<PythonEnvironment> python;
  std::optional<RealStub> stub;
  std::string library_path;  // LD_LIBRARY_PATH for the stub
  bool stub_starts = false;  // whether its libraries are all found

  // The first problem; "" where everything fits.
  std::string Problem() const;
};

Examination Examine(const Subject& subject);

}  // namespace endcap::python_stub
