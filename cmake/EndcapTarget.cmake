# Protection against exploitation, and paths of the building machine kept out of releases. What becomes
# part of the wheel is checked for it by tests/python/core/test_shared_objects.py. The sanitizers' presets switch it off.
option(ENDCAP_HARDENING "Stack protector, control-flow protection, fortified C library, full RELRO" ON)
include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

# Sets ENDCAP_HARDENING_FLAGS, for compilers of C and C++, nvcc's included, and
# ENDCAP_HARDENING_LINK_FLAGS.
set(ENDCAP_HARDENING_FLAGS "")
set(ENDCAP_HARDENING_LINK_FLAGS "")
if(ENDCAP_HARDENING)
  foreach(flag stack-protector-strong stack-clash-protection cf-protection=full)
    string(MAKE_C_IDENTIFIER "ENDCAP_HAS_${flag}" known)
    check_cxx_compiler_flag(-f${flag} ${known})
    if(${known})
      list(APPEND ENDCAP_HARDENING_FLAGS -f${flag})
    endif()
  endforeach()
  set(ENDCAP_HARDENING_LINK_FLAGS LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()
# Level 3 needs GCC 12 or Clang 9; the C library warns where the compiler does not know it.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  set(_endcap_fortify_level 2)
else()
  set(_endcap_fortify_level 3)
endif()

# endcap_harden(target): protection for a target of C and C++. The level of _FORTIFY_SOURCE replaces one
# that the distribution's compiler sets, and needs an optimising build.
function(endcap_harden target)
  if(ENDCAP_HARDENING)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:C,CXX>:${ENDCAP_HARDENING_FLAGS}>"
      "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${_endcap_fortify_level}>")
    foreach(flag IN LISTS ENDCAP_HARDENING_FLAGS)
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>")
    endforeach()
    target_link_options(${target} PRIVATE ${ENDCAP_HARDENING_LINK_FLAGS})
  endif()
  foreach(map ${PROJECT_BINARY_DIR}=build ${PROJECT_SOURCE_DIR}=.)
    target_compile_options(${target} PRIVATE
      "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:Release>>:-ffile-prefix-map=${map}>"
      "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CONFIG:Release>>:-Xcompiler=-ffile-prefix-map=${map}>")
  endforeach()
endfunction()

# endcap_target_defaults(target): warnings, hidden symbols and the arithmetic that every target
# shares. -ffp-contract=off keeps the compiler from fusing multiplications and additions, so that
# all paths round alike.
function(endcap_target_defaults target)
  set(options -Wall -Wextra -Wpedantic -Wconversion -Wshadow -ffp-contract=off)
  if(ENDCAP_WARNINGS_AS_ERRORS)
    list(APPEND options -Werror)
  endif()
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It means headers, and takes the sources that are compiled together for headers.
    list(APPEND options $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:${options}>")
  endcap_harden(${target})
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    UNITY_BUILD_BATCH_SIZE 0)  # a target's files all together, so that one more changes nothing
endfunction()

# endcap_self_contained(target [WITHOUT_SHADOW_STACK]): the C++ runtime goes inside, and the libraries
# that are bundled are found beside the target. It is marked as fit for a shadow stack, which the linker
# does not do by itself, as the C library's crti.o and crtn.o of Debian lack the mark, although they only
# call and return. WITHOUT_SHADOW_STACK is for targets with other objects that lack it. Indirect branch
# tracking is not claimed: _init in that crti.o has no landing pad.
function(endcap_self_contained target)
  if(ENDCAP_HARDENING AND ENDCAP_HAS_cf_protection_full AND NOT "WITHOUT_SHADOW_STACK" IN_LIST ARGN)
    target_link_options(${target} PRIVATE LINKER:-z,shstk)
  endif()
  target_link_options(${target} PRIVATE
    -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--as-needed)
  set_target_properties(${target} PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN")
endfunction()
