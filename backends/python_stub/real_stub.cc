#include "real_stub.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

fs::path MakeStubPath(const fs::path& folder, int minor) {
  return folder / ("3." + std::to_string(minor)) / kStubFile;
}

std::vector<fs::path> ModelStubPlaces(const fs::path& model_folder, const Settings& settings,
                                      int minor) {
  std::vector<fs::path> places = {model_folder / kRealStubFile};
  if (!settings.stub.empty()) {
    std::error_code error;
    const bool is_folder = fs::is_directory(settings.stub, error);
    places.insert(places.begin(), is_folder ? MakeStubPath(settings.stub, minor) : settings.stub);
  }
  return places;
}

}  // namespace

fs::path ServerInstallation(const fs::path& server_folder) {
  // The folder may be made of links.
  std::error_code error;
  return fs::canonical(server_folder / "libtriton_python.so", error).parent_path();
}

std::vector<fs::path> ServerStubPlaces(const fs::path& server_folder, int minor) {
  std::vector<fs::path> places;
  if (!server_folder.empty()) {
    places.push_back(server_folder / kStubFile);
  }
  const fs::path installation = ServerInstallation(server_folder);
  if (!installation.empty()) {
    const fs::path root = installation.parent_path().parent_path();
    places.push_back(MakeStubPath(root / "python_backend_stubs", minor));
  }
  return places;
}

std::optional<RealStub> FindRealStub(const fs::path& model_folder, const Settings& settings,
                                     const fs::path& server_folder, int minor) {
  for (const fs::path& place : ModelStubPlaces(model_folder, settings, minor)) {
    if (std::optional<BinaryFile> file = BinaryFile::Read(place)) {
      const std::optional<int> embedded = FindPythonMinor(*file);
      return RealStub{place, std::move(*file), embedded};
    }
  }
  for (const fs::path& place : ServerStubPlaces(server_folder, minor)) {
    std::optional<BinaryFile> file = BinaryFile::Read(place);
    if (file && FindPythonMinor(*file) == minor) {
      return RealStub{place, std::move(*file), minor};
    }
  }
  return std::nullopt;
}

}  // namespace endcap::python_stub
