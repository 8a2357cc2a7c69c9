#include "decode/scan_reader.h"

// clang-format off
#include <cstdio>  // jpeglib.h uses FILE and size_t without including what declares them
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>

#include "common/fail.h"
#include "decode/jpeg_markers.h"

namespace endcap {
namespace {

// Damage by libjpeg-turbo's code of a warning, in its words.
[[noreturn]] void FailDamaged(int warning, int first = 0, int second = 0) {
  jpeg_error_mgr errors{};
  jpeg_common_struct info{};
  info.err = jpeg_std_error(&errors);
  errors.msg_code = warning;
  errors.msg_parm.i[0] = first;
  errors.msg_parm.i[1] = second;
  std::array<char, JMSG_LENGTH_MAX> message{};
  errors.format_message(&info, message.data());
  FailCorrupt("the JPEG is cut short or damaged: ", message.data(), "; damaged: accept decodes it");
}

}  // namespace

void ScanReader::FailEnded() { FailDamaged(JWRN_HIT_MARKER); }
void ScanReader::FailBadCode() { FailDamaged(JWRN_HUFF_BAD_CODE); }

void ScanReader::Seek(const ScanPosition& to, const uint8_t* mark) {
  begin_ = to.byte;
  mark_ = mark;
  mcus_to_restart_ = restart_interval_;
  const bool is_first = begin_ == data_.data();
  next_restart_ = is_first || restart_interval_ == 0 ? 0 : (begin_[-1] - kRst0 + 1) % 8;
  bytes_.SetRaw({begin_, data_.data() + data_.size()});
  bytes_.SetMark(restart_interval_ == 0 ? mark : nullptr);
  bytes_.Begin(bits_);
  constexpr unsigned kBits = 32;
  ptrdiff_t left = to.bits;
  for (; left > kBits; left -= kBits) {
    if (!HasBytes(bits_)) bits_ = GetBytes(bits_);
    bits_.Fill();
    bits_.Drop(kBits);
  }
  bits_.Fill();
  bits_.Drop(static_cast<unsigned>(left));
}

void ScanReader::Restart() {
  const int marker = bytes_.SkipToMarker();
  if (marker != kRst0 + next_restart_) FailDamaged(JWRN_MUST_RESYNC, marker, next_restart_);
  next_restart_ = (next_restart_ + 1) % 8;
  mcus_to_restart_ = restart_interval_;
  begin_ = bytes_.rest().data();
  bytes_.Begin(bits_);
}

bool ScanReader::FindEndMarker() noexcept {
  const uint8_t marker = bytes_.SkipToMarker();
  if (!bytes_.has_marker()) return false;
  if (marker == kEoi) return true;
  constexpr std::array<uint8_t, 2> kEndMarker = {0xFF, kEoi};
  const std::span<const uint8_t> rest = bytes_.rest();
  return std::search(rest.begin(), rest.end(), kEndMarker.begin(), kEndMarker.end()) != rest.end();
}

}  // namespace endcap
