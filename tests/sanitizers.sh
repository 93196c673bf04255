#!/bin/sh
# The suites of dea.h under the address and undefined-behaviour sanitizers, those with threads under the thread sanitizer, and
# the smallest under valgrind.
# usage: sanitizers.sh [SUITE...]      such as test_gate; default: all that need nothing but dea.h; environment: CC
# What is not installed is reported as not run. Exit 1 if anything failed.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${CC:=cc}"
out=build/sanitizers
mkdir -p "$out"
if [ $# -eq 0 ]; then
    for file in $(grep -lE '^#( *)define DEA_IMPLEMENTATION|^#include "test_' tests/test_*.c); do
        grep -q '^#include "[a-z]*/' "$file" || set -- "$@" "$(basename "$file" .c)" # those with examples in them need more
    done
fi
export OPENBLAS_NUM_THREADS=1
failed=0 passed=0 skipped=0

run() { # run LABEL PROGRAM COMMAND...
    label=$1 log=$out/$2.$1.log
    shift 2
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
    else
        echo "$label: $*: failed, the end of $log:"
        grep -m 1 -A 12 'ERROR: \|WARNING: ThreadSanitizer\|runtime error\|==[0-9]*== [IU]n' "$log" || tail -n 12 "$log"
        failed=$((failed + 1))
    fi
}

compile() { # compile SUITE OUTPUT FLAGS...
    suite=$1 program=$2
    shift 2
    # FAST_QUICK: fewer shapes for test_fast, which a sanitizer makes ten times slower
    $CC -std=c11 -D_POSIX_C_SOURCE=200809L -g -w -DFAST_QUICK "$@" -I. -Iexamples "tests/$suite.c" -o "$program" -pthread -lcmocka -lopenblas -lm
}

usable() { # usable FLAGS...: whether this compiler can build and run a program with them
    echo 'int main(void){return 0;}' | $CC "$@" -x c - -o "$out/probe" >/dev/null 2>&1 && "$out/probe" >/dev/null 2>&1
}

if usable -fsanitize=address,undefined; then
    for suite in "$@"; do
        # -O1, and overruns of odd sizes are seen because tests give every tensor a block of its own
        compile "$suite" "$out/$suite.asan" -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined \
            && run address+undefined "$suite" "$out/$suite.asan" || failed=$((failed + 1))
    done
else
    echo "address, undefined: not run: $CC cannot build with them"
    skipped=$((skipped + 1))
fi

threaded=$(for suite in "$@"; do if grep -q thread_hooks.h "tests/$suite.c"; then echo "$suite"; fi; done)
if usable -fsanitize=thread -pthread; then
    for suite in $threaded; do
        compile "$suite" "$out/$suite.tsan" -O1 -fsanitize=thread \
            && run thread "$suite" "$out/$suite.tsan" || failed=$((failed + 1))
    done
else
    echo "thread: not run: $CC cannot build with it"
    skipped=$((skipped + 1))
fi

if command -v valgrind >/dev/null; then
    case " $* " in *" test_parts "*)
        compile test_parts "$out/test_parts.plain" -O1 -DDEA_NO_SIMD \
            && run valgrind test_parts valgrind -q --error-exitcode=9 --leak-check=full "$out/test_parts.plain" || failed=$((failed + 1)) ;;
    esac
else
    echo "valgrind: not run: not installed"
    skipped=$((skipped + 1))
fi
echo "$passed runs clean, $failed failed, $skipped not run"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
