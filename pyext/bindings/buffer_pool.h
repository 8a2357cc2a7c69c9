#pragma once

#include <pybind11/numpy.h>

#include <vector>

namespace endcap::python {

// An uninitialised C-contiguous array. Its memory goes back to a pool of this process when NumPy
// lets go of it, and the next array of the same size takes it: memory that is fresh from the system
// costs a page fault for every 4 KiB, which is as much as the work of a small image. The pool keeps
// at most kPoolBuffers buffers and kPoolBytes. Thread-safe. Throws std::bad_alloc.
inline constexpr size_t kPoolBuffers = 4;
inline constexpr size_t kPoolBytes = size_t{256} << 20;

pybind11::array PooledArray(const pybind11::dtype& dtype,
                            const std::vector<pybind11::ssize_t>& shape);

}  // namespace endcap::python
