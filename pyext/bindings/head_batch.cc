#include "bindings/head_batch.h"

#include <utility>

#include "bindings/buffer_pool.h"
#include "bindings/gil.h"
#include "endcap/geometry.h"

namespace endcap::python {
namespace {

using GeometryRows = py::array_t<float, py::array::c_style>;

[[noreturn]] void FailRows() {
  throw Error(ErrorCode::kInvalidArgument, "head, geometry [B,8] and status [B] differ in B");
}

py::list ToByteLists(const std::vector<std::vector<std::string>>& rles) {
  py::list items;
  for (const std::vector<std::string>& rle : rles) {
    items.append(ToBytes(rle));
  }
  return items;
}

using ItemTuple = std::tuple<int32_t, std::string, bool, int32_t>;  // as of HeadBatch::Results

std::vector<ItemTuple> ToTuples(std::span<const PostprocessItem> items) {
  std::vector<ItemTuple> tuples;
  tuples.reserve(items.size());
  for (const PostprocessItem& item : items) {
    tuples.emplace_back(static_cast<int32_t>(item.status.code), item.status.message, item.truncated,
                        item.dropped);
  }
  return tuples;
}

}  // namespace

HeadBatch::HeadBatch(const std::vector<HeadPart>& parts, bool merges) {
  for (const HeadPart& part : parts) Add(part, merges);
}

void HeadBatch::Add(const HeadPart& part, bool merges) {
  const auto& [head, geometry, status, out, with_rle] = part;
  int64_t rows = head.empty() ? -1 : BatchTensor(head[0]).rows();
  if (rows < 0) FailRows();
  begin_ = inputs_.size();
  inputs_.resize(begin_ + static_cast<size_t>(rows));
  for (PostprocessInput& input : Inputs()) input.head.reserve(head.size());
  for (const py::object& tensor : head) AddHead(tensor);
  if (!geometry.is_none()) AddGeometry(geometry);
  if (status && status->size() != 0) AddStatus(*status);
  if (merges) {
    PostprocessInput image;
    image.tiles.assign(Inputs().begin(), Inputs().end());
    inputs_.resize(begin_);
    inputs_.push_back(std::move(image));
    rows = 1;
  }
  outputs_.resize(inputs_.size());
  for (PostprocessOutput& output : Outputs()) output.tensors.reserve(out.size());
  for (const py::object& tensor : out) AddOutput(tensor);
  Part& added = parts_.emplace_back(static_cast<size_t>(rows));
  if (!with_rle) return;
  added.rles.resize(added.count);
  for (size_t i = 0; i < added.count; ++i) Outputs()[i].rle = &added.rles[i];
}

void HeadBatch::RequireRows(int64_t rows) const {
  if (std::cmp_not_equal(rows, inputs_.size() - begin_)) FailRows();
}

void HeadBatch::AddHead(const py::object& tensor) {
  const BatchTensor batch(tensor);
  RequireRows(batch.rows());
  int64_t item = 0;
  for (PostprocessInput& input : Inputs()) input.head.push_back(batch.Item(item++));
  if (batch.cuda() != nullptr) targets_.push_back(batch.cuda()->target);
}

void HeadBatch::AddGeometry(const py::object& geometry) {
  const BatchTensor batch(geometry);
  if (batch.cuda() != nullptr) {
    RequireRows(batch.rows());
    int64_t item = 0;
    for (PostprocessInput& input : Inputs()) {
      const ConstTensorView view = batch.Item(item++);
      if (view.dtype != DType::kFloat32 || view.size() != Geometry::kSize) FailRows();
      input.geometry = static_cast<const float*>(view.data);
      input.geometry_device = Device::kCuda;
    }
    targets_.push_back(batch.cuda()->target);
    return;
  }
  if (!py::isinstance<GeometryRows>(geometry)) {
    throw py::type_error("geometry is not a C-contiguous float32 array");
  }
  const auto rows = py::reinterpret_borrow<GeometryRows>(geometry);
  if (rows.size() == 0) return;
  if (std::cmp_not_equal(rows.size(), (inputs_.size() - begin_) * Geometry::kSize)) FailRows();
  const float* row = rows.data();
  for (PostprocessInput& input : Inputs()) {
    input.geometry = row;
    row += Geometry::kSize;
  }
}

void HeadBatch::AddStatus(const StatusRows& status) {
  RequireRows(status.size());
  const int32_t* row = status.data();
  for (PostprocessInput& input : Inputs()) input.status = *row++;
}

void HeadBatch::AddOutput(const py::object& out) {
  if (out.is_none()) {
    for (PostprocessOutput& output : Outputs()) output.tensors.emplace_back();
    return;
  }
  BatchTensor batch(out);
  RequireRows(batch.rows());
  int64_t item = 0;
  for (PostprocessOutput& output : Outputs()) output.tensors.push_back(batch.MutableItem(item++));
  if (batch.cuda() != nullptr) targets_.push_back(batch.cuda()->target);
}

py::list HeadBatch::AllocateMaps(const PostprocessParams& params) {
  py::list maps;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool failed = inputs_[i].status != 0;
    const MaskSize size = failed ? MaskSize{} : GetClassMapSize(params, inputs_[i]);
    py::array map = PooledArray(py::dtype::of<uint8_t>(), {1, size.height, size.width});
    if (!failed) outputs_[i].tensors[0] = BatchTensor(map).MutableItem(0);
    maps.append(map[py::int_(0)]);
  }
  return maps;
}

std::vector<CudaTarget> HeadBatch::GetTargets(const Postprocessor& postprocessor) const {
  return postprocessor.device().type == Device::kCpu ? std::vector<CudaTarget>{} : targets_;
}

std::vector<PostprocessItem> HeadBatch::Run(Postprocessor& postprocessor,
                                            StreamHandle stream) const {
  return RunInterruptibly([&] {
    const StreamOrder order(GetTargets(postprocessor),
                            {postprocessor.device().id, ToStream(stream)});
    return postprocessor.Run(inputs_, outputs_, ToStream(stream));
  });
}

void HeadBatch::Enqueue(Postprocessor& postprocessor, StreamHandle stream) const {
  const ReleasedGil released;
  const StreamOrder order(GetTargets(postprocessor), {postprocessor.device().id, ToStream(stream)});
  postprocessor.Enqueue(inputs_, outputs_, ToStream(stream));
}

std::vector<py::list> HeadBatch::RunLengths() const {
  std::vector<py::list> lists;
  lists.reserve(parts_.size());
  for (const Part& part : parts_) lists.push_back(ToByteLists(part.rles));
  return lists;
}

py::list HeadBatch::Results(const std::vector<PostprocessItem>& items) const {
  py::list results;
  std::span<const PostprocessItem> rest(items);
  for (const Part& part : parts_) {
    results.append(py::make_tuple(ToTuples(rest.first(part.count)), ToByteLists(part.rles)));
    rest = rest.subspan(part.count);
  }
  return results;
}

}  // namespace endcap::python
