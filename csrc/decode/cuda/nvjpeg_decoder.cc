#include "decode/cuda/nvjpeg_decoder.h"

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_runtime/device.h"
#include "cuda_runtime/launch.h"
#include "decode/cuda/nvjpeg_library.h"

namespace endcap {
namespace {

const char* Name(nvjpeg::Status status) {
  constexpr std::array kNames = {"success",
                                 "not initialized",
                                 "invalid parameter",
                                 "bad JPEG",
                                 "JPEG not supported",
                                 "allocator failure",
                                 "execution failed",
                                 "architecture mismatch",
                                 "internal error",
                                 "implementation not supported",
                                 "incomplete bitstream"};
  const auto number = static_cast<size_t>(status);
  return number < kNames.size() ? kNames[number] : "an unknown status";
}

// Throws kOutOfMemory or kCuda for anything but success.
void CheckNvjpeg(nvjpeg::Status status, const char* call) {
  if (status == nvjpeg::kSuccess) return;
  const ErrorCode code =
      status == nvjpeg::kAllocatorFailure ? ErrorCode::kOutOfMemory : ErrorCode::kCuda;
  Fail(code, call, " failed: ", Name(status), " (", static_cast<int>(status), ")");
}

// Gives the image its failure: `status` is that of a call that concerns no other image. Throws
// kOutOfMemory where memory was short.
void FailImage(NvjpegImage& image, nvjpeg::Status status) {
  const auto fail = [&image](ErrorCode code, const char* message) {
    image.status = static_cast<int32_t>(code);
    image.message = message;
  };
  switch (status) {
    case nvjpeg::kAllocatorFailure:
      CheckNvjpeg(status, "decoding by nvJPEG");
      return;
    case nvjpeg::kBadJpeg:
      return fail(ErrorCode::kCorruptImage, "the JPEG is damaged: nvJPEG cannot read it");
    case nvjpeg::kIncompleteBitstream:
      return fail(ErrorCode::kCorruptImage, "the JPEG is truncated: nvJPEG found no end of it");
    case nvjpeg::kInvalidParameter:
    case nvjpeg::kJpegNotSupported:
    case nvjpeg::kImplementationNotSupported:
      return fail(ErrorCode::kUnsupported,
                  "the GPU's JPEG engine does not decode this JPEG (it takes baseline files of one "
                  "scan); give jpeg_decoder 'auto' or 'hybrid'");
    default:
      return fail(ErrorCode::kCuda,
                  "the GPU's JPEG engine failed to decode the JPEG; jpeg_decoder 'auto' and "
                  "'hybrid' decode it by CPU threads");
  }
}

// Owns one of nvJPEG's objects, with the function that destroys it.
template <typename Object>
using Destroy = nvjpeg::Status (*)(Object);
template <typename Object>
using Owned = std::unique_ptr<std::remove_pointer_t<Object>, Destroy<Object>>;

// create(Object*) makes the object. Throws as CheckNvjpeg.
template <typename Object, typename Create>
Owned<Object> Make(Destroy<Object> destroy, const char* call, Create create) {
  Object object = nullptr;
  CheckNvjpeg(create(&object), call);
  return {object, destroy};
}

Owned<nvjpeg::Handle> MakeHandle(const nvjpeg::Api& api) {
  return Make(api.Destroy, "nvjpegCreateEx", [&api](nvjpeg::Handle* handle) {
    const nvjpeg::Status status =
        api.CreateEx(nvjpeg::kBackendHardware, nullptr, nullptr, 0, handle);
    if (status == nvjpeg::kArchMismatch || status == nvjpeg::kImplementationNotSupported) {
      Fail(ErrorCode::kCuda,
           "nvJPEG finds no JPEG engine on this GPU: A100, A30, and GPUs of the Ada, Hopper "
           "and Blackwell architectures have one; jpeg_decoder 'hybrid' needs none");
    }
    return status;
  });
}

// Bitstream objects, one for each call of ParseNvjpeg that is under way. Thread-safe.
class BitstreamPool {
 public:
  BitstreamPool(const nvjpeg::Api& api, nvjpeg::Handle handle) : api_(api), handle_(handle) {}

  Owned<nvjpeg::JpegStream> Take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Owned<nvjpeg::JpegStream> stream = std::move(idle_.back());
        idle_.pop_back();
        return stream;
      }
    }
    return Make(api_.JpegStreamDestroy, "nvjpegJpegStreamCreate",
                [this](auto* stream) { return api_.JpegStreamCreate(handle_, stream); });
  }
  void Return(Owned<nvjpeg::JpegStream> stream) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(stream));
  }

 private:
  const nvjpeg::Api& api_;
  nvjpeg::Handle handle_;
  std::mutex mutex_;
  std::vector<Owned<nvjpeg::JpegStream>> idle_;
};

class NvjpegDecoder {
 public:
  explicit NvjpegDecoder(const nvjpeg::Api& api)
      : api_(api),
        handle_(MakeHandle(api)),
        bitstreams_(api, handle_.get()),
        luma_(MakeFormat(nvjpeg::kOutputY)),
        color_(MakeFormat(nvjpeg::kOutputYuv)) {}

  void Parse(NvjpegImage& image) {
    image.status = 0;
    image.message = nullptr;
    Owned<nvjpeg::JpegStream> parsed = bitstreams_.Take();
    const nvjpeg::Status status = CheckFile(image, parsed.get());
    bitstreams_.Return(std::move(parsed));
    if (status != nvjpeg::kSuccess) FailImage(image, status);
  }

  void Decode(const NvjpegDecodeBatch& batch, cudaStream_t stream) {
    WaitForStream(stream);  // the states may be in use
    for (Format* format : {&luma_, &color_}) {
      group_.clear();
      for (int i = 0; i < batch.count; ++i) {
        NvjpegImage& image = batch.images[i];
        if (image.status == 0 && &ToImageFormat(image) == format) group_.push_back(&image);
      }
      if (!group_.empty()) DecodeGroup(*format, group_, stream);
    }
  }

 private:
  // What is kept for one output format: one call of nvjpegDecodeBatched has one. A state's batch
  // may still run when that of the other begins.
  struct Format {
    nvjpeg::OutputFormat output;
    Owned<nvjpeg::DecodeParams> params;
    Owned<nvjpeg::JpegState> state;
  };

  Format MakeFormat(nvjpeg::OutputFormat output) {
    auto params = Make(api_.DecodeParamsDestroy, "nvjpegDecodeParamsCreate",
                       [this](auto* made) { return api_.DecodeParamsCreate(handle_.get(), made); });
    CheckNvjpeg(api_.DecodeParamsSetOutputFormat(params.get(), output),
                "nvjpegDecodeParamsSetOutputFormat");
    return {output, std::move(params), MakeState()};
  }
  Owned<nvjpeg::JpegState> MakeState() {
    return Make(api_.JpegStateDestroy, "nvjpegJpegStateCreate",
                [this](auto* state) { return api_.JpegStateCreate(handle_.get(), state); });
  }
  Format& ToImageFormat(const NvjpegImage& image) {
    return image.plane_count == 1 ? luma_ : color_;
  }

  // Whether the engine decodes the file.
  nvjpeg::Status CheckFile(const NvjpegImage& image, nvjpeg::JpegStream parsed) {
    const nvjpeg::Handle handle = handle_.get();
    nvjpeg::Status status =
        api_.JpegStreamParseHeader(handle, image.bytes, image.size_bytes, parsed);
    if (status != nvjpeg::kSuccess) return status;
    int supported = -1;
    status = api_.DecodeBatchedSupportedEx(handle, parsed, ToImageFormat(image).params.get(),
                                           &supported);
    if (status != nvjpeg::kSuccess) return status;
    return supported == 0 && SizesMatch(parsed, image) ? nvjpeg::kSuccess
                                                       : nvjpeg::kJpegNotSupported;
  }

  // Whether the components of the file have the sizes of the image's planes. What the engine writes
  // follows the file.
  bool SizesMatch(nvjpeg::JpegStream parsed, const NvjpegImage& image) const {
    unsigned components = 0;
    if (api_.JpegStreamGetComponentsNum(parsed, &components) != nvjpeg::kSuccess) return false;
    const auto planes = static_cast<unsigned>(image.plane_count);
    if (components != planes && !(planes == 1 && components == 3)) return false;
    for (unsigned i = 0; i < planes; ++i) {
      unsigned width = 0;
      unsigned height = 0;
      if (api_.JpegStreamGetComponentDimensions(parsed, i, &width, &height) != nvjpeg::kSuccess) {
        return false;
      }
      const NvjpegPlane& plane = image.planes[i];
      if (width != static_cast<unsigned>(plane.width)) return false;
      if (height != static_cast<unsigned>(plane.height)) return false;
    }
    return true;
  }

  // Decodes images of one format together. The engine accepts or refuses a batch as a whole and
  // does not say which image is at fault, so a refused one is decoded again in halves. With any
  // other batch its good images would have been decoded by the engine: they are here as well, so
  // that no image's pixels depend on its neighbours.
  void DecodeGroup(Format& format, std::span<NvjpegImage* const> images, cudaStream_t stream) {
    const nvjpeg::Status status = Enqueue(format, images, stream);
    if (status == nvjpeg::kSuccess) return;
    Abandon(format, stream);
    if (images.size() == 1) return FailImage(*images.front(), status);
    const size_t half = images.size() / 2;
    DecodeGroup(format, images.first(half), stream);
    WaitForStream(stream);  // the halves use the same state
    DecodeGroup(format, images.subspan(half), stream);
  }

  nvjpeg::Status Enqueue(Format& format, std::span<NvjpegImage* const> images,
                         cudaStream_t stream) {
    files_.clear();
    sizes_.clear();
    destinations_.clear();
    for (const NvjpegImage* image : images) {
      files_.push_back(image->bytes);
      sizes_.push_back(image->size_bytes);
      nvjpeg::Image& destination = destinations_.emplace_back();
      for (int i = 0; i < image->plane_count; ++i) {
        const NvjpegPlane& plane = image->planes[static_cast<size_t>(i)];
        destination.channel[i] = plane.data;
        destination.pitch[i] = plane.row_stride_bytes;
      }
    }
    const nvjpeg::Status status = api_.DecodeBatchedInitialize(
        handle_.get(), format.state.get(), static_cast<int>(images.size()), /*max_cpu_threads=*/1,
        format.output);
    if (status != nvjpeg::kSuccess) return status;
    return api_.DecodeBatched(handle_.get(), format.state.get(), files_.data(), sizes_.data(),
                              destinations_.data(), stream);
  }

  // Waits for what is left of a batch that the engine refused: it may have begun with the first
  // images, on streams of nvJPEG's own that have not been joined to `stream` and cannot be waited
  // for by name. They belong to the state, as does the memory from which the engine reads: it
  // cannot be freed while the engine uses it, so a state that has been destroyed has no work left.
  // This is a conclusion; nvJPEG's documentation does not say it. cudaDeviceSynchronize is no
  // alternative: it is invalid while any stream of the device captures a graph.
  void Abandon(Format& format, cudaStream_t stream) {
    WaitForStream(stream);
    format.state.reset();
    format.state = MakeState();
  }

  const nvjpeg::Api& api_;
  Owned<nvjpeg::Handle> handle_;
  BitstreamPool bitstreams_;
  Format luma_;
  Format color_;
  // Of one call.
  std::vector<NvjpegImage*> group_;
  std::vector<const unsigned char*> files_;
  std::vector<size_t> sizes_;
  std::vector<nvjpeg::Image> destinations_;
};

NvjpegDecoder& DecoderAt(void* decoder) { return *static_cast<NvjpegDecoder*>(decoder); }

}  // namespace

void ReadNvjpegFacts(NvjpegFacts& facts) {
  facts = {};
  const NvjpegLibrary& library = TheNvjpegLibrary();
  facts = {.library_path = library.path.c_str(), .version = library.version.c_str()};
  MakeHandle(library.api);
}

void* OpenNvjpeg() { return new NvjpegDecoder(TheNvjpegLibrary().api); }

void CloseNvjpeg(void* decoder) noexcept { delete static_cast<NvjpegDecoder*>(decoder); }

void ParseNvjpeg(void* decoder, NvjpegImage* image) { DecoderAt(decoder).Parse(*image); }

void DecodeNvjpeg(void* decoder, const NvjpegDecodeBatch* batch, void* stream) {
  DecoderAt(decoder).Decode(*batch, static_cast<cudaStream_t>(stream));
}

}  // namespace endcap
