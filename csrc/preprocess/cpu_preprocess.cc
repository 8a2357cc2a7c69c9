#include <algorithm>
#include <atomic>
#include <deque>
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
struct Task {
  size_t input = 0;
  size_t first = 0;
  size_t count = 0;
  ItemStatus image_status = {};
  bool is_measured = false;  // for the policy of help
  Crew* crew = nullptr;      // for threads of the pool without their own task, which help
};

std::vector<Task> MakeTasks(std::span<const PreprocessInput> inputs) {
  std::vector<Task> tasks;
  tasks.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t count = inputs[i].outputs.size();
    const bool decoded = inputs[i].image.format != PixelFormat::kEncoded;
    if (!inputs[i].rois || !decoded || count == 0) {
      tasks.push_back({i, 0, count});
      continue;
    }
    for (size_t roi = 0; roi < count; ++roi) tasks.push_back({i, roi, 1});
  }
  return tasks;
}

// Threads of this process that make tensors, those that help included.
std::atomic<int> threads_at_work{0};

class CountedThread {
 public:
  CountedThread() noexcept { ++threads_at_work; }
  ~CountedThread() { --threads_at_work; }
  CountedThread(const CountedThread&) = delete;
  CountedThread& operator=(const CountedThread&) = delete;
};

// The helpers that are worth their wake-up: decoding so large a part of a file takes a thread a
// millisecond.
int MostHelpers(const PreprocessInput& input) {
  constexpr size_t kBytesPerHelper = 32 << 10;
  if (input.image.format != PixelFormat::kEncoded) return 0;
  const size_t helpers = input.image.size_bytes / kBytesPerHelper;
  return static_cast<int>(std::min<size_t>(helpers, Crew::kMaxHelpers));
}

void RunImage(const PreprocessParams& params, const PreprocessInput& input, Crew* crew,
              PreprocessItem& item) noexcept {
  const PreprocessOutput& output = input.outputs[0];
  item.start_ns = SteadyNowNs();
  try {
    DecodeReport report = ImageToTensor(params, input.image, output, crew);
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

void RunRegions(const PreprocessParams& params, const PreprocessInput& input, Task& task,
                PreprocessItem& item) noexcept {
  const std::span<ItemStatus> statuses = std::span(item.rois).subspan(task.first, task.count);
  const int64_t start_ns = SteadyNowNs();
  try {
    DecodeReport report;
    const JpegDecoder decoder =
        RoisToTensors(params, input, task.first, statuses, report, task.crew);
    // Only a file, which is one task, has a decoder.
    if (decoder != JpegDecoder::kAuto) {
      item.decoder = decoder;
      item.start_ns = start_ns;
      item.decode_ns = report.decode_ns;
      item.damage = std::move(report.damage);
      item.resize_ns = SteadyNowNs() - start_ns - report.decode_ns;
    }
  } catch (...) {
    task.image_status = MakeStatusFromCurrentException();
    for (size_t i = 0; i < task.count; ++i) {
      statuses[i] = task.image_status;
      WriteBlank(input.outputs[task.first + i]);
    }
  }
  for (size_t i = 0; i < task.count; ++i) {
    WriteStatus(input.outputs[task.first + i], statuses[i]);
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
    std::vector<Task> tasks = MakeTasks(inputs);
    std::deque<Crew> crews;
    const std::vector<Crew*> helped = OfferHelp(inputs, tasks, crews);
    const size_t task_count = tasks.size();
    pool_.ParallelFor(static_cast<int>(task_count + helped.size()), [&](int index) {
      const CountedThread counted;
      const auto i = static_cast<size_t>(index);
      if (i >= task_count) {
        // All tasks have begun. Help returns at the latest when the helped one calls End.
        helped[i - task_count]->Help([this] { return threads_at_work > cpu_count_; });
        return;
      }
      Task& task = tasks[i];
      const PreprocessInput& input = inputs[task.input];
      PreprocessItem& item = items[task.input];
      const int64_t start = SteadyNowNs();
      if (input.rois) {
        RunRegions(params_, input, task, item);
      } else {
        RunImage(params_, input, task.crew, item);
      }
      if (task.crew != nullptr) task.crew->End();
      if (!task.is_measured) return;
      help_policy_.Report(task.crew != nullptr, SteadyNowNs() - start,
                          static_cast<int64_t>(input.image.size_bytes));
    });
    for (const Task& task : tasks) {
      if (items[task.input].status.ok()) items[task.input].status = task.image_status;
    }
    return items;
  }

 private:
  // Chooses the tasks with help where the CPUs have nothing else to do. Returns the crew that each
  // helper goes to.
  std::vector<Crew*> OfferHelp(std::span<const PreprocessInput> inputs, std::span<Task> tasks,
                               std::deque<Crew>& crews) {
    std::vector<Crew*> helped;
    // None of this call has begun.
    const int idle_cpus = std::max(cpu_count_ - threads_at_work.load(), 0);
    int spare = std::min(pool_.thread_count(), idle_cpus) - static_cast<int>(tasks.size());
    auto left = static_cast<int>(tasks.size());
    for (Task& task : tasks) {
      const int helpers = std::min(MostHelpers(inputs[task.input]), (spare + left - 1) / left);
      --left;
      if (helpers <= 0) continue;
      spare -= helpers;
      task.is_measured = true;
      if (!help_policy_.Allows()) continue;
      task.crew = &crews.emplace_back(helpers);
      helped.insert(helped.end(), static_cast<size_t>(helpers), task.crew);
    }
    return helped;
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
