# Sources of libendcap_cuda.so besides its table of functions: the kernels of the stages. The tests build
# the same files for the host.
set(ENDCAP_CUDA_KERNELS
  decode/cuda/nvjpeg_decoder.cc
  decode/cuda/nvjpeg_library.cc
  preprocess/cuda/fused_preprocess.cu
  box_decode/classification_cuda.cu
  box_decode/filter_cuda.cu
  box_decode/score_rows_cuda.cu
  box_decode/suppressed_heads_cuda.cu
  box_decode/yolov5_cuda.cu
  box_decode/yolov8_cuda.cu
  box_decode/yolov8_multi_label_cuda.cu
  nms/cuda/key_sort.cu
  nms/cuda/nms.cu
  nms/cuda/rotated_nms.cu
  postprocess/detection_cuda.cu
  postprocess/instance_masks_cuda.cu
  postprocess/packed_masks_cuda.cu
  postprocess/rotated_detection_cuda.cu
  postprocess/run_lengths_cuda.cu
)
list(TRANSFORM ENDCAP_CUDA_KERNELS PREPEND "${PROJECT_SOURCE_DIR}/csrc/")

# Where CMAKE_UNITY_BUILD is on, a stage's kernels are compiled together; suppressed_heads_cuda.cu has
# inner names that another file has too.
function(endcap_group_kernels target)
  set(together ${ENDCAP_CUDA_KERNELS})
  list(FILTER together EXCLUDE REGEX "suppressed_heads_cuda.cu$")
  foreach(source IN LISTS together)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/csrc ${source})
    string(REGEX REPLACE "/.*" "" stage ${path})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${stage})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
