#include "decode/nvjpeg_object.h"

#include "common/fail.h"

namespace endcap {
namespace {

const char* Name(nvjpeg::Status status) {
  switch (status) {
    case nvjpeg::kSuccess:
      return "success";
    case nvjpeg::kNotInitialized:
      return "not initialized";
    case nvjpeg::kInvalidParameter:
      return "invalid parameter";
    case nvjpeg::kBadJpeg:
      return "bad JPEG";
    case nvjpeg::kJpegNotSupported:
      return "JPEG not supported";
    case nvjpeg::kAllocatorFailure:
      return "allocator failure";
    case nvjpeg::kExecutionFailed:
      return "execution failed";
    case nvjpeg::kArchMismatch:
      return "architecture mismatch";
    case nvjpeg::kInternalError:
      return "internal error";
    case nvjpeg::kImplementationNotSupported:
      return "implementation not supported";
    case nvjpeg::kIncompleteBitstream:
      return "incomplete bitstream";
  }
  return "an unknown status";
}

}  // namespace

void CheckNvjpeg(nvjpeg::Status status, const char* call) {
  if (status == nvjpeg::kSuccess) return;
  const ErrorCode code =
      status == nvjpeg::kAllocatorFailure ? ErrorCode::kOutOfMemory : ErrorCode::kCuda;
  Fail(code, call, " failed: ", Name(status), " (", static_cast<int>(status), ")");
}

void FailImage(NvjpegImage& image, nvjpeg::Status status) {
  const auto fail = [&image](ErrorCode code, const char* message) {
    image.status = static_cast<int32_t>(code);
    image.message = message;
    image.backend = NvjpegBackend::kNone;
  };
  switch (status) {
    case nvjpeg::kAllocatorFailure:
      CheckNvjpeg(status, "decoding by nvJPEG");
      return;
    case nvjpeg::kBadJpeg:
      return fail(ErrorCode::kCorruptImage, "the JPEG is damaged: nvJPEG cannot read it");
    case nvjpeg::kIncompleteBitstream:
      return fail(ErrorCode::kCorruptImage, "the JPEG is cut short: nvJPEG misses data");
    case nvjpeg::kInvalidParameter:
    case nvjpeg::kJpegNotSupported:
    case nvjpeg::kImplementationNotSupported:
      return fail(ErrorCode::kUnsupported,
                  "nvJPEG does not decode this kind of JPEG; jpeg_decoder 'auto' and 'hybrid' may");
    default:
      return fail(ErrorCode::kCuda, "nvJPEG failed to decode the JPEG");
  }
}

nvjpeg::Image DestinationOf(const NvjpegImage& image) {
  nvjpeg::Image destination{};
  for (int i = 0; i < image.plane_count; ++i) {
    const NvjpegPlane& plane = image.planes[static_cast<size_t>(i)];
    destination.channel[i] = plane.data;
    destination.pitch[i] = plane.row_stride_bytes;
  }
  return destination;
}

bool SizesMatch(const nvjpeg::Api& api, nvjpeg::JpegStream parsed, const NvjpegImage& image) {
  unsigned components = 0;
  if (api.JpegStreamGetComponentsNum(parsed, &components) != nvjpeg::kSuccess) return false;
  const auto planes = static_cast<unsigned>(image.plane_count);
  if (components != planes && !(planes == 1 && components == 3)) return false;
  for (unsigned i = 0; i < planes; ++i) {
    unsigned width = 0;
    unsigned height = 0;
    if (api.JpegStreamGetComponentDimensions(parsed, i, &width, &height) != nvjpeg::kSuccess) {
      return false;
    }
    const NvjpegPlane& plane = image.planes[i];
    if (width != static_cast<unsigned>(plane.width)) return false;
    if (height != static_cast<unsigned>(plane.height)) return false;
  }
  return true;
}

}  // namespace endcap
