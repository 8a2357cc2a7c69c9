#include "common/fail.h"
#include "common/steady_clock.h"
#include "endcap/thread_pool.h"
#include "preprocess/device.h"
#include "preprocess/image_to_tensor.h"
#include "preprocess/preprocess_output.h"
#include "preprocess/rois_to_tensors.h"

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

void RunImage(const PreprocessParams& params, const PreprocessInput& input,
              PreprocessItem& item) noexcept {
  const PreprocessOutput& output = input.outputs[0];
  item.start_ns = SteadyNowNs();
  try {
    item.decode_ns = ImageToTensor(params, input.image, output);
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
    int64_t decode_ns = 0;
    const JpegDecoder decoder = RoisToTensors(params, input, share.first, statuses, decode_ns);
    // Only a file, which is one share, has a decoder.
    if (decoder != JpegDecoder::kAuto) {
      item.decoder = decoder;
      item.start_ns = start_ns;
      item.decode_ns = decode_ns;
      item.resize_ns = SteadyNowNs() - start_ns - decode_ns;
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
    pool_.ParallelFor(static_cast<int>(shares.size()), [&](int i) {
      Share& share = shares[static_cast<size_t>(i)];
      const PreprocessInput& input = inputs[share.input];
      if (input.rois) {
        RunRegions(params_, input, share, items[share.input]);
      } else {
        RunImage(params_, input, items[share.input]);
      }
    });
    for (const Share& share : shares) {
      if (items[share.input].status.ok()) items[share.input].status = share.image_status;
    }
    return items;
  }

 private:
  PreprocessParams params_;
  ThreadPool pool_;
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
