#include "bls/item_tensors.h"

#include <algorithm>
#include <string>
#include <utility>

#include "triton_util/tensors.h"

namespace endcap::bls {

std::vector<SelectedRow> SelectRows(std::span<const float> scores,
                                    std::span<const int32_t> class_ids, double threshold,
                                    const Routes& routes) {
  std::vector<SelectedRow> selected;
  for (size_t row = 0; row < scores.size(); ++row) {
    if (!(static_cast<double>(scores[row]) > threshold)) continue;
    const std::optional<Route> route = routes.Find(class_ids[row]);
    if (route.has_value()) selected.push_back({row, *route});
  }
  return selected;
}

std::vector<Range> SplitIntoRanges(size_t count, size_t limit) {
  std::vector<Range> ranges;
  for (size_t first = 0; first < count; first += limit) {
    ranges.push_back({first, std::min(limit, count - first)});
  }
  return ranges;
}

std::vector<Range> SplitByOwner(const Range& range, std::span<const size_t> owners) {
  std::vector<Range> parts;
  for (size_t item = range.first; item < range.first + range.count; ++item) {
    if (parts.empty() || owners[item] != owners[item - 1]) parts.push_back({item, 0});
    ++parts.back().count;
  }
  return parts;
}

}  // namespace endcap::bls

namespace endcap::triton {
namespace {

std::string Quoted(std::string_view name) { return "output '" + std::string(name) + "'"; }

std::string Text(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

// Throws ComposingModelError for a shape that no tensor can have.
size_t ElementCount(const ComposingCall& call, std::string_view name,
                    std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      call.RejectResponse("gave " + Quoted(name) + " of the impossible shape " + Text(shape));
    }
  }
  return static_cast<size_t>(count);
}

// Returns the shape of one item.
std::vector<int64_t> ItemShape(const ComposingCall& call, std::string_view name,
                               const ComposingOutput& output, const ItemCount& items) {
  std::vector<int64_t> shape = output.shape;
  if (!items.batched) return shape;
  if (shape.empty() || std::cmp_not_equal(shape.front(), items.count)) {
    call.RejectResponse("gave " + Quoted(name) + " of shape " + Text(shape) + " for " +
                        std::to_string(items.count) + " items");
  }
  shape.erase(shape.begin());
  return shape;
}

}  // namespace

std::vector<ItemTensor> SplitItems(const ComposingCall& call, std::string_view name,
                                   const ItemCount& items) {
  const ComposingOutput& output = call.Output(name);
  const std::vector<int64_t> shape = ItemShape(call, name, output, items);
  if (output.data_type == TRITONSERVER_TYPE_BYTES || output.memory.bytes % items.count != 0) {
    call.RejectResponse("gave " + Quoted(name) + " with " + std::to_string(output.memory.bytes) +
                        " bytes that are not " + std::to_string(items.count) +
                        " items of one size");
  }
  const size_t bytes = output.memory.bytes / items.count;
  std::vector<ItemTensor> tensors;
  tensors.reserve(items.count);
  for (size_t i = 0; i < items.count; ++i) {
    tensors.push_back({shape, {output.memory.data + i * bytes, bytes, output.memory.place}});
  }
  return tensors;
}

std::vector<ItemTensor> SplitItems(const ComposingCall& call, std::string_view name, DType dtype,
                                   const ItemCount& items) {
  const ComposingOutput& output = call.Output(name);
  if (output.data_type != ToTriton(dtype)) {
    call.RejectResponse("gave " + Quoted(name) + " of another type than " + ConfigName(dtype));
  }
  const size_t elements = ElementCount(call, name, output.shape);
  const size_t size = GetElementSize(dtype);
  if (output.memory.place.on_gpu() || output.memory.bytes / size != elements ||
      output.memory.bytes % size != 0) {
    call.RejectResponse("gave " + Quoted(name) + " with " + std::to_string(output.memory.bytes) +
                        " bytes where " + std::to_string(elements) + " elements of " +
                        std::to_string(size) + " bytes in host memory were expected");
  }
  return SplitItems(call, name, items);
}

std::vector<std::string> FirstStrings(const ComposingCall& call, std::string_view name,
                                      const ItemCount& items) {
  const ComposingOutput& output = call.Output(name);
  if (output.data_type != TRITONSERVER_TYPE_BYTES) {
    call.RejectResponse("gave " + Quoted(name) + " of another type than " +
                        std::string(kConfigString));
  }
  static_cast<void>(ItemShape(call, name, output, items));
  const size_t elements = ElementCount(call, name, output.shape);
  const size_t per_item = elements / items.count;
  std::vector<std::string> strings;
  Bytes rest(output.memory.data, output.memory.place.on_gpu() ? 0 : output.memory.bytes);
  for (size_t element = 0; element < elements; ++element) {
    if (rest.size() < kStringLengthBytes) {
      call.RejectResponse("gave " + Quoted(name) + " with too few elements");
    }
    const size_t length = ReadStringLength(rest);
    rest = rest.subspan(kStringLengthBytes);
    if (length > rest.size()) {
      call.RejectResponse("gave " + Quoted(name) + " with a length past its end");
    }
    if (element % per_item == 0) {
      strings.emplace_back(reinterpret_cast<const char*>(rest.data()), length);
    }
    rest = rest.subspan(length);
  }
  if (strings.size() != items.count)
    call.RejectResponse("gave " + Quoted(name) + " without elements");
  return strings;
}

}  // namespace endcap::triton
