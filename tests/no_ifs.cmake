# Checks that no file asks the preprocessor what it is compiled for: a backend, or a processor, is chosen by the files
# that CMake lists. Files that may ask say something about the compiler or the processor, and not about a backend.
#   cmake -DROOT=... -P no_ifs.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_policy(VERSION 3.22)
set(ALLOWED
    fourfold/base/check.hpp              # NDEBUG: checks of hot paths
    fourfold/base/processor.cpp          # instructions of x86, which other processors have no names for
    fourfold/comm/arithmetic.cpp         # the same
    fourfold/kernels/cpu/simd.hpp        # the same
    fourfold/kernels/philox.cpp          # the same
    fourfold/kernels/both/compiler.hpp   # code for two compilers: nvcc needs words of its own
    fourfold/data/sentencepiece/loader.cpp # a flag of the loader that the address sanitizer refuses
    fourfold/tensor/memory.cpp)          # settings of glibc's allocator
set(ERRORS)
file(GLOB_RECURSE FILES RELATIVE ${ROOT} ${ROOT}/fourfold/*.hpp ${ROOT}/fourfold/*.cpp ${ROOT}/fourfold/*.cu
     ${ROOT}/fourfold/*.cuh ${ROOT}/apps/*.hpp ${ROOT}/apps/*.cpp)
list(LENGTH FILES COUNT)
if(COUNT LESS 100)
  message(FATAL_ERROR "there are only ${COUNT} files in ${ROOT}")
endif()
set(ASKING)
foreach(FILE IN LISTS FILES)
  file(STRINGS ${ROOT}/${FILE} LINES REGEX "^[ \t]*#[ \t]*(if|elif|ifdef|ifndef)")
  if(LINES)
    list(APPEND ASKING ${FILE})
    if(NOT FILE IN_LIST ALLOWED)
      list(GET LINES 0 LINE)
      list(APPEND ERRORS "${FILE}: ${LINE}")
    endif()
  endif()
endforeach()
foreach(FILE IN LISTS ALLOWED)
  if(NOT FILE IN_LIST ASKING)
    list(APPEND ERRORS "${FILE} need not be allowed any more")
  endif()
endforeach()
if(ERRORS)
  list(JOIN ERRORS "\n" TEXT)
  message(FATAL_ERROR "choose a backend by files instead (CONTRIBUTING.md):\n${TEXT}")
endif()
