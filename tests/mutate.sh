#!/bin/sh
# Mutation testing: applies small wrong edits to copies of dea.h, one at a time, and runs the suites that should notice.
# usage: mutate.sh [--check] [FILE...]      default: tests/mutants/*.txt; environment: CC, JOBS (2), SECONDS_EACH (60)
#        --check: only whether the text of every mutant is still there
#
# A file names its suites (and flags for the compiler) and lists mutants:
#     suites: attention golden
#     flags: -DDEA_NO_SIMD
#     == id: what is wrong with it
#     text of dea.h, which must occur exactly once
#     --
#     what stands there instead
# A mutant is killed if any suite fails or hangs. Text that is missing or not unique, a mutant that does not compile, and a
# suite that fails without any mutant are errors. Last line: "N mutants, N survived"; exit 1 if any survived or erred.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${CC:=cc}" "${JOBS:=2}" "${SECONDS_EACH:=60}"
export CC SECONDS_EACH OPENBLAS_NUM_THREADS=1
out=build/mutants

# One mutant, by its folder: compiles and runs suite after suite until one fails. Prints one line.
if [ "${1:-}" = --one ]; then
    dir=$2
    id=${dir##*/}
    read -r suites <"$dir/suites"
    read -r flags <"$dir/flags"
    for suite in $suites; do
        # shellcheck disable=SC2086
        if ! $CC -std=c11 -D_POSIX_C_SOURCE=200809L -O0 -w $flags -I"$dir" -I. -Iexamples "tests/test_$suite.c" \
            -o "$dir/$suite" -pthread -lcmocka -lopenblas -lm >"$dir/$suite.build" 2>&1; then
            echo "$id: ERROR: does not compile with test_$suite.c, see $dir/$suite.build"
            exit 0
        fi
        timeout "$SECONDS_EACH" "$dir/$suite" >"$dir/$suite.log" 2>&1
        code=$?
        rm -f "$dir/$suite"
        if [ "$code" -ne 0 ]; then
            [ "$code" -eq 124 ] && echo "$id: killed by $suite (hangs)" || echo "$id: killed by $suite"
            exit 0
        fi
    done
    echo "$id: SURVIVED $suites"
    exit 0
fi

case "${1:-}" in
-h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p;}' tests/mutate.sh && exit 0 ;;
esac
only_check=0
[ "${1:-}" = --check ] && only_check=1 && out=$out-check && shift # beside a run, not over it
[ $# -gt 0 ] || set -- tests/mutants/*.txt
for file; do
    [ -r "$file" ] || { echo "mutate.sh: cannot read $file; give files of mutants, see --help" >&2 && exit 2; }
done
rm -rf "$out"
mkdir -p "$out"

# Cuts the files into one folder a mutant: dea.h, suites, flags. Also one folder "unchanged-NAME" for each file.
perl -e '
    my $out = shift @ARGV;
    local $/;
    open(my $in, "<", "dea.h") or die "dea.h: $!\n";
    my $source = <$in>;
    my $failed = 0;
    my %seen;
    sub put { my ($path, $text) = @_; open(my $f, ">", $path) or die "$path: $!\n"; print $f $text; close $f; }
    for my $file (@ARGV) {
        open(my $list, "<", $file) or die "$file: $!\n";
        my ($head, @mutants) = split /^== /m, <$list>;
        my ($suites) = $head =~ /^suites: *(.+)$/m or die "$file: names no suites\n";
        my ($flags) = $head =~ /^flags: *(.*)$/m;
        $flags = "" unless defined $flags;
        my ($name) = $file =~ m{([^/]+)\.txt$} or die "$file: expected NAME.txt\n";
        my @all = (["unchanged-$name", "", ""]);
        for (@mutants) {
            my ($id, $old, $new) = /^([\w-]+):[^\n]*\n(.*?)^--\n(.*)\z/ms or die "$file: cannot read the mutant at: " . substr($_, 0, 60) . "\n";
            s/\n+\z// for $old, $new;
            push @all, ["$name-$id", $old, $new];
        }
        for (@all) {
            my ($id, $old, $new) = @$_;
            if ($seen{$id}++) { print "$id: ERROR: two mutants of this name\n"; $failed = 1; next; }
            my $text = $source;
            if ($old ne "") {
                my $count = () = $source =~ /\Q$old\E/g;
                if ($count != 1) { print "$id: ERROR: its text occurs $count times in dea.h\n"; $failed = 1; next; }
                if ($old eq $new) { print "$id: ERROR: changes nothing\n"; $failed = 1; next; }
                my $at = index($text, $old);
                substr($text, $at, length $old) = $new;
            }
            mkdir "$out/$id" or die "$out/$id: $!\n";
            put("$out/$id/dea.h", $text);
            put("$out/$id/suites", "$suites\n");
            put("$out/$id/flags", "$flags\n");
        }
    }
    exit $failed;
' "$out" "$@" >"$out/errors"
cut=$?
cat "$out/errors"
if [ "$cut" -gt 1 ]; then exit 2; fi
if [ "$only_check" -eq 1 ]; then
    echo "$(ls -d "$out"/*/ | grep -vc /unchanged-) mutants apply, $(grep -c ERROR "$out/errors") do not"
    exit "$cut"
fi

start=$(date +%s)
ls -d "$out"/*/ | sed 's,/$,,' | xargs -P "$JOBS" -I DIR sh tests/mutate.sh --one DIR | tee "$out/results"

# What was not changed must pass, everything else must not.
broken=$(grep '^unchanged-' "$out/results" | grep -vc SURVIVED)
total=$(grep -vc '^unchanged-' "$out/results")
survived=$(grep -v '^unchanged-' "$out/results" | grep -c SURVIVED)
errors=$(($(grep -c ERROR "$out/results") + $(grep -c ERROR "$out/errors")))
expected=$(ls -d "$out"/*/ | grep -vc /unchanged-)
[ "$broken" -eq 0 ] || echo "$broken files of mutants whose suites fail on dea.h as it is: nothing is proven"
[ "$errors" -eq 0 ] || echo "$errors errors"
[ "$total" -eq "$expected" ] || echo "$expected mutants were made, $total reported"
echo "$(($(date +%s) - start)) s"
echo "$total mutants, $survived survived"
[ "$survived" -eq 0 ] && [ "$broken" -eq 0 ] && [ "$errors" -eq 0 ] && [ "$total" -gt 0 ] && [ "$total" -eq "$expected" ]
