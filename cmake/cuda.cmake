# CUDA and NCCL as the targets fourfold::cudart and fourfold::nccl, in the build and in the installed package: what is
# missing is left to the caller, in FOURFOLD_MISSING. They are looked for in CUDA_HOME and NCCL_HOME if CMake is told
# these, then where scripts/install-cuda.sh puts them, then in the folders that the environment names so, as the modules
# of clusters do. Packages of Python have no libcudart.so, only libcudart.so.13.
if(TARGET fourfold::nccl)
  return()
endif()
set(CUDA_HOME "" CACHE PATH "Folder of CUDA, with include and lib or lib64")
set(NCCL_HOME "" CACHE PATH "Folder of NCCL, with include and lib")
set(CUDA_FOLDERS ${CUDA_HOME} ${PROJECT_SOURCE_DIR}/build/cuda-libs/cuda $ENV{CUDA_HOME})
set(NCCL_FOLDERS ${NCCL_HOME} ${CUDA_HOME} ${PROJECT_SOURCE_DIR}/build/cuda-libs/nccl $ENV{NCCL_HOME} $ENV{CUDA_HOME})

find_path(CUDART_INCLUDE_DIR cuda_runtime_api.h HINTS ${CUDA_FOLDERS} PATH_SUFFIXES include)
find_library(CUDART_LIBRARY NAMES libcudart.so libcudart.so.13 libcudart.so.12 NAMES_PER_DIR HINTS ${CUDA_FOLDERS}
             PATH_SUFFIXES lib lib64)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_FOLDERS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES libnccl.so libnccl.so.2 NAMES_PER_DIR HINTS ${NCCL_FOLDERS}
             PATH_SUFFIXES lib lib64)
if(NOT CUDART_INCLUDE_DIR OR NOT CUDART_LIBRARY OR NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
  set(FOURFOLD_MISSING "CUDA or NCCL was not found: set CUDA_HOME and NCCL_HOME, or run scripts/install-cuda.sh \
(docs/gpu.md)")
  return()
endif()
# With older ones nvcc has no C++20, and NCCL does not start the kernels of several communicators in one order.
file(STRINGS ${CUDART_INCLUDE_DIR}/cuda_runtime_api.h CUDA_FOUND REGEX "define +CUDART_VERSION")
string(REGEX REPLACE "[^0-9]" "" CUDA_FOUND "${CUDA_FOUND}")
file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h NCCL_FOUND REGEX "define +NCCL_(MAJOR|MINOR) ")
string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" NCCL_FOUND "${NCCL_FOUND}")
if(CUDA_FOUND LESS 12040)
  set(FOURFOLD_MISSING "CUDA 12.4 or newer is needed, and ${CUDART_INCLUDE_DIR} is of version ${CUDA_FOUND} (12040 is \
12.4); set CUDA_HOME (docs/gpu.md)")
  return()
endif()
if(NCCL_FOUND VERSION_LESS 2.26)
  set(FOURFOLD_MISSING "NCCL 2.26 or newer is needed, and ${NCCL_INCLUDE_DIR} has ${NCCL_FOUND}; set NCCL_HOME \
(docs/gpu.md)")
  return()
endif()

add_library(fourfold::cudart INTERFACE IMPORTED GLOBAL)
target_include_directories(fourfold::cudart SYSTEM INTERFACE ${CUDART_INCLUDE_DIR})
target_link_libraries(fourfold::cudart INTERFACE ${CUDART_LIBRARY})
add_library(fourfold::nccl INTERFACE IMPORTED GLOBAL)
target_include_directories(fourfold::nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
target_link_libraries(fourfold::nccl INTERFACE ${NCCL_LIBRARY} fourfold::cudart)
