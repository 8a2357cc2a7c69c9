# ENDCAP_CUDA_COMPILED says whether libendcap_cuda.so is built, which csrc/cuda_library/CMakeLists.txt does.
# Its compiler is nvcc of CUDA 13: the one that CUDACXX or CMAKE_CUDA_COMPILER names, the system's, or
# that of NVIDIA's packages for Python in the building environment.

set(ENDCAP_CUDA AUTO CACHE STRING "GPU code: AUTO (where CUDA 13 is found), ON or OFF")
set_property(CACHE ENDCAP_CUDA PROPERTY STRINGS AUTO ON OFF)
# Compute capability 7.5 is the oldest that CUDA 13 knows; code for 8.6 runs on 8.7, for 10.0 on 10.3.
# What is newer takes the PTX.
set(ENDCAP_CUDA_ARCHITECTURES
  "75-real;80-real;86-real;89-real;90-real;100-real;100-virtual"
  CACHE STRING "What GPU code is compiled for, as CMAKE_CUDA_ARCHITECTURES")

# Where nvcc may be, in the order of preference.
function(_endcap_nvcc_candidates result)
  set(candidates "${CMAKE_CUDA_COMPILER}" "$ENV{CUDACXX}")
  find_program(ENDCAP_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin"
               PATHS /usr/local/cuda/bin NO_CACHE)
  list(APPEND candidates "${ENDCAP_NVCC}")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import importlib.util as u; s = u.find_spec('nvidia'); print(*(s.submodule_search_locations if s else ()), sep=';')"
    OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  foreach(folder IN LISTS folders)
    list(APPEND candidates "${folder}/cu13/bin/nvcc")
  endforeach()
  set(${result} "${candidates}" PARENT_SCOPE)
endfunction()

# Sets `nvcc` to the first candidate of CUDA 13 or later, or `why_not`.
function(_endcap_find_nvcc)
  set(why_not "nvcc was not found")
  set(nvcc "")
  _endcap_nvcc_candidates(candidates)
  foreach(candidate IN LISTS candidates)
    if(NOT EXISTS "${candidate}")
      continue()
    endif()
    execute_process(COMMAND "${candidate}" --version OUTPUT_VARIABLE text ERROR_QUIET)
    if(text MATCHES "release ([0-9]+\\.[0-9]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL 13)
      set(nvcc "${candidate}")
      break()
    endif()
    set(why_not "${candidate} is not of CUDA 13 or later")
  endforeach()
  set(nvcc "${nvcc}" PARENT_SCOPE)
  set(why_not "${why_not}" PARENT_SCOPE)
endfunction()

# A macro: languages are enabled in the scope of the project.
macro(_endcap_enable_cuda)
  # NVIDIA's packages for Python have `lib`, where nvcc looks for `lib64`.
  get_filename_component(_endcap_nvcc_folder "${nvcc}" DIRECTORY)
  set(ENV{LIBRARY_PATH} "${_endcap_nvcc_folder}/../lib:$ENV{LIBRARY_PATH}")
  set(ENV{CUDACXX} "${nvcc}")
  set(CMAKE_CUDA_ARCHITECTURES "${ENDCAP_CUDA_ARCHITECTURES}")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_library(ENDCAP_CUDART cudart_static NO_DEFAULT_PATH
      HINTS "${CMAKE_CUDA_COMPILER_LIBRARY_ROOT}" "${_endcap_nvcc_folder}/.."
      PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib)
    if(ENDCAP_CUDART)
      set(ENDCAP_CUDA_COMPILED ON)
    else()
      set(why_not "libcudart_static.a was not found below ${CMAKE_CUDA_COMPILER_LIBRARY_ROOT}")
    endif()
  else()
    set(why_not "${nvcc} cannot compile here; CMake's log says why")
  endif()
endmacro()

set(ENDCAP_CUDA_COMPILED OFF)
if(ENDCAP_CUDA)
  if(CMAKE_VERSION VERSION_LESS 3.25)
    set(why_not "CMake ${CMAKE_VERSION} is older than 3.25")
  else()
    _endcap_find_nvcc()
    if(nvcc)
      _endcap_enable_cuda()
    endif()
  endif()
  if(ENDCAP_CUDA_COMPILED)
    list(JOIN ENDCAP_CUDA_ARCHITECTURES " " _endcap_architectures)
    message(STATUS "GPU code: built by CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${_endcap_architectures}")
  elseif(ENDCAP_CUDA STREQUAL "AUTO")
    message(STATUS "GPU code: not built, ${why_not}")
  else()
    message(FATAL_ERROR "ENDCAP_CUDA is ${ENDCAP_CUDA}, but ${why_not}. Install the CUDA 13 toolkit, "
                        "or 'pip install --group cuda-build' into the building environment")
  endif()
else()
  message(STATUS "GPU code: not built, ENDCAP_CUDA is ${ENDCAP_CUDA}")
endif()
