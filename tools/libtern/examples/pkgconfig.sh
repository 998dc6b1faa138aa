#!/bin/sh
# Builds and runs the example with pkg-config: pkgconfig.sh LIBDIR CC FOLDER
set -eu
export PKG_CONFIG_PATH="$1/pkgconfig"
"$2" "$(dirname "$0")/hello.c" $(pkg-config --cflags --libs tern) -Wl,-rpath,"$1" -o "$3/hello_pkgconfig"
exec "$3/hello_pkgconfig"
