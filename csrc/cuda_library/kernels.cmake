# Sources of libendcap_cuda.so besides its table of functions: the kernels of the stages. The tests build
# the same files for the host.
file(GLOB ENDCAP_CUDA_KERNELS CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/csrc/*/cuda/*.cu ${PROJECT_SOURCE_DIR}/csrc/decode/cuda/*.cc)

# Where CMAKE_UNITY_BUILD is on, a stage's kernels are compiled together.
function(endcap_group_kernels target)
  foreach(source IN LISTS ENDCAP_CUDA_KERNELS)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/csrc ${source})
    string(REGEX REPLACE "/.*" "" stage ${path})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${stage})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
