# The target ortools: libortools from the unpacked Python wheel, called through its C interface.
# The wheel has no headers; the solver declares the few functions it calls.

set(MESHWRIGHT_ORTOOLS "" CACHE PATH
    "Folder of the unpacked OR-Tools wheel; empty: where ./test puts it")
set(version_file ${PROJECT_SOURCE_DIR}/cmake/ortools_version.txt)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${version_file})
file(STRINGS ${version_file} ortools_version LIMIT_COUNT 1)

set(ortools_folder ${MESHWRIGHT_ORTOOLS})
if(NOT ortools_folder)
  set(ortools_folder ${PROJECT_SOURCE_DIR}/build/deps/ortools-${ortools_version})
endif()
if(NOT EXISTS ${ortools_folder}/ortools/.libs/libortools.so.9)
  message(FATAL_ERROR "OR-Tools ${ortools_version} is not in ${ortools_folder}: ./test fetches it; "
                      "or set MESHWRIGHT_ORTOOLS to an unpacked wheel, or MESHWRIGHT_SOLVER to OFF")
endif()

# The libraries find each other by their place relative to $ORIGIN, the linker does not: it needs
# both folders named to resolve what libortools itself links.
add_library(ortools SHARED IMPORTED GLOBAL)
set_target_properties(ortools PROPERTIES
  IMPORTED_LOCATION ${ortools_folder}/ortools/.libs/libortools.so.9)
target_link_options(ortools INTERFACE
  LINKER:-rpath-link,${ortools_folder}/ortools/.libs
  LINKER:-rpath-link,${ortools_folder}/ortools.libs)

# install_ortools(program): to be called for an installed program that links the planner, so that it
# runs where no build folder is. The two folders keep their relative place.
function(install_ortools program)
  set(place ${CMAKE_INSTALL_LIBDIR}/meshwright)
  install(DIRECTORY ${ortools_folder}/ortools/.libs DESTINATION ${place}/ortools)
  install(DIRECTORY ${ortools_folder}/ortools.libs DESTINATION ${place})
  file(RELATIVE_PATH from_bin ${CMAKE_INSTALL_FULL_BINDIR}
       ${CMAKE_INSTALL_FULL_LIBDIR}/meshwright/ortools/.libs)
  set_property(TARGET ${program} APPEND PROPERTY INSTALL_RPATH $ORIGIN/${from_bin})
endfunction()
