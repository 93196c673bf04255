#!/bin/sh
# Runs test programs, as many at a time as there are cores, and adds up their cmocka counts.
# usage: run.sh PROGRAM...      last line: "N passed, N failed"; exit 1 if any test failed or a program died
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
printf '%s\n' "$@" | xargs -P "$cores" -I '{}' sh -c '
    start=$(date +%s)
    "$1" >"$1.log" 2>&1
    echo "$? $(($(date +%s) - start))" >"$1.status"' run '{}'
passed=0 failed=0
for program in "$@"; do
    log="$program.log" code=1 seconds=0
    read -r code seconds <"$program.status"
    rm -f "$program.status"
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test(s)\..*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    f=$(sed -n 's/^\[  FAILED  \].* \([0-9]*\) test(s).*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    # A program that fails without saying which test, or that ran none, is itself one failure.
    if [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$p" -eq 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$f" -ne 0 ]; then cat "$log"; fi
    printf '%-34s %4d passed, %d failed, %ds\n' "${program##*/}" "$p" "$f" "$seconds"
    passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
