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
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    UNITY_BUILD_BATCH_SIZE 0)  # a target's files all together, so that one more changes nothing
endfunction()

# endcap_self_contained(target): the C++ runtime goes inside, and the libraries that are bundled are
# found beside the target.
function(endcap_self_contained target)
  target_link_options(${target} PRIVATE
    -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--as-needed)
  set_target_properties(${target} PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN")
endfunction()
