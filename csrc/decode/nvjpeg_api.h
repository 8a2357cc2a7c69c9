#pragma once

#include <cstddef>

struct CUstream_st;
struct CUevent_st;

// nvJPEG's interface as far as endcap uses it, declared here because the library is opened at run
// time and its header belongs to NVIDIA's packages. Names, values and layouts are facts of nvJPEG
// 12 and 13 (nvjpeg.h): functions are called `nvjpeg` and the member's name.

namespace endcap::nvjpeg {

enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidParameter = 2,
  kBadJpeg = 3,
  kJpegNotSupported = 4,
  kAllocatorFailure = 5,
  kExecutionFailed = 6,
  kArchMismatch = 7,
  kInternalError = 8,
  kImplementationNotSupported = 9,
  kIncompleteBitstream = 10,
};

enum OutputFormat : int { kOutputYuv = 1, kOutputY = 2 };

enum Backend : int {
  kBackendDefault = 0,
  kBackendHybrid = 1,     // Huffman decoding on the CPU, the rest on the GPU
  kBackendGpuHybrid = 2,  // Huffman decoding on the GPU as well; baseline files
  kBackendHardware = 3,   // the JPEG engine of data center GPUs since A100; baseline, one scan
};

inline constexpr int kMaxComponents = 4;

struct Image {
  unsigned char* channel[kMaxComponents];
  size_t pitch[kMaxComponents];
};

// Opaque objects. A library handle and a decoder may be used by several threads at a time; a
// stream, a state and the buffers belong to one thread at a time (nvJPEG's guide, thread safety).
using Handle = struct HandleTag*;
using JpegState = struct JpegStateTag*;
using JpegStream = struct JpegStreamTag*;
using DecodeParams = struct DecodeParamsTag*;
using Decoder = struct DecoderTag*;
using PinnedBuffer = struct PinnedBufferTag*;
using DeviceBuffer = struct DeviceBufferTag*;
using CudaStream = CUstream_st*;

struct Api {
  Status (*GetProperty)(int property, int* value);  // 0: major, 1: minor, 2: patch
  // Allocators: null for CUDA's own.
  Status (*CreateEx)(Backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                     Handle*);
  Status (*Destroy)(Handle);

  Status (*JpegStreamCreate)(Handle, JpegStream*);
  Status (*JpegStreamDestroy)(JpegStream);
  Status (*JpegStreamParseHeader)(Handle, const unsigned char* bytes, size_t size, JpegStream);
  Status (*JpegStreamParse)(Handle, const unsigned char* bytes, size_t size, int save_metadata,
                            int save_stream, JpegStream);
  Status (*JpegStreamGetComponentsNum)(JpegStream, unsigned* count);
  Status (*JpegStreamGetComponentDimensions)(JpegStream, unsigned component, unsigned* width,
                                             unsigned* height);

  Status (*DecodeParamsCreate)(Handle, DecodeParams*);
  Status (*DecodeParamsDestroy)(DecodeParams);
  Status (*DecodeParamsSetOutputFormat)(DecodeParams, OutputFormat);

  // A batch on the handle's backend; `supported` is 0 where it is.
  Status (*JpegStateCreate)(Handle, JpegState*);
  Status (*JpegStateDestroy)(JpegState);
  Status (*DecodeBatchedSupportedEx)(Handle, JpegStream, DecodeParams, int* supported);
  Status (*DecodeBatchedInitialize)(Handle, JpegState, int batch_size, int max_cpu_threads,
                                    OutputFormat);
  Status (*DecodeBatched)(Handle, JpegState, const unsigned char* const* bytes, const size_t* sizes,
                          Image* destinations, CudaStream);

  // One image in steps; `supported` is 0 where it is.
  Status (*DecoderCreate)(Handle, Backend, Decoder*);
  Status (*DecoderDestroy)(Decoder);
  Status (*DecoderJpegSupported)(Decoder, JpegStream, DecodeParams, int* supported);
  Status (*DecoderStateCreate)(Handle, Decoder, JpegState*);
  Status (*BufferPinnedCreate)(Handle, void* allocator, PinnedBuffer*);
  Status (*BufferPinnedDestroy)(PinnedBuffer);
  Status (*BufferDeviceCreate)(Handle, void* allocator, DeviceBuffer*);
  Status (*BufferDeviceDestroy)(DeviceBuffer);
  Status (*StateAttachPinnedBuffer)(JpegState, PinnedBuffer);
  Status (*StateAttachDeviceBuffer)(JpegState, DeviceBuffer);
  Status (*DecodeJpegHost)(Handle, Decoder, JpegState, DecodeParams, JpegStream);
  Status (*DecodeJpegTransferToDevice)(Handle, Decoder, JpegState, JpegStream, CudaStream);
  Status (*DecodeJpegDevice)(Handle, Decoder, JpegState, Image* destination, CudaStream);
};

}  // namespace endcap::nvjpeg
