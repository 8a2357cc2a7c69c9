# Sources of libendcap_cuda.so besides its table of functions: the kernels of the stages. The tests build
# the same files for the host.
set(ENDCAP_CUDA_KERNELS
  box_decode/cuda/classification.cu
  box_decode/cuda/filter.cu
  box_decode/cuda/score_rows.cu
  box_decode/cuda/end2end_heads.cu
  box_decode/cuda/yolov5.cu
  box_decode/cuda/yolov8.cu
  postprocess/cuda/detection.cu
  postprocess/cuda/masks.cu
  postprocess/cuda/packed_masks.cu
  postprocess/cuda/rotated_detection.cu
  postprocess/cuda/rle.cu
  decode/cuda/nvjpeg_decoder.cc
  decode/cuda/nvjpeg_library.cc
  preprocess/cuda/fused_preprocess.cu
  nms/cuda/key_sort.cu
  nms/cuda/nms.cu
  nms/cuda/rotated_nms.cu
)
list(TRANSFORM ENDCAP_CUDA_KERNELS PREPEND "${PROJECT_SOURCE_DIR}/csrc/")

# Where CMAKE_UNITY_BUILD is on, a stage's kernels are compiled together.
function(endcap_group_kernels target)
  foreach(source IN LISTS ENDCAP_CUDA_KERNELS)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/csrc ${source})
    string(REGEX REPLACE "/.*" "" stage ${path})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${stage})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
