#pragma once

#include <cstdint>

namespace endcap {

// Streams (cudaStream_t) and events (cudaEvent_t) of the thread's device. All throw kCuda; what
// waits also for errors of earlier work.

void* CreateStream();  // does not wait for the legacy default stream, nor that for it
void DestroyStream(void* stream);
// Throws kUnsupported for a stream that captures a graph: its work is not done.
void WaitForStream(void* stream);
// Throws for errors of earlier work, as far as they are known; does not wait.
void CheckStream(void* stream);
// The capture that takes what is enqueued on the stream into a graph; 0: none, it is done.
// kUnusableByCapture where nothing can be enqueued: the capture has been invalidated and not ended,
// or, on the legacy default stream, a stream that synchronizes with it captures.
uint64_t CaptureId(void* stream);

void* CreateEvent();  // without a time; who waits for it sleeps
void DestroyEvent(void* event);
void RecordEvent(void* event, void* stream);
void WaitForEvent(void* event);
void OrderAfterEvent(void* stream, void* event);

}  // namespace endcap
