#pragma once

#include <utility>

#include "decode/nvjpeg_api.h"
#include "decode/nvjpeg_batch.h"

namespace endcap {

// Throws kOutOfMemory or kCuda for anything but success.
void CheckNvjpeg(nvjpeg::Status status, const char* call);

// Gives the image its failure: `status` is that of a call that concerns no other image. Throws
// kOutOfMemory where memory was short.
void FailImage(NvjpegImage& image, nvjpeg::Status status);

// The output format of an image: luma alone, or the planes as they are.
inline nvjpeg::OutputFormat FormatOf(const NvjpegImage& image) {
  return image.plane_count == 1 ? nvjpeg::kOutputY : nvjpeg::kOutputYuv;
}

// Where nvJPEG is to write the image's planes.
nvjpeg::Image DestinationOf(const NvjpegImage& image);

// Whether the components of the parsed file have the sizes of the image's planes. What nvJPEG
// writes follows the file, so a file that changed meanwhile must not get past the planes' memory.
bool SizesMatch(const nvjpeg::Api& api, nvjpeg::JpegStream parsed, const NvjpegImage& image);

// Owns one of nvJPEG's objects.
template <typename Object>
class NvjpegObject {
 public:
  using Destroy = nvjpeg::Status (*)(Object);

  NvjpegObject() = default;
  NvjpegObject(Object object, Destroy destroy) : object_(object), destroy_(destroy) {}
  ~NvjpegObject() {
    if (object_ != nullptr) destroy_(object_);
  }
  NvjpegObject(NvjpegObject&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), destroy_(other.destroy_) {}
  NvjpegObject& operator=(NvjpegObject&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  Object get() const noexcept { return object_; }

 private:
  Object object_ = nullptr;
  Destroy destroy_ = nullptr;
};

// create(Object*) makes it.
template <typename Object, typename Create>
NvjpegObject<Object> MakeNvjpeg(typename NvjpegObject<Object>::Destroy destroy, const char* call,
                                Create create) {
  Object object = nullptr;
  CheckNvjpeg(create(&object), call);
  return {object, destroy};
}

}  // namespace endcap
