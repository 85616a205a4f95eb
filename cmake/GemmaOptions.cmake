# Compile options of every target of this project: warnings, sanitizers, include roots.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -fno-strict-aliasing)
if(GEMMA_WERROR)
  add_compile_options(-Werror)
endif()
if(GEMMA_ASSERTIONS)
  add_compile_options(-UNDEBUG)
endif()
if(GEMMA_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr,function
                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

# The include path of a header is its path from the repository root; what TableGen writes has the
# same path in the build root.
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
