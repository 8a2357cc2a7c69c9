#pragma once

namespace endcap {

// Streams (cudaStream_t) and events (cudaEvent_t) of the thread's device. All throw kCuda; what
// waits also for errors of earlier work.

void* CreateStream();  // does not wait for the legacy default stream, nor that for it
void DestroyStream(void* stream);
void WaitForStream(void* stream);
// Whether what is enqueued becomes part of a graph instead of being done.
bool IsCapturing(void* stream);

void* CreateEvent();  // without a time; who waits for it sleeps
void DestroyEvent(void* event);
void RecordEvent(void* event, void* stream);
void WaitForEvent(void* event);
void OrderAfterEvent(void* stream, void* event);

}  // namespace endcap
