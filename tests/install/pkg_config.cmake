# Compiles, links and runs `source` with nothing but the compiler and what `pkg-config --cflags --libs PACKAGE` says.
set(ENV{PKG_CONFIG_PATH} "${pkg_config_path}")
set(ENV{LD_LIBRARY_PATH} "${library_path}")

execute_process(COMMAND "${pkg_config}" --cflags --libs ${package} OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")

file(REMOVE "${program}")
execute_process(COMMAND "${compiler}" -std=c++20 -O2 "${source}" -o "${program}" ${flags} COMMAND_ECHO STDOUT
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${program}" COMMAND_ERROR_IS_FATAL ANY)
