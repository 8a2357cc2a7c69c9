#pragma once

#include <memory>

#include "common/row_band.h"
#include "endcap/decode.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "preprocess/placement.h"
#include "preprocess/tensor/row_writer.h"

namespace endcap {

// A sink that makes the rows of a tensor.
class Resizer : public BandSink {
 public:
  // Whether every row of the visible window was written.
  virtual bool Complete() const = 0;
};

// The channels that a resizer of that implementation takes: vector code takes
// pixels of four bytes.
int RowChannels(Implementation implementation, const PreprocessParams& params);

// Whether a file with an EXIF orientation other than 1 is resized as its rows arrive. Else it is
// decoded whole and oriented first, which is the definition.
bool StreamsOriented(Implementation implementation, const PreprocessParams& params);

// transform: how the rows that will come lie in the oriented image. All arguments but it must
// outlive the resizer.
std::unique_ptr<Resizer> MakeResizer(Implementation implementation, const PreprocessParams& params,
                                     const Placement& placement,
                                     const OrientationTransform& transform, RowWriter& writer);

}  // namespace endcap
