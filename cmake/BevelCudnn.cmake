# Looks for cuDNN 9, which is optional.
#
# In:  BEVEL_CUDNN (ON, OFF, AUTO), CUDNN_ROOT (a folder with include/ and lib/, such as nvidia/cudnn of the Python
#      package nvidia-cudnn-cu13), BEVEL_HAS_CUDA
# Out: BEVEL_HAS_CUDNN, CUDNN_INCLUDE_DIR, CUDNN_LIBRARY

set(BEVEL_CUDNN AUTO CACHE STRING "Convolutions through cuDNN: ON, OFF, or AUTO (where cuDNN 9 is found)")
set_property(CACHE BEVEL_CUDNN PROPERTY STRINGS AUTO ON OFF)

# Sets <reason> to why cuDNN cannot be used, or to nothing where it can.
function(bevel_find_cudnn reason)
  get_filename_component(toolkit "${CUDAToolkit_BIN_DIR}/.." ABSOLUTE)
  set(hints "${CUDNN_ROOT}" "$ENV{CUDNN_ROOT}" ${CUDAToolkit_INCLUDE_DIRS} "${toolkit}")
  find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${hints} PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${hints} ${CUDAToolkit_LIBRARY_DIR}
               PATH_SUFFIXES lib lib64 lib/x64)
  mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
  set(${reason} "" PARENT_SCOPE)
  if(NOT CUDNN_INCLUDE_DIR)
    set(${reason} "cudnn_version.h was not found; set CUDNN_ROOT to a folder with include/ and lib/" PARENT_SCOPE)
  elseif(NOT CUDNN_LIBRARY)
    set(${reason} "libcudnn was not found, though ${CUDNN_INCLUDE_DIR}/cudnn_version.h was; set CUDNN_ROOT"
        PARENT_SCOPE)
  else()
    file(STRINGS "${CUDNN_INCLUDE_DIR}/cudnn_version.h" lines REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
    string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
    list(JOIN numbers "." version)
    set(CUDNN_VERSION "${version}" PARENT_SCOPE)
    if(version VERSION_LESS 9)
      set(${reason} "${CUDNN_INCLUDE_DIR} has version ${version}, and 9 or later is needed" PARENT_SCOPE)
    endif()
  endif()
endfunction()

set(BEVEL_HAS_CUDNN FALSE)
string(TOUPPER "${BEVEL_CUDNN}" bevel_cudnn_mode)
if(NOT BEVEL_HAS_CUDA)
  if(bevel_cudnn_mode STREQUAL "ON")
    message(FATAL_ERROR "BEVEL_CUDNN is ON, but CUDA is left out. Set BEVEL_CUDA=ON or BEVEL_CUDNN=AUTO.")
  endif()
elseif(bevel_cudnn_mode STREQUAL "AUTO" OR bevel_cudnn_mode)
  bevel_find_cudnn(bevel_cudnn_reason)
  if(NOT bevel_cudnn_reason)
    set(BEVEL_HAS_CUDNN TRUE)
    message(STATUS "cuDNN: ${CUDNN_VERSION}, ${CUDNN_LIBRARY}")
  elseif(bevel_cudnn_mode STREQUAL "AUTO")
    message(STATUS "cuDNN: left out: ${bevel_cudnn_reason}. Convolutions on CUDA go through cuBLAS, more slowly.")
  else()
    message(FATAL_ERROR "BEVEL_CUDNN is ON, but ${bevel_cudnn_reason}.")
  endif()
else()
  message(STATUS "cuDNN: left out: BEVEL_CUDNN is OFF. Convolutions on CUDA go through cuBLAS, more slowly.")
endif()
