# Lays out <build>/include/bevel: links to core, ops and nn, and beside them the generated config.h and bevel.h.
#
# Out: BEVEL_INCLUDE_DIR, BEVEL_PUBLIC_HEADERS (relative to the source folder)

set(BEVEL_INCLUDE_DIR "${CMAKE_CURRENT_BINARY_DIR}/include")
file(MAKE_DIRECTORY "${BEVEL_INCLUDE_DIR}/bevel")
foreach(folder core ops nn)
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/${folder}" "${BEVEL_INCLUDE_DIR}/bevel/${folder}" SYMBOLIC)
endforeach()

if(BEVEL_HAS_CUDA)
  set(bevel_has_cuda_literal true)
else()
  set(bevel_has_cuda_literal false)
endif()
if(BEVEL_HAS_CUDNN)
  set(bevel_has_cudnn_literal true)
else()
  set(bevel_has_cudnn_literal false)
endif()
configure_file(cmake/config.h.in "${BEVEL_INCLUDE_DIR}/bevel/config.h" @ONLY)

# Headers under detail/, cuda/, cudnn/ and kernel/ are for those who look for them by name.
file(GLOB_RECURSE BEVEL_PUBLIC_HEADERS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS
     core/*.h ops/*.h nn/*.h)
list(FILTER BEVEL_PUBLIC_HEADERS EXCLUDE REGEX "/(detail|cuda|cudnn|kernel)/")
list(SORT BEVEL_PUBLIC_HEADERS)
set(bevel_includes "")
foreach(header IN LISTS BEVEL_PUBLIC_HEADERS)
  string(APPEND bevel_includes "#include <bevel/${header}>\n")
endforeach()
configure_file(cmake/bevel.h.in "${BEVEL_INCLUDE_DIR}/bevel/bevel.h" @ONLY)
