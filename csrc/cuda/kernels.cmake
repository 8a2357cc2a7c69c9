# What libendcap_cuda.so is made of besides its table of functions: the stages' kernels. The tests
# build the same files for the host.
set(ENDCAP_CUDA_KERNELS
  decode/nvjpeg_decode.cc
  decode/nvjpeg_hardware.cc
  decode/nvjpeg_kernels.cc
  decode/nvjpeg_library.cc
  decode/nvjpeg_object.cc
  preprocess/fused_preprocess.cu
)
list(TRANSFORM ENDCAP_CUDA_KERNELS PREPEND "${PROJECT_SOURCE_DIR}/csrc/")
