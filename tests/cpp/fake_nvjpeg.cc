#include "fake_nvjpeg.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "decode/cuda/nvjpeg_library.h"
#include "decode/planes.h"
#include "endcap/decode.h"
#include "endcap/error.h"

// nvJPEG's opaque types are whatever this library makes of them.
namespace endcap::nvjpeg {

struct HandleTag {};
struct JpegStreamTag {
  std::atomic_flag in_use;
  ImageHeader header;
  JpegPlaneLayout layout;
};
struct DecodeParamsTag {
  OutputFormat format = kOutputYuv;
};
struct JpegStateTag {
  OutputFormat format = kOutputYuv;
  int batch_size = 0;
  std::vector<std::function<void()>> begun;  // what is left of a refused batch
};

}  // namespace endcap::nvjpeg

namespace endcap::testing {
namespace {

using nvjpeg::Status;

FakeNvjpeg state;
std::mutex counting;

template <typename Object>
Status Create(Object** object) {
  *object = new Object;
  const std::lock_guard lock(counting);
  ++state.objects;
  ++state.objects_created;
  return nvjpeg::kSuccess;
}

template <typename Object>
Status Delete(Object* object) {
  delete object;
  const std::lock_guard lock(counting);
  --state.objects;
  return nvjpeg::kSuccess;
}

// A bitstream object belongs to one thread at a time.
class Use {
 public:
  explicit Use(nvjpeg::JpegStream stream) : stream_(stream) {
    if (stream_->in_use.test_and_set()) std::abort();
  }
  ~Use() { stream_->in_use.clear(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  nvjpeg::JpegStream stream_;
};

Status Parse(const unsigned char* bytes, size_t size, ImageHeader& header,
             JpegPlaneLayout& layout) {
  try {
    const ImageView file = ImageView::Encoded(bytes, size);
    header = ReadHeader(file, {});
    layout = JpegPlaneReader(file, header, {}).layout();
    return layout.available ? nvjpeg::kSuccess : nvjpeg::kJpegNotSupported;
  } catch (const Error&) {
    return nvjpeg::kBadJpeg;
  }
}

// The planes of a file.
struct Planes {
  JpegPlaneLayout layout;
  std::vector<uint8_t> samples;
};

Status Decode(const unsigned char* bytes, size_t size, nvjpeg::OutputFormat format,
              Planes& planes) {
  try {
    const ImageView file = ImageView::Encoded(bytes, size);
    const ImageHeader header = ReadHeader(file, {});
    if (header.width == state.failing_width) return nvjpeg::kExecutionFailed;
    JpegPlaneReader reader(file, header, {.channels = format == nvjpeg::kOutputY ? 1 : 3});
    planes.layout = reader.layout();
    planes.samples.assign(planes.layout.size_bytes, 0);
    reader.Decode(planes.samples.data());
    return nvjpeg::kSuccess;
  } catch (const Error&) {
    return nvjpeg::kBadJpeg;
  }
}

// A plane at a time, with what lies between its rows: a copy to an emulated GPU takes its time.
void CopyPlanes(const Planes& planes, const nvjpeg::Image& to) {
  for (size_t i = 0; i < static_cast<size_t>(planes.layout.plane_count); ++i) {
    const JpegPlane& plane = planes.layout.planes[i];
    const auto width = static_cast<size_t>(plane.width);
    const auto height = static_cast<size_t>(plane.height);
    std::vector<uint8_t> rows(to.pitch[i] * (height - 1) + width);
    for (size_t y = 0; y < height; ++y) {
      std::memcpy(rows.data() + to.pitch[i] * y,
                  planes.samples.data() + plane.offset_bytes + plane.row_stride_bytes * y, width);
    }
    state.write(to.channel[i], rows.data(), rows.size());
  }
}

// What the engine writes when nobody wants it any more is not the image.
std::function<void()> LateWrite(Planes planes, const nvjpeg::Image& to) {
  planes.samples.assign(planes.samples.size(), 0xA5);
  return [planes = std::move(planes), to] { CopyPlanes(planes, to); };
}

void RunBegun(nvjpeg::JpegState decode) {
  for (const auto& work : std::exchange(decode->begun, {})) state.run_now(work);
}

// The real library uploads the file stream-ordered, so it must stay until then.
void ExpectToStay(const unsigned char* bytes, size_t size, void* stream) {
  state.enqueue(stream, [bytes, copy = std::vector<uint8_t>(bytes, bytes + size)] {
    if (std::memcmp(bytes, copy.data(), copy.size()) != 0) ++state.broken_rules;
  });
}

}  // namespace
}  // namespace endcap::testing

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace nv = endcap::nvjpeg;
using endcap::testing::FakeNvjpeg;

EXPORTED FakeNvjpeg* FakeNvjpegState() { return &endcap::testing::state; }

namespace endcap::testing {

EXPORTED Status nvjpegGetProperty(int property, int* value) {
  constexpr int kVersion[] = {13, 0, 2};
  *value = kVersion[property];
  return nv::kSuccess;
}

EXPORTED Status nvjpegCreateEx(nv::Backend backend, void*, void*, unsigned, nv::Handle* handle) {
  if (backend == nv::kBackendHardware && !state.has_engine) return nv::kArchMismatch;
  return Create(handle);
}
EXPORTED Status nvjpegDestroy(nv::Handle handle) { return Delete(handle); }

EXPORTED Status nvjpegJpegStreamCreate(nv::Handle, nv::JpegStream* stream) {
  return Create(stream);
}
EXPORTED Status nvjpegJpegStreamDestroy(nv::JpegStream stream) { return Delete(stream); }
EXPORTED Status nvjpegJpegStreamParseHeader(nv::Handle, const unsigned char* bytes, size_t size,
                                            nv::JpegStream stream) {
  const Use use(stream);
  if (state.on_parse) state.on_parse();
  return Parse(bytes, size, stream->header, stream->layout);
}
EXPORTED Status nvjpegJpegStreamGetComponentsNum(nv::JpegStream stream, unsigned* count) {
  const Use use(stream);
  *count = static_cast<unsigned>(stream->layout.plane_count);
  return nv::kSuccess;
}
EXPORTED Status nvjpegJpegStreamGetComponentDimensions(nv::JpegStream stream, unsigned component,
                                                       unsigned* width, unsigned* height) {
  const Use use(stream);
  *width = static_cast<unsigned>(stream->layout.planes[component].width);
  *height = static_cast<unsigned>(stream->layout.planes[component].height);
  return nv::kSuccess;
}

EXPORTED Status nvjpegDecodeParamsCreate(nv::Handle, nv::DecodeParams* params) {
  return Create(params);
}
EXPORTED Status nvjpegDecodeParamsDestroy(nv::DecodeParams params) { return Delete(params); }
EXPORTED Status nvjpegDecodeParamsSetOutputFormat(nv::DecodeParams params,
                                                  nv::OutputFormat format) {
  params->format = format;
  return nv::kSuccess;
}

EXPORTED Status nvjpegJpegStateCreate(nv::Handle, nv::JpegState* made) { return Create(made); }
EXPORTED Status nvjpegJpegStateDestroy(nv::JpegState made) {
  RunBegun(made);
  return Delete(made);
}
// As the engine: baseline files of one scan.
EXPORTED Status nvjpegDecodeBatchedSupportedEx(nv::Handle, nv::JpegStream stream, nv::DecodeParams,
                                               int* supported) {
  const Use use(stream);
  const bool taken = stream->header.scan_count == 1 && stream->header.width != state.refused_width;
  *supported = taken ? 0 : 1;
  return nv::kSuccess;
}
EXPORTED Status nvjpegDecodeBatchedInitialize(nv::Handle, nv::JpegState batch, int batch_size, int,
                                              nv::OutputFormat format) {
  batch->batch_size = batch_size;
  batch->format = format;
  return nv::kSuccess;
}

// At once, as the engine was seen to.
EXPORTED Status nvjpegDecodeBatched(nv::Handle, nv::JpegState batch,
                                    const unsigned char* const* bytes, const size_t* sizes,
                                    nv::Image* destinations, nv::CudaStream on) {
  std::vector<Planes> planes(static_cast<size_t>(batch->batch_size));
  for (size_t i = 0; i < planes.size(); ++i) {
    const Status status = Decode(bytes[i], sizes[i], batch->format, planes[i]);
    if (status == nv::kSuccess) continue;
    ++state.refused_batches;
    for (size_t k = 0; k < i; ++k) {
      batch->begun.push_back(LateWrite(std::move(planes[k]), destinations[k]));
    }
    return status;
  }
  ++state.batches;
  for (size_t i = 0; i < planes.size(); ++i) {
    ExpectToStay(bytes[i], sizes[i], on);
    state.run_now([&] { CopyPlanes(planes[i], destinations[i]); });
  }
  RunBegun(batch);
  return nv::kSuccess;
}

}  // namespace endcap::testing
