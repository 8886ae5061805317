# Makes a header of a file's bytes: cmake -DFILE=... -DHEADER=... -DNAME=... -P EmbedFile.cmake
file(READ ${FILE} digits HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${digits}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
get_filename_component(origin ${FILE} NAME)
file(WRITE ${HEADER} "// Made of ${origin}.\n#pragma once\n\ninline constexpr unsigned char ${NAME}[] = {\n${bytes}};\n")
