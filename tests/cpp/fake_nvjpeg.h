#pragma once

#include <cstddef>
#include <functional>

// Stands in for nvJPEG where there is no GPU: the functions that endcap uses, over endcap's own
// decoder, in a library that is opened as the real one is. It keeps the real one's rules about who
// may use what until when: it counts those that are broken, and aborts where two threads use one
// bitstream object at a time.
namespace endcap::testing {

struct FakeNvjpeg {
  // What the library does.
  bool has_engine = true;
  int refused_width = 0;  // the engine does not support files of this width
  // Files of this width pass for supported, and a batch that holds one is refused. The engine has
  // begun with the images before it by then: it writes to their planes when the state is destroyed,
  // or else after the next batch of the same state.
  int failing_width = 0;
  std::function<void()> on_parse;

  // What it did.
  int objects = 0;          // alive
  int objects_created = 0;  // ever
  int batches = 0;          // that the engine decoded
  int refused_batches = 0;
  int broken_rules = 0;  // memory was used that earlier work on a stream still reads

  // Puts work on a stream; runs work on the device now; writes to the device within such work.
  std::function<void(void* stream, std::function<void()>)> enqueue;
  std::function<void(std::function<void()>)> run_now;
  std::function<void(void* to, const void* from, size_t bytes)> write;
};

inline constexpr char kFakeNvjpegSymbol[] = "FakeNvjpegState";
using FakeNvjpegFunction = FakeNvjpeg* (*)();

}  // namespace endcap::testing
