# What `cmake --install` puts where, besides the libraries (fourfold_library): headers, the program, the
# module that it loads, documentation and examples, and the package for find_package(Fourfold).
include(CMakePackageConfigHelpers)

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Fourfold)
set(FOURFOLD_INSTALLED_MODULES ${CMAKE_INSTALL_LIBDIR}/fourfold)

install(DIRECTORY fourfold/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fourfold FILES_MATCHING PATTERN "*.hpp")
install(TARGETS fourfold_sentencepiece LIBRARY DESTINATION ${FOURFOLD_INSTALLED_MODULES})
if(TARGET fourfold)
  file(RELATIVE_PATH FROM_PROGRAM /${CMAKE_INSTALL_BINDIR} /${FOURFOLD_INSTALLED_MODULES})
  # CMake itself leaves out folders of libraries that lie in the tree, where scripts of this project put some.
  set(LIBRARY_FOLDERS)
  foreach(LIBRARY ${TORCH_CPU_LIBRARY} ${CUDART_LIBRARY} ${NCCL_LIBRARY})
    get_filename_component(FOLDER ${LIBRARY} REALPATH)
    get_filename_component(FOLDER ${FOLDER} DIRECTORY)
    if(NOT FOLDER IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      list(APPEND LIBRARY_FOLDERS ${FOLDER})
    endif()
  endforeach()
  set_target_properties(fourfold PROPERTIES INSTALL_RPATH "$ORIGIN/${FROM_PROGRAM};${LIBRARY_FOLDERS}"
                                            INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS fourfold RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY clusters configs DESTINATION ${CMAKE_INSTALL_DATADIR}/fourfold)
endif()

set(FOURFOLD_INSTALLED_DOCS ${CMAKE_INSTALL_DATADIR}/doc/fourfold)
install(DIRECTORY docs/ DESTINATION ${FOURFOLD_INSTALLED_DOCS})
install(FILES LICENSE DESTINATION ${FOURFOLD_INSTALLED_DOCS})
# A project of their own, to be built from there.
install(DIRECTORY examples DESTINATION ${FOURFOLD_INSTALLED_DOCS})

install(EXPORT FourfoldTargets NAMESPACE fourfold:: DESTINATION ${PACKAGE_DIR})
configure_package_config_file(cmake/FourfoldConfig.cmake.in ${PROJECT_BINARY_DIR}/FourfoldConfig.cmake
                              INSTALL_DESTINATION ${PACKAGE_DIR}
                              PATH_VARS FOURFOLD_INSTALLED_MODULES)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/FourfoldConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/FourfoldConfig.cmake
              ${PROJECT_BINARY_DIR}/FourfoldConfigVersion.cmake cmake/cuda.cmake cmake/pcre2.cmake cmake/torch.cmake
        DESTINATION ${PACKAGE_DIR})
