#pragma once

#include <cstddef>
#include <cstdint>

namespace endcap {

// Bounded reading of a file in memory. Reading past the end gives zeros and sets `overrun`.
class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size, bool big_endian = true) noexcept
      : data_(data), size_(size), big_endian_(big_endian) {}

  size_t position() const noexcept { return position_; }
  size_t size() const noexcept { return size_; }
  size_t remaining() const noexcept { return size_ - position_; }
  bool overrun() const noexcept { return overrun_; }
  const uint8_t* here() const noexcept { return data_ + position_; }

  void Seek(size_t position) noexcept {
    overrun_ = overrun_ || position > size_;
    position_ = position > size_ ? size_ : position;
  }
  void Skip(size_t count) noexcept {
    if (count > remaining()) {
      overrun_ = true;
      count = remaining();
    }
    position_ += count;
  }

  uint8_t Byte() noexcept {
    if (position_ >= size_) {
      overrun_ = true;
      return 0;
    }
    return data_[position_++];
  }
  uint16_t Word() noexcept {
    const uint16_t first = Byte();
    const uint16_t second = Byte();
    return static_cast<uint16_t>(big_endian_ ? (first << 8) | second : (second << 8) | first);
  }
  uint32_t Long() noexcept {
    const uint32_t first = Word();
    const uint32_t second = Word();
    return big_endian_ ? (first << 16) | second : (second << 16) | first;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t position_ = 0;
  bool big_endian_;
  bool overrun_ = false;
};

}  // namespace endcap
