// What `endcap stub check` and `endcap stub install` read: JSON on standard output.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checks.h"

namespace endcap::python_stub {

// {"python", "stub", "checks": [{"name", "found", "problem"}], "problem"}; null where there is
// none.
std::string FormatReport(const Examination& examination);

// {"python", "build_id", "takes_numpy_2"} of an ELF file; nothing where it is none.
std::optional<std::string> DescribeFile(const std::filesystem::path& file);

}  // namespace endcap::python_stub
