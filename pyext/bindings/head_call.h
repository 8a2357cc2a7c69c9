#pragma once

#include <optional>
#include <vector>

#include "bindings/convert.h"
#include "bindings/head_batch.h"
#include "endcap/postprocess.h"

namespace endcap::python {

// One caller's heads to new arrays. head: the tensors of HeadInputs, each [B, ...]; geometry [B,8]
// or None; status [B] or None; with_packed_masks: whether detection_masks is wanted, where there is
// such an output.
//
// Returns (the tensors of PostprocessOutputs in their order, each [B, ...], num_detections and
// status [B], None where not wanted; truncated, bool [B]; for each image the run lengths of its
// masks, none where the head has none).
//
// It is one call since Python's part of many small ones would take longer than the work on a usual
// head. Throws what the first bad item came to; kOutOfMemory where results find no room.
py::tuple CallHead(Postprocessor& postprocessor, std::vector<py::array> head,
                   std::optional<Dense> geometry, std::optional<StatusRows> status,
                   bool with_packed_masks);

}  // namespace endcap::python
