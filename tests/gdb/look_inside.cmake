# gdb's commands for fibers (runtime/observe/gdb/coir-gdb.py), in a process and in a core file. The script comes out of the
# program itself.
function(ask_gdb out)
  execute_process(
    COMMAND "${gdb}" --batch -nx -iex "set auto-load safe-path /" -iex "set debuginfod enabled off" ${ARGN}
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result TIMEOUT 100)
  message("${output}")
  if(output MATCHES "ptrace: Operation not permitted|Couldn't trace|Cannot PTRACE|[Pp]ython scripting is not supported")
    message("SKIPPED: gdb cannot run a program here, or has no Python")
    set(skipped TRUE PARENT_SCOPE)
  endif()
  set(${out} "${output}" PARENT_SCOPE)
endfunction()

function(expect text)
  foreach(pattern IN LISTS ARGN)
    if(NOT text MATCHES "${pattern}")
      message(FATAL_ERROR "gdb's answer does not match: ${pattern}")
    endif()
  endforeach()
endfunction()

set(commands -ex "info coir fibers" -ex "coir fiber 2 bt" -ex "coir fiber 1 bt" -ex "coir fiber 3 bt" -ex "coir fiber 77 bt" -ex "bt")
set(list "fiber 1 \"stops\", spawned at [^\n]*parked.cpp:[0-9]+: running on thread [0-9]+"
         "fiber 2 \"reader\", spawned at [^\n]*parked.cpp:[0-9]+: blocked in chan receive 0x[0-9a-f]+ for (at least )?[0-9.]+ s"
         "fiber 3 \"sized\", spawned at [^\n]*parked.cpp:[0-9]+: blocked in chan receive 0x[0-9a-f]+ for (at least )?[0-9.]+ s")
set(stacks "\n#[0-9]+ [^\n]*gdb_test_waits_here.*\n#[0-9]+ [^\n]*gdb_test_stops_here.*\n#[0-9]+ [^\n]*gdb_test_waits_here"
           "There is no fiber 77")

ask_gdb(live -ex run ${commands} -ex continue "${program}")
if(skipped)
  return()
endif()
expect("${live}" ${list} ${stacks} "exited normally")

ask_gdb(other -ex "info coir fibers" "${program}")
expect("${other}" "The program is not running")

set(folder "${program}.cores")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
execute_process(COMMAND sh -c "ulimit -c unlimited && exec '${program}'" WORKING_DIRECTORY "${folder}")
file(GLOB core "${folder}/core*")
if(NOT core)
  message("The system leaves no core file where the program runs (/proc/sys/kernel/core_pattern, ulimit -c): not tested.")
  return()
endif()
ask_gdb(dead ${commands} "${program}" "${core}")
expect("${dead}" ${list} ${stacks})
file(REMOVE_RECURSE "${folder}")
