// The stub of the server's release, which speaks its protocol.
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
  std::optional<int> minor;  // of the Python that it embeds
};

// Where the server's stub for Python 3.`minor` may lie: its own, and those that came with its
// wheel.
std::vector<std::filesystem::path> ServerStubPlaces(const std::filesystem::path& server_folder,
                                                    int minor);

// The stub that the model's folder brings, whatever its Python: the one that endcap-stub.json
// names, or the one beside the front. Else the server's for Python 3.`minor`.
std::optional<RealStub> FindRealStub(const std::filesystem::path& model_folder,
                                     const Settings& settings,
                                     const std::filesystem::path& server_folder, int minor);

// The folder of the server's libtriton_python.so; empty where there is none.
std::filesystem::path ServerInstallation(const std::filesystem::path& server_folder);

}  // namespace endcap::python_stub
