// Checks of a Python model's environment before the release's stub starts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "settings.h"

namespace endcap::python_stub {

// A model, and the environment in which the server starts its stub.
struct StartContext {
  std::filesystem::path model_file;     // REPOSITORY/MODEL/VERSION/model.py
  std::filesystem::path server_folder;  // the server's backends/python
  std::string search_path;              // PATH
  std::string library_path;             // LD_LIBRARY_PATH

  std::filesystem::path ModelFolder() const { return model_file.parent_path().parent_path(); }
};

// A stub of the release, and the variables that it is started with.
struct RealStub {
  std::filesystem::path path;
  std::string search_path;
  std::string library_path;
};

struct CheckResult {
  std::string problem;           // an error message; empty if there is none
  std::optional<RealStub> stub;  // if it can start, although there may be a problem
};

// Runs the environment's Python and the release's stub, but nothing of the model.
CheckResult CheckEnvironment(const StartContext& context);

// Returns a stub of the server that can start with any Python on PATH, which need not be that of
// the model.
std::optional<RealStub> FindReportingStub(const StartContext& context);

}  // namespace endcap::python_stub
