#include "arguments.h"

#include <charconv>

namespace endcap::python_stub {
namespace {

constexpr std::size_t kFewest = 9;

std::optional<std::int64_t> ReadNumber(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::optional<Arguments> ReadArguments(const std::vector<std::string>& argv) {
  if (argv.size() < kFewest) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> size = ReadNumber(argv[3]);
  const std::optional<std::int64_t> growth = ReadNumber(argv[4]);
  if (!size || !growth) {
    return std::nullopt;
  }
  return Arguments{argv[kModelFilePosition], argv[2], *size, *growth, argv[6]};
}

}  // namespace endcap::python_stub
