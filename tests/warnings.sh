#!/bin/sh
# Builds dea.h in every way it promises: gcc and clang, C11 and C++17, with and without each macro, zero warnings; then looks
# at the objects: no writable globals, no call to exit, abort, printf, malloc, getenv.
# usage: warnings.sh      A compiler that is not installed is reported as not run. Exit 1 if anything failed.
set -u
cd "$(dirname "$0")/.." || exit 2
out=build/warnings
mkdir -p "$out"
printf '#define DEA_IMPLEMENTATION\n#include "dea.h"\n' >"$out/a.c"
cp "$out/a.c" "$out/a.cpp"
warn="-Wall -Wextra -Wpedantic -Wconversion -Wshadow"
failed=0 built=0 skipped=0 refused=0

build() { # build LABEL COMMAND...
    label=$1
    shift
    if "$@" -I. -O1 -c -o "$out/a.o" >"$out/log" 2>&1 && [ ! -s "$out/log" ]; then
        bad=$(nm "$out/a.o" | grep -v "DW.ref.__gxx_personality_v0" | awk '$2 ~ /^[BbDdCSsGgV]$/ { print $3 } $1 == "U" && $2 ~ /^(exit|_exit|abort|v?f?printf|puts|putchar|malloc|calloc|realloc|free|getenv|rand|srand|setlocale)(@.*)?$/ { print $2 }' | tr '\n' ' ')
        if [ -z "$bad" ]; then
            built=$((built + 1))
        else
            echo "$label: writable globals or forbidden calls: $bad"
            failed=$((failed + 1))
        fi
    else
        echo "$label: warnings or errors:"
        head -n 12 "$out/log"
        failed=$((failed + 1))
    fi
}

refuses() { # refuses COMPILER FLAG: the header says why it will not be compiled so
    if "$1" "$2" -I. -E "$out/a.c" >/dev/null 2>"$out/log" || ! grep -q "compile it without" "$out/log"; then
        echo "$1 $2: not refused"
        failed=$((failed + 1))
    else
        refused=$((refused + 1))
    fi
}

for compiler in "gcc g++" "clang clang++"; do
    c=${compiler% *} cpp=${compiler#* }
    for macros in "" -DDEA_REAL=double -DDEA_STATIC -DDEA_NO_BLAS -DDEA_NO_SIMD -fopenmp \
        "-DDEA_REAL=double -DDEA_NO_BLAS -DDEA_NO_SIMD" "-DDEA_STATIC -DDEA_NO_BLAS" "-DDEA_REAL=double -DDEA_NO_BLAS"; do
        if [ "$macros" = -fopenmp ] && ! { echo 'int main(void){return 0;}' | $c -fopenmp -x c - -o "$out/openmp" >/dev/null 2>&1; }; then
            if command -v "$c" >/dev/null; then echo "$c -fopenmp: not run: no OpenMP for it here" && skipped=$((skipped + 1)); fi
            continue
        fi
        if command -v "$c" >/dev/null; then
            # shellcheck disable=SC2086
            build "$c C11 $macros" $c -std=c11 $warn -Wstrict-prototypes $macros "$out/a.c"
        fi
        if command -v "$cpp" >/dev/null; then
            # shellcheck disable=SC2086
            build "$cpp C++17 $macros" $cpp -std=c++17 $warn $macros "$out/a.cpp"
        fi
    done
    for flag in -ffast-math -ffinite-math-only -funsafe-math-optimizations; do
        if [ "$c$flag" = clang-funsafe-math-optimizations ]; then continue; fi # clang does not tell
        if command -v "$c" >/dev/null; then refuses "$c" "$flag"; fi
    done
    command -v "$c" >/dev/null || { echo "$c: not run: not installed" && skipped=$((skipped + 1)); }
    command -v "$cpp" >/dev/null || { echo "$cpp: not run: not installed" && skipped=$((skipped + 1)); }
done
echo "$built builds clean, $refused refused as they should be, $failed failed, $skipped not run"
[ "$failed" -eq 0 ] && [ "$built" -gt 0 ]
