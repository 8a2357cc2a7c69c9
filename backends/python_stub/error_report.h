// Reports the error message for a model that cannot start: to the server, its log and the model's
// folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checks.h"

namespace endcap::python_stub {

inline constexpr char kLogFile[] = "endcap-stub.log";

// Writes the message to standard error, which is the server's, and to the log file in the model's
// folder, which it replaces. A log file that cannot be written is reported on standard error. A log
// file with the same message is not written again, because a server in poll mode takes a new
// modification time for a changed model.
void WriteErrorMessage(const std::filesystem::path& model_folder, const std::string& message);

// Removes the log file of an earlier error.
void RemoveLog(const std::filesystem::path& model_folder);

// Replaces this process by a stub of the release, with a module in place of the model that raises
// the message, so that the model's load fails with it. Servers up to 25.07 wait forever for a stub
// that exits without a report. Returns only if the stub could not be started.
void ReportToServer(const std::vector<std::string>& argv, const RealStub& stub,
                    const std::string& message);

}  // namespace endcap::python_stub
