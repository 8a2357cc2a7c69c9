#include "decode/planes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "common/fail.h"
#include "common/steady_clock.h"
#include "decode/jpeg_markers.h"
#include "decode/libjpeg_session.h"

namespace endcap {
namespace {

constexpr int kMaxRowsPerMcu = MAX_SAMP_FACTOR * DCTSIZE;

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
  const int64_t start = SteadyNowNs();
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
  open_ns_ = SteadyNowNs() - start;
}

JpegPlaneReader::~JpegPlaneReader() = default;
JpegPlaneReader::JpegPlaneReader(JpegPlaneReader&& other) noexcept = default;
JpegPlaneReader& JpegPlaneReader::operator=(JpegPlaneReader&& other) noexcept = default;

int64_t JpegPlaneReader::Decode(uint8_t* block) {
  if (session_ == nullptr) Fail(ErrorCode::kInternal, "this file has no planes left to decode");
  const std::unique_ptr<LibjpegSession> session = std::move(session_);
  const int64_t start = SteadyNowNs();
  session->Start(/*raw=*/true, LibjpegSession::Codes::kEndcap);
  McuRow mcu_row(session->info(), layout_, block);
  for (int mcu = 0; mcu < mcu_rows_needed_; ++mcu) {
    session->ReadPlanes(mcu_row.At(mcu), ImageRowsPerMcu(session->info()));
  }
  session->CheckEnd(header_, end_row_);
  return open_ns_ + SteadyNowNs() - start;
}

namespace {

JpegDecoder ForNvjpeg(const JpegFileKind& file) {
  if (!file.has_planes) {
    Fail(ErrorCode::kUnsupported,
         "nvJPEG is not used for JPEGs of this color or chroma sampling; jpeg_decoder 'auto' and "
         "'hybrid' decode them");
  }
  if (!file.ended) {
    FailCorrupt(
        "the JPEG does not end with its end marker, and nvJPEG does not report lost data; "
        "jpeg_decoder 'auto' and 'hybrid' decode what has only bytes after it");
  }
  return JpegDecoder::kNvjpeg;
}

bool WorthNvjpeg(const JpegDecoderRequest& request) {
  return request.mode == DecodeMode::kFast && request.nvjpeg_available && request.file.one_scan &&
         request.file.ended && request.pixels * request.batch_size >= kNvjpegCrossoverPixels;
}

}  // namespace

bool EndsWithEndMarker(const uint8_t* bytes, size_t size) noexcept {
  return size >= 2 && bytes[size - 2] == 0xFF && bytes[size - 1] == kEoi;
}

void CheckJpegDecoder(DecodeMode mode, JpegDecoder requested, bool nvjpeg_available,
                      std::string_view why_not) {
  if (requested != JpegDecoder::kNvjpeg) return;
  if (mode == DecodeMode::kExact) {
    FailArgument(
        "jpeg_decoder 'nvjpeg' does not give libjpeg-turbo's pixels, which decode 'exact' asks "
        "for; give decode 'fast', or jpeg_decoder 'auto', 'hybrid' or 'cpu'");
  }
  if (!nvjpeg_available) Fail(ErrorCode::kCuda, "jpeg_decoder 'nvjpeg' cannot be used: ", why_not);
}

JpegDecoder ChooseJpegDecoder(const JpegDecoderRequest& request) {
  switch (request.requested) {
    case JpegDecoder::kCpu:
      return JpegDecoder::kCpu;
    case JpegDecoder::kNvjpeg:
      return ForNvjpeg(request.file);
    default:
      break;
  }
  if (!request.file.has_planes) return JpegDecoder::kCpu;
  if (request.requested == JpegDecoder::kAuto && WorthNvjpeg(request)) return JpegDecoder::kNvjpeg;
  return JpegDecoder::kHybrid;
}

}  // namespace endcap
