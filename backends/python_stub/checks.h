// Checks of a Python model's environment before the release's stub starts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "environment.h"
#include "real_stub.h"
#include "settings.h"

namespace endcap::python_stub {

// A model, and the environment in which the server starts its stub.
struct StartContext {
  std::filesystem::path model_folder;
  std::filesystem::path server_folder;  // the server's backends/python; empty if unknown
  std::string search_path;              // PATH
  std::string library_path;             // LD_LIBRARY_PATH
  std::string python_path;              // PYTHONPATH
  std::filesystem::path user_base;      // ~/.local; empty if user packages are not used
  std::optional<Arguments> arguments;   // of the server; none for a check without one
  std::filesystem::path shared_memory = "/dev/shm";
};

struct Check {
  std::string name;
  std::string found;
  std::string problem;  // an error message; empty: none
};

struct CheckResults {
  std::vector<Check> checks;  // a check is absent if an earlier one makes it pointless
  Settings settings;
  std::optional<PythonEnvironment> python;
  std::optional<RealStub> stub;
  std::string library_path;  // LD_LIBRARY_PATH for the stub
  bool stub_starts = false;  // whether all its libraries are found

  // Returns the first problem; empty if there is none.
  std::string FindProblem() const;
};

CheckResults RunChecks(const StartContext& context);

}  // namespace endcap::python_stub
