// Programs that the stub starts, and lists of folders between colons.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace endcap::python_stub {

struct Output {
  int exit_code = -1;  // -1: the program was ended by a signal or could not be started
  std::string text;    // of standard output and standard error
};

// Runs a program to its end with another LD_LIBRARY_PATH.
Output RunProgram(const std::vector<std::string>& arguments, const std::string& library_path);

// Replaces this process by a program. Returns only on failure, with the system's error message.
std::string ReplaceProcess(const std::filesystem::path& program,
                           const std::vector<std::string>& argv);

std::vector<std::string> SplitFolders(const std::string& folders);

// Appends a folder to a list of folders between colons.
std::string AppendFolder(const std::string& folders, const std::filesystem::path& folder);

}  // namespace endcap::python_stub
