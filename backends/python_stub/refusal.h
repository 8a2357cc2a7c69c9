// How a model that cannot work is refused: with an error message where people look for it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checks.h"

namespace endcap::python_stub {

inline constexpr char kLogFile[] = "endcap-stub.log";

// Writes the message to standard error, which is the server's, and to the log in the model's
// folder, whose earlier content it replaces. Where the log cannot be written, standard error says
// so. A log of the same message stays as it is: to a server in poll mode a file of another time is
// a model that has changed.
void Tell(const std::filesystem::path& model_folder, const std::string& message);

// Removes the log of an earlier refusal.
void ForgetRefusal(const std::filesystem::path& model_folder);

// A stub of the release and a Python that it starts with, be it another than the model's.
struct Speaker {
  std::filesystem::path stub;
  std::string search_path;
  std::string library_path;
};

std::optional<Speaker> FindSpeaker(const Subject& subject, const Examination& examination);

// Lets a stub of the release report the message as the error of the model's load: it is given a
// module that raises it in place of the model. A stub that ends without a word keeps servers up to
// 25.07 waiting for ever. Returns only where no stub could be started.
void ReportToServer(const std::vector<std::string>& argv, const Subject& subject,
                    const Examination& examination, const std::string& message);

}  // namespace endcap::python_stub
