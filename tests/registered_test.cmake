# Fails when a test file is not listed in tests/CMakeLists.txt: it would never run.
# SPDX-License-Identifier: Apache-2.0
# Usage: cmake -DTESTS=<the folder tests/> -P registered_test.cmake
file(READ ${TESTS}/CMakeLists.txt LISTED)
string(REGEX REPLACE "#[^\n]*" "" LISTED "${LISTED}")
string(REGEX MATCHALL "[^][ \t\r\n()\"]+" LISTED "${LISTED}")
file(GLOB_RECURSE FILES RELATIVE ${TESTS} ${TESTS}/*_test.cpp)
list(LENGTH FILES COUNT)
if(COUNT EQUAL 0)
  message(FATAL_ERROR "there is no test below ${TESTS}")
endif()
list(REMOVE_ITEM FILES ${LISTED})
if(FILES)
  list(JOIN FILES ", " FILES)
  message(FATAL_ERROR "not listed in tests/CMakeLists.txt: ${FILES}")
endif()
message(STATUS "all ${COUNT} test files are listed")
