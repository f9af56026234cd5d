# bevel_add_isa_sources(<target> ALL <sources>... WIDE <sources>...): compiles each X.isa.cpp for every instruction set that the library
# chooses between at run time, and adds the objects to <target>.
#
# A source sees BEVEL_ISA as the name of the set, `baseline`, `x86_64_v3` or, if it is listed after WIDE too, `x86_64_v4`,
# and puts its functions into a namespace of that name. Inline functions compiled for x86-64-v3 or v4 must never be the copies that the linker keeps for the whole
# program, as an older processor would meet instructions it lacks:
# - Eigen's are kept apart by renaming its namespace;
# - all others are made local to their object by -fno-weak, where the compiler has it. It warns of every inline variable,
#   as each object then has its own: such sources keep no state. The baseline build of the same source has the warnings.
include(CheckCXXCompilerFlag)

function(bevel_add_isa_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "WIDE;ALL")
  if(NOT arg_ALL)
    return()
  endif()
  bevel_add_isa_objects(${target} baseline "" "" ${arg_ALL})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    bevel_add_isa_objects(${target} x86_64_v3 "-march=x86-64-v3" "Eigen=Eigen_v3;BEVEL_HAS_X86_64_V3" ${arg_ALL})
    bevel_add_isa_objects(${target} x86_64_v4 "-march=x86-64-v4" "Eigen=Eigen_v4;BEVEL_HAS_X86_64_V3" ${arg_WIDE})
    target_compile_definitions(${target} PRIVATE BEVEL_HAS_X86_64_V3)
    check_cxx_compiler_flag(-fno-weak BEVEL_COMPILER_HAS_NO_WEAK)
    if(BEVEL_COMPILER_HAS_NO_WEAK)
      foreach(isa x86_64_v3 x86_64_v4)
        target_compile_options(${target}_${isa} PRIVATE -fno-weak -U__GXX_WEAK__ -D__GXX_WEAK__=1 -w)
      endforeach()
    endif()
  endif()
endfunction()

function(bevel_add_isa_objects target isa options definitions)
  set(objects ${target}_${isa})
  add_library(${objects} OBJECT ${ARGN})
  target_include_directories(${objects} PRIVATE ${BEVEL_INCLUDE_DIR})
  target_link_libraries(${objects} PRIVATE Eigen3::Eigen Threads::Threads)
  target_compile_definitions(${objects} PRIVATE BEVEL_ISA=${isa} ${definitions})
  bevel_compile_options(${objects})
  target_compile_options(${objects} PRIVATE ${options})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
endfunction()
