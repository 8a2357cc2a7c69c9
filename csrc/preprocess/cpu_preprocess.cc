#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "common/steady_clock.h"
#include "endcap/thread_pool.h"
#include "preprocess/device.h"
#include "preprocess/help_policy.h"
#include "preprocess/image_to_tensor.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

// Outputs of one input that one thread makes: all of a file, which is decoded once, or one region
// of an image that is decoded already.
struct Share {
  size_t input = 0;
  size_t first = 0;
  size_t count = 0;
  ItemStatus image_status;
};

std::vector<Share> MakeShares(std::span<const PreprocessInput> inputs) {
  std::vector<Share> shares;
  shares.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t count = inputs[i].outputs.size();
    const bool decoded = inputs[i].image.format != PixelFormat::kEncoded;
    if (!inputs[i].rois || !decoded || count == 0) {
      shares.push_back({i, 0, count, {}});
      continue;
    }
    for (size_t roi = 0; roi < count; ++roi) shares.push_back({i, roi, 1, {}});
  }
  return shares;
}

// Threads of this process that make tensors, those that help included.
std::atomic<int> threads_at_work{0};

class AtWork {
 public:
  AtWork() noexcept { ++threads_at_work; }
  ~AtWork() { --threads_at_work; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};

// Whether a second thread is worth its wake-up: decoding so large a file takes some milliseconds.
bool IsLarge(const PreprocessInput& input) {
  constexpr size_t kLeastBytes = 32 << 10;
  return !input.rois && input.image.format == PixelFormat::kEncoded &&
         input.image.size_bytes >= kLeastBytes;
}

void RunImage(const PreprocessParams& params, const PreprocessInput& input, ReadAhead* ahead,
              PreprocessItem& item) noexcept {
  const PreprocessOutput& output = input.outputs[0];
  item.start_ns = SteadyNowNs();
  try {
    DecodeReport report = ImageToTensor(params, input.image, output, ahead);
    item.decode_ns = report.decode_ns;
    item.damage = std::move(report.damage);
    if (input.image.format == PixelFormat::kEncoded) item.decoder = JpegDecoder::kCpu;
  } catch (...) {
    item.status = MakeStatusFromCurrentException();
    WriteBlank(output);
  }
  WriteStatus(output, item.status);
  item.resize_ns = SteadyNowNs() - item.start_ns - item.decode_ns;
}

void RunRegions(const PreprocessParams& params, const PreprocessInput& input, Share& share,
                PreprocessItem& item) noexcept {
  const std::span<ItemStatus> statuses = std::span(item.rois).subspan(share.first, share.count);
  const int64_t start_ns = SteadyNowNs();
  try {
    DecodeReport report;
    const JpegDecoder decoder = RoisToTensors(params, input, share.first, statuses, report);
    // Only a file, which is one share, has a decoder.
    if (decoder != JpegDecoder::kAuto) {
      item.decoder = decoder;
      item.start_ns = start_ns;
      item.decode_ns = report.decode_ns;
      item.damage = std::move(report.damage);
      item.resize_ns = SteadyNowNs() - start_ns - report.decode_ns;
    }
  } catch (...) {
    share.image_status = MakeStatusFromCurrentException();
    for (size_t i = 0; i < share.count; ++i) {
      statuses[i] = share.image_status;
      WriteBlank(input.outputs[share.first + i]);
    }
  }
  for (size_t i = 0; i < share.count; ++i) {
    WriteStatus(input.outputs[share.first + i], statuses[i]);
  }
}

class CpuPreprocess final : public PreprocessDevice {
 public:
  CpuPreprocess(const PreprocessParams& params, int threads) : params_(params), pool_(threads) {}

  int threads() const noexcept override { return pool_.thread_count(); }

  std::vector<PreprocessItem> Run(std::span<const PreprocessInput> inputs,
                                  void* /*stream*/) override {
    std::vector<PreprocessItem> items(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& rois = inputs[i].rois;
      if (rois) items[i].rois.resize(rois->size());
    }
    std::vector<Share> shares = MakeShares(inputs);
    const std::vector<Large> large = FindLarge(inputs, shares);
    const auto helpers = static_cast<int>(std::ranges::count(large, true, &Large::helped));
    std::vector<ReadAhead> aheads(large.size());
    const auto share_count = static_cast<int>(shares.size());
    pool_.ParallelFor(share_count + helpers, [&](int i) {
      const AtWork at_work;
      if (i >= share_count) {
        // All shares have begun, so that the one to help ends this by its end at the latest.
        aheads[HelpedAt(large, i - share_count)].Help(
            [this] { return threads_at_work > cpu_count_; });
        return;
      }
      Share& share = shares[static_cast<size_t>(i)];
      const PreprocessInput& input = inputs[share.input];
      PreprocessItem& item = items[share.input];
      const auto place = std::ranges::find(large, static_cast<size_t>(i), &Large::share);
      if (input.rois) {
        RunRegions(params_, input, share, item);
      } else if (place == large.end()) {
        RunImage(params_, input, nullptr, item);
      } else {
        ReadAhead& ahead = aheads[static_cast<size_t>(place - large.begin())];
        const int64_t start = SteadyNowNs();
        RunImage(params_, input, place->helped ? &ahead : nullptr, item);
        ahead.End();
        help_policy_.Report(place->helped, SteadyNowNs() - start,
                            static_cast<int64_t>(input.image.size_bytes));
      }
    });
    for (const Share& share : shares) {
      if (items[share.input].status.ok()) items[share.input].status = share.image_status;
    }
    return items;
  }

 private:
  // A share that a thread of the pool without its own share can help with.
  struct Large {
    size_t share = 0;
    bool helped = false;
  };

  std::vector<Large> FindLarge(std::span<const PreprocessInput> inputs,
                               std::span<const Share> shares) {
    std::vector<Large> large;
    // None of this call has begun.
    const auto idle_cpus = static_cast<size_t>(std::max(cpu_count_ - threads_at_work.load(), 0));
    const size_t threads = std::min(static_cast<size_t>(pool_.thread_count()), idle_cpus);
    for (size_t i = 0; i < shares.size() && shares.size() + large.size() < threads; ++i) {
      if (IsLarge(inputs[shares[i].input])) large.push_back({i, help_policy_.Allows()});
    }
    return large;
  }

  // The place of the helped share with this number.
  static size_t HelpedAt(std::span<const Large> large, int number) {
    size_t at = 0;
    for (int left = number; !large[at].helped || left-- > 0; ++at) {
    }
    return at;
  }

  PreprocessParams params_;
  ThreadPool pool_;
  HelpPolicy help_policy_;
  int cpu_count_ = AvailableCpuCount();
};

}  // namespace

std::unique_ptr<PreprocessDevice> MakeCpuPreprocess(const PreprocessParams& params, int threads) {
  if (params.jpeg_decoder == JpegDecoder::kHybrid || params.jpeg_decoder == JpegDecoder::kNvjpeg) {
    Fail(ErrorCode::kUnsupported,
         "jpeg_decoder hybrid and nvjpeg need a GPU: give auto or cpu, or run on a CUDA device");
  }
  return std::make_unique<CpuPreprocess>(params, threads);
}

}  // namespace endcap
