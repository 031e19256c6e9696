# The project's own ways to make targets. A folder fourfold/NAME is the target fourfold_NAME, alias
# fourfold::NAME.

add_library(fourfold_options INTERFACE)
# GCC 12 warns of overlaps inside its own strings that cannot be (its bug 105651).
set(FOURFOLD_WARNINGS -Wall -Wextra -Wshadow -Wconversion $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                      $<$<BOOL:${FOURFOLD_WERROR}>:-Werror>)
target_compile_options(fourfold_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${FOURFOLD_WARNINGS}>")
if(FOURFOLD_SANITIZE)
  target_compile_options(fourfold_options INTERFACE -fsanitize=${FOURFOLD_SANITIZE}
                                                    -fno-omit-frame-pointer)
  target_link_options(fourfold_options INTERFACE -fsanitize=${FOURFOLD_SANITIZE})
endif()

# For files whose loops are meant to become vectors. The last two change no value: nobody looks at
# the processor's flags or at errno, and conditions in loops need not branch.
set(FOURFOLD_KERNEL_OPTIONS -O3 -fopenmp-simd -fno-trapping-math -fno-math-errno)

# Most of the time of a file goes into what it includes: several files together compile much faster.
# Files with compile options of their own stay alone.
function(fourfold_compile_together target)
  if(FOURFOLD_UNITY)
    # The compiler takes the files for headers here, in which types of one file would be a mistake.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# fourfold_library(NAME plan SOURCES a.cpp b.cpp DEPS fourfold::grid [PRIVATE_DEPS ...]): built, and installed
# as fourfold::plan.
function(fourfold_library)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(fourfold_${ARG_NAME} STATIC ${ARG_SOURCES})
  add_library(fourfold::${ARG_NAME} ALIAS fourfold_${ARG_NAME})
  target_include_directories(fourfold_${ARG_NAME}
                             PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(fourfold_${ARG_NAME} PUBLIC cxx_std_20)
  target_link_libraries(fourfold_${ARG_NAME} PUBLIC ${ARG_DEPS}
                                             PRIVATE ${ARG_PRIVATE_DEPS} $<BUILD_INTERFACE:fourfold_options>)
  set_target_properties(fourfold_${ARG_NAME} PROPERTIES EXPORT_NAME ${ARG_NAME})
  fourfold_compile_together(fourfold_${ARG_NAME})
  install(TARGETS fourfold_${ARG_NAME} EXPORT FourfoldTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()
