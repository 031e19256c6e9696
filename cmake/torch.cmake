# libtorch as the target fourfold::torch: Debian's package, or a download of libtorch 2.x named by
# -DCMAKE_PREFIX_PATH=/path/to/libtorch. Its own CMake package is not used: on Debian it drags in
# protobuf and Python, and it changes the flags of every target. The installed package has this file, too:
# what is missing is left to the caller, in FOURFOLD_MISSING.
if(TARGET fourfold::torch)
  return()
endif()
find_path(TORCH_INCLUDE_DIR ATen/core/Tensor.h PATH_SUFFIXES include)
find_path(TORCH_API_INCLUDE_DIR torch/all.h
          HINTS ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
find_library(TORCH_CPU_LIBRARY torch_cpu)
find_library(TORCH_C10_LIBRARY c10)
if(NOT TORCH_INCLUDE_DIR OR NOT TORCH_CPU_LIBRARY OR NOT TORCH_C10_LIBRARY)
  set(FOURFOLD_MISSING "libtorch was not found: install the package libtorch-dev, or name a libtorch \
folder with -DCMAKE_PREFIX_PATH=...")
  return()
endif()
add_library(fourfold::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(fourfold::torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIR} ${TORCH_API_INCLUDE_DIR})
target_link_libraries(fourfold::torch INTERFACE ${TORCH_CPU_LIBRARY} ${TORCH_C10_LIBRARY})
if(FOURFOLD_CUDA)
  find_library(TORCH_CUDA_LIBRARY torch_cuda)
  find_library(TORCH_C10_CUDA_LIBRARY c10_cuda)
  if(NOT TORCH_CUDA_LIBRARY OR NOT TORCH_C10_CUDA_LIBRARY)
    set(FOURFOLD_MISSING "This libtorch is not for CUDA: ${TORCH_CPU_LIBRARY}; name another one with \
-DCMAKE_PREFIX_PATH=... (docs/gpu.md)")
    return()
  endif()
  # Before 2.10 libtorch does not add products of bf16 to float.
  set(TORCH_VERSION_FILE ${TORCH_INCLUDE_DIR}/torch/headeronly/version.h)
  if(NOT EXISTS ${TORCH_VERSION_FILE})
    set(TORCH_VERSION_FILE ${TORCH_API_INCLUDE_DIR}/torch/version.h)
  endif()
  file(STRINGS ${TORCH_VERSION_FILE} TORCH_FOUND REGEX "define +TORCH_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" TORCH_FOUND "${TORCH_FOUND}")
  if(TORCH_FOUND VERSION_LESS 2.10)
    set(FOURFOLD_MISSING "libtorch 2.10 or newer is needed for GPUs, and ${TORCH_INCLUDE_DIR} has ${TORCH_FOUND}; name \
another one with -DCMAKE_PREFIX_PATH=... (docs/gpu.md)")
    return()
  endif()
  # No symbol of it is used by name, so that the linker would drop it, and with it all operations on GPUs.
  target_link_libraries(fourfold::torch INTERFACE
                        "-Wl,--push-state,--no-as-needed,${TORCH_CUDA_LIBRARY},--pop-state"
                        ${TORCH_C10_CUDA_LIBRARY} fourfold::cudart)
endif()
# libtorch is built with NDEBUG; without it its headers add members that its binaries do not have.
target_compile_definitions(fourfold::torch INTERFACE NDEBUG)
