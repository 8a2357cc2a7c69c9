#include "decode/cuda/nvjpeg_decoder.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "decode/planes.h"
#include "endcap/error.h"
#include "error_matchers.h"
#include "fake_nvjpeg.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::FakeNvjpeg;
using testing::FakeNvjpegFunction;
using testing::MakeJpeg;

// A file, memory for its planes on the device, and the samples that are expected there.
class Item {
 public:
  explicit Item(Bytes file, int channels = 3) : file_(std::move(file)) {
    const ImageHeader header = ReadHeader(Encoded(file_), {});
    JpegPlaneReader reader(Encoded(file_), header, {.channels = channels});
    layout_ = reader.layout();
    expected_.resize(layout_.size_bytes);
    reader.Decode(expected_.data());
    EXPECT_EQ(cudaMalloc(&device_, layout_.size_bytes), cudaSuccess);
  }
  ~Item() { (void)cudaFree(device_); }
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;

  Bytes& file() { return file_; }

  NvjpegImage Image() const {
    NvjpegImage image;
    image.bytes = file_.data();
    image.size_bytes = file_.size();
    image.plane_count = layout_.plane_count;
    for (size_t i = 0; i < 3; ++i) {
      const JpegPlane& plane = layout_.planes[i];
      image.planes[i] = {static_cast<uint8_t*>(device_) + plane.offset_bytes,
                         plane.row_stride_bytes, plane.width, plane.height};
    }
    return image;
  }

  // Fetches the planes after what `stream` has, and compares.
  void ExpectPlanes(cudaStream_t stream) const {
    Bytes planes(layout_.size_bytes);
    EXPECT_EQ(
        cudaMemcpyAsync(planes.data(), device_, planes.size(), cudaMemcpyDeviceToHost, stream),
        cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    for (size_t i = 0; i < static_cast<size_t>(layout_.plane_count); ++i) {
      const JpegPlane& plane = layout_.planes[i];
      for (size_t y = 0; y < static_cast<size_t>(plane.height); ++y) {
        const auto row = static_cast<ptrdiff_t>(plane.offset_bytes + plane.row_stride_bytes * y);
        ASSERT_TRUE(std::equal(planes.begin() + row, planes.begin() + row + plane.width,
                               expected_.begin() + row))
            << "plane " << i << ", row " << y;
      }
    }
  }

 private:
  Bytes file_;
  JpegPlaneLayout layout_;
  Bytes expected_;
  void* device_ = nullptr;
};

class NvjpegDecode : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("ENDCAP_NVJPEG_LIBRARY", FAKE_NVJPEG, 1), 0);
    void* library = dlopen(FAKE_NVJPEG, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto get =
        reinterpret_cast<FakeNvjpegFunction>(dlsym(library, testing::kFakeNvjpegSymbol));
    ASSERT_NE(get, nullptr);
    fake_ = get();
    *fake_ = {};
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&engine_, cudaStreamNonBlocking), cudaSuccess);
    fake_->enqueue = [](void* stream, std::function<void()> work) {
      emulation::Enqueue(static_cast<cudaStream_t>(stream), std::move(work));
    };
    fake_->write = [](void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); };
    fake_->run_now = [this](std::function<void()> work) {
      emulation::Enqueue(engine_, std::move(work));
      EXPECT_EQ(cudaStreamSynchronize(engine_), cudaSuccess);
    };
  }
  void TearDown() override {
    CloseNvjpeg(decoder_);
    EXPECT_EQ(fake_->objects, 0);
    EXPECT_EQ(fake_->broken_rules, 0);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(engine_), cudaSuccess);
  }

  void Open() {
    if (decoder_ == nullptr) decoder_ = OpenNvjpeg();
  }
  void Parse(std::vector<NvjpegImage>& images) {
    Open();
    for (NvjpegImage& image : images) ParseNvjpeg(decoder_, image);
  }
  void Decode(std::vector<NvjpegImage>& images) {
    DecodeNvjpeg(decoder_, {images.data(), static_cast<int32_t>(images.size())}, stream_);
  }
  void Run(std::vector<NvjpegImage>& images) {
    Parse(images);
    Decode(images);
  }

  FakeNvjpeg* fake_ = nullptr;
  void* decoder_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaStream_t engine_ = nullptr;
};

void ExpectOk(const NvjpegImage& image) {
  EXPECT_EQ(image.status, 0) << image.message;
  EXPECT_EQ(image.message, nullptr);
}

void ExpectError(const NvjpegImage& image, ErrorCode code, const char* part) {
  EXPECT_EQ(image.status, static_cast<int32_t>(code));
  ASSERT_NE(image.message, nullptr);
  EXPECT_NE(std::string(image.message).find(part), std::string::npos) << image.message;
}

TEST_F(NvjpegDecode, DecodesBaselineFilesAndLeavesOthers) {
  const Item color(MakeJpeg(40, 61));
  const Item progressive(MakeJpeg(33, 50, 3, {.progressive = true}));
  const Item gray(MakeJpeg(21, 34, 1));
  const Item luma(MakeJpeg(40, 61), 1);
  const Item full(MakeJpeg(17, 18, 3, {.luma_columns = 1, .luma_rows = 1}));
  std::vector<NvjpegImage> images = {color.Image(), progressive.Image(), gray.Image(), luma.Image(),
                                     full.Image()};
  for (int i = 0; i < 3; ++i) {
    Run(images);
    for (const size_t k : {0, 2, 3, 4}) ExpectOk(images[k]);
    ExpectError(images[1], ErrorCode::kUnsupported, "give jpeg_decoder 'auto' or 'hybrid'");
  }
  for (const Item* item : {&color, &gray, &luma, &full}) item->ExpectPlanes(stream_);
  EXPECT_EQ(fake_->batches, 6);  // luma alone, and color
}

TEST_F(NvjpegDecode, WithoutAnEngineIsUnavailableAndSaysWhichGpusHaveOne) {
  fake_->has_engine = false;
  EXPECT_TRUE(testing::Throws(ErrorCode::kCuda, "no JPEG engine on this GPU: A100, A30",
                              [] { OpenNvjpeg(); }));
  NvjpegFacts facts;
  EXPECT_TRUE(testing::Throws(ErrorCode::kCuda, "no JPEG engine on this GPU",
                              [&] { ReadNvjpegFacts(facts); }));
  EXPECT_STREQ(facts.library_path, FAKE_NVJPEG);
  EXPECT_STREQ(facts.version, "13.0.2");
}

TEST_F(NvjpegDecode, GivesABadImageItsStatusAndTouchesNoOther) {
  const Item before(MakeJpeg(40, 61));
  const Item after(MakeJpeg(33, 50));
  const Bytes noise(500, 7);
  NvjpegImage damaged = after.Image();
  damaged.bytes = noise.data();
  damaged.size_bytes = noise.size();
  NvjpegImage empty = after.Image();
  empty.bytes = nullptr;
  empty.size_bytes = 0;
  std::vector<NvjpegImage> images = {before.Image(), damaged, empty, after.Image()};
  Run(images);
  ExpectOk(images[0]);
  ExpectError(images[1], ErrorCode::kCorruptImage, "damaged");
  ExpectError(images[2], ErrorCode::kCorruptImage, "damaged");
  ExpectOk(images[3]);
  before.ExpectPlanes(stream_);
  after.ExpectPlanes(stream_);
}

// The engine refuses batches as a whole, and may have begun with one by then.
TEST_F(NvjpegDecode, DecodesTheOtherImagesOfARefusedBatch) {
  fake_->failing_width = 50;
  const Item first(MakeJpeg(40, 61));
  const Item second(MakeJpeg(24, 70));
  const Item bad(MakeJpeg(33, 50));
  const Item third(MakeJpeg(16, 16));
  const Item luma(MakeJpeg(40, 61), 1);
  std::vector<NvjpegImage> images = {first.Image(), second.Image(), bad.Image(), third.Image(),
                                     luma.Image()};
  Run(images);
  for (const size_t i : {0, 1, 3, 4}) ExpectOk(images[i]);
  ExpectError(images[2], ErrorCode::kCuda, "failed to decode");
  for (const Item* item : {&first, &second, &third, &luma}) item->ExpectPlanes(stream_);
  EXPECT_EQ(fake_->refused_batches, 3);  // of 4, of 2, of 1 image

  // The decoder works on.
  std::vector<NvjpegImage> again = {third.Image(), first.Image()};
  Run(again);
  for (const NvjpegImage& image : again) ExpectOk(image);
  first.ExpectPlanes(stream_);
}

TEST_F(NvjpegDecode, RefusesFilesThatDoNotFitTheirPlanes) {
  const Item small(MakeJpeg(16, 16));
  const Bytes large = MakeJpeg(64, 64);
  NvjpegImage image = small.Image();
  image.bytes = large.data();
  image.size_bytes = large.size();
  std::vector<NvjpegImage> images = {image};
  Run(images);
  ExpectError(images[0], ErrorCode::kUnsupported, "does not decode this JPEG");
  EXPECT_EQ(fake_->batches, 0);
}

// The fake aborts where two threads use one bitstream object.
TEST_F(NvjpegDecode, ParsesOnSeveralThreadsAtATime) {
  constexpr int kThreads = 3;
  std::mutex mutex;
  std::condition_variable all_there;
  int inside = 0;
  bool met = true;
  fake_->on_parse = [&] {
    std::unique_lock lock(mutex);
    if (++inside == kThreads) all_there.notify_all();
    met = all_there.wait_for(lock, std::chrono::seconds(30), [&] { return inside >= kThreads; }) &&
          met;
  };
  Open();
  const int before = fake_->objects_created;
  const Item color(MakeJpeg(40, 61));
  const Item progressive(MakeJpeg(33, 50, 3, {.progressive = true}));
  const Item gray(MakeJpeg(21, 34, 1));
  std::vector<NvjpegImage> images = {color.Image(), progressive.Image(), gray.Image()};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (NvjpegImage& image : images) {
    threads.emplace_back([this, &image] { ParseNvjpeg(decoder_, image); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(met) << "parsing waits for the parsing of other threads";
  EXPECT_EQ(fake_->objects_created, before + kThreads);
  ExpectOk(images[0]);
  ExpectError(images[1], ErrorCode::kUnsupported, "does not decode this JPEG");
  ExpectOk(images[2]);
  fake_->on_parse = nullptr;
  Parse(images);
  EXPECT_EQ(fake_->objects_created, before + kThreads);  // used again
}

// The emulation's streams do nothing until they are waited for.
TEST_F(NvjpegDecode, DoesNotWaitForItsOwnWork) {
  const Item item(MakeJpeg(40, 61));
  std::vector<NvjpegImage> images = {item.Image()};
  Run(images);
  EXPECT_EQ(fake_->batches, 1);
  cudaEvent_t done = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(done, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(done), cudaErrorNotReady);
  item.ExpectPlanes(stream_);
  EXPECT_EQ(cudaEventQuery(done), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(done), cudaSuccess);
}

TEST_F(NvjpegDecode, MakesNothingAnewInSteadyState) {
  const Item item(MakeJpeg(40, 61));
  std::vector<NvjpegImage> images(8, item.Image());
  Run(images);
  const int created = fake_->objects_created;
  for (int i = 0; i < 4; ++i) Run(images);
  EXPECT_EQ(fake_->objects_created, created);
}

}  // namespace
}  // namespace endcap
