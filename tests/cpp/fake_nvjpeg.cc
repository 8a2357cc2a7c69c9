#include "fake_nvjpeg.h"

#include <cstring>
#include <memory>
#include <vector>

#include "decode/jpeg_planes.h"
#include "decode/nvjpeg_api.h"
#include "endcap/decode.h"
#include "endcap/error.h"

// nvJPEG's opaque types are whatever this library makes of them.
namespace endcap::nvjpeg {

struct HandleTag {
  Backend backend;
};
struct DecoderTag {
  Backend backend;
};
struct JpegStreamTag {
  const unsigned char* bytes = nullptr;
  size_t size = 0;
  ImageHeader header;
  JpegPlaneLayout layout;
};
struct DecodeParamsTag {
  OutputFormat format = kOutputYuv;
};
struct PinnedBufferTag {
  std::vector<uint8_t> samples;
  JpegPlaneLayout layout;
  bool uploading = false;
};
struct DeviceBufferTag {
  std::vector<uint8_t> samples;
};
struct JpegStateTag {
  OutputFormat format = kOutputYuv;
  int batch_size = 0;
  PinnedBuffer pinned = nullptr;
  DeviceBuffer device = nullptr;
  JpegPlaneLayout layout;
};

}  // namespace endcap::nvjpeg

namespace endcap::testing {
namespace {

using nvjpeg::Status;

FakeNvjpeg state;

template <typename Object>
Status Create(Object** object, const Object& value = {}) {
  ++state.objects;
  ++state.objects_created;
  *object = new Object(value);
  return nvjpeg::kSuccess;
}

template <typename Object>
Status Delete(Object* object) {
  --state.objects;
  delete object;
  return nvjpeg::kSuccess;
}

Status Parse(const unsigned char* bytes, size_t size, nvjpeg::JpegStream stream) {
  try {
    const ImageView file = ImageView::Encoded(bytes, size);
    stream->bytes = bytes;
    stream->size = size;
    stream->header = ReadHeader(file, {});
    stream->layout = JpegPlaneReader(file, stream->header, {}).layout();
    if (stream->header.width == state.refused_width) return nvjpeg::kJpegNotSupported;
    return stream->layout.available ? nvjpeg::kSuccess : nvjpeg::kJpegNotSupported;
  } catch (const Error&) {
    return nvjpeg::kBadJpeg;
  }
}

DecodeOptions OptionsFor(nvjpeg::OutputFormat format) {
  return {format == nvjpeg::kOutputY ? 1 : 3, 1};
}

// Writes the planes of a file that was parsed.
Status Decode(const nvjpeg::JpegStreamTag& stream, nvjpeg::OutputFormat format,
              std::vector<uint8_t>& samples, JpegPlaneLayout& layout) {
  try {
    JpegPlaneReader reader(ImageView::Encoded(stream.bytes, stream.size), stream.header,
                           OptionsFor(format));
    layout = reader.layout();
    samples.assign(layout.size_bytes, 0);
    reader.Decode(samples.data());
    return nvjpeg::kSuccess;
  } catch (const Error&) {
    return nvjpeg::kBadJpeg;
  }
}

void CopyPlanes(const std::vector<uint8_t>& samples, const JpegPlaneLayout& layout,
                const nvjpeg::Image& to) {
  for (size_t i = 0; i < static_cast<size_t>(layout.plane_count); ++i) {
    const JpegPlane& plane = layout.planes[i];
    for (size_t y = 0; y < static_cast<size_t>(plane.height); ++y) {
      state.write(to.channel[i] + to.pitch[i] * y,
                  samples.data() + plane.offset_bytes + plane.row_stride_bytes * y,
                  static_cast<size_t>(plane.width));
    }
  }
}

// The real library uploads the file in the order of the stream, so it must stay until then.
void ExpectToStay(const unsigned char* bytes, size_t size, void* stream) {
  state.enqueue(stream, [bytes, copy = std::vector<uint8_t>(bytes, bytes + size)] {
    if (std::memcmp(bytes, copy.data(), copy.size()) != 0) ++state.broken_rules;
  });
}

bool IsBaseline(const nvjpeg::JpegStreamTag& stream) { return stream.header.scan_count == 1; }

}  // namespace
}  // namespace endcap::testing

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace nv = endcap::nvjpeg;
using endcap::testing::FakeNvjpeg;

EXPORTED FakeNvjpeg* FakeNvjpegState() { return &endcap::testing::state; }

namespace endcap::testing {

EXPORTED Status nvjpegGetProperty(int property, int* value) {
  *value = property == 0 ? 13 : 0;
  return nv::kSuccess;
}

EXPORTED Status nvjpegCreateEx(nv::Backend backend, void*, void*, unsigned, nv::Handle* handle) {
  if (state.refuses) return nv::kNotInitialized;
  if (backend == nv::kBackendHardware && !state.has_engine) return nv::kArchMismatch;
  return Create(handle, nv::HandleTag{backend});
}
EXPORTED Status nvjpegDestroy(nv::Handle handle) { return Delete(handle); }

EXPORTED Status nvjpegJpegStreamCreate(nv::Handle, nv::JpegStream* stream) {
  return Create(stream);
}
EXPORTED Status nvjpegJpegStreamDestroy(nv::JpegStream stream) { return Delete(stream); }
EXPORTED Status nvjpegJpegStreamParseHeader(nv::Handle, const unsigned char* bytes, size_t size,
                                            nv::JpegStream stream) {
  return Parse(bytes, size, stream);
}
EXPORTED Status nvjpegJpegStreamParse(nv::Handle, const unsigned char* bytes, size_t size, int, int,
                                      nv::JpegStream stream) {
  return Parse(bytes, size, stream);
}
EXPORTED Status nvjpegJpegStreamGetComponentsNum(nv::JpegStream stream, unsigned* count) {
  *count = static_cast<unsigned>(stream->layout.plane_count);
  return nv::kSuccess;
}
EXPORTED Status nvjpegJpegStreamGetComponentDimensions(nv::JpegStream stream, unsigned component,
                                                       unsigned* width, unsigned* height) {
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
EXPORTED Status nvjpegJpegStateDestroy(nv::JpegState made) { return Delete(made); }
EXPORTED Status nvjpegDecodeBatchedSupportedEx(nv::Handle, nv::JpegStream stream, nv::DecodeParams,
                                               int* supported) {
  *supported = IsBaseline(*stream) ? 0 : 1;
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
  if (state.fails_batches) return nv::kExecutionFailed;
  ++state.batches;
  for (int i = 0; i < batch->batch_size; ++i) {
    nv::JpegStreamTag stream;
    std::vector<uint8_t> samples;
    JpegPlaneLayout layout;
    Status status = Parse(bytes[i], sizes[i], &stream);
    if (status == nv::kSuccess) status = Decode(stream, batch->format, samples, layout);
    if (status != nv::kSuccess) return status;
    ExpectToStay(bytes[i], sizes[i], on);
    state.run_now([&] { CopyPlanes(samples, layout, destinations[i]); });
  }
  return nv::kSuccess;
}

EXPORTED Status nvjpegDecoderCreate(nv::Handle, nv::Backend backend, nv::Decoder* decoder) {
  return Create(decoder, nv::DecoderTag{backend});
}
EXPORTED Status nvjpegDecoderDestroy(nv::Decoder decoder) { return Delete(decoder); }
EXPORTED Status nvjpegDecoderJpegSupported(nv::Decoder decoder, nv::JpegStream stream,
                                           nv::DecodeParams, int* supported) {
  *supported = decoder->backend == nv::kBackendHybrid || IsBaseline(*stream) ? 0 : 1;
  return nv::kSuccess;
}
EXPORTED Status nvjpegDecoderStateCreate(nv::Handle, nv::Decoder, nv::JpegState* made) {
  return Create(made);
}
EXPORTED Status nvjpegBufferPinnedCreate(nv::Handle, void*, nv::PinnedBuffer* buffer) {
  return Create(buffer);
}
EXPORTED Status nvjpegBufferPinnedDestroy(nv::PinnedBuffer buffer) { return Delete(buffer); }
EXPORTED Status nvjpegBufferDeviceCreate(nv::Handle, void*, nv::DeviceBuffer* buffer) {
  return Create(buffer);
}
EXPORTED Status nvjpegBufferDeviceDestroy(nv::DeviceBuffer buffer) { return Delete(buffer); }
EXPORTED Status nvjpegStateAttachPinnedBuffer(nv::JpegState to, nv::PinnedBuffer buffer) {
  to->pinned = buffer;
  return nv::kSuccess;
}
EXPORTED Status nvjpegStateAttachDeviceBuffer(nv::JpegState to, nv::DeviceBuffer buffer) {
  to->device = buffer;
  return nv::kSuccess;
}

EXPORTED Status nvjpegDecodeJpegHost(nv::Handle, nv::Decoder, nv::JpegState decode,
                                     nv::DecodeParams params, nv::JpegStream stream) {
  if (decode->pinned->uploading) ++state.broken_rules;
  const Status status =
      Decode(*stream, params->format, decode->pinned->samples, decode->pinned->layout);
  decode->layout = decode->pinned->layout;
  return status;
}

// The device's buffer may move here, so nothing may still use it.
EXPORTED Status nvjpegDecodeJpegTransferToDevice(nv::Handle, nv::Decoder, nv::JpegState decode,
                                                 nv::JpegStream parsed, nv::CudaStream stream) {
  ExpectToStay(parsed->bytes, parsed->size, stream);
  const nv::PinnedBuffer pinned = decode->pinned;
  const nv::DeviceBuffer device = decode->device;
  if (!device->samples.empty()) ++state.broken_rules;
  pinned->uploading = true;
  state.enqueue(stream, [pinned, device] {
    device->samples = pinned->samples;
    pinned->uploading = false;
  });
  return nv::kSuccess;
}

EXPORTED Status nvjpegDecodeJpegDevice(nv::Handle, nv::Decoder, nv::JpegState decode,
                                       nv::Image* destination, nv::CudaStream stream) {
  ++state.images;
  const nv::DeviceBuffer device = decode->device;
  state.enqueue(stream, [device, layout = decode->layout, to = *destination] {
    CopyPlanes(device->samples, layout, to);
    device->samples.clear();
  });
  return nv::kSuccess;
}

}  // namespace endcap::testing
