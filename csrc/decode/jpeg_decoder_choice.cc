#include "decode/jpeg_decoder_choice.h"

#include "common/fail.h"
#include "decode/jpeg_codes.h"

namespace endcap {
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
