#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "decode/scan_bytes.h"

namespace endcap {

// The entropy-coded data of a scan: its bits, and the restart markers between them. Damage throws
// kCorruptImage with libjpeg-turbo's message.
class ScanReader {
 public:
  // data: what follows the scan's header. restart_interval: MCUs; 0: no restart markers.
  ScanReader(std::span<const uint8_t> data, int restart_interval) noexcept
      : restart_interval_(restart_interval), mcus_to_restart_(restart_interval) {
    bytes_.SetRaw(data);
    bytes_.Begin(bits_);
  }

  ScanBits& bits() noexcept { return bits_; }

  // To be called before each MCU. Returns whether the data restarts there: predictions of
  // coefficients and runs of blocks end.
  bool BeginMcu() {
    if (restart_interval_ == 0) return false;
    const bool restarts = mcus_to_restart_ == 0;
    if (restarts) [[unlikely]]
      Restart();
    --mcus_to_restart_;
    return restarts;
  }

  // The same for several MCUs: at most `count`, those before the next restart marker.
  struct McuRun {
    int count = 0;
    bool restarts = false;
  };
  McuRun BeginMcus(int count) {
    if (restart_interval_ == 0) return {count, false};
    const bool restarts = BeginMcu();
    const int run = std::min(count, mcus_to_restart_ + 1);
    mcus_to_restart_ -= run - 1;
    return {run, restarts};
  }

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

  int restart_interval_;
  int mcus_to_restart_;
  int next_restart_ = 0;
  ScanBytes bytes_;
  ScanBits bits_;
};

}  // namespace endcap
