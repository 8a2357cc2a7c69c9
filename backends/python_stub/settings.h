// endcap-stub.json in a model's folder: which stub is the release's own, and what it belongs to.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace endcap::python_stub {

inline constexpr char kSettingsFile[] = "endcap-stub.json";
inline constexpr char kRealStubFile[] = "triton_python_backend_stub.real";
inline constexpr char kStubFile[] = "triton_python_backend_stub";

// Everything may be left out: "" or empty then.
struct Settings {
  std::filesystem::path stub;   // a stub, or a folder with 3.N/triton_python_backend_stub; absolute
  std::string stub_build_id;    // of the stub, as it was installed
  std::string server_build_id;  // of libtriton_python.so of the release that the stub is from
  std::string release;          // what people call that release
  std::vector<std::string> library_folders;  // where libraries of the stub lie
};

// Reads the file in a model's folder; defaults where there is none.
// Throws std::runtime_error with an error message for what cannot be read, and for unknown names.
Settings ReadSettings(const std::filesystem::path& model_folder);

}  // namespace endcap::python_stub
