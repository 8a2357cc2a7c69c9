#pragma once

#include <cuda_runtime.h>

#include "box_decode/cuda/head_batch.h"

namespace endcap {

// Reads every head of the batch once: the candidates' keys, in no order, and what is wrong with the
// values go into batch.keys and batch.states (zeroed here). Classification also writes
// class_probabilities. Enqueued on `stream`; the launch depends on shapes and rule alone. Throws
// kCuda.
void LaunchFilter(const HeadBatch& batch, cudaStream_t stream);

// Copies host_limits [num_classes] to batch.rule.class_limits, as arguments of kernels, so that it
// can be captured into a graph. Enqueued on `stream`. Throws kCuda.
void LaunchStoreClassLimits(const HeadBatch& batch, const float* host_limits, cudaStream_t stream);

// Its parts, one for each layout; the states are zeroed by LaunchFilter.
void LaunchFilterYolov8(const HeadBatch& batch, cudaStream_t stream);
void LaunchFilterYolov5(const HeadBatch& batch, cudaStream_t stream);
void LaunchFilterScoreRows(const HeadBatch& batch, cudaStream_t stream);  // rtdetr and ssd
void LaunchFilterEnd2End(const HeadBatch& batch, cudaStream_t stream);
void LaunchFilterDetectionRows(const HeadBatch& batch, cudaStream_t stream);
void LaunchFilterClassification(const HeadBatch& batch, cudaStream_t stream);

}  // namespace endcap
