#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace endcap {

bool IsJpeg(const uint8_t* bytes, size_t size) noexcept;

// A phrase for what the first bytes look like, for example "a PNG image"; used in errors.
std::string_view DescribeFormat(const uint8_t* bytes, size_t size) noexcept;

}  // namespace endcap
