# endcap::highway is Highway's headers. Its shared library is not linked: it would bring the C++
# runtime with it, and all that is needed of it is the choice of the target, which
# common/simd_target.cc makes. (The preset `sanitize` links it: under AddressSanitizer Highway's own
# checks are on, which end the process by a function of that library.)

find_path(ENDCAP_HIGHWAY_INCLUDE_DIR hwy/highway.h)
if(NOT ENDCAP_HIGHWAY_INCLUDE_DIR)
  message(FATAL_ERROR "Highway's headers were not found: install libhwy-dev, or give "
                      "-DENDCAP_HIGHWAY_INCLUDE_DIR=FOLDER")
endif()
set(_endcap_highway_version "")
foreach(part MAJOR MINOR PATCH)
  file(STRINGS "${ENDCAP_HIGHWAY_INCLUDE_DIR}/hwy/highway.h" _line REGEX "^#define HWY_${part} ")
  string(REGEX MATCH "[0-9]+" _number "${_line}")
  list(APPEND _endcap_highway_version "${_number}")
endforeach()
list(JOIN _endcap_highway_version "." _endcap_highway_version)
if(_endcap_highway_version VERSION_LESS 1.0.3)
  message(FATAL_ERROR "Highway ${_endcap_highway_version} is too old: 1.0.3 or later is needed")
endif()

add_library(endcap_highway INTERFACE)
add_library(endcap::highway ALIAS endcap_highway)
target_include_directories(endcap_highway SYSTEM INTERFACE "${ENDCAP_HIGHWAY_INCLUDE_DIR}")
# Left out are SSSE3 (CPUs have had SSE4 for 15 years) and AVX3_DL (its instructions are not used); of
# arm64 the SVE targets: their vectors have no size at compile time, so that they cannot be members of a
# struct or elements of an array, as several stages have them.
set(_endcap_disabled HWY_SSSE3 HWY_AVX3_DL HWY_SVE HWY_SVE2 HWY_SVE_256 HWY_SVE2_128)

# Highway also compiles a target for the oldest CPU that the compiler's flags allow. On x86-64 that is
# an emulation in plain C++, which takes most of the time to compile and is never run: without SSE4
# `simd` is not available. A baseline leaves it out. No compiler flag changes: the functions of each
# target have attributes of their own.
set(ENDCAP_SIMD_TARGETS "sse4;avx2;avx3" CACHE STRING
  "SIMD targets of x86-64, the oldest first; fewer compile faster, where one is enough for a test")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  foreach(target sse4 avx2 avx3)
    if(NOT target IN_LIST ENDCAP_SIMD_TARGETS)
      string(TOUPPER "HWY_${target}" _bit)
      list(APPEND _endcap_disabled ${_bit})
    endif()
  endforeach()
  foreach(target IN LISTS ENDCAP_SIMD_TARGETS)
    if(NOT target MATCHES "^(sse4|avx2|avx3)$")
      message(FATAL_ERROR "ENDCAP_SIMD_TARGETS has '${target}': give some of sse4;avx2;avx3")
    endif()
  endforeach()
  if(NOT ENDCAP_SIMD_TARGETS)
    message(FATAL_ERROR "ENDCAP_SIMD_TARGETS is empty: give some of sse4;avx2;avx3")
  endif()
  list(GET ENDCAP_SIMD_TARGETS 0 _baseline)
  string(TOUPPER "HWY_${_baseline}" _baseline)
  target_compile_definitions(endcap_highway INTERFACE HWY_BASELINE_TARGETS=${_baseline})
endif()
list(JOIN _endcap_disabled "|" _endcap_disabled)
target_compile_definitions(endcap_highway INTERFACE "HWY_DISABLED_TARGETS=(${_endcap_disabled})")
