# What every build of the native code shares: CMakeLists.txt builds the addon that ships, native/test what the tests need.
# Sets generated (an include folder of the binding), node_includes, and a variable for each list, which binding.gyp reads too:
# core_sources (no Node), addon_sources (the binding to Node), addon_definitions, addon_compile_options, addon_link_options.
# Definitions ALL: every std::exception becomes a JavaScript error. SWALLOW: one that can no longer be thrown, because the
# environment is being torn down, is dropped instead of ending the process. Options: glibc checks calls (_FORTIFY_SOURCE) only in
# optimized code.
get_filename_component(root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
foreach(list core_sources addon_sources addon_definitions addon_compile_options addon_link_options)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${root}/native/${list}.txt")
  file(STRINGS "${root}/native/${list}.txt" ${list})
endforeach()
list(TRANSFORM core_sources PREPEND "${root}/")
list(TRANSFORM addon_sources PREPEND "${root}/")

# Plain cmake asks node; so does cmake-js with node's own headers, which lack node-addon-api.
execute_process(
  COMMAND node -p "[require('node-api-headers'), require('node-addon-api')].map((p) => path.resolve(p.include_dir)).join(';')"
  WORKING_DIRECTORY "${root}"
  OUTPUT_VARIABLE node_includes
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

# The table that the addon exports as `layout` follows from the record.h files.
set(generated "${CMAKE_CURRENT_BINARY_DIR}/generated")
file(GLOB records CONFIGURE_DEPENDS "${root}/native/*/record.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${records} "${root}/native/records.mjs")
execute_process(
  COMMAND node "${root}/native/records.mjs" --table "${generated}/binding/layout_table.h" COMMAND_ERROR_IS_FATAL ANY)
