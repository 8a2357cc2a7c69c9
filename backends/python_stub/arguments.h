// What Triton's Python backend passes to a stub, as of releases 24.10 to 26.07.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace endcap::python_stub {

struct Arguments {
  std::filesystem::path model_file;     // REPOSITORY/MODEL/VERSION/model.py
  std::string shared_memory_region;     // name in /dev/shm, without a slash in front
  std::int64_t shared_memory_bytes;     // what the region begins with
  std::int64_t shared_memory_growth;    // bytes that it grows by, at least
  std::filesystem::path server_folder;  // where the backend's triton_python_backend_utils.py lies

  std::filesystem::path ModelFolder() const { return model_file.parent_path().parent_path(); }
};

// Positions in argv that another module replaces.
inline constexpr std::size_t kModelFilePosition = 1;
inline constexpr std::size_t kRuntimeModelPosition = 9;

// Reads argv, the program's name included; nothing where a server would not have written it.
std::optional<Arguments> ReadArguments(const std::vector<std::string>& argv);

}  // namespace endcap::python_stub
