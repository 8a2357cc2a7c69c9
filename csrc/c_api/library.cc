#include <array>
#include <string>
#include <vector>

#include "c_api/arguments.h"
#include "endcap/postprocess.h"
#include "endcap/preprocess.h"

namespace endcap::c_api {
namespace {

thread_local std::string last_error;
thread_local std::vector<std::string> item_errors;

// A parameter table whose texts end in NUL.
class InfoRows {
 public:
  explicit InfoRows(const std::vector<ParameterInfo>& table) {
    texts_.reserve(table.size());
    for (const ParameterInfo& row : table) {
      texts_.push_back(
          {std::string(row.name), std::string(row.meaning), std::string(row.allowed), row.value});
    }
    for (const auto& [name, meaning, allowed, value] : texts_) {
      rows_.push_back({name.c_str(), meaning.c_str(), allowed.c_str(), value.c_str()});
    }
  }

  const std::vector<endcap_parameter_info>& rows() const noexcept { return rows_; }

 private:
  std::vector<std::array<std::string, 4>> texts_;
  std::vector<endcap_parameter_info> rows_;
};

}  // namespace

endcap_status KeepError(ItemStatus error) noexcept {
  last_error = std::move(error.message);
  return static_cast<endcap_status>(error.code);
}

void KeepItemErrors(std::vector<std::string> messages) noexcept {
  item_errors = std::move(messages);
}

}  // namespace endcap::c_api

using endcap::c_api::Guarded;
using endcap::c_api::InfoRows;

const char* endcap_last_error(void) { return endcap::c_api::last_error.c_str(); }

const char* endcap_item_error(size_t i) {
  const auto& errors = endcap::c_api::item_errors;
  return i < errors.size() ? errors[i].c_str() : "";
}

int32_t endcap_c_abi(void) { return ENDCAP_C_ABI; }

const char* endcap_version(void) { return ENDCAP_VERSION; }

const char* endcap_status_name(endcap_status status) {
  // A view of a literal.
  return endcap::ErrorCodeName(static_cast<endcap::ErrorCode>(status)).data();
}

endcap_status endcap_preprocess_parameters(const endcap_parameter_info** rows, size_t* count) {
  return Guarded([&] {
    static const InfoRows table(DescribePreprocessParams(endcap::PreprocessParams{}));
    endcap::c_api::ReturnRows(table.rows(), rows, count);
  });
}

endcap_status endcap_postprocess_parameters(const endcap_parameter_info** rows, size_t* count) {
  return Guarded([&] {
    static const InfoRows table(DescribePostprocessParams(endcap::PostprocessParams{}));
    endcap::c_api::ReturnRows(table.rows(), rows, count);
  });
}
