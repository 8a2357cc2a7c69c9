#include <algorithm>
#include <array>
#include <utility>

#include "common/fail.h"
#include "decode/file_formats.h"
#include "endcap/decode.h"

// Base64 text in the place of an image file, as JSON has it. Source: RFC 4648, sections 4 and 5;
// data URLs: RFC 2397.

namespace endcap {
namespace {

using namespace std::string_view_literals;

constexpr size_t kGroupDigits = 4;  // characters for three bytes

// Values of characters; those of digits are 0 to 63.
constexpr uint8_t kMaxDigit = 63;
constexpr uint8_t kLineBreak = 64;
constexpr uint8_t kPadding = 65;
constexpr uint8_t kOther = 66;

constexpr std::array<uint8_t, 256> MakeTable() {
  std::array<uint8_t, 256> table{};
  table.fill(kOther);
  uint8_t value = 0;
  for (const char digit : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"sv) {
    table[static_cast<uint8_t>(digit)] = value++;
  }
  table['-'] = table['+'];
  table['_'] = table['/'];
  table['\r'] = table['\n'] = kLineBreak;
  table['='] = kPadding;
  return table;
}

constexpr std::array<uint8_t, 256> kTable = MakeTable();

// The text of a data URL; nothing for other data.
std::optional<std::string_view> FindUrlText(std::string_view data) noexcept {
  constexpr size_t kMaxTypeBytes = 256;
  if (!data.starts_with("data:image/"sv)) return std::nullopt;
  const size_t comma = data.substr(0, kMaxTypeBytes).find(',');
  if (comma == std::string_view::npos || !data.substr(0, comma).ends_with(";base64"sv)) {
    return std::nullopt;
  }
  return data.substr(comma + 1);
}

// Where groups of four digits end, and the digits that are left.
struct Tail {
  size_t position = 0;  // of the first character that is neither a digit nor a line break
  size_t digits = 0;
  uint32_t bits = 0;
};

// Passes the three bytes of each group to `put`, until it returns false.
template <typename Put>
Tail ReadGroups(std::string_view text, const Put& put) {
  Tail tail;
  for (; tail.position < text.size(); ++tail.position) {
    const uint8_t value = kTable[static_cast<uint8_t>(text[tail.position])];
    if (value == kLineBreak) continue;
    if (value > kMaxDigit) break;
    tail.bits = tail.bits << 6 | value;
    if (++tail.digits < kGroupDigits) continue;
    tail.digits = 0;
    if (!put(std::exchange(tail.bits, 0))) break;
  }
  return tail;
}

// Throws kCorruptImage unless only padding is behind the digits, and the right amount of it.
void CheckEnd(std::string_view text, const Tail& tail) {
  size_t padding = 0;
  for (size_t i = tail.position; i < text.size(); ++i) {
    const uint8_t value = kTable[static_cast<uint8_t>(text[i])];
    if (value == kPadding) ++padding;
    if (value != kPadding && value != kLineBreak) {
      FailCorrupt("the image is damaged base64 text: character ", i, " of ", text.size(),
                  " is not one of base64");
    }
  }
  const bool padded = padding == 0 || (tail.digits > 0 && tail.digits + padding == kGroupDigits);
  const uint32_t unused = tail.digits == 2 ? tail.bits & 15U : tail.bits & 3U;
  if (tail.digits == 1 || !padded || unused != 0) {
    FailCorrupt("the image is damaged base64 text: its ", text.size(),
                " characters do not end with a whole byte and its padding");
  }
}

// Passes the file to `put`, byte by byte. Throws kCorruptImage.
template <typename Put>
void Decode(std::string_view text, const Put& put) {
  const Tail tail = ReadGroups(text, [&](uint32_t bits) {
    for (const int shift : {16, 8, 0}) put(static_cast<uint8_t>(bits >> shift));
    return true;
  });
  CheckEnd(text, tail);
  if (tail.digits == 2) put(static_cast<uint8_t>(tail.bits >> 4));
  if (tail.digits == 3) {
    put(static_cast<uint8_t>(tail.bits >> 10));
    put(static_cast<uint8_t>(tail.bits >> 2));
  }
}

// The bytes of the file in undamaged text.
size_t CountBytes(std::string_view text) {
  const auto others =
      std::ranges::count_if(text, [](char c) { return c == '\r' || c == '\n' || c == '='; });
  const size_t digits = text.size() - static_cast<size_t>(others);
  return digits / kGroupDigits * 3 + digits % kGroupDigits * 3 / kGroupDigits;
}

}  // namespace

std::optional<std::string_view> FindBase64(std::string_view data) noexcept {
  if (const auto text = FindUrlText(data)) return text;
  std::array<char, 12> beginning{};
  size_t size = 0;
  ReadGroups(data, [&](uint32_t bits) {
    for (const int shift : {16, 8, 0}) beginning[size++] = static_cast<char>(bits >> shift);
    return size < beginning.size();
  });
  return BeginsAsFile({beginning.data(), size}) ? std::optional(data) : std::nullopt;
}

void CheckBase64(std::string_view text, const DecodeLimits& limits) {
  CheckByteLimit(CountBytes(text), limits);
  Decode(text, [](uint8_t /*byte*/) {});
}

std::optional<std::vector<uint8_t>> DecodeBase64(const ImageView& image,
                                                 const DecodeLimits& limits) {
  const uint8_t* bytes = image.planes[0].data;
  if (image.format != PixelFormat::kEncoded || image.device != Device::kCpu || bytes == nullptr) {
    return std::nullopt;
  }
  const std::string_view data(reinterpret_cast<const char*>(bytes), image.size_bytes);
  if (BeginsAsFile(data)) return std::nullopt;
  const std::optional<std::string_view> text = FindBase64(data);
  if (!text) return std::nullopt;
  const size_t size = CountBytes(*text);
  CheckByteLimit(size, limits);
  std::vector<uint8_t> file;
  file.reserve(size);
  Decode(*text, [&](uint8_t byte) {
    if (file.size() == size) FailCorrupt("the base64 text changed while it was decoded");
    file.push_back(byte);
  });
  return file;
}

}  // namespace endcap
