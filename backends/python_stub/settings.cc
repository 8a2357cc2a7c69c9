#include "settings.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace endcap::python_stub {
namespace {

constexpr std::size_t kMinArguments = 9;
constexpr std::uintmax_t kMaxSettingsBytes = 64 << 10;

void SetField(const std::string& name, const nlohmann::json& value, Settings& settings) {
  if (name == "release") {
    settings.release = value.get<std::string>();
  } else if (name == "server_bytes") {
    settings.server_bytes = value.get<std::int64_t>();
  } else if (name == "library_folders") {
    settings.library_folders = value.get<std::vector<std::string>>();
  } else {
    throw std::runtime_error("it has an unknown name '" + name +
                             "'; known are release, server_bytes, library_folders");
  }
}

}  // namespace

std::optional<Arguments> ReadArguments(const std::vector<std::string>& argv) {
  if (argv.size() < kMinArguments) {
    return std::nullopt;
  }
  return Arguments{argv[kModelFilePosition], argv[6]};
}

Settings ReadSettings(const std::filesystem::path& model_folder) {
  Settings settings;
  const std::filesystem::path path = model_folder / kSettingsFile;
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) {
    return settings;
  }
  if (!std::filesystem::is_regular_file(status)) {  // opening a pipe would wait for a writer
    throw std::runtime_error(path.string() + " is not a regular file; remove it, and run `endcap " +
                             "stub install " + model_folder.string() + "`");
  }
  if (std::filesystem::file_size(path, code) > kMaxSettingsBytes) {
    throw std::runtime_error(path.string() + " has more than " + std::to_string(kMaxSettingsBytes) +
                             " bytes; write it again with `endcap stub install " +
                             model_folder.string() + "`");
  }
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
        path.string() + " is not a JSON object with valid fields; write it again with `endcap " +
        "stub install " + model_folder.string() + "`");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + " cannot be used: " + error.what());
  }
  return settings;
}

}  // namespace endcap::python_stub
