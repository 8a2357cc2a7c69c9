// ReadExifOrientation against a second reading of the same bytes.

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "agreement.h"
#include "endcap/decode.h"

namespace endcap::fuzz {
namespace {

// The rules of decode.h, with every access checked.
class SlowExif {
 public:
  explicit SlowExif(std::vector<uint8_t> block) : block_(std::move(block)) {
    for (int i = 0; i < 2 && Text(0, 6) == std::string("Exif\0\0", 6); ++i) {
      block_.erase(block_.begin(), block_.begin() + 6);
    }
  }

  int Orientation() const {
    const std::string order = Text(0, 2);
    const std::string magic = Text(2, 2);
    if (block_.size() < 8 || (order != "II" && order != "MM")) return 1;
    if (magic != std::string("\0*", 2) && magic != std::string("*\0", 2)) return 1;
    const bool big = order == "MM";
    const auto size = static_cast<int64_t>(block_.size());
    const int64_t directory = At(4, 4, big);
    int64_t total = 0;
    for (int64_t i = 0; i < At(directory, 2, big); ++i) {
      const int64_t entry = directory + 2 + 12 * i;
      if (entry + 12 > size) return 1;
      const int64_t type = At(entry + 2, 2, big);
      const int64_t value_bytes = TypeBytes(type);
      const int64_t bytes = value_bytes * At(entry + 4, 4, big);
      if (bytes == 0) continue;
      int64_t values = entry + 8;
      if (bytes > 4) {
        total += bytes;
        if (total > size) continue;
        values = At(values, 4, big);
        if (values + bytes > size) return 1;
      }
      if (At(entry, 2, big) != 0x0112) continue;
      for (int orientation = 1; orientation <= 8; ++orientation) {
        if (Is(orientation, type, values, big)) return orientation;
      }
      return 1;
    }
    return 1;
  }

 private:
  static int64_t TypeBytes(int64_t type) {
    switch (type) {
      case 1:
      case 2:
      case 6:
      case 7:
        return 1;
      case 3:
      case 8:
        return 2;
      case 4:
      case 9:
      case 11:
      case 13:
        return 4;
      case 5:
      case 10:
      case 12:
      case 16:
        return 8;
      default:
        return 0;
    }
  }
  bool Is(int orientation, int64_t type, int64_t at, bool big) const {
    switch (type) {
      case 1:
      case 2:
      case 7:
        return false;
      case 5:
      case 10: {
        int64_t over = At(at, 4, big);
        int64_t under = At(at + 4, 4, big);
        if (type == 10) {
          over = static_cast<int32_t>(over);
          under = static_cast<int32_t>(under);
        }
        return under != 0 && over == orientation * under;
      }
      case 11: {
        const auto bits = static_cast<uint32_t>(At(at, 4, big));
        float value = 0;
        std::memcpy(&value, &bits, sizeof(value));
        return value == static_cast<float>(orientation);
      }
      case 12: {
        const int64_t bits = At(at, 8, big);
        double value = 0;
        std::memcpy(&value, &bits, sizeof(value));
        return value == orientation;
      }
      default:
        return At(at, static_cast<int>(TypeBytes(type)), big) == orientation;
    }
  }
  std::string Text(size_t offset, size_t bytes) const {
    if (offset + bytes > block_.size()) return "";
    const auto begin = block_.begin() + static_cast<ptrdiff_t>(offset);
    return {begin, begin + static_cast<ptrdiff_t>(bytes)};
  }
  // `bytes` bytes as a number; zeros past the end.
  int64_t At(int64_t offset, int bytes, bool big) const {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      const auto place = static_cast<size_t>(offset + (big ? i : bytes - 1 - i));
      value = value * 256 + (place < block_.size() ? block_[place] : 0);
    }
    return static_cast<int64_t>(value);
  }

  std::vector<uint8_t> block_;
};

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap::fuzz;
  const std::vector<uint8_t> payload(data, data + size);
  const std::span block(payload);
  const size_t half = size / 2;
  const int orientation = endcap::ReadExifOrientation(std::array{block});
  const int expected = SlowExif(payload).Orientation();
  const int in_parts =
      endcap::ReadExifOrientation(std::array{block.first(half), block.subspan(half)});
  Require(in_parts == orientation, "in parts: ", in_parts, ", whole: ", orientation);
  Require(orientation == expected, "orientation ", orientation, ", expected ", expected);
  return 0;
}
