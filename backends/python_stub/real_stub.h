// The stub of the server's release: its file, its libraries, and its start.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "binary_file.h"
#include "settings.h"

namespace endcap::python_stub {

struct RealStub {
  std::filesystem::path path;
  BinaryFile file;
  std::optional<int> minor;  // of the Python that it embeds: 11 for Python 3.11
};

// Returns the paths where the server's stub for Python 3.`minor` may be: its own, and those of its
// wheel.
std::vector<std::filesystem::path> ListServerStubs(const std::filesystem::path& server_folder,
                                                   int minor);

// Returns the stub in the model's folder, for any Python: that of endcap-stub.json, or the one
// beside this program. Else the server's for Python 3.`minor`; none if there is none.
std::optional<RealStub> FindRealStub(const std::filesystem::path& model_folder,
                                     const Settings& settings,
                                     const std::filesystem::path& server_folder, int minor);

// Returns LD_LIBRARY_PATH for a stub: `given`, then the library folders of endcap-stub.json and of
// the server's wheel.
//
// with_colon: adds folders until there are two. Triton puts the folder of an activated environment
// in front; the stub of the release removes it and requires a colon after it.
std::string MakeLibraryPath(const std::string& given, const Settings& settings,
                            const std::filesystem::path& server_folder, bool with_colon);

// Appends a folder to a list of folders between colons.
std::string AppendFolder(const std::string& folders, const std::filesystem::path& folder);

// Returns the libraries of a program that the loader does not find, and its messages about missing
// versions. Empty if the program can start; none if it is not executable or the loader cannot load
// it or one of its libraries. Runs the system's loader, and no code of the program, of the loader
// that it names, or of its libraries.
std::optional<std::vector<std::string>> FindMissingLibraries(const std::filesystem::path& program,
                                                             const std::string& library_path);

// Replaces this process by a program. Returns only on failure, with the system's error message.
std::string ReplaceProcess(const std::filesystem::path& program,
                           const std::vector<std::string>& argv);

}  // namespace endcap::python_stub
