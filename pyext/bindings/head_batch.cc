#include "bindings/head_batch.h"

#include <algorithm>

#include "bindings/cuda_batch.h"
#include "endcap/geometry.h"

namespace endcap::python {
namespace {

py::list ToBytes(const std::vector<std::vector<std::string>>& rles) {
  py::list items;
  for (const std::vector<std::string>& rle : rles) {
    py::list strings;
    for (const std::string& string : rle) strings.append(py::bytes(string));
    items.append(strings);
  }
  return items;
}

}  // namespace

HeadBatch::HeadBatch(std::vector<HeadPart>& parts) : parts_(parts.size()) {
  for (size_t i = 0; i < parts.size(); ++i) Add(parts[i], parts_[i]);
}

void HeadBatch::Add(HeadPart& part, Rows& rows) {
  auto& [head, geometry, status, out, with_rle] = part;
  const py::ssize_t count = head.empty() || head[0].ndim() < 1 ? -1 : head[0].shape(0);
  const auto has_rows = [count](const py::array& array) {
    return array.ndim() >= 1 && array.shape(0) == count;
  };
  const auto is_absent_or_has_rows = [&](const std::optional<py::array>& array) {
    return !array || has_rows(*array);
  };
  const bool has_geometry = geometry && geometry->size() != 0;
  const bool has_status = status && status->size() != 0;
  if (!std::all_of(head.begin(), head.end(), has_rows) ||
      !std::all_of(out.begin(), out.end(), is_absent_or_has_rows) ||
      (has_geometry && geometry->size() != count * Geometry::kSize) ||
      (has_status && status->size() != count)) {
    FailRows();
  }
  rows.count = static_cast<size_t>(count);
  rows.rles.resize(with_rle ? rows.count : 0);
  for (py::ssize_t i = 0; i < count; ++i) {
    PostprocessInput& input = inputs_.emplace_back();
    PostprocessOutput& output = outputs_.emplace_back();
    if (with_rle) output.rle = &rows.rles[static_cast<size_t>(i)];
    for (const py::array& tensor : head) input.head.push_back(ItemView(tensor, i));
    if (has_geometry) input.geometry = geometry->data() + i * Geometry::kSize;
    if (has_status) input.status = status->data()[i];
    for (std::optional<py::array>& tensor : out) {
      output.tensors.push_back(tensor ? MutableItemView(*tensor, i) : TensorView{});
    }
  }
}

py::list HeadBatch::Results(const std::vector<PostprocessItem>& items) const {
  py::list results;
  std::span<const PostprocessItem> rest(items);
  const std::vector<py::list> rles = RunLengths();
  for (size_t i = 0; i < parts_.size(); ++i) {
    const size_t count = parts_[i].count;
    results.append(py::make_tuple(ItemTuples(rest.first(count)), rles[i]));
    rest = rest.subspan(count);
  }
  return results;
}

std::vector<py::list> HeadBatch::RunLengths() const {
  std::vector<py::list> lists;
  lists.reserve(parts_.size());
  for (const Rows& rows : parts_) lists.push_back(ToBytes(rows.rles));
  return lists;
}

std::vector<ItemTuple> ItemTuples(std::span<const PostprocessItem> items) {
  std::vector<ItemTuple> tuples;
  tuples.reserve(items.size());
  for (const PostprocessItem& item : items) {
    tuples.emplace_back(static_cast<int32_t>(item.status.code), item.status.message,
                        item.truncated);
  }
  return tuples;
}

}  // namespace endcap::python
