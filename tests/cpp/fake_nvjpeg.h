#pragma once

#include <cstddef>
#include <functional>

// Stands in for nvJPEG where there is no GPU: the functions that endcap uses, over endcap's own
// decoder, in a library that is opened as the real one is. It keeps the real one's rules about who
// may use what until when, and ends in an error status where they are broken.
namespace endcap::testing {

struct FakeNvjpeg {
  // What the library does.
  bool refuses = false;  // no handle is given out
  bool has_engine = true;
  int refused_width = 0;       // files of this width are not supported
  bool fails_batches = false;  // the engine refuses every batch

  // What it did.
  int objects = 0;          // alive
  int objects_created = 0;  // ever
  int batches = 0;          // that the engine decoded
  int images = 0;           // that the kernels decoded
  int broken_rules = 0;     // memory was used that earlier work on a stream still reads

  // Puts work on a stream; runs work on the device now; writes to the device within such work.
  std::function<void(void* stream, std::function<void()>)> enqueue;
  std::function<void(std::function<void()>)> run_now;
  std::function<void(void* to, const void* from, size_t bytes)> write;
};

inline constexpr char kFakeNvjpegSymbol[] = "FakeNvjpegState";
using FakeNvjpegFunction = FakeNvjpeg* (*)();

}  // namespace endcap::testing
