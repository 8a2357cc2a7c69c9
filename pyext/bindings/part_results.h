#pragma once

#include <deque>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/convert.h"
#include "endcap/postprocess.h"

namespace endcap::python {

// (status, message, truncated) of every item.
using ItemTuple = std::tuple<int32_t, std::string, bool>;

// What comes back of the items of several callers: memory for their run lengths, and all of it as
// Python's objects.
class PartResults {
 public:
  // The items of the next caller. Gives them memory for run lengths, where they are wanted.
  void Add(std::span<PostprocessOutput> outputs, bool with_rle);

  // What became of every part: (status, message, truncated) of each of its items, and their run
  // lengths, none where they were not wanted.
  py::list Results(const std::vector<PostprocessItem>& items) const;

  // For every part and each of its items, as bytes; none where they were not wanted.
  std::vector<py::list> RunLengths() const;

 private:
  struct Part {
    size_t count;
    std::vector<std::vector<std::string>> rles;  // one for each item, or none
  };

  std::deque<Part> parts_;
};

}  // namespace endcap::python
