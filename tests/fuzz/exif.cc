// ReadExifOrientation against a second reading of the same bytes.

#include "agreement.h"
#include "endcap/decode.h"

namespace endcap::fuzz {
namespace {

// The orientation by TIFF 6.0, section 2, with every access checked; -1 beyond the payload.
class SlowExif {
 public:
  explicit SlowExif(const std::vector<uint8_t>& payload) : payload_(payload) {}

  int Orientation() const {
    const std::string prefix("Exif\0\0", 6);
    if (payload_.size() < 14 || std::string(payload_.begin(), payload_.begin() + 6) != prefix) {
      return 1;
    }
    const std::string order(payload_.begin() + 6, payload_.begin() + 8);
    if (order != "II" && order != "MM") return 1;
    const bool big = order == "MM";
    if (At(2, 2, big) != 42) return 1;
    const int64_t directory = At(4, 4, big);
    const int64_t count = At(directory, 2, big);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t entry = directory + 2 + 12 * i;
      if (At(entry + 11, 1, big) < 0) return 1;
      if (At(entry, 2, big) != 0x0112) continue;
      const int64_t value = At(entry + 8, 2, big);
      const bool valid = At(entry + 2, 2, big) == 3 && At(entry + 4, 4, big) == 1;
      return valid && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return 1;
  }

 private:
  // `bytes` bytes at an offset from the TIFF header.
  int64_t At(int64_t offset, int bytes, bool big) const {
    const int64_t begin = offset + 6;
    if (begin + bytes > static_cast<int64_t>(payload_.size())) return -1;
    int64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      const int place = big ? i : bytes - 1 - i;
      value = value * 256 + payload_[static_cast<size_t>(begin + place)];
    }
    return value;
  }

  const std::vector<uint8_t>& payload_;
};

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap::fuzz;
  const std::vector<uint8_t> payload(data, data + size);
  const int orientation = endcap::ReadExifOrientation(payload.data(), payload.size());
  const int expected = SlowExif(payload).Orientation();
  Require(orientation == expected, "orientation ", orientation, ", expected ", expected);
  return 0;
}
