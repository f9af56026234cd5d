# bevel_compile_options(<target>): warnings, optimisation and sanitizers of our own targets, none of which reach users.

set(bevel_warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)

# The loops of pointwise kernels vectorise only where a comparison may not trap, and sums of products must round the
# same in the fused and the unfused kernels, so contraction to fused multiply-add is off.
set(bevel_cxx_math -fno-trapping-math -fno-math-errno -ffp-contract=off)

function(bevel_compile_options target)
  set(werror "$<$<BOOL:${BEVEL_WERROR}>:-Werror>")
  set(optimise "$<$<CONFIG:Release,RelWithDebInfo>:-O3>")
  if(BEVEL_SANITIZE)
    set(werror "")  # the checks that sanitizers add confuse g++'s analysis into warnings of things that are not so
    set(optimise "-O1;-g1")
  endif()
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${bevel_warnings};-Wpedantic;${werror};${bevel_cxx_math};${optimise}>")

  if(BEVEL_HAS_CUDA)
    list(JOIN bevel_warnings "," host_warnings)
    list(JOIN bevel_cxx_math "," host_math)
    set(werror_cuda "$<$<BOOL:${BEVEL_WERROR}>:SHELL:-Werror all-warnings>")
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>"
      "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>"
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--threads 1>"
      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_warnings},${host_math}>"
      "$<$<COMPILE_LANGUAGE:CUDA>:${werror_cuda}>")
  endif()

  if(BEVEL_SANITIZE)
    list(JOIN BEVEL_SANITIZE "," sanitizers)
    set(flags -fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    list(JOIN flags "," host_flags)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:${flags}>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags}>")
    # The runtime of the sanitizer must be linked by whatever uses the library.
    target_link_options(${target} PUBLIC "$<BUILD_INTERFACE:-fsanitize=${sanitizers}>")
  endif()
endfunction()
