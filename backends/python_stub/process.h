// Starting programs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace endcap::python_stub {

// Runs a program without arguments, with one more variable in its environment for each of
// `variables` ("NAME=value"), and returns what it prints on both streams. "" where it cannot run.
std::string CaptureOutput(const std::filesystem::path& program,
                          const std::vector<std::string>& variables);

// Replaces this process by a program; returns only where that fails, with the system's reason.
std::string Become(const std::filesystem::path& program, const std::vector<std::string>& argv);

}  // namespace endcap::python_stub
