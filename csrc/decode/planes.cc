#include "decode/planes.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "common/fail.h"
#include "common/steady_clock.h"
#include "decode/jpeg_markers.h"
#include "decode/plane_decoder.h"

namespace endcap {
namespace {

int CeilDivide(int a, int b) { return (a + b - 1) / b; }
size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Rows of MCUs to read for the image rows before `end_row`: the last row of an MCU may need chroma
// of the next one.
int McuRowsNeeded(const JpegFrame& frame, ChromaUpsampling upsampling, int end_row) {
  int rows = std::clamp(end_row, 0, frame.height);
  if (rows > 0 && rows < frame.height && HasRowContext(upsampling)) ++rows;
  return CeilDivide(rows, frame.rows_per_mcu());
}

// The decoder writes whole MCUs, so memory is laid out for them.
JpegPlaneLayout LayOut(const JpegFrame& frame, ChromaUpsampling upsampling, int mcus) {
  JpegPlaneLayout layout;
  layout.available = true;
  layout.width = frame.width;
  layout.height = frame.height;
  layout.upsampling = upsampling;
  layout.plane_count = upsampling == ChromaUpsampling::kGray ? 1 : 3;
  for (size_t i = 0; i < static_cast<size_t>(layout.plane_count); ++i) {
    const JpegComponent& component = frame.components[i];
    const int written_rows = mcus * component.rows_per_mcu();
    JpegPlane& plane = layout.planes[i];
    plane.width = component.width;
    plane.height = component.height;
    plane.rows = std::min(component.height, written_rows);
    plane.row_stride_bytes =
        RoundUp(static_cast<size_t>(frame.padded_width(component)), kPlaneRowAlignment);
    plane.offset_bytes = layout.size_bytes;
    layout.size_bytes +=
        RoundUp(plane.row_stride_bytes * static_cast<size_t>(written_rows), kPlaneAlignment);
  }
  return layout;
}

// Where row `mcu` of the MCUs lies in `block`.
PlaneRows PlaceMcuRow(const JpegFrame& frame, const JpegPlaneLayout& layout, uint8_t* block,
                      int mcu) {
  PlaneRows rows;
  for (size_t i = 0; i < static_cast<size_t>(layout.plane_count); ++i) {
    const JpegPlane& plane = layout.planes[i];
    const SampleBlock whole{block + plane.offset_bytes, plane.row_stride_bytes};
    const int first = mcu * frame.components[i].rows_per_mcu();
    rows[i] = {whole.Row(static_cast<size_t>(first)), whole.stride};
  }
  return rows;
}

}  // namespace

JpegPlaneReader::JpegPlaneReader(const ImageView& file, const ImageHeader& header,
                                 const DecodeOptions& options, int end_row)
    : end_row_(end_row) {
  const int64_t start = SteadyNowNs();
  decoder_ = std::make_unique<PlaneDecoder>(std::span(file.planes[0].data, file.size_bytes), header,
                                            options);
  if (const auto upsampling = decoder_->upsampling()) {
    mcu_rows_needed_ = McuRowsNeeded(decoder_->frame(), *upsampling, end_row);
    layout_ = LayOut(decoder_->frame(), *upsampling, mcu_rows_needed_);
  } else {
    decoder_.reset();
  }
  open_ns_ = SteadyNowNs() - start;
}

JpegPlaneReader::~JpegPlaneReader() = default;
JpegPlaneReader::JpegPlaneReader(JpegPlaneReader&& other) noexcept = default;
JpegPlaneReader& JpegPlaneReader::operator=(JpegPlaneReader&& other) noexcept = default;

DecodeReport JpegPlaneReader::Decode(uint8_t* block) {
  if (decoder_ == nullptr) Fail(ErrorCode::kInternal, "this file has no planes left to decode");
  const std::unique_ptr<PlaneDecoder> decoder = std::move(decoder_);
  const int64_t start = SteadyNowNs();
  decoder->Start();
  for (int mcu = 0; mcu < mcu_rows_needed_; ++mcu) {
    const PlaneRows rows = PlaceMcuRow(decoder->frame(), layout_, block, mcu);
    decoder->ReadMcuRow(&rows);
  }
  decoder->CheckEnd(end_row_);
  return {open_ns_ + SteadyNowNs() - start, decoder->damage()};
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
