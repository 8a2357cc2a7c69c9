#include "decode/scan_bytes.h"

#include <algorithm>
#include <cstring>

#include "decode/jpeg_markers.h"

namespace endcap {

void ScanBytes::Begin(ScanBits& bits) noexcept {
  marker_ = 0;
  has_marker_ = false;
  data_end_ = window_.data();
  FillWindow();
  bits = {0, 0, window_.data()};
}

void ScanBytes::Move(ScanBits& bits) noexcept {
  if (marker_ != 0) return;
  const auto rest = static_cast<size_t>(data_end_ - bits.next);
  std::memmove(window_.data(), bits.next, rest);
  bits.next = window_.data();
  data_end_ = window_.data() + rest;
  FillWindow();
}

void ScanBytes::FillWindow() noexcept {
  const uint8_t* full = window_.data() + kWindowBytes;
  while (marker_ == 0 && data_end_ < full) {
    const size_t count = std::min<size_t>(static_cast<size_t>(full - data_end_),
                                          static_cast<size_t>(raw_end_ - raw_));
    const void* found = std::memchr(raw_, 0xFF, count);
    const size_t plain =
        found == nullptr ? count : static_cast<size_t>(static_cast<const uint8_t*>(found) - raw_);
    std::memcpy(data_end_, raw_, plain);
    raw_ += plain;
    data_end_ += plain;
    if (found == nullptr) {
      if (raw_ == raw_end_) marker_ = kEoi;
      continue;
    }
    // Several 0xFF before a zero count as one, as for libjpeg.
    while (raw_ < raw_end_ && *raw_ == 0xFF) ++raw_;
    if (raw_ == raw_end_) {
      marker_ = kEoi;
      continue;
    }
    const uint8_t code = *raw_++;
    if (code == 0) {
      *data_end_++ = 0xFF;
    } else {
      marker_ = code;
      has_marker_ = true;
    }
  }
  if (marker_ != 0) {
    std::memset(data_end_, 0, kBlockBytes + 8);
    enough_ = window_.data();
    enough_for_two_ = data_end_ + sizeof(uint64_t);  // as many as may have been filled before
  } else {
    enough_ = data_end_ - kBlockBytes;
    enough_for_two_ = data_end_ - 3 * sizeof(uint64_t);
  }
}

bool ScanBytes::IsPastEnd(const ScanBits& bits) const noexcept { return UnreadBits(bits) < 0; }

bool ScanBytes::HasUnread(const ScanBits& bits) const noexcept {
  return has_marker_ || marker_ == 0 || UnreadBits(bits) >= 8;
}

uint8_t ScanBytes::SkipToMarker() noexcept {
  while (marker_ == 0) {
    data_end_ = window_.data();
    FillWindow();
  }
  return marker_;
}

}  // namespace endcap
