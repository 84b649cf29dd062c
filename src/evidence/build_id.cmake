# Writes OUTPUT with the commit of SOURCE_DIR: the hash, "-dirty" after it where tracked files differ, "unknown" where
# SOURCE_DIR is not itself the top of a git work tree (an unpacked archive inside another repository is not).
set(commit "unknown")
find_package(Git QUIET)
if(GIT_FOUND)
  set(git ${GIT_EXECUTABLE} --no-optional-locks -C ${SOURCE_DIR})
  execute_process(COMMAND ${git} rev-parse --show-prefix HEAD
                  OUTPUT_VARIABLE answer RESULT_VARIABLE failed ERROR_QUIET)
  # Two lines: the path below the top, empty at the top, and the hash.
  if(NOT failed AND answer MATCHES "^\n([0-9a-f]+)\n$")
    set(commit ${CMAKE_MATCH_1})
    execute_process(COMMAND ${git} diff --quiet HEAD RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
    if(differs)
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()

set(text "#include \"evidence/build_id.h\"

namespace ida::evidence {

const BuildId& build_id() {
  static const BuildId id = {\"${commit}\", \"${VERSION}\", \"${COMPILER}\", \"${BUILD_TYPE}\"};
  return id;
}

}  // namespace ida::evidence
")
set(former "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} former)
endif()
if(NOT former STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
