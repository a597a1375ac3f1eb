# Checks one model with Spin: cmake -DSPIN=... -DCC=... -DMODEL=x.pml -DDEFINES="-DA -DB" -DFOLDER=... -DEXPECT=holds|fails -P
# run_model.cmake. "holds": the whole state space was searched and nothing violated. "fails": a violation was found; what a
# weakened twin owes.
separate_arguments(defines UNIX_COMMAND "${DEFINES}")
file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")

execute_process(
  COMMAND "${SPIN}" -a ${defines} "${MODEL}"
  WORKING_DIRECTORY "${FOLDER}"
  RESULT_VARIABLE result
  OUTPUT_VARIABLE text
  ERROR_VARIABLE text)
if(NOT result EQUAL 0 OR NOT EXISTS "${FOLDER}/pan.c")
  message(FATAL_ERROR "spin cannot read the model:\n${text}")
endif()

# SAFETY: assertions and invalid end states, no cycles. COLLAPSE: half the memory. A twin's search is short: compiling
# would take longer.
set(optimize -O2 -DCOLLAPSE)
if(EXPECT STREQUAL "fails")
  set(optimize -O0)
endif()
execute_process(
  COMMAND "${CC}" ${optimize} -w -DSAFETY -o checker pan.c
  WORKING_DIRECTORY "${FOLDER}"
  RESULT_VARIABLE result
  ERROR_VARIABLE text)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the checker does not compile:\n${text}")
endif()

execute_process(
  COMMAND ./checker -m100000 -n
  WORKING_DIRECTORY "${FOLDER}"
  OUTPUT_VARIABLE text
  ERROR_VARIABLE text)
message("${text}")
if(text MATCHES "max search depth too small|out of memory|aborted|Search not completed" AND EXPECT STREQUAL "holds")
  message(FATAL_ERROR "the search is not complete")
endif()
if(NOT text MATCHES "errors: ([0-9]+)")
  message(FATAL_ERROR "the checker has not said how many errors there are")
endif()
set(errors "${CMAKE_MATCH_1}")
if(EXPECT STREQUAL "holds" AND NOT errors EQUAL 0)
  execute_process(
    COMMAND "${SPIN}" -t -p ${defines} "${MODEL}"
    WORKING_DIRECTORY "${FOLDER}"
    OUTPUT_VARIABLE trail
    ERROR_VARIABLE trail)
  message(FATAL_ERROR "violated. The way there:\n${trail}")
elseif(EXPECT STREQUAL "fails" AND errors EQUAL 0)
  message(FATAL_ERROR "the weakened twin holds: either the model does not look, or what was left out is not needed")
endif()
