#include "decode/jpeg_planes.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>

#include "common/fail.h"
#include "decode/jpeg_sampling.h"
#include "decode/libjpeg_session.h"

namespace endcap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxRowsPerMcu = MAX_SAMP_FACTOR * DCTSIZE;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

int CeilDivide(int a, int b) { return (a + b - 1) / b; }
size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::optional<ChromaUpsampling> Upsampling(const jpeg_decompress_struct& info, bool luma_only) {
  if (!luma_only) return GetUpsampling(info);
  return HasFullLuma(info) ? std::optional(ChromaUpsampling::kGray) : std::nullopt;
}

// Rows of MCUs to read for the image rows before `end_row`: the last row of an MCU may need chroma
// of the next one.
int McuRowsNeeded(const jpeg_decompress_struct& info, ChromaUpsampling upsampling, int end_row) {
  const int height = static_cast<int>(info.output_height);
  int rows = std::clamp(end_row, 0, height);
  if (rows > 0 && rows < height && HasRowContext(upsampling)) ++rows;
  return CeilDivide(rows, ImageRowsPerMcu(info));
}

// The decoder writes whole MCUs, so memory is laid out for them.
JpegPlaneLayout LayOut(const jpeg_decompress_struct& info, ChromaUpsampling upsampling, int mcus) {
  JpegPlaneLayout layout;
  layout.available = true;
  layout.width = static_cast<int>(info.output_width);
  layout.height = static_cast<int>(info.output_height);
  layout.upsampling = upsampling;
  layout.plane_count = upsampling == ChromaUpsampling::kGray ? 1 : 3;
  for (int i = 0; i < layout.plane_count; ++i) {
    const PlaneSize size = GetPlaneSize(info, i);
    const int written_rows = mcus * size.mcu_rows;
    JpegPlane& plane = layout.planes[static_cast<size_t>(i)];
    plane.width = size.width;
    plane.height = size.height;
    plane.rows = std::min(size.height, written_rows);
    plane.row_stride_bytes = RoundUp(static_cast<size_t>(size.padded_width), kPlaneRowAlignment);
    plane.offset_bytes = layout.size_bytes;
    layout.size_bytes +=
        RoundUp(plane.row_stride_bytes * static_cast<size_t>(written_rows), kPlaneAlignment);
  }
  return layout;
}

// Row pointers of one row of MCUs, as the library takes them.
class McuRow {
 public:
  McuRow(const jpeg_decompress_struct& info, const JpegPlaneLayout& layout, uint8_t* block) {
    for (int i = 0; i < layout.plane_count; ++i) {
      const JpegPlane& plane = layout.planes[static_cast<size_t>(i)];
      const PlaneSize size = GetPlaneSize(info, i);
      components_[static_cast<size_t>(i)] = {block + plane.offset_bytes, plane.row_stride_bytes,
                                             size.mcu_rows};
    }
  }

  JSAMPIMAGE At(int mcu) {
    for (size_t i = 0; i < components_.size(); ++i) {
      const Component& component = components_[i];
      const size_t first = static_cast<size_t>(mcu) * static_cast<size_t>(component.mcu_rows);
      for (size_t row = 0; row < static_cast<size_t>(component.mcu_rows); ++row) {
        rows_[i][row] = component.data + component.row_stride_bytes * (first + row);
      }
      planes_[i] = rows_[i].data();
    }
    return planes_.data();
  }

 private:
  struct Component {
    uint8_t* data = nullptr;
    size_t row_stride_bytes = 0;
    int mcu_rows = 0;
  };
  std::array<Component, 3> components_{};
  std::array<std::array<JSAMPROW, kMaxRowsPerMcu>, 3> rows_{};
  std::array<JSAMPARRAY, 3> planes_{};
};

}  // namespace

JpegPlaneReader::JpegPlaneReader(const ImageView& file, const ImageHeader& header,
                                 const DecodeOptions& options, int end_row)
    : header_(header), end_row_(end_row) {
  const auto start = Clock::now();
  session_ = std::make_unique<LibjpegSession>(std::span(file.planes[0].data, file.size_bytes),
                                              options.truncated);
  session_->ReadHeader(header);
  const bool luma_only = options.channels == 1;
  if (luma_only) session_->TakeFirstComponentOnly();
  session_->SetOutput(luma_only ? JCS_GRAYSCALE : JCS_RGB, options.scale_denominator);
  const jpeg_decompress_struct& info = session_->info();
  if (const auto upsampling = Upsampling(info, luma_only)) {
    mcu_rows_needed_ = McuRowsNeeded(info, *upsampling, end_row);
    layout_ = LayOut(info, *upsampling, mcu_rows_needed_);
  } else {
    session_.reset();
  }
  open_ns_ = NanosecondsSince(start);
}

JpegPlaneReader::~JpegPlaneReader() = default;
JpegPlaneReader::JpegPlaneReader(JpegPlaneReader&& other) noexcept = default;
JpegPlaneReader& JpegPlaneReader::operator=(JpegPlaneReader&& other) noexcept = default;

int64_t JpegPlaneReader::Decode(uint8_t* block) {
  if (session_ == nullptr) Fail(ErrorCode::kInternal, "this file has no planes left to decode");
  const std::unique_ptr<LibjpegSession> session = std::move(session_);
  const auto start = Clock::now();
  session->Start(/*raw=*/true, LibjpegSession::Codes::kEntropyDecoder);
  McuRow mcu_row(session->info(), layout_, block);
  for (int mcu = 0; mcu < mcu_rows_needed_; ++mcu) {
    session->ReadPlanes(mcu_row.At(mcu), ImageRowsPerMcu(session->info()));
  }
  session->CheckEnd(header_, end_row_);
  return open_ns_ + NanosecondsSince(start);
}

}  // namespace endcap
