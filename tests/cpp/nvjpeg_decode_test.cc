#include "decode/nvjpeg_decode.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "decode/jpeg_planes.h"
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

// A file, memory for its planes on the device, and what is to come out.
class Item {
 public:
  explicit Item(Bytes file, int channels = 3) : file_(std::move(file)) {
    const ImageHeader header = ReadHeader(Encoded(file_), {});
    JpegPlaneReader reader(Encoded(file_), header, {channels, 1});
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

  void Run(std::vector<NvjpegImage>& images) {
    if (decoder_ == nullptr) decoder_ = OpenNvjpeg();
    DecodeNvjpeg(decoder_, {images.data(), static_cast<int32_t>(images.size())}, stream_);
  }

  FakeNvjpeg* fake_ = nullptr;
  void* decoder_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaStream_t engine_ = nullptr;
};

void ExpectTaken(const NvjpegImage& image, NvjpegBackend backend) {
  EXPECT_EQ(image.status, 0) << image.message;
  EXPECT_EQ(image.message, nullptr);
  EXPECT_EQ(image.backend, backend);
}

TEST_F(NvjpegDecode, TakesTheEngineForBaselineFilesAndKernelsForOthers) {
  const Item color(MakeJpeg(40, 61));
  const Item progressive(MakeJpeg(33, 50, 3, {.progressive = true}));
  const Item gray(MakeJpeg(21, 34, 1));
  const Item luma(MakeJpeg(40, 61), 1);
  const Item full(MakeJpeg(17, 18, 3, {.luma_columns = 1, .luma_rows = 1}));
  std::vector<NvjpegImage> images = {color.Image(), progressive.Image(), gray.Image(), luma.Image(),
                                     full.Image()};
  Run(images);
  for (const size_t i : {0, 2, 3, 4}) ExpectTaken(images[i], NvjpegBackend::kHardware);
  ExpectTaken(images[1], NvjpegBackend::kCuda);
  for (const Item* item : {&color, &progressive, &gray, &luma, &full}) item->ExpectPlanes(stream_);
  EXPECT_EQ(fake_->batches, 2);  // luma alone, and color
  EXPECT_EQ(fake_->images, 1);
}

TEST_F(NvjpegDecode, TakesKernelsWhereThereIsNoEngine) {
  fake_->has_engine = false;
  const Item first(MakeJpeg(40, 61));
  const Item second(MakeJpeg(33, 50, 3, {.progressive = true}));
  const Item third(MakeJpeg(70, 20, 1));
  const Item fourth(MakeJpeg(8, 8));
  std::vector<NvjpegImage> images = {first.Image(), second.Image(), third.Image(), fourth.Image()};
  for (int i = 0; i < 3; ++i) {
    Run(images);
    for (const NvjpegImage& image : images) ExpectTaken(image, NvjpegBackend::kCuda);
  }
  for (const Item* item : {&first, &second, &third, &fourth}) item->ExpectPlanes(stream_);
  EXPECT_EQ(fake_->images, 12);
}

TEST_F(NvjpegDecode, GivesABadImageItsStatusAndTouchesNoOther) {
  for (const bool has_engine : {true, false}) {
    fake_->has_engine = has_engine;
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
    EXPECT_EQ(images[1].status, static_cast<int32_t>(ErrorCode::kCorruptImage));
    EXPECT_EQ(images[2].status, static_cast<int32_t>(ErrorCode::kCorruptImage));
    EXPECT_NE(std::string(images[1].message).find("damaged"), std::string::npos);
    EXPECT_EQ(images[1].backend, NvjpegBackend::kNone);
    EXPECT_EQ(images[0].status, 0);
    EXPECT_EQ(images[3].status, 0);
    before.ExpectPlanes(stream_);
    after.ExpectPlanes(stream_);
    CloseNvjpeg(decoder_);
    decoder_ = nullptr;
  }
}

TEST_F(NvjpegDecode, FindsWhichImageOfARefusedBatchIsAtFault) {
  const Item good(MakeJpeg(40, 61));
  Item bad(MakeJpeg(33, 50));
  bad.file().resize(bad.file().size() / 2);
  const Item other(MakeJpeg(16, 16));
  std::vector<NvjpegImage> images = {good.Image(), bad.Image(), other.Image()};
  Run(images);
  ExpectTaken(images[0], NvjpegBackend::kCuda);
  EXPECT_EQ(images[1].status, static_cast<int32_t>(ErrorCode::kCorruptImage));
  ExpectTaken(images[2], NvjpegBackend::kCuda);
  good.ExpectPlanes(stream_);
  other.ExpectPlanes(stream_);

  fake_->fails_batches = true;
  std::vector<NvjpegImage> again = {good.Image(), other.Image()};
  Run(again);
  for (const NvjpegImage& image : again) ExpectTaken(image, NvjpegBackend::kCuda);
}

TEST_F(NvjpegDecode, RefusesFilesThatDoNotFitTheirPlanes) {
  for (const bool has_engine : {true, false}) {
    fake_->has_engine = has_engine;
    const Item small(MakeJpeg(16, 16));
    const Bytes large = MakeJpeg(64, 64);
    NvjpegImage image = small.Image();
    image.bytes = large.data();
    image.size_bytes = large.size();
    std::vector<NvjpegImage> images = {image};
    Run(images);
    EXPECT_EQ(images[0].status, static_cast<int32_t>(ErrorCode::kUnsupported));
    EXPECT_EQ(images[0].backend, NvjpegBackend::kNone);
    CloseNvjpeg(decoder_);
    decoder_ = nullptr;
  }
}

TEST_F(NvjpegDecode, HasReadTheFilesWhenItReturns) {
  Item first(MakeJpeg(40, 61, 3, {.progressive = true}));
  Item second(MakeJpeg(33, 50));
  std::vector<NvjpegImage> images = {first.Image(), second.Image()};
  Run(images);
  for (Item* item : {&first, &second}) std::ranges::fill(item->file(), uint8_t{0});
  first.ExpectPlanes(stream_);
  second.ExpectPlanes(stream_);
}

TEST_F(NvjpegDecode, LetsTheFilesOfACallStayUntilItsWorkIsDone) {
  const Item first(MakeJpeg(40, 61));
  const Item second(MakeJpeg(33, 50, 3, {.progressive = true}));
  std::vector<NvjpegImage> images = {first.Image(), second.Image()};
  Run(images);
  std::ranges::reverse(images);
  Run(images);
  first.ExpectPlanes(stream_);
  second.ExpectPlanes(stream_);
}

TEST_F(NvjpegDecode, MakesNothingAnewInSteadyState) {
  const Item item(MakeJpeg(40, 61));
  std::vector<NvjpegImage> images(8, item.Image());
  Run(images);
  const int created = fake_->objects_created;
  for (int i = 0; i < 4; ++i) Run(images);
  EXPECT_EQ(fake_->objects_created, created);
}

TEST_F(NvjpegDecode, SaysWhyItCannotBeOpened) {
  fake_->refuses = true;
  EXPECT_TRUE(testing::Throws(ErrorCode::kCuda, "nvjpegCreateEx failed: not initialized",
                              [] { OpenNvjpeg(); }));
}

TEST_F(NvjpegDecode, TakesEmptyBatches) {
  std::vector<NvjpegImage> none;
  Run(none);
  EXPECT_EQ(fake_->batches + fake_->images, 0);
}

}  // namespace
}  // namespace endcap
