// Preprocessor on the emulated GPU, mostly with the library that stands in for nvJPEG. That one
// gives libjpeg-turbo's planes, so tensors must be those of the CPU with exact pixels. tests/gpu
// has the files and settings of every kind.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_runtime/runtime.h"
#include "decode/planes.h"
#include "endcap/cuda.h"
#include "endcap/preprocess.h"
#include "error_matchers.h"
#include "fake_nvjpeg.h"
#include "image_tensor.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::FakeNvjpeg;
using testing::FakeNvjpegFunction;
using testing::ImageTensor;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::Results;
using testing::Throws;

// Before the libraries are looked for, which happens once a process.
[[maybe_unused]] const int libraries_chosen =
    setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, /*overwrite=*/1) +
    setenv("ENDCAP_NVJPEG_LIBRARY", FAKE_NVJPEG, /*overwrite=*/1);

constexpr DeviceId kGpu{Device::kCuda, 0};

PreprocessParams FastBy(JpegDecoder decoder) {
  PreprocessParams params;
  params.height = 48;
  params.width = 64;
  params.decode = DecodeMode::kFast;
  params.jpeg_decoder = decoder;
  return params;
}

// A run whose tensors may not be complete yet.
class CudaRun {
 public:
  CudaRun(Preprocessor& preprocessor, const std::vector<ImageView>& images, void* stream)
      : target_{0, stream}, results_(images.size()) {
    std::vector<PreprocessOutput> outputs;
    for (size_t i = 0; i < images.size(); ++i) {
      TensorView view = ImageTensor(preprocessor.params(), nullptr, Device::kCuda);
      results_.tensors[i].resize(view.size_bytes());
      memory_.push_back(AllocateCuda(view.size_bytes(), target_));
      view.data = memory_.back().get();
      outputs.push_back(
          {view, results_.geometry[i].data(), &results_.status[i], static_cast<int>(i)});
    }
    results_.items = preprocessor.Run(images, outputs, stream);
  }

  Results Fetch() {
    for (size_t i = 0; i < memory_.size(); ++i) {
      CopyCuda(results_.tensors[i].data(), memory_[i].get(), results_.tensors[i].size(), target_);
    }
    SynchronizeCuda(target_);
    return results_;
  }

 private:
  CudaTarget target_;
  Results results_;
  std::vector<std::shared_ptr<void>> memory_;
};

std::vector<ImageView> Views(const std::vector<Bytes>& files) {
  std::vector<ImageView> views;
  for (const Bytes& file : files) views.push_back(Encoded(file));
  return views;
}

Results OnCpu(PreprocessParams params, const std::vector<Bytes>& files,
              DecodeMode mode = DecodeMode::kExact) {
  params.decode = mode;
  params.jpeg_decoder = JpegDecoder::kCpu;
  return testing::OnCpu(params, Views(files));
}

Results OnGpu(Preprocessor& preprocessor, const std::vector<Bytes>& files) {
  const CudaStream stream(0);
  return CudaRun(preprocessor, Views(files), stream.get()).Fetch();
}

void ExpectDecoder(const PreprocessItem& item, JpegDecoder decoder) {
  EXPECT_TRUE(item.status.ok()) << item.status.message;
  EXPECT_EQ(item.decoder, decoder);
}

class NvjpegPreprocess : public ::testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(FAKE_NVJPEG, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto get =
        reinterpret_cast<FakeNvjpegFunction>(dlsym(library, testing::kFakeNvjpegSymbol));
    ASSERT_NE(get, nullptr);
    fake_ = get();
    *fake_ = {};
    fake_->enqueue = [this](void*, std::function<void()> work) { Now(work); };
    fake_->run_now = [this](std::function<void()> work) { Now(work); };
    fake_->write = [this](void* to, const void* from, size_t bytes) {
      CopyCuda(to, from, bytes, {0, stream_.get()});
    };
  }
  void TearDown() override {
    EXPECT_EQ(fake_->objects, 0);
    EXPECT_EQ(fake_->broken_rules, 0);
  }

  void Now(const std::function<void()>& work) {
    work();
    SynchronizeCuda({0, stream_.get()});
  }

  FakeNvjpeg* fake_ = nullptr;
  CudaStream stream_{0};
};

// What the engine decodes, of which the first file is large and the others small.
std::vector<Bytes> BaselineFiles() {
  return {MakeJpeg(200, 300), MakeJpeg(60, 61, 1), MakeJpeg(75, 40, 3, {.orientation = 6}),
          MakeJpeg(33, 45, 3, {.luma_columns = 1, .luma_rows = 1}),
          MakeJpeg(64, 64, 3, {.luma_rows = 1})};
}

TEST_F(NvjpegPreprocess, GivesTheTensorsOfThePlanesAtFullSize) {
  const std::vector<Bytes> files = BaselineFiles();
  for (const Color color : {Color::kRgb, Color::kGray}) {
    PreprocessParams params = FastBy(JpegDecoder::kNvjpeg);
    params.color = color;
    const Results expected = OnCpu(params, files);
    Preprocessor preprocessor(params, kGpu);
    for (int i = 0; i < 4; ++i) {
      const Results results = OnGpu(preprocessor, files);
      for (size_t k = 0; k < files.size(); ++k) {
        ExpectDecoder(results.items[k], JpegDecoder::kNvjpeg);
        EXPECT_EQ(results.tensors[k], expected.tensors[k]) << "file " << k;
      }
    }
  }
}

// Nothing is waited for between the runs, and the engine writes at once: it must not be called
// before earlier kernels have read.
TEST_F(NvjpegPreprocess, LeavesMemoryToTheKernelsOfEarlierBatches) {
  for (const JpegDecoder decoder : {JpegDecoder::kNvjpeg, JpegDecoder::kHybrid}) {
    const PreprocessParams params = FastBy(decoder);
    const DecodeMode mode =
        decoder == JpegDecoder::kNvjpeg ? DecodeMode::kExact : DecodeMode::kFast;
    Preprocessor preprocessor(params, kGpu);
    const CudaStream stream(0);
    std::vector<std::vector<Bytes>> files;
    std::vector<CudaRun> batches;
    for (int i = 0; i < 6; ++i) {
      files.push_back({MakeJpeg(120 - 10 * i, 80), MakeJpeg(64, 40 + 8 * i)});
      batches.emplace_back(preprocessor, Views(files.back()), stream.get());
    }
    for (size_t i = 0; i < batches.size(); ++i) {
      EXPECT_EQ(batches[i].Fetch().tensors, OnCpu(params, files[i], mode).tensors) << i;
    }
  }
}

TEST_F(NvjpegPreprocess, GivesABadFileItsStatusAndTouchesNoOther) {
  Bytes damaged = MakeJpeg(90, 70);
  damaged.erase(damaged.begin() + 700, damaged.end() - 600);
  Bytes cut_short = MakeJpeg(90, 70);
  cut_short.resize(cut_short.size() - 2);
  fake_->refused_width = 71;
  fake_->failing_width = 72;
  const std::vector<Bytes> files = {
      MakeJpeg(200, 300), damaged,          MakeJpeg(50, 50, 4),
      cut_short,          Bytes(100, 0),    MakeJpeg(90, 70, 3, {.progressive = true}),
      MakeJpeg(90, 71),   MakeJpeg(90, 72), MakeJpeg(75, 40)};
  const PreprocessParams params = FastBy(JpegDecoder::kNvjpeg);
  const Results expected = OnCpu(params, files);
  Preprocessor preprocessor(params, kGpu);
  const Results results = OnGpu(preprocessor, files);
  for (const size_t good : {0, 8}) {
    ExpectDecoder(results.items[good], JpegDecoder::kNvjpeg);
    EXPECT_EQ(results.tensors[good], expected.tensors[good]);
  }
  struct Bad {
    size_t index;
    ErrorCode code;
    const char* message;
  };
  const Bad bad[] = {{1, ErrorCode::kCorruptImage, "damaged"},
                     {2, ErrorCode::kUnsupported, "color"},
                     {3, ErrorCode::kCorruptImage, "end marker"},
                     {4, ErrorCode::kCorruptImage, ""},
                     {5, ErrorCode::kUnsupported, "give jpeg_decoder 'auto' or 'hybrid'"},
                     {6, ErrorCode::kUnsupported, "give jpeg_decoder 'auto' or 'hybrid'"},
                     {7, ErrorCode::kCuda, "failed to decode"}};
  for (const auto& [index, code, message] : bad) {
    EXPECT_EQ(results.items[index].status.code, code) << "file " << index;
    EXPECT_NE(results.items[index].status.message.find(message), std::string::npos)
        << results.items[index].status.message;
    EXPECT_FALSE(results.items[index].status.message.empty());
    EXPECT_EQ(results.items[index].decoder, JpegDecoder::kAuto);
    EXPECT_EQ(results.tensors[index], Bytes(results.tensors[index].size()));
  }
}

TEST_F(NvjpegPreprocess, AutoTakesItForLargeBatchesOfWholeBaselineFiles) {
  constexpr int kSide = 1024;
  constexpr size_t kEnough = kNvjpegCrossoverPixels / (kSide * kSide);
  const Bytes file = MakeJpeg(kSide, kSide);
  const PreprocessParams params = FastBy(JpegDecoder::kAuto);
  Preprocessor preprocessor(params, kGpu);

  std::vector<Bytes> files(kEnough, file);
  files[1] = MakeJpeg(kSide, kSide, 3, {.progressive = true});
  files[2] = MakeJpeg(64, 64, 4);
  const Results expected = OnCpu(params, files);
  const Results large = OnGpu(preprocessor, files);
  ExpectDecoder(large.items[1], JpegDecoder::kHybrid);
  ExpectDecoder(large.items[2], JpegDecoder::kCpu);
  for (const size_t k : {size_t{0}, kEnough - 1}) {
    ExpectDecoder(large.items[k], JpegDecoder::kNvjpeg);
    EXPECT_EQ(large.tensors[k], expected.tensors[k]);
  }
  EXPECT_EQ(large.tensors[2], OnCpu(params, files, DecodeMode::kFast).tensors[2]);

  files.resize(kEnough - 1);
  ExpectDecoder(OnGpu(preprocessor, files).items[0], JpegDecoder::kHybrid);
}

// The header shows that the engine does not take a file: the CPU decodes it in the same batch.
TEST_F(NvjpegPreprocess, AutoLetsTheCpuDecodeWhatTheEngineDoesNotTake) {
  fake_->refused_width = 1026;
  std::vector<Bytes> files(9, MakeJpeg(1024, 1024));
  files[3] = MakeJpeg(1024, 1026);
  files[5] = files[3];
  files[5].erase(files[5].begin() + 4000, files[5].end() - 4000);
  files[7] = MakeJpeg(1024, 1026, 1);
  const PreprocessParams params = FastBy(JpegDecoder::kAuto);
  Preprocessor preprocessor(params, kGpu);
  const Bytes expected = OnCpu(params, {files[0]}).tensors[0];
  for (int i = 0; i < 3; ++i) {
    const Results results = OnGpu(preprocessor, files);
    for (const size_t k : {0, 1, 2, 4, 6, 8}) {
      ExpectDecoder(results.items[k], JpegDecoder::kNvjpeg);
      EXPECT_EQ(results.tensors[k], expected) << "file " << k;
    }
    for (const size_t k : {3, 7}) {
      ExpectDecoder(results.items[k], JpegDecoder::kHybrid);
      EXPECT_EQ(results.tensors[k], OnCpu(params, {files[k]}, DecodeMode::kFast).tensors[0]);
    }
    EXPECT_EQ(results.items[5].status.code, ErrorCode::kCorruptImage);
    EXPECT_EQ(results.tensors[5], Bytes(results.tensors[5].size()));
  }
  EXPECT_EQ(fake_->batches, 3);
  EXPECT_EQ(fake_->refused_batches, 0);
}

// Only decoding shows it: the CPU decodes the file in a second batch.
TEST_F(NvjpegPreprocess, AutoLetsTheCpuDecodeWhatTheEngineFailsToDecode) {
  fake_->failing_width = 1026;
  std::vector<Bytes> files(9, MakeJpeg(1024, 1024));
  files[3] = MakeJpeg(1024, 1026);
  files[8] = MakeJpeg(1024, 1026, 1);
  const PreprocessParams params = FastBy(JpegDecoder::kAuto);
  Preprocessor preprocessor(params, kGpu);
  const Bytes expected = OnCpu(params, {files[0]}).tensors[0];
  for (int i = 0; i < 3; ++i) {
    const Results results = OnGpu(preprocessor, files);
    for (size_t k = 0; k < files.size(); ++k) {
      if (k == 3 || k == 8) {
        ExpectDecoder(results.items[k], JpegDecoder::kHybrid);
        EXPECT_EQ(results.tensors[k], OnCpu(params, {files[k]}, DecodeMode::kFast).tensors[0]);
      } else {
        ExpectDecoder(results.items[k], JpegDecoder::kNvjpeg);
        EXPECT_EQ(results.tensors[k], expected) << "file " << k;
      }
    }
  }
}

// What the engine writes follows the file, so it must be the file that was checked.
TEST_F(NvjpegPreprocess, DecodesTheFileThatItChecked) {
  const PreprocessParams params = FastBy(JpegDecoder::kNvjpeg);
  Preprocessor preprocessor(params, kGpu);
  const std::vector<Bytes> unchanged = {MakeJpeg(40, 30)};
  std::vector<Bytes> files = unchanged;
  const Bytes larger = MakeJpeg(400, 300);
  fake_->on_parse = [&] { std::copy_n(larger.begin(), files[0].size(), files[0].begin()); };
  const Results results = OnGpu(preprocessor, files);
  ExpectDecoder(results.items[0], JpegDecoder::kNvjpeg);
  EXPECT_EQ(results.tensors, OnCpu(params, unchanged).tensors);
}

// The fake aborts where two threads use one bitstream object.
TEST_F(NvjpegPreprocess, ParsesOnSeveralThreadsAndCreatesNothingAgain) {
  constexpr int kThreads = 3;
  std::mutex mutex;
  std::condition_variable all_there;
  int inside = 0;
  bool met = true;
  fake_->on_parse = [&] {
    std::unique_lock lock(mutex);
    if (++inside == kThreads) all_there.notify_all();
    met = all_there.wait_for(lock, std::chrono::seconds(60), [&] { return inside >= kThreads; }) &&
          met;
  };
  Preprocessor preprocessor(FastBy(JpegDecoder::kNvjpeg), kGpu, kThreads);
  const std::vector<Bytes> files = {MakeJpeg(40, 61), MakeJpeg(33, 50), MakeJpeg(21, 34, 1)};
  for (int context = 0; context < 2; ++context) {  // batches take turns with two of them
    inside = 0;
    OnGpu(preprocessor, files);
    EXPECT_TRUE(met) << "parsing waits for the parsing of other threads";
  }
  fake_->on_parse = nullptr;
  const int created = fake_->objects_created;
  for (int i = 0; i < 4; ++i) OnGpu(preprocessor, files);
  EXPECT_EQ(fake_->objects_created, created);
}

TEST_F(NvjpegPreprocess, WithoutAnEngineAutoTakesTheCpuAndItsNameIsAnError) {
  fake_->has_engine = false;
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "no JPEG engine on this GPU",
                     [] { Preprocessor(FastBy(JpegDecoder::kNvjpeg), kGpu); }));
  Preprocessor preprocessor(FastBy(JpegDecoder::kAuto), kGpu);
  const Results results = OnGpu(preprocessor, std::vector<Bytes>(8, MakeJpeg(1024, 1024)));
  for (const PreprocessItem& item : results.items) ExpectDecoder(item, JpegDecoder::kHybrid);
  EXPECT_EQ(fake_->objects_created, 0);
}

TEST(CudaPreprocess, ImagesMayChangeAsSoonAsRunReturns) {
  const PreprocessParams params;
  Preprocessor preprocessor(params, kGpu, 1);
  Bytes pixels = MakePixels(22, 31, 3);
  const ImageView image = ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), 31, 22, 93);
  const Results expected = testing::OnCpu(params, {image});
  CudaRun run(preprocessor, {image}, nullptr);
  std::fill(pixels.begin(), pixels.end(), uint8_t{0});
  EXPECT_EQ(run.Fetch().tensors, expected.tensors);
}

TEST(CudaPreprocess, WhatCannotBeRunIsRefusedBeforeAnyWork) {
  const PreprocessParams params;
  Preprocessor preprocessor(params, kGpu, 1);
  const Bytes file = MakeJpeg(45, 67);
  const std::array images = {Encoded(file)};
  Bytes tensor(ImageTensor(params, nullptr).size_bytes());
  TensorView view = ImageTensor(params, nullptr);
  view.data = tensor.data();
  const std::array outputs = {PreprocessOutput{view, nullptr, nullptr, 0}};
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "cuda:0",
                     [&] { preprocessor.Run(images, outputs, nullptr); }));
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "1 images came with 0 outputs",
                     [&] { preprocessor.Run(images, {}, nullptr); }));
  EXPECT_TRUE(preprocessor.Run({}, {}, nullptr).empty());
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "cuda:7",
                     [&] { Preprocessor(params, DeviceId{Device::kCuda, 7}); }));
}

}  // namespace
}  // namespace endcap
