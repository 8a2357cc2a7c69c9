# cmake -DNM=... -DLIBRARY=... -DHEADER=... -P: fails unless the library exports the functions of its
# header, all of them and nothing else.
execute_process(COMMAND ${NM} -D --defined-only --format=posix ${LIBRARY}
                OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${listing}")
set(exported "")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^[^ ]+" symbol "${line}")
  list(APPEND exported "${symbol}")
endforeach()

file(READ ${HEADER} text)
string(REGEX MATCHALL "ENDCAP_C [^;(]+\\(" declarations "${text}")
set(declared "")
foreach(declaration IN LISTS declarations)
  string(REGEX MATCH "(endcap_[a-z_]+)\\($" ignored "${declaration}")
  list(APPEND declared "${CMAKE_MATCH_1}")
endforeach()

list(SORT exported)
list(SORT declared)
if(NOT declared OR NOT exported STREQUAL declared)
  message(FATAL_ERROR "the header declares ${declared}, and the library exports ${exported}")
endif()
