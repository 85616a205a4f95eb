# The precompiled header of all compiler code: a pass file compiles in about 2 s instead of 6 to 8.
#
# A precompiled header is refused by the compiler unless flags and definitions agree, so every MLIR
# target gets its flags from gemma_use_mlir alone, and libraries and executables are compiled as the
# same kind of position-independent code (-fPIC; -fPIE counts as a difference).
set(CMAKE_C_COMPILE_OPTIONS_PIE -fPIC)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)

option(GEMMA_PCH "use a precompiled header for compiler code" ON)
if(NOT GEMMA_PCH)
  return()
endif()

add_library(GemmaPCH OBJECT cmake/GemmaPCH.cpp)
gemma_use_mlir(GemmaPCH)
target_precompile_headers(GemmaPCH PRIVATE cmake/GemmaPCH.h)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Without the time in it the header's bytes are the same at every build, so ccache can use them.
  target_compile_options(GemmaPCH PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
endif()
