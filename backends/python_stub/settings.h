// The arguments of a stub, and endcap-stub.json in the model's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace endcap::python_stub {

// The arguments that Triton's Python backend passes to a stub, in releases 24.10 to 26.07.
struct Arguments {
  std::filesystem::path model_file;     // REPOSITORY/MODEL/VERSION/model.py
  std::filesystem::path server_folder;  // of the backend's triton_python_backend_utils.py
};

// Positions in argv that are changed when another module replaces the model.
inline constexpr std::size_t kModelFilePosition = 1;
inline constexpr std::size_t kRuntimeModelPosition = 9;

// Reads argv, including the program's name. Returns none if it is not a server's.
std::optional<Arguments> ReadArguments(const std::vector<std::string>& argv);

inline constexpr char kSettingsFile[] = "endcap-stub.json";
inline constexpr char kRealStubFile[] = "triton_python_backend_stub.real";
inline constexpr char kStubFile[] = "triton_python_backend_stub";

// endcap-stub.json: the release that the model's stub belongs to. All fields are optional.
struct Settings {
  std::string release;                       // its name, for messages
  std::int64_t server_bytes = 0;             // size of its libtriton_python.so; 0: not compared
  std::vector<std::string> library_folders;  // of the stub's libraries
};

// Reads the file in a model's folder; defaults if there is none. Throws std::runtime_error with an
// error message if it cannot be read or has an unknown field.
Settings ReadSettings(const std::filesystem::path& model_folder);

}  // namespace endcap::python_stub
