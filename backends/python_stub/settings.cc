#include "settings.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace endcap::python_stub {
namespace {

constexpr std::size_t kFewestArguments = 9;
constexpr std::uintmax_t kMaxSettingsBytes = 64 << 10;

std::optional<std::int64_t> ReadNumber(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) {
    return std::nullopt;
  }
  return number;
}

constexpr char kKnownFields[] = "stub, stub_build_id, server_build_id, release, library_folders";

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
    throw std::runtime_error("it has an unknown name '" + name + "'; known are " + kKnownFields);
  }
}

}  // namespace

std::optional<Arguments> ReadArguments(const std::vector<std::string>& argv) {
  if (argv.size() < kFewestArguments) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> size = ReadNumber(argv[3]);
  const std::optional<std::int64_t> growth = ReadNumber(argv[4]);
  if (!size || !growth) {
    return std::nullopt;
  }
  return Arguments{argv[kModelFilePosition], argv[2], *size, *growth, argv[6]};
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
        path.string() + " is no JSON object of texts; write it anew with `endcap stub install " +
        model_folder.string() + "`");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + " cannot be used: " + error.what());
  }
  if (!settings.stub.empty()) {
    settings.stub = model_folder / settings.stub;  // an absolute path is unchanged
  }
  return settings;
}

}  // namespace endcap::python_stub
