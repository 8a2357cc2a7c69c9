# What libendcap_cuda.so is made of besides its table of functions: the stages' kernels. The tests
# build the same files for the host.
set(ENDCAP_CUDA_KERNELS
  decode/nvjpeg_decoder.cc
  decode/nvjpeg_library.cc
  preprocess/cuda/fused_preprocess.cu
  box_decode/classification_cuda.cu
  box_decode/filter_cuda.cu
  box_decode/score_rows_cuda.cu
  box_decode/suppressed_heads_cuda.cu
  box_decode/yolov5_cuda.cu
  box_decode/yolov8_cuda.cu
  box_decode/yolov8_multi_label_cuda.cu
  nms/key_sort_cuda.cu
  nms/nms_cuda.cu
  nms/rotated_nms_cuda.cu
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
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(stage ${folder} NAME)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${stage})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
