# PCRE2 as the target fourfold::pcre2, in the build and in the installed package: what is missing is left
# to the caller, in FOURFOLD_MISSING.
if(TARGET fourfold::pcre2)
  return()
endif()
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
if(NOT PCRE2_INCLUDE_DIR OR NOT PCRE2_LIBRARY)
  set(FOURFOLD_MISSING "PCRE2 was not found: install the package libpcre2-dev")
  return()
endif()
add_library(fourfold::pcre2 INTERFACE IMPORTED GLOBAL)
target_include_directories(fourfold::pcre2 SYSTEM INTERFACE ${PCRE2_INCLUDE_DIR})
target_link_libraries(fourfold::pcre2 INTERFACE ${PCRE2_LIBRARY})
