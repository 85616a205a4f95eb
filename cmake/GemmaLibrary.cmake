# gemma_library(NAME SOURCES a.cpp b.cpp [LINKS lib...] [MLIR])
#
# One static library a folder. MLIR says that it is compiler code: it gets the LLVM and MLIR headers
# (as system headers), the shared libraries and the precompiled header. Without MLIR it is runtime
# code, which may link neither.
function(gemma_library name)
  cmake_parse_arguments(ARG "MLIR" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  if(ARG_MLIR)
    gemma_use_mlir(${name})
  endif()
endfunction()

# gemma_use_mlir(TARGET): the MLIR half of gemma_library, for executables too.
function(gemma_use_mlir name)
  target_include_directories(${name} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_definitions(${name} PUBLIC ${definitions})
  target_link_libraries(${name} PUBLIC MLIR LLVM)
  get_property(headers GLOBAL PROPERTY GEMMA_TABLEGEN_TARGETS)
  if(headers)
    add_dependencies(${name} ${headers})
  endif()
  if(TARGET GemmaPCH AND NOT name STREQUAL GemmaPCH)
    target_precompile_headers(${name} REUSE_FROM GemmaPCH)
  endif()
endfunction()

# gemma_tool(NAME SOURCES a.cpp b.cpp [LINKS lib...] [MLIR]): a program users run, called from
# tools/NAME/CMakeLists.txt. It lands in bin/ of the build tree and of the install tree. Without MLIR
# it may link neither MLIR nor LLVM (test/layering.test looks).
function(gemma_tool name)
  cmake_parse_arguments(ARG "MLIR" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  if(ARG_MLIR)
    gemma_use_mlir(${name})
    # The shared MLIR and LLVM lie outside the loader's path when they are not Debian's.
    set_target_properties(${name} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# gemma_tablegen(TARGET TD file.td COMMANDS out.inc -gen-x [args], ...): writes .inc files beside the
# .td's path in the build root. Each command is one quoted string.
function(gemma_tablegen target)
  cmake_parse_arguments(ARG "" "TD" "COMMANDS" ${ARGN})
  set(LLVM_TARGET_DEFINITIONS ${ARG_TD})
  foreach(command IN LISTS ARG_COMMANDS)
    separate_arguments(words NATIVE_COMMAND "${command}")
    mlir_tablegen(${words} EXTRA_INCLUDES ${CMAKE_SOURCE_DIR} ${MLIR_INCLUDE_DIRS})
  endforeach()
  add_custom_target(${target} DEPENDS ${TABLEGEN_OUTPUT})
  set(TABLEGEN_OUTPUT "" PARENT_SCOPE)
  set_property(GLOBAL APPEND PROPERTY GEMMA_TABLEGEN_TARGETS ${target})
endfunction()
