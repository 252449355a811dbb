# Compile options every target of the project has, and the two functions that declare targets.

option(MESHWRIGHT_WERROR "Treat warnings as errors" OFF)
set(MESHWRIGHT_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined")

add_library(meshwright_options INTERFACE)
target_compile_features(meshwright_options INTERFACE cxx_std_20)
target_compile_options(meshwright_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                    -Wno-sign-conversion -Wno-missing-field-initializers)
target_include_directories(meshwright_options INTERFACE ${PROJECT_SOURCE_DIR})
if(MESHWRIGHT_WERROR)
  target_compile_options(meshwright_options INTERFACE -Werror)
endif()
if(MESHWRIGHT_SANITIZE)
  target_compile_options(meshwright_options INTERFACE -fsanitize=${MESHWRIGHT_SANITIZE}
                                                      -fno-omit-frame-pointer)
  target_link_options(meshwright_options INTERFACE -fsanitize=${MESHWRIGHT_SANITIZE})
endif()

# add_module(name SOURCES file... [DEPENDS target...] [PRIVATE_DEPENDS target...])
# One static library per folder. DEPENDS are what its headers need, PRIVATE_DEPENDS what only its
# sources need.
function(add_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC meshwright_options ${ARG_DEPENDS}
                                PRIVATE ${ARG_PRIVATE_DEPENDS})
endfunction()

# add_module_test(name SOURCES file... DEPENDS target...)
# One Catch2 program per folder of tests/, registered with CTest as a whole.
function(add_module_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE catch_main ${ARG_DEPENDS})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()
