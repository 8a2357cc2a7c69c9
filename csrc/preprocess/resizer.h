#pragma once

#include "endcap/row_band.h"

namespace endcap {

// A sink that makes the rows of a tensor.
class Resizer : public BandSink {
 public:
  // Whether every row of the visible window was written.
  virtual bool Complete() const = 0;
};

}  // namespace endcap
