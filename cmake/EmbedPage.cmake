# Makes a page a part of a library: index.html of `directory` becomes page_bytes in "page_bytes.h", for its sources alone.
function(triton_embed_page library directory)
  set(page ${CMAKE_CURRENT_SOURCE_DIR}/${directory}/index.html)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/generated/page_bytes.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DFILE=${page} -DHEADER=${header} -DNAME=page_bytes -P ${CMAKE_SOURCE_DIR}/cmake/EmbedFile.cmake
    DEPENDS ${page} ${CMAKE_SOURCE_DIR}/cmake/EmbedFile.cmake
    VERBATIM)
  target_sources(${library} PRIVATE ${header})
  target_include_directories(${library} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
