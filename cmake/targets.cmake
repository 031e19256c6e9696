# The project's own ways to make targets. A folder fourfold/NAME is the target fourfold_NAME, alias
# fourfold::NAME.

add_library(fourfold_options INTERFACE)
target_compile_options(fourfold_options INTERFACE -Wall -Wextra -Wshadow -Wconversion
                                                  $<$<BOOL:${FOURFOLD_WERROR}>:-Werror>)
if(FOURFOLD_SANITIZE)
  target_compile_options(fourfold_options INTERFACE -fsanitize=${FOURFOLD_SANITIZE}
                                                    -fno-omit-frame-pointer)
  target_link_options(fourfold_options INTERFACE -fsanitize=${FOURFOLD_SANITIZE})
endif()

# For files whose loops are meant to become vectors. The last two change no value: nobody looks at
# the processor's flags or at errno, and conditions in loops need not branch.
set(FOURFOLD_KERNEL_OPTIONS -O3 -fopenmp-simd -fno-trapping-math -fno-math-errno)

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
  install(TARGETS fourfold_${ARG_NAME} EXPORT FourfoldTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()
