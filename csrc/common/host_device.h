#pragma once

// Marks arithmetic that is written once and compiles for the host and for CUDA devices.
#if defined(__CUDACC__)
#define ENDCAP_HOST_DEVICE __host__ __device__
#else
#define ENDCAP_HOST_DEVICE
#endif
