#pragma once

#include <cstdint>

// Constants of the CUDA kernels that trade registers, shared memory and the number of blocks
// against each other. They change how fast a kernel is, never its results. A build chooses other
// values by -DENDCAP_TUNE_NAME=VALUE in CMAKE_CUDA_FLAGS and CMAKE_CXX_FLAGS. The second word of a
// name is the folder of the stage that uses the constant; no other stage does. What the host needs
// of them goes through the table of functions, see FusedTuning, so that the core works with a
// library of any values.

// Threads of the largest block of FusedKernel, each with four columns of the tensor. Warps: 64 to
// 1024, a multiple of 32.
#ifndef ENDCAP_TUNE_PREPROCESS_MAX_THREADS
#define ENDCAP_TUNE_PREPROCESS_MAX_THREADS 256
#endif
// Threads of such blocks that share a multiprocessor at least, where rows are copied and the
// arithmetic is kOpencv8: registers are limited for that, to 64 a thread by 1024. 64 to 2048.
#ifndef ENDCAP_TUNE_PREPROCESS_COPIED_RESIDENT
#define ENDCAP_TUNE_PREPROCESS_COPIED_RESIDENT 1024
#endif
// The same where rows are staged as pixels, or copied and the arithmetic is another: 80 registers
// by 768. 64 to 2048.
#ifndef ENDCAP_TUNE_PREPROCESS_STAGED_RESIDENT
#define ENDCAP_TUNE_PREPROCESS_STAGED_RESIDENT 768
#endif
// Rows of the source that are read between two barriers: more of them wait less often, but leave
// less shared memory for other blocks. 1 to 8.
#ifndef ENDCAP_TUNE_PREPROCESS_MAX_STAGED_ROWS
#define ENDCAP_TUNE_PREPROCESS_MAX_STAGED_ROWS 2
#endif
// Bytes of shared memory for these rows. Every GPU gives a block 48 KiB without being asked for
// more. 4096 to 49152.
#ifndef ENDCAP_TUNE_PREPROCESS_MAX_STAGED_BYTES
#define ENDCAP_TUNE_PREPROCESS_MAX_STAGED_BYTES 49152
#endif
// Rows of the tensor that a block makes where rows are copied. What it computes once serves all of
// them; more of them leave too few blocks to share among multiprocessors evenly. 1 to 64.
#ifndef ENDCAP_TUNE_PREPROCESS_MAX_BLOCK_ROWS
#define ENDCAP_TUNE_PREPROCESS_MAX_BLOCK_ROWS 4
#endif
// Blocks that keep a large GPU busy, a dozen for each multiprocessor: blocks make several rows only
// where there are as many. 1 to 1000000.
#ifndef ENDCAP_TUNE_PREPROCESS_MANY_BLOCKS
#define ENDCAP_TUNE_PREPROCESS_MANY_BLOCKS 1600
#endif

// Warps of a block that reads a tile of a yolov8 head. 8 to 16: each anchor of the tile has a
// thread, and shared memory holds the best score of each anchor and warp.
#ifndef ENDCAP_TUNE_BOX_DECODE_TILE_WARPS
#define ENDCAP_TUNE_BOX_DECODE_TILE_WARPS 8
#endif
// Such blocks that share a multiprocessor at least; registers are limited for that, to 64 a thread
// by 4 blocks of 8 warps. 1 to 8.
#ifndef ENDCAP_TUNE_BOX_DECODE_TILE_BLOCKS
#define ENDCAP_TUNE_BOX_DECODE_TILE_BLOCKS 4
#endif
// Rows that a warp of FilterYolov8 reads at once, so that it waits for memory a few times and not
// for each: two batches of 8 warps are the 80 classes of COCO. 1 to 16.
#ifndef ENDCAP_TUNE_BOX_DECODE_BATCH_ROWS
#define ENDCAP_TUNE_BOX_DECODE_BATCH_ROWS 5
#endif

namespace endcap {

inline constexpr int kFusedMaxThreads = ENDCAP_TUNE_PREPROCESS_MAX_THREADS;
inline constexpr int kFusedCopiedResident = ENDCAP_TUNE_PREPROCESS_COPIED_RESIDENT;
inline constexpr int kFusedStagedResident = ENDCAP_TUNE_PREPROCESS_STAGED_RESIDENT;
inline constexpr int kFusedMaxStagedRows = ENDCAP_TUNE_PREPROCESS_MAX_STAGED_ROWS;
inline constexpr int kFusedMaxStagedBytes = ENDCAP_TUNE_PREPROCESS_MAX_STAGED_BYTES;
inline constexpr int kFusedMaxBlockRows = ENDCAP_TUNE_PREPROCESS_MAX_BLOCK_ROWS;
inline constexpr int kFusedManyBlocks = ENDCAP_TUNE_PREPROCESS_MANY_BLOCKS;
inline constexpr uint32_t kTileWarps = ENDCAP_TUNE_BOX_DECODE_TILE_WARPS;
inline constexpr int kTileBlocks = ENDCAP_TUNE_BOX_DECODE_TILE_BLOCKS;
inline constexpr uint32_t kBatchRows = ENDCAP_TUNE_BOX_DECODE_BATCH_ROWS;

static_assert(kFusedMaxThreads >= 64 && kFusedMaxThreads <= 1024 && kFusedMaxThreads % 32 == 0);
static_assert(kFusedCopiedResident >= 64 && kFusedCopiedResident <= 2048);
static_assert(kFusedStagedResident >= 64 && kFusedStagedResident <= 2048);
static_assert(kFusedMaxStagedRows >= 1 && kFusedMaxStagedRows <= 8);
static_assert(kFusedMaxStagedBytes >= 4096 && kFusedMaxStagedBytes <= 48 << 10);
static_assert(kFusedMaxBlockRows >= 1 && kFusedMaxBlockRows <= 64);
static_assert(kFusedManyBlocks >= 1 && kFusedManyBlocks <= 1000000);
static_assert(kTileWarps >= 8 && kTileWarps <= 16);
static_assert(kTileBlocks >= 1 && kTileBlocks <= 8 && 32 * kTileWarps * kTileBlocks <= 2048);
static_assert(kBatchRows >= 1 && kBatchRows <= 16);

}  // namespace endcap
