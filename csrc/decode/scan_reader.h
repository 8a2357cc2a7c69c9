#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "decode/scan_bytes.h"

namespace endcap {

// A place in the data of a scan: a byte of the file that does not follow 0xFF, and a number of bits
// behind it, without stuffing. With restart markers: the byte behind one.
struct ScanPosition {
  const uint8_t* byte = nullptr;
  ptrdiff_t bits = 0;

  bool operator==(const ScanPosition&) const = default;
};

// The entropy-coded data of a scan: its bits, and the restart markers between them. Damage throws
// kCorruptImage with libjpeg-turbo's message.
class ScanReader {
 public:
  // data: what follows the scan's header. restart_interval: MCUs; 0: no restart markers.
  ScanReader(std::span<const uint8_t> data, int restart_interval) noexcept
      : data_(data), restart_interval_(restart_interval), mcus_to_restart_(restart_interval) {
    bytes_.SetRaw(data);
    bytes_.Begin(bits_);
  }

  // Goes to a place, from where the data is read up to `mark`, or beyond it; null: there is none.
  void Seek(const ScanPosition& to, const uint8_t* mark);
  // Throws where several 0xFF follow each other in what was read since: of these there may be so
  // many that each reader of a piece would come far behind it.
  void RefuseFill() const {
    if (bytes_.is_cut()) FailEnded();
  }
  // Whether the mark is behind. Without restart markers.
  bool IsPastMark() const noexcept { return bytes_.BitsPastMark(bits_) >= 0; }
  // Whether the mark is so near that MCUs have to be read one by one to stop at it.
  bool IsNearMark() const noexcept { return bytes_.IsNearMark(bits_, kNear); }
  // To be called before MCUs are taken. Returns whether the data restarts there, behind a marker:
  // predictions of coefficients and runs of blocks end.
  bool BeginInterval() {
    if (restart_interval_ == 0 || mcus_to_restart_ != 0) return false;
    Restart();
    return true;
  }
  // Returns how many MCUs are to be read: at most `count`, those before the next restart marker.
  int TakeMcus(int count) noexcept {
    if (restart_interval_ == 0) return count;
    const int taken = std::min(count, mcus_to_restart_);
    mcus_to_restart_ -= taken;
    return taken;
  }
  // Where the reader is: counted from the mark if that is behind, with restart markers the place
  // that BeginInterval went to, else counted from where Seek went.
  ScanPosition position() const noexcept {
    if (restart_interval_ != 0) return {begin_, 0};
    if (IsPastMark()) return {mark_, bytes_.BitsPastMark(bits_)};
    return {begin_, bytes_.BitsRead(bits_)};
  }

  ScanBits& bits() noexcept { return bits_; }
  std::span<const uint8_t> data() const noexcept { return data_; }
  int restart_interval() const noexcept { return restart_interval_; }

  // To be called before each block, whose bytes are then ahead. Returns whether the data may end in
  // the block, which EndBlock is to be told.
  bool BeginBlock() noexcept {
    if (bytes_.HasBlock(bits_)) [[likely]]
      return false;
    bytes_.Move(bits_);
    return !bytes_.HasBlock(bits_);
  }
  // good: whether the tables have all codes that were read.
  void EndBlock(bool may_end, bool good) {
    // What was read behind the end are zeros, and may be any code.
    if (may_end && bytes_.IsPastEnd(bits_)) [[unlikely]]
      FailEnded();
    if (!good) [[unlikely]]
      FailBadCode();
  }

  // For readers that do not stop at blocks, and keep the bits themselves: whether two fills fit. If
  // not, GetBytes moves the window, or throws where the data ends.
  bool HasBytes(const ScanBits& bits) const noexcept { return bytes_.HasTwoWords(bits); }
  ScanBits GetBytes(ScanBits bits) {
    if (bytes_.has_whole_end()) FailEnded();
    bytes_.Move(bits);
    return bits;
  }

  // After the last block. Whether the file has bytes behind it that no MCU needs, other than 0xFF,
  // which fills up; to be asked before FindEndMarker.
  bool has_unread_bytes() const noexcept { return bytes_.HasUnread(bits_); }
  // Whether the file has an end marker behind the data.
  bool FindEndMarker() noexcept;

 private:
  void Restart();
  [[noreturn]] static void FailEnded();
  [[noreturn]] static void FailBadCode();

  static constexpr ptrdiff_t kNear = 1024;  // bytes, which some MCUs seldom take

  std::span<const uint8_t> data_;
  const uint8_t* begin_ = data_.data();  // where the bits began
  const uint8_t* mark_ = nullptr;
  int restart_interval_;
  int mcus_to_restart_;
  int next_restart_ = 0;
  ScanBytes bytes_;
  ScanBits bits_;
};

}  // namespace endcap
