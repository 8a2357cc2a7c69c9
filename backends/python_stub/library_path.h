// The folders in which the loader looks for a stub's libraries.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "settings.h"

namespace endcap::python_stub {

// LD_LIBRARY_PATH for a stub: the one given, and behind it the folders that the stub's libraries
// may lie in: those of endcap-stub.json and of the server's wheel.
//
// with_colon: whether there must be two folders. Where Triton has put an environment's folder in
// front, the stub of the release takes that off again, and wants a colon behind it.
std::string LibraryPathForStub(const std::string& given, const Settings& settings,
                               const std::filesystem::path& server_folder, bool with_colon);

// The same with one more folder at its end.
std::string WithFolder(const std::string& library_path, const std::filesystem::path& folder);

// What the loader would not find of a program's libraries, in its own words: names of libraries,
// and messages about versions. Empty where the program can start; nothing where it cannot be
// executed. Runs no code of the program.
std::optional<std::vector<std::string>> MissingLibraries(const std::filesystem::path& program,
                                                         const std::string& library_path);

}  // namespace endcap::python_stub
