#include "real_stub.h"

namespace endcap::python_stub {
namespace {

namespace fs = std::filesystem;

fs::path InFolderOfStubs(const fs::path& folder, int minor) {
  return folder / ("3." + std::to_string(minor)) / kStubFile;
}

bool IsOfModel(const fs::path& place, const fs::path& model_folder, const Settings& settings) {
  return place == model_folder / kRealStubFile || place == settings.stub;
}

}  // namespace

fs::path ServerInstallation(const fs::path& server_folder) {
  // The folder may be made of links.
  std::error_code error;
  return fs::canonical(server_folder / "libtriton_python.so", error).parent_path();
}

std::vector<fs::path> StubPlaces(const fs::path& model_folder, const Settings& settings,
                                 const fs::path& server_folder, int minor) {
  std::vector<fs::path> places;
  std::error_code error;
  if (fs::is_directory(settings.stub, error)) {
    places.push_back(InFolderOfStubs(settings.stub, minor));
  } else if (!settings.stub.empty()) {
    places.push_back(settings.stub);
  }
  places.push_back(model_folder / kRealStubFile);
  if (!server_folder.empty()) {
    places.push_back(server_folder / kStubFile);
  }
  const fs::path installation = ServerInstallation(server_folder);
  if (!installation.empty()) {
    const fs::path root = installation.parent_path().parent_path();
    places.push_back(InFolderOfStubs(root / "python_backend_stubs", minor));
  }
  return places;
}

std::optional<RealStub> FindRealStub(const fs::path& model_folder, const Settings& settings,
                                     const fs::path& server_folder, int minor) {
  for (const fs::path& place : StubPlaces(model_folder, settings, server_folder, minor)) {
    std::optional<BinaryFile> file = BinaryFile::Read(place);
    if (!file) {
      continue;
    }
    const std::optional<int> embedded = PythonMinorOf(*file);
    if (IsOfModel(place, model_folder, settings) || embedded == minor) {
      return RealStub{place, std::move(*file), embedded};
    }
  }
  return std::nullopt;
}

}  // namespace endcap::python_stub
