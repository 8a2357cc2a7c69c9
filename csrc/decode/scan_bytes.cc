#include "decode/scan_bytes.h"

#include <algorithm>
#include <cstring>

#include "decode/jpeg_markers.h"

namespace endcap {
namespace {

// Copies the bytes before the first 0xFF, `count` at the most; returns how many they are. A few
// hundred lie between one and the next: too few for calls of memchr and memcpy.
size_t CopyPlain(const uint8_t* from, size_t count, uint8_t* to) noexcept {
  constexpr uint64_t kOnes = 0x0101'0101'0101'0101;
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= count; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, from + i, sizeof(word));
    // The highest bit of a byte that is 0xFF, and perhaps of bytes behind it.
    const uint64_t found = (~word - kOnes) & word & (kOnes << 7);
    std::memcpy(to + i, &word, sizeof(word));
    if (found != 0) return i + static_cast<size_t>(std::countr_zero(found)) / 8;
  }
  for (; i < count && from[i] != 0xFF; ++i) to[i] = from[i];
  return i;
}

}  // namespace

void ScanBytes::Begin(ScanBits& bits) noexcept {
  marker_ = 0;
  has_marker_ = false;
  data_end_ = window_.data();
  window_at_ = 0;
  mark_at_ = kFar;
  is_cut_ = false;
  FillWindow();
  bits = {0, 0, window_.data()};
}

void ScanBytes::Move(ScanBits& bits) noexcept {
  if (marker_ != 0) return;
  const auto rest = static_cast<size_t>(data_end_ - bits.next);
  std::memmove(window_.data(), bits.next, rest);
  window_at_ += bits.next - window_.data();
  bits.next = window_.data();
  data_end_ = window_.data() + rest;
  FillWindow();
}

void ScanBytes::FillWindow() noexcept {
  const uint8_t* full = window_.data() + kWindowBytes;
  while (marker_ == 0 && data_end_ < full) {
    if (raw_ == mark_) mark_at_ = window_at_ + (data_end_ - window_.data());
    const uint8_t* const end = raw_ < mark_ ? mark_ : raw_end_;
    const size_t count =
        std::min(static_cast<size_t>(full - data_end_), static_cast<size_t>(end - raw_));
    const size_t plain = CopyPlain(raw_, count, data_end_);
    raw_ += plain;
    data_end_ += plain;
    if (plain == count) {
      if (raw_ == raw_end_) marker_ = kEoi;
      continue;
    }
    // Several 0xFF before a zero count as one, as for libjpeg.
    is_cut_ = cuts_ && raw_ + 1 < raw_end_ && raw_[1] == 0xFF;
    while (!is_cut_ && raw_ < raw_end_ && *raw_ == 0xFF) ++raw_;
    if (is_cut_ || raw_ == raw_end_) {
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
    enough_for_two_ =
        data_end_ + sizeof(uint64_t);  // Fill may have taken seven zeros behind the end
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
