#include "decode/plane_bands.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "decode/jpeg_sampling.h"
#include "decode/plane_ring.h"
#include "decode/ycc_rows_simd.h"

namespace endcap {
namespace {

using Clock = std::chrono::steady_clock;

// Rows of one chroma component, as the color conversion takes them.
class ChromaRows {
 public:
  ChromaRows(const jpeg_decompress_struct& info, int component, ChromaUpsampling upsampling)
      : plane_(PlaneSizeOf(info, component)),
        has_row_context_(HasRowContext(upsampling)),
        sums_(static_cast<size_t>(plane_.width()) + 2 + kRowSlackBytes),
        samples_(static_cast<size_t>(plane_.width()) + kRowSlackBytes) {}

  PlaneRing& plane() noexcept { return plane_; }

  // For image row y, samples of full height; valid until the next call.
  const uint8_t* Samples(int y) {
    if (!has_row_context_) return plane_.Row(y);
    // The library's roundings above and below differ.
    BlendRowsToBytes(plane_.Row(y / 2), plane_.Row(Neighbour(y)), plane_.width(),
                     y % 2 == 0 ? 1 : 2, samples_.data());
    return samples_.data();
  }

  // The same as sums for DoubleYccToRgb.
  const int16_t* Sums(int y) {
    int16_t* sums = sums_.data() + 1;
    if (has_row_context_) {
      BlendRows(plane_.Row(y / 2), plane_.Row(Neighbour(y)), plane_.width(), sums);
    } else {
      CopyRow(plane_.Row(y), plane_.width(), sums);
    }
    sums[-1] = sums[0];
    sums[plane_.width()] = sums[plane_.width() - 1];
    return sums;
  }

 private:
  static int Neighbour(int y) { return y % 2 == 0 ? y / 2 - 1 : y / 2 + 1; }

  PlaneRing plane_;
  bool has_row_context_;
  std::vector<int16_t> sums_;
  std::vector<uint8_t> samples_;
};

// The planes of one file, and the pixels that are made of them.
class Planes {
 public:
  Planes(const jpeg_decompress_struct& info, ChromaUpsampling upsampling, const BandFormat& format)
      : upsampling_(upsampling), format_(format), luma_(PlaneSizeOf(info, 0)) {
    if (upsampling == ChromaUpsampling::kGray) return;
    chroma_.reserve(2);
    for (const int component : {1, 2}) chroma_.emplace_back(info, component, upsampling);
  }

  // Where the decoder is to put MCU row `mcu` of each component.
  std::array<JSAMPARRAY, 3> Slots(int mcu) {
    std::array<JSAMPARRAY, 3> slots = {luma_.Slot(mcu), nullptr, nullptr};
    for (size_t i = 0; i < chroma_.size(); ++i) slots[i + 1] = chroma_[i].plane().Slot(mcu);
    return slots;
  }

  void MakeRow(int y, uint8_t* out) {
    const uint8_t* luma = luma_.Row(y);
    if (chroma_.empty()) {
      GrayToRgb(luma, format_.width, format_.channels, out);
    } else if (HasColumnContext(upsampling_)) {
      DoubleYccToRgb(luma, chroma_[0].Sums(y), chroma_[1].Sums(y), format_.width,
                     HasRowContext(upsampling_), format_.channels, out);
    } else {
      YccToRgb(luma, chroma_[0].Samples(y), chroma_[1].Samples(y), format_.width, format_.channels,
               out);
    }
  }

 private:
  ChromaUpsampling upsampling_;
  BandFormat format_;
  PlaneRing luma_;
  std::vector<ChromaRows> chroma_;
};

}  // namespace

int64_t PlanesToBands(LibjpegSession& session, ChromaUpsampling upsampling,
                      const BandFormat& format, BandSink& sink) {
  const jpeg_decompress_struct& info = session.info();
  Planes planes(info, upsampling, format);
  const size_t row_bytes = static_cast<size_t>(format.width) * static_cast<size_t>(format.channels);
  std::vector<uint8_t> pixels(row_bytes + kRowSlackBytes);

  int64_t decode_ns = 0;
  const int mcu_rows = ImageRowsPerMcu(info);
  const int end_row = std::min(sink.EndRow(), format.height);
  const bool context = HasRowContext(upsampling);
  int row = 0;
  // The last row of an MCU may need chroma of the next MCU row, so one more may have to be read.
  for (int mcu = 0; mcu * mcu_rows < end_row || row < end_row; ++mcu) {
    const auto start = Clock::now();
    std::array<JSAMPARRAY, 3> slots = planes.Slots(mcu);
    int end = (mcu + 1) * mcu_rows;
    // The first row after an MCU may need chroma of it.
    if (sink.NextRow(row) < (context ? end + 1 : end)) {
      session.ReadPlanes(slots.data(), mcu_rows);
    } else {
      session.SkipPlanes(slots.data(), mcu_rows);
    }
    decode_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    if (context && end < format.height) --end;
    end = std::min(end, end_row);
    for (row = sink.NextRow(row); row < end; row = sink.NextRow(row + 1)) {
      planes.MakeRow(row, pixels.data());
      sink.Consume({pixels.data(), static_cast<ptrdiff_t>(row_bytes), row, 1});
    }
  }
  return decode_ns;
}

}  // namespace endcap
