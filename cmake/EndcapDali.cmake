# endcap::dali is the DALI of the building Python and the headers of the CUDA runtime, for
# -DENDCAP_DALI=ON. What is found is what `endcap dali build` finds, except that this DALI is fixed: its
# C++ interface belongs to one build of it, and endcap.dali.load() refuses a library for another.

find_package(Python REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/find_dali.py"
  OUTPUT_VARIABLE _endcap_dali OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE _endcap_dali_said RESULT_VARIABLE _endcap_dali_failed)
if(_endcap_dali_failed)
  string(REGEX REPLACE ".*\n" "" _endcap_dali_said "\n${_endcap_dali_said}")
  message(FATAL_ERROR "ENDCAP_DALI is ON, but ${Python_EXECUTABLE} cannot import DALI "
                      "(${_endcap_dali_said}). Install it with 'pip install nvidia-dali-cuda130', or "
                      "leave ENDCAP_DALI and use 'endcap dali build' where DALI is")
endif()
list(GET _endcap_dali 0 ENDCAP_DALI_RELEASE)
list(GET _endcap_dali 1 ENDCAP_DALI_IDENTITY)
list(GET _endcap_dali 2 ENDCAP_DALI_CXX11_ABI)
list(GET _endcap_dali 3 ENDCAP_DALI_INCLUDE_DIR)
list(GET _endcap_dali 4 ENDCAP_DALI_LIBRARY_DIR)
list(GET _endcap_dali 5 _endcap_dali_package)

# Of NVIDIA's packages for Python the headers lie beside DALI.
set(_endcap_cuda_places
  $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include /usr/local/cuda/include
  ${_endcap_dali_package}/../cu13/include)
find_path(ENDCAP_CUDA_RUNTIME_INCLUDE_DIR crt/host_config.h HINTS ${_endcap_cuda_places})
find_path(ENDCAP_CUDA_TARGET_INCLUDE_DIR nv/target
  HINTS ${ENDCAP_CUDA_RUNTIME_INCLUDE_DIR} PATH_SUFFIXES . cccl)
if(NOT ENDCAP_CUDA_RUNTIME_INCLUDE_DIR OR NOT ENDCAP_CUDA_TARGET_INCLUDE_DIR)
  message(FATAL_ERROR "ENDCAP_DALI is ON, but the headers of the CUDA runtime were not found. Set "
                      "CUDA_HOME to a CUDA toolkit, or 'pip install nvidia-cuda-runtime "
                      "nvidia-cuda-crt nvidia-cuda-cccl'")
endif()

add_library(endcap_dali_of_python INTERFACE)
add_library(endcap::dali ALIAS endcap_dali_of_python)
target_include_directories(endcap_dali_of_python SYSTEM INTERFACE
  "${ENDCAP_DALI_INCLUDE_DIR}" "${ENDCAP_CUDA_RUNTIME_INCLUDE_DIR}"
  "${ENDCAP_CUDA_TARGET_INCLUDE_DIR}")
target_compile_definitions(endcap_dali_of_python INTERFACE
  "_GLIBCXX_USE_CXX11_ABI=${ENDCAP_DALI_CXX11_ABI}")
target_link_options(endcap_dali_of_python INTERFACE -Wl,--allow-shlib-undefined -Wl,--as-needed)
target_link_libraries(endcap_dali_of_python INTERFACE
  "${ENDCAP_DALI_LIBRARY_DIR}/libdali.so" "${ENDCAP_DALI_LIBRARY_DIR}/libdali_core.so")
message(STATUS "DALI operators: for DALI ${ENDCAP_DALI_RELEASE} in ${ENDCAP_DALI_INCLUDE_DIR}")
