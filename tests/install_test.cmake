# cmake -D build=FOLDER -P install_test.cmake: what `cmake --install` puts into a new
# place runs there, and reads the data that was installed with it.
set(prefix ${build}/install_test)
file(REMOVE_RECURSE ${prefix})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${build} --prefix ${prefix}
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

# This preset is in the installed data only, so that the source tree's cannot stand in for it.
set(clusters ${prefix}/share/meshwright/clusters)
file(READ ${clusters}/h100.json text)
string(REPLACE "\"name\": \"h100\"" "\"name\": \"installed\"" text "${text}")
file(WRITE ${clusters}/installed.json "${text}")
foreach(arguments "--version" "cluster;installed" "cluster;installed:2x8;--json" "model;gpt2")
  execute_process(COMMAND ${prefix}/bin/meshwright ${arguments} WORKING_DIRECTORY /
                  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(output STREQUAL "")
    message(FATAL_ERROR "meshwright ${arguments} printed nothing")
  endif()
endforeach()
# The desktop program that was built is found and draws where it was installed.
if(EXISTS ${build}/gui/meshwright-gui)
  execute_process(COMMAND ${prefix}/bin/meshwright gui gpt2 installed --screenshot
                          ${prefix}/window.png WORKING_DIRECTORY /
                  OUTPUT_QUIET ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  if(NOT EXISTS ${prefix}/window.png)
    message(FATAL_ERROR "meshwright gui --screenshot wrote nothing")
  endif()
endif()
# A GPU back end that was built is found and loaded where it was installed, GPU or not.
if(EXISTS ${build}/cli/libmeshwright_cuda.so)
  execute_process(COMMAND ${prefix}/bin/meshwright benchmark --device cuda --quick --budget 1e-9
                          --into ${prefix}/gpus.db WORKING_DIRECTORY /
                  OUTPUT_QUIET ERROR_VARIABLE problem RESULT_VARIABLE code)
  if(NOT code EQUAL 0 AND NOT (code EQUAL 30 AND problem MATCHES "CUDA: "))
    message(FATAL_ERROR "the installed GPU back end: ${code} ${problem}")
  endif()
endif()
file(REMOVE_RECURSE ${prefix})
