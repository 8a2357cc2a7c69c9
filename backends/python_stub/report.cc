#include "report.h"

#include <nlohmann/json.hpp>

namespace endcap::python_stub {
namespace {

using nlohmann::json;

// Paths may hold bytes that are no UTF-8.
std::string Written(const json& document) {
  return document.dump(2, ' ', false, json::error_handler_t::replace);
}

json TextOrNull(const std::string& text) { return text.empty() ? json() : json(text); }

}  // namespace

std::string FormatReport(const Examination& examination) {
  json checks = json::array();
  for (const Check& check : examination.checks) {
    checks.push_back(
        {{"name", check.name}, {"found", check.found}, {"problem", TextOrNull(check.problem)}});
  }
  json report = {{"checks", checks}, {"problem", TextOrNull(examination.Problem())}};
  report["python"] = examination.python ? json(examination.python->program.string()) : json();
  report["stub"] = examination.stub ? json(examination.stub->path.string()) : json();
  return Written(report);
}

std::optional<std::string> DescribeFile(const std::filesystem::path& file) {
  const std::optional<BinaryFile> binary = BinaryFile::Read(file);
  if (!binary) {
    return std::nullopt;
  }
  json description = {{"build_id", binary->BuildId()}};
  const std::optional<int> minor = FindPythonMinor(*binary);
  description["python"] = minor ? json("3." + std::to_string(*minor)) : json();
  const std::optional<bool> takes_numpy_2 = TakesNumpy2(*binary);
  description["takes_numpy_2"] = takes_numpy_2 ? json(*takes_numpy_2) : json();
  return Written(description);
}

}  // namespace endcap::python_stub
