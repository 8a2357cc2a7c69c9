#include "bls/inner_tensors.h"

#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "triton_util/data_type.h"

namespace endcap::triton {
namespace {

constexpr size_t kLengthPrefixBytes = 4;  // before each element of a BYTES tensor

std::string Quoted(std::string_view name) { return "output '" + std::string(name) + "'"; }

std::string Text(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

int64_t ElementCount(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// The shape of one item.
std::vector<int64_t> ItemShape(const InnerCall& call, std::string_view name,
                               const InnerOutput& output, const ItemCount& items) {
  std::vector<int64_t> shape = output.shape;
  if (!items.batched) return shape;
  if (shape.empty() || std::cmp_not_equal(shape.front(), items.count)) {
    call.Refuse("gave " + Quoted(name) + " of shape " + Text(shape) + " for " +
                std::to_string(items.count) + " items");
  }
  shape.erase(shape.begin());
  return shape;
}

}  // namespace

std::vector<ItemTensor> ItemsOf(const InnerCall& call, std::string_view name,
                                const ItemCount& items) {
  const InnerOutput& output = call.Output(name);
  const std::vector<int64_t> shape = ItemShape(call, name, output, items);
  const size_t bytes = output.memory.bytes / items.count;
  std::vector<ItemTensor> tensors;
  tensors.reserve(items.count);
  for (size_t i = 0; i < items.count; ++i) {
    tensors.push_back({shape, {output.memory.data + i * bytes, bytes, output.memory.place}});
  }
  return tensors;
}

std::vector<ItemTensor> ItemsOf(const InnerCall& call, std::string_view name, DType dtype,
                                const ItemCount& items) {
  const InnerOutput& output = call.Output(name);
  if (output.data_type != ToTriton(dtype)) {
    call.Refuse("gave " + Quoted(name) + " of another type than " + ConfigName(dtype));
  }
  const auto elements = static_cast<size_t>(ElementCount(output.shape));
  if (output.memory.place.on_gpu() || output.memory.bytes != elements * SizeOf(dtype)) {
    call.Refuse("gave " + Quoted(name) + " with " + std::to_string(output.memory.bytes) +
                " bytes in host memory where its shape asks for " +
                std::to_string(elements * SizeOf(dtype)));
  }
  return ItemsOf(call, name, items);
}

std::vector<std::string> FirstStrings(const InnerCall& call, std::string_view name,
                                      const ItemCount& items) {
  const InnerOutput& output = call.Output(name);
  const auto of_item = static_cast<size_t>(ElementCount(ItemShape(call, name, output, items)));
  std::vector<std::string> strings;
  const std::byte* at = output.memory.data;
  size_t left = output.memory.place.on_gpu() ? 0 : output.memory.bytes;
  for (size_t element = 0; element < of_item * items.count; ++element) {
    uint32_t length = 0;
    if (left < kLengthPrefixBytes) call.Refuse("gave " + Quoted(name) + " with too few elements");
    std::memcpy(&length, at, kLengthPrefixBytes);  // little-endian, as this machine
    at += kLengthPrefixBytes;
    left -= kLengthPrefixBytes;
    if (length > left) call.Refuse("gave " + Quoted(name) + " with a length past its end");
    if (element % of_item == 0) strings.emplace_back(reinterpret_cast<const char*>(at), length);
    at += length;
    left -= length;
  }
  if (strings.size() != items.count) call.Refuse("gave " + Quoted(name) + " without elements");
  return strings;
}

}  // namespace endcap::triton
