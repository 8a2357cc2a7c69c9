# What libendcap_cuda.so is made of besides its table of functions: the stages' kernels. The tests
# build the same files for the host.
set(ENDCAP_CUDA_KERNELS
  preprocess/fused_preprocess.cu
)
list(TRANSFORM ENDCAP_CUDA_KERNELS PREPEND "${PROJECT_SOURCE_DIR}/csrc/")
