#include "bindings/part_results.h"

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

std::vector<ItemTuple> ItemTuples(std::span<const PostprocessItem> items) {
  std::vector<ItemTuple> tuples;
  tuples.reserve(items.size());
  for (const PostprocessItem& item : items) {
    tuples.emplace_back(static_cast<int32_t>(item.status.code), item.status.message,
                        item.truncated);
  }
  return tuples;
}

}  // namespace

void PartResults::Add(std::span<PostprocessOutput> outputs, bool with_rle) {
  Part& part = parts_.emplace_back(outputs.size());
  if (!with_rle) return;
  part.rles.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].rle = &part.rles[i];
}

py::list PartResults::Results(const std::vector<PostprocessItem>& items) const {
  py::list results;
  std::span<const PostprocessItem> rest(items);
  for (const Part& part : parts_) {
    results.append(py::make_tuple(ItemTuples(rest.first(part.count)), ToBytes(part.rles)));
    rest = rest.subspan(part.count);
  }
  return results;
}

std::vector<py::list> PartResults::RunLengths() const {
  std::vector<py::list> lists;
  lists.reserve(parts_.size());
  for (const Part& part : parts_) lists.push_back(ToBytes(part.rles));
  return lists;
}

}  // namespace endcap::python
