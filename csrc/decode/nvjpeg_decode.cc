#include "decode/nvjpeg_decode.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/launch.h"
#include "decode/nvjpeg_hardware.h"
#include "decode/nvjpeg_kernels.h"
#include "decode/nvjpeg_library.h"

namespace endcap {
namespace {

// The batch's files in pinned memory: their uploads then neither wait nor read what the caller may
// have changed meanwhile.
class StagedFiles {
 public:
  StagedFiles() = default;
  ~StagedFiles() { (void)cudaFreeHost(memory_); }
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  // Nothing may still use what was staged before.
  void Stage(const NvjpegDecodeBatch& batch) {
    size_t total = 0;
    for (int i = 0; i < batch.count; ++i) total += batch.images[i].size_bytes;
    Reserve(total);
    files_.clear();
    uint8_t* to = memory_;
    for (int i = 0; i < batch.count; ++i) {
      const NvjpegImage& image = batch.images[i];
      if (image.size_bytes > 0) std::memcpy(to, image.bytes, image.size_bytes);
      files_.push_back(to);
      to += image.size_bytes;
    }
  }
  const uint8_t* file(int index) const { return files_[static_cast<size_t>(index)]; }

 private:
  void Reserve(size_t bytes) {
    if (bytes <= capacity_) return;
    capacity_ = 0;
    Check(cudaFreeHost(std::exchange(memory_, nullptr)), "cudaFreeHost");
    void* memory = nullptr;
    Check(cudaHostAlloc(&memory, bytes + bytes / 2, cudaHostAllocDefault), "cudaHostAlloc");
    memory_ = static_cast<uint8_t*>(memory);
    capacity_ = bytes + bytes / 2;
  }

  uint8_t* memory_ = nullptr;
  size_t capacity_ = 0;
  std::vector<const uint8_t*> files_;
};

// A stream of the decoder's own, so that waiting for an image does not wait for whatever else the
// caller's stream has.
class OwnStream {
 public:
  OwnStream() {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    const cudaError_t error = cudaEventCreateWithFlags(&done_, cudaEventDisableTiming);
    if (error != cudaSuccess) (void)cudaStreamDestroy(stream_);
    Check(error, "cudaEventCreateWithFlags");
  }
  ~OwnStream() {
    (void)cudaStreamSynchronize(stream_);
    (void)cudaEventDestroy(done_);
    (void)cudaStreamDestroy(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  cudaStream_t get() const { return stream_; }
  void Wait() const { Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  void LetWait(cudaStream_t other) const {
    Check(cudaEventRecord(done_, stream_), "cudaEventRecord");
    Check(cudaStreamWaitEvent(other, done_, 0), "cudaStreamWaitEvent");
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
};

class NvjpegDecoder {
 public:
  explicit NvjpegDecoder(const nvjpeg::Api& api)
      : hardware_(NvjpegHardware::Open(api)), kernels_(api) {}

  void Decode(const NvjpegDecodeBatch& batch, cudaStream_t stream) {
    stream_.Wait();
    files_.Stage(batch);
    rest_.clear();
    // The engine works on streams of its own.
    if (!DecodeByHardware(batch)) Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (const int index : rest_) {
      kernels_.Decode(batch.images[index], files_.file(index), stream_.get());
    }
    stream_.LetWait(stream);
  }

 private:
  // Images that one call of the engine takes: those of one output format.
  struct Group {
    std::vector<int> indices;
    std::vector<NvjpegImage*> images;
    std::vector<const uint8_t*> files;

    void Clear() {
      indices.clear();
      images.clear();
      files.clear();
    }
    void Add(int index, NvjpegImage& image, const uint8_t* file) {
      indices.push_back(index);
      images.push_back(&image);
      files.push_back(file);
    }
  };

  // Leaves in rest_ the images that the engine does not take, and those of a batch that it refuses:
  // it does not say which of them is at fault. False where there are such: the engine may still
  // write to their planes.
  bool DecodeByHardware(const NvjpegDecodeBatch& batch) {
    luma_.Clear();
    color_.Clear();
    for (int i = 0; i < batch.count; ++i) {
      NvjpegImage& image = batch.images[i];
      image.status = 0;
      image.message = nullptr;
      image.backend = NvjpegBackend::kNone;
      if (hardware_ != nullptr && hardware_->Takes(image, files_.file(i))) {
        (image.plane_count == 1 ? luma_ : color_).Add(i, image, files_.file(i));
      } else {
        rest_.push_back(i);
      }
    }
    bool all = true;
    for (const Group* group : {&luma_, &color_}) {
      if (group->images.empty()) continue;
      const nvjpeg::Status status = hardware_->Decode(group->images, group->files, stream_.get());
      if (status == nvjpeg::kSuccess) {
        for (NvjpegImage* image : group->images) image->backend = NvjpegBackend::kHardware;
      } else {
        rest_.insert(rest_.end(), group->indices.begin(), group->indices.end());
        all = false;
      }
    }
    return all;
  }

  std::unique_ptr<NvjpegHardware> hardware_;
  NvjpegKernels kernels_;
  StagedFiles files_;
  Group luma_;
  Group color_;
  std::vector<int> rest_;
  OwnStream stream_;  // last: destroyed first, and waits for what uses the others
};

}  // namespace

void* OpenNvjpeg() { return new NvjpegDecoder(TheNvjpegLibrary().api); }

void CloseNvjpeg(void* decoder) noexcept { delete static_cast<NvjpegDecoder*>(decoder); }

void DecodeNvjpeg(void* decoder, const NvjpegDecodeBatch& batch, void* stream) {
  static_cast<NvjpegDecoder*>(decoder)->Decode(batch, static_cast<cudaStream_t>(stream));
}

}  // namespace endcap
