#pragma once

#include <memory>

#include "endcap/decode.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "endcap/row_band.h"
#include "preprocess/placement.h"
#include "preprocess/row_writer.h"

namespace endcap {

// A sink that makes the rows of a tensor.
class Resizer : public BandSink {
 public:
  // Whether every row of the visible window was written.
  virtual bool Complete() const = 0;
};

// The channels that a resizer of that path wants its rows to have: vector code takes pixels of four
// bytes.
int RowChannels(Path path, const PreprocessParams& params);

// Whether a file that EXIF turns is resized as its rows arrive. Else it is decoded whole and turned
// first, which is the definition.
bool StreamsTurned(Path path, const PreprocessParams& params);

// walk: how the rows that will come lie in the upright image. All arguments but it must outlive the
// resizer.
std::unique_ptr<Resizer> MakeResizer(Path path, const PreprocessParams& params,
                                     const Placement& placement, const Walk& walk,
                                     RowWriter& writer);

}  // namespace endcap
