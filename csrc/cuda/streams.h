#pragma once

#include <cstdint>

namespace endcap {

// Streams (cudaStream_t) and events (cudaEvent_t) of the thread's device. All throw kCuda;
// functions that wait throw it for errors of earlier work, too.

void* CreateStream();  // not synchronised with the legacy default stream
void DestroyStream(void* stream);
// Throws kUnsupported for a stream that captures a graph: its work is not done.
void WaitForStream(void* stream);
// Throws kCuda for errors of earlier work that have been reported so far; does not wait.
void CheckStream(void* stream);
// The id of the graph capture that the stream takes part in; 0: none. kUnusableByCapture if nothing
// can be enqueued: the capture is invalidated and not ended, or, on the legacy default stream, a
// stream that synchronises with it captures.
uint64_t CaptureId(void* stream);

void* CreateEvent();  // without timing; a host thread that waits for it sleeps
void DestroyEvent(void* event);
void RecordEvent(void* event, void* stream);
void WaitForEvent(void* event);
void OrderAfterEvent(void* stream, void* event);

}  // namespace endcap
