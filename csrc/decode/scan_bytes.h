#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace endcap {

// The bits of entropy-coded data that were read of a window, the next one highest. `next` is the
// byte of the window that follows them.
struct ScanBits {
  uint64_t bits = 0;
  uint64_t count = 0;
  const uint8_t* next = nullptr;

  static_assert(std::endian::native == std::endian::little);

  // At least 56 bits afterwards. Eight bytes after `next` must be readable.
  void Fill() noexcept {
    count %= 64;
    uint64_t word = 0;
    __builtin_memcpy(&word, next, sizeof(word));
    bits |= __builtin_bswap64(word) >> count;
    next += (63 - count) >> 3;
    count |= 56;
  }
  void Drop(unsigned length) noexcept {
    bits <<= length;
    count -= length;
  }
  // Drops length % 64 bits. The high bits of `count` are wrong until Fill.
  void DropModulo64(uint64_t length) noexcept {
    bits <<= length % 64;
    count -= length;
  }
};

// Entropy-coded data between two markers without its stuffing (ITU-T T.81, F.1.2.3), a window at a
// time, so that reading bits needs to look neither for markers nor for the end: after the last
// byte come zeros, enough for a block.
class ScanBytes {
 public:
  // The most that is read for one block: 64 codes of 16 bits with 15 bits each; what Fill keeps
  // ahead before and after, and the word that it reads.
  static constexpr size_t kBlockBytes = 64 * (16 + 15) / 8 + 3 * 8;

  // `raw` is behind a marker's segment.
  void SetRaw(std::span<const uint8_t> raw) noexcept {
    raw_ = raw.data();
    raw_end_ = raw.data() + raw.size();
  }

  // A byte that bits are counted from, which does not follow 0xFF; null: none. Then the data is cut
  // where several 0xFF follow each other.
  void SetMark(const uint8_t* mark) noexcept {
    mark_ = mark;
    cuts_ = true;
  }
  bool is_cut() const noexcept { return is_cut_; }

  // Begins with the data behind a marker; sets `bits` to its first.
  void Begin(ScanBits& bits) noexcept;
  // The bits that were read since.
  ptrdiff_t BitsRead(const ScanBits& bits) const noexcept {
    return (window_at_ + (bits.next - window_.data())) * 8 - static_cast<ptrdiff_t>(bits.count);
  }
  // Of these, those behind the mark; negative before it.
  ptrdiff_t BitsPastMark(const ScanBits& bits) const noexcept {
    return BitsRead(bits) - mark_at_ * 8;
  }
  // Whether the mark is behind, or less than `bytes` ahead.
  bool IsNearMark(const ScanBits& bits, ptrdiff_t bytes) const noexcept {
    if (mark_at_ != kFar) return BitsPastMark(bits) > -8 * bytes;
    return mark_ != nullptr && mark_ - raw_ < bytes;
  }
  // Whether a block's bytes are in the window. Else it has to move; or the marker is in it, and
  // IsPastEnd has to be asked after each block.
  bool HasBlock(const ScanBits& bits) const noexcept { return bits.next < enough_; }
  // Moves the window, unless the marker is in it.
  void Move(ScanBits& bits) noexcept;
  // Whether two fills, with all bits used in between, stay inside the window. Else it has to move;
  // or more was read than there is, if the marker is in it.
  bool HasTwoWords(const ScanBits& bits) const noexcept { return bits.next < enough_for_two_; }
  bool has_whole_end() const noexcept { return marker_ != 0; }
  // Whether more was read than there is before the marker.
  bool IsPastEnd(const ScanBits& bits) const noexcept;
  // Whether there are whole bytes behind what was read, but for 0xFF at the end of the file.
  bool HasUnread(const ScanBits& bits) const noexcept;
  // Leaves out what comes before the next marker and returns that; at the end of the file, where
  // none follows, the one that ends an image.
  uint8_t SkipToMarker() noexcept;
  // After SkipToMarker: what follows the marker, and whether there was one.
  std::span<const uint8_t> rest() const noexcept { return {raw_, raw_end_}; }
  bool has_marker() const noexcept { return has_marker_; }

 private:
  static constexpr size_t kWindowBytes = 4096;
  static constexpr ptrdiff_t kFar = ptrdiff_t{1} << 48;

  ptrdiff_t UnreadBits(const ScanBits& bits) const noexcept {
    return (data_end_ - bits.next) * 8 + static_cast<ptrdiff_t>(bits.count);
  }

  void FillWindow() noexcept;

  const uint8_t* raw_ = nullptr;
  const uint8_t* raw_end_ = nullptr;
  const uint8_t* mark_ = nullptr;
  bool cuts_ = false;
  bool is_cut_ = false;
  // In the data without stuffing, from Begin on.
  ptrdiff_t window_at_ = 0;
  ptrdiff_t mark_at_ = kFar;
  uint8_t marker_ = 0;       // that ended the data; 0: none so far
  bool has_marker_ = false;  // whether the file has it
  uint8_t* data_end_ = nullptr;
  const uint8_t* enough_ = nullptr;
  const uint8_t* enough_for_two_ = nullptr;
  std::array<uint8_t, kWindowBytes + kBlockBytes + 8> window_;
};

}  // namespace endcap
