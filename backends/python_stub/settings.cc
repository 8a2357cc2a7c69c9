#include "settings.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace endcap::python_stub {
namespace {

constexpr char kKnown[] = "stub, stub_build_id, server_build_id, release, library_folders";

void SetField(const std::string& name, const nlohmann::json& value, Settings& settings) {
  if (name == "stub") {
    settings.stub = value.get<std::string>();
  } else if (name == "stub_build_id") {
    settings.stub_build_id = value.get<std::string>();
  } else if (name == "server_build_id") {
    settings.server_build_id = value.get<std::string>();
  } else if (name == "release") {
    settings.release = value.get<std::string>();
  } else if (name == "library_folders") {
    settings.library_folders = value.get<std::vector<std::string>>();
  } else {
    throw std::runtime_error("it has an unknown name '" + name + "'; known are " + kKnown);
  }
}

}  // namespace

Settings ReadSettings(const std::filesystem::path& model_folder) {
  Settings settings;
  const std::filesystem::path path = model_folder / kSettingsFile;
  std::ifstream file(path);
  if (!file) {
    return settings;
  }
  try {
    const nlohmann::json document = nlohmann::json::parse(file);
    for (const auto& [name, value] : document.get<nlohmann::json::object_t>()) {
      SetField(name, value, settings);
    }
  } catch (const nlohmann::json::exception&) {
    throw std::runtime_error(
        path.string() + " is no JSON object of texts; write it anew with `endcap stub install " +
        model_folder.string() + "`");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + " cannot be used: " + error.what());
  }
  if (!settings.stub.empty()) {
    settings.stub = model_folder / settings.stub;  // an absolute path stays as it is
  }
  return settings;
}

}  // namespace endcap::python_stub
