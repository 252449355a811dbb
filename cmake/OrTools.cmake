# OR-Tools is neither linked nor needed to build: the program loads its library where it finds it,
# in the folder of an unpacked Python wheel. Tests look for it where ./test puts it.

set(version_file ${PROJECT_SOURCE_DIR}/cmake/ortools_version.txt)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${version_file})
file(STRINGS ${version_file} MESHWRIGHT_ORTOOLS_VERSION LIMIT_COUNT 1)
set(MESHWRIGHT_ORTOOLS "" CACHE PATH "Folder of the unpacked OR-Tools wheel; empty: in build/deps")
if(NOT MESHWRIGHT_ORTOOLS)
  set(MESHWRIGHT_ORTOOLS ${PROJECT_SOURCE_DIR}/build/deps/ortools-${MESHWRIGHT_ORTOOLS_VERSION})
endif()
