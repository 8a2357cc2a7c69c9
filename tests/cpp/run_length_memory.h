#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "device_bytes.h"
#include "postprocess/cuda/detection_plan.h"

namespace endcap::testing {

// What the kernels write RLE to, with room for any test's.
class RunLengthBytes {
 public:
  RunLengthBytes(size_t images, size_t rows)
      : images_(images),
        rows_(rows),
        noted_(NotedBytes()),
        scratch_(kWords * sizeof(uint32_t)),
        text_(kBytes) {
    Clear();
  }

  // For the next launch.
  void Clear() {
    const std::vector<uint8_t> zeros(NotedBytes());
    noted_.Write(zeros.data(), zeros.size());
  }

  RunLengthMemory memory() const {
    auto* asked = reinterpret_cast<unsigned long long*>(noted_.data());
    return {reinterpret_cast<uint32_t*>(scratch_.data()),
            kWords,
            reinterpret_cast<char*>(text_.data()),
            kBytes,
            asked,
            asked + 1,
            asked + 2,
            reinterpret_cast<RunLengthText*>(asked + 2 + images_)};
  }

  // The first `count` strings of an image of the launch.
  std::vector<std::string> Strings(size_t image, size_t count) const {
    const auto noted = noted_.Read(NotedBytes());
    uint64_t bytes = 0;
    std::memcpy(&bytes, noted.data() + sizeof(bytes), sizeof(bytes));
    const auto text = text_.Read(bytes);
    std::vector<std::string> strings;
    for (size_t n = 0; n < count; ++n) {
      RunLengthText place = {};
      const size_t at = (2 + images_) * sizeof(uint64_t) + (image * rows_ + n) * sizeof(place);
      std::memcpy(&place, noted.data() + at, sizeof(place));
      strings.emplace_back(reinterpret_cast<const char*>(text.data()) + place.at, place.bytes);
    }
    return strings;
  }

 private:
  static constexpr size_t kWords = size_t{2} << 20;
  static constexpr size_t kBytes = size_t{1} << 20;

  size_t NotedBytes() const {
    return (2 + images_) * sizeof(uint64_t) + images_ * rows_ * sizeof(RunLengthText);
  }

  size_t images_;
  size_t rows_;
  DeviceBytes noted_;
  DeviceBytes scratch_;
  DeviceBytes text_;
};

}  // namespace endcap::testing
