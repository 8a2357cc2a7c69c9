#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "device_bytes.h"
#include "postprocess/detection_plan.h"

namespace endcap::testing {

// What the kernels write run lengths to, with room for any test's.
class RunLengthBytes {
 public:
  RunLengthBytes(size_t images, size_t launches, size_t rows)
      : rows_(rows),
        launches_(launches),
        asked_((1 + launches) * sizeof(uint64_t)),
        texts_(images * rows * sizeof(RunLengthText)),
        scratch_(kWords * sizeof(uint32_t)),
        text_(kBytes) {
    const std::vector<uint8_t> zeros((1 + launches) * sizeof(uint64_t));
    asked_.Write(zeros.data(), zeros.size());
  }

  RunLengthMemory OfLaunch(size_t launch) const {
    auto* asked = reinterpret_cast<unsigned long long*>(asked_.data());
    return {reinterpret_cast<uint32_t*>(scratch_.data()),
            kWords,
            reinterpret_cast<char*>(text_.data()),
            kBytes,
            asked + 1 + launch,
            asked};
  }

  RunLengthText* texts() const { return reinterpret_cast<RunLengthText*>(texts_.data()); }

  // The first `count` strings of an image.
  std::vector<std::string> Strings(size_t image, size_t count) const {
    const auto asked = asked_.Read((1 + launches_) * sizeof(uint64_t));
    uint64_t bytes = 0;
    std::memcpy(&bytes, asked.data(), sizeof(bytes));
    const auto text = text_.Read(bytes);
    const auto table = texts_.Read((image * rows_ + count) * sizeof(RunLengthText));
    std::vector<std::string> strings;
    for (size_t n = 0; n < count; ++n) {
      RunLengthText place = {};
      std::memcpy(&place, table.data() + (image * rows_ + n) * sizeof(place), sizeof(place));
      strings.emplace_back(reinterpret_cast<const char*>(text.data()) + place.at, place.bytes);
    }
    return strings;
  }

 private:
  static constexpr size_t kWords = size_t{2} << 20;
  static constexpr size_t kBytes = size_t{1} << 20;

  size_t rows_;
  size_t launches_;
  DeviceBytes asked_;
  DeviceBytes texts_;
  DeviceBytes scratch_;
  DeviceBytes text_;
};

}  // namespace endcap::testing
