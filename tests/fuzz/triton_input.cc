// Inputs of requests as a server hands them over: any shape and content, in buffers cut anywhere.

#include <utility>

#include "agreement.h"
#include "fake_triton_handles.h"
#include "triton_util/request.h"

namespace endcap::fuzz {
namespace {

using triton::Bytes;
using triton::InputTensor;

constexpr std::array kTypes = {TRITONSERVER_TYPE_BYTES, TRITONSERVER_TYPE_UINT8,
                               TRITONSERVER_TYPE_FP32,  TRITONSERVER_TYPE_FP16,
                               TRITONSERVER_TYPE_INT32, TRITONSERVER_TYPE_INT8};

// The content in buffers of its own, so that a read beyond one is seen.
void Cut(FuzzInput& input, std::vector<uint8_t> content, fake::Input& given) {
  const int cuts = input.Int(0, 3);
  for (int i = 0; i <= cuts; ++i) {
    const size_t bytes = i == cuts ? content.size() : input.Size(content.size());
    given.buffers.push_back(
        fake::Put(std::as_bytes(std::span(content).first(bytes)), TRITONSERVER_MEMORY_CPU));
    content.erase(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
}

// The elements of a BYTES tensor: each a length of 4 bytes, little-endian, and so many bytes.
bool SlowStrings(const std::vector<uint8_t>& content, std::vector<std::vector<uint8_t>>& elements) {
  for (size_t place = 0; place < content.size();) {
    if (content.size() - place < 4) return false;
    uint64_t length = 0;
    for (size_t i = 4; i-- > 0;) length = length * 256 + content[place + i];
    place += 4;
    if (length > content.size() - place) return false;
    const auto begin = content.begin() + static_cast<std::ptrdiff_t>(place);
    elements.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(length));
    place += length;
  }
  return true;
}

void AddAll(const std::vector<Bytes>& elements, Outcome& outcome) {
  for (const Bytes element : elements) {
    outcome.Add(static_cast<int64_t>(element.size()));
    outcome.Add(element.data(), element.size());
  }
}

void CheckStrings(const InputTensor& tensor, const std::vector<uint8_t>& content, int64_t count) {
  std::vector<std::vector<uint8_t>> expected;
  const bool good = SlowStrings(content, expected) && std::cmp_equal(expected.size(), count);
  const Outcome outcome = Capture([&](Outcome& result) { AddAll(tensor.Strings(), result); });
  Require(outcome.ok() == good, good ? "good strings are refused: " : "bad strings are taken",
          outcome.message);
  if (!good) return;
  Outcome same;
  for (const std::vector<uint8_t>& element : expected) {
    same.Add(static_cast<int64_t>(element.size()));
    same.Add(element);
  }
  RequireEqual(same, outcome, "strings");
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  fake::Input given;
  given.name = "encoded";
  given.data_type = input.Pick(kTypes);
  // The server has checked that no dimension is negative and that their product is small.
  given.shape.resize(input.Size(5));
  int64_t elements = 1;
  for (int64_t& side : given.shape) {
    side = input.Int(0, 6);
    elements *= side;
  }
  const bool batched = input.Bool();
  FuzzInput cuts(data, std::min<size_t>(size, 8));
  const std::vector<uint8_t> content = input.Rest();
  Cut(cuts, content, given);
  TRITONBACKEND_Input handle{&given};

  Capture([&](Outcome& outcome) {
    const InputTensor tensor(&handle, {.batched = batched, .execution_context = {}});
    Require(tensor.name() == "encoded", "the name is '", tensor.name(), "'");
    if (given.data_type == TRITONSERVER_TYPE_BYTES) {
      CheckStrings(tensor, content, elements);
    } else {
      // Copies what the views cover: a view beyond the buffers is seen.
      const triton::InputItems items = tensor.Items();
      for (int64_t i = 0; i < tensor.item_count(); ++i) {
        const ConstTensorView view = items[i];
        outcome.Add(static_cast<const uint8_t*>(view.data), view.size_bytes());
      }
      Require(outcome.bytes() == content, "the items are not the content");
    }
    AddAll(tensor.Blobs(), outcome);
  });
  return 0;
}
