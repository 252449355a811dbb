# Compile options every target of the project has, and the two functions that declare targets.

option(MESHWRIGHT_WERROR "Treat warnings as errors" OFF)
set(MESHWRIGHT_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined")

set(MESHWRIGHT_SANITIZE_READERS ""
    CACHE STRING "Sanitizers for tests of what reads files alone (watch_module_test)")

add_library(meshwright_options INTERFACE)
target_compile_features(meshwright_options INTERFACE cxx_std_20)
# Members left out of a designated initializer have their defaults: that is what they are for.
target_compile_options(meshwright_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion
                                                    -Wno-sign-conversion
                                                    -Wno-missing-field-initializers)
# Where several sources are compiled at a time, names of one are global in the next.
target_compile_options(meshwright_options INTERFACE
                       -Wshadow$<$<BOOL:${CMAKE_UNITY_BUILD}>:=local>)
# Then the compiler's collections of its own garbage take an eighth of its time, for a few hundred
# megabytes.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(meshwright_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1000000 --param ggc-min-expand=300>")
endif()
target_include_directories(meshwright_options INTERFACE ${PROJECT_SOURCE_DIR})
if(MESHWRIGHT_WERROR)
  target_compile_options(meshwright_options INTERFACE -Werror)
endif()
if(MESHWRIGHT_SANITIZE)
  target_compile_options(meshwright_options INTERFACE -fsanitize=${MESHWRIGHT_SANITIZE}
                                                      -fno-omit-frame-pointer
                                                      -fno-sanitize-recover=all)
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

# watch_module_test(name MODULE): compiles the test and, once more and for it alone, the module with
# the sanitizers of MESHWRIGHT_SANITIZE_READERS. What reads files is watched for a fraction of what
# watching everything takes, and programs stay as users have them.
function(watch_module_test name module)
  if(NOT MESHWRIGHT_SANITIZE_READERS)
    return()
  endif()
  get_target_property(folder ${module} SOURCE_DIR)
  get_target_property(sources ${module} SOURCES)
  list(TRANSFORM sources PREPEND ${folder}/)
  add_library(${module}_watched STATIC ${sources})
  set_property(TARGET ${module}_watched PROPERTY UNITY_BUILD_BATCH_SIZE 16)
  get_target_property(libraries ${module} LINK_LIBRARIES)
  target_link_libraries(${module}_watched PUBLIC ${libraries})
  get_target_property(libraries ${name} LINK_LIBRARIES)
  list(TRANSFORM libraries REPLACE "^${module}$" ${module}_watched)
  set_property(TARGET ${name} PROPERTY LINK_LIBRARIES ${libraries})
  set(watch -fsanitize=${MESHWRIGHT_SANITIZE_READERS})
  foreach(target ${module}_watched ${name})
    target_compile_options(${target} PRIVATE ${watch} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
  endforeach()
  target_link_options(${name} PRIVATE ${watch})
endfunction()

# use_fast_malloc(name): a program that searches makes and drops many small pieces, an eighth to a
# sixth faster with tcmalloc than with the system's malloc. Without it, it does the same.
find_library(MESHWRIGHT_TCMALLOC tcmalloc_minimal)
function(use_fast_malloc name)
  if(MESHWRIGHT_TCMALLOC AND NOT MESHWRIGHT_SANITIZE)
    target_link_libraries(${name} PRIVATE ${MESHWRIGHT_TCMALLOC})
  endif()
endfunction()

# Everything that thread_tests names is built when only threads are of interest (thread sanitizer).
add_custom_target(thread_tests)

# add_module_test(name [THREADS] [PART tag] [COST seconds] SOURCES file... DEPENDS target...)
# One Catch2 program per folder of tests/, registered with CTest as a whole. THREADS: its cases
# tagged [threads] are a CTest test of their own, name_threads with the label threads. PART: so are
# those with this tag, as name_tag, because they take long. COST: about how long it, and the part,
# takes, if long; what takes longest starts first.
function(add_module_test name)
  cmake_parse_arguments(ARG "THREADS" "PART;COST" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE catch_main ${ARG_DEPENDS})
  set(tests ${name})
  set(others ~[threads])
  if(ARG_PART)
    string(APPEND others ~[${ARG_PART}])
    list(APPEND tests ${name}_${ARG_PART})
    add_test(NAME ${name}_${ARG_PART} COMMAND ${name} [${ARG_PART}]
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endif()
  add_test(NAME ${name} COMMAND ${name} ${others} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(ARG_COST)
    set_tests_properties(${tests} PROPERTIES COST ${ARG_COST})
  endif()
  if(ARG_THREADS)
    add_test(NAME ${name}_threads COMMAND ${name} [threads] WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name}_threads PROPERTIES LABELS threads)
    add_dependencies(thread_tests ${name})
  endif()
endfunction()
