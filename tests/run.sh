#!/bin/sh
# Runs test programs one after another and adds up their cmocka counts.
# usage: run.sh PROGRAM...      last line: "N passed, N failed"; exit 1 if any test failed or a program died
passed=0 failed=0
for program in "$@"; do
    start=$(date +%s)
    log="$program.log"
    "$program" >"$log" 2>&1
    code=$?
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test(s)\..*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    f=$(sed -n 's/^\[  FAILED  \].* \([0-9]*\) test(s).*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    # A program that fails without saying which test, or that ran none, is itself one failure.
    if [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$p" -eq 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$f" -ne 0 ]; then cat "$log"; fi
    printf '%-34s %4d passed, %d failed, %ds\n' "${program##*/}" "$p" "$f" "$(($(date +%s) - start))"
    passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
