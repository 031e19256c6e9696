# Checks that what runs in a training step reads nothing from a device but by tensor::download, which counts: `.item` and
# `.cpu` make the host wait. Files that may use them run after a step has failed, or look at main memory.
#   cmake -DROOT=... -P host_reads.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_policy(VERSION 3.22)
set(ALLOWED
    fourfold/kernels/vocabulary.cpp  # tokens, before they go to the device
    fourfold/nn/loss.cpp             # a number in main memory
    fourfold/optim/flat_group.cpp    # after a step that was not finite, as the next two
    fourfold/train/inspection.cpp
    fourfold/train/not_finite.cpp
    fourfold/tensor/transfer.cpp)    # download itself
set(ERRORS)
foreach(FOLDER kernels tensor nn optim model train)
  file(GLOB_RECURSE FILES RELATIVE ${ROOT} ${ROOT}/fourfold/${FOLDER}/*.hpp ${ROOT}/fourfold/${FOLDER}/*.cpp)
  foreach(FILE IN LISTS FILES)
    if(FILE IN_LIST ALLOWED)
      continue()
    endif()
    file(STRINGS ${ROOT}/${FILE} LINES REGEX "[.](item[(<]|cpu[(][)]|to[(]at::kCPU|is_nonzero[(])")
    foreach(LINE IN LISTS LINES)
      if(NOT LINE MATCHES "^ *///?")
        list(APPEND ERRORS "${FILE}:${LINE}")
      endif()
    endforeach()
  endforeach()
endforeach()
if(ERRORS)
  list(JOIN ERRORS "\n" TEXT)
  message(FATAL_ERROR "these lines make the host wait for a device:\n${TEXT}")
endif()
