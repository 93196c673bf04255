#!/bin/sh
# What each part of dual-expert attention is worth: variants of one model, trained on one data set with several seeds each,
# evaluated on the same test rows, in one table with intervals, as found. Run by `make ablation`.
#
# A run that has its report is not run again, and one that was stopped goes on from its state: start it again at any time.
# To begin anew remove the output folder.
#
# Environment:  PROGRAMS  where train, eval, data and compare are     (build)
#               OUT       where everything goes                       (build/ablation)
#               PRESET    of build/train                              (small)
#               STEPS     of each run                                 (6000)
#               SEEDS     one run of each variant for each            ("1 2 3")
#               VARIANTS  names out of the list below                 (all)
#               THREADS   of each run                                 (2)
#               MARKDOWN  1: the table as Markdown
case ${1-} in
'') ;;
-h | --help)
    echo 'usage: ablation.sh'
    sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p;}' "$0"
    printf '\n%s\n' 'Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.'
    exit 0
    ;;
*)
    echo "ablation: takes no argument \"$1\"; see ablation.sh --help" >&2
    exit 2
    ;;
esac
set -u
PROGRAMS=${PROGRAMS:-build} OUT=${OUT:-build/ablation} PRESET=${PRESET:-small} STEPS=${STEPS:-6000}
SEEDS=${SEEDS:-1 2 3} THREADS=${THREADS:-2}
ALL='dea alpha-0 alpha-0.5 no-gate-loss gamma-anneal token truth'
VARIANTS=${VARIANTS:-$ALL}

# Options of a variant. dea is the presets' own way: the gate learns from the relation oracle, gamma 0.
options() {
    case $1 in
    dea) echo --gamma 0 ;;
    alpha-0) echo --gamma 0 --alpha 0 ;;                # similarity only
    alpha-0.5) echo --gamma 0 --alpha 0.5 ;;            # both experts, no gate
    no-gate-loss) echo --gamma 0 --no-gate-loss ;;      # a gate that nothing teaches
    gamma-anneal) echo --gamma $((STEPS / 3)) ;;        # the paper's exposure mix
    token) echo --gamma 0 --oracle token ;;
    truth) echo --gamma 0 --oracle truth ;;
    *) echo "ablation: unknown variant $1; take from: $ALL" >&2; return 2 ;;
    esac
}

for variant in $VARIANTS; do options "$variant" >/dev/null || exit 2; done
mkdir -p "$OUT" || exit 1

# Runs of unlike settings must not meet in one table.
settings="preset $PRESET, $STEPS steps"
if [ -f "$OUT/settings" ] && [ "$(cat "$OUT/settings")" != "$settings" ]; then
    echo "ablation: $OUT holds runs with $(cat "$OUT/settings"), not $settings; remove it or set OUT" >&2
    exit 1
fi
echo "$settings" >"$OUT/settings" || exit 1

data=$OUT/data.tsv
if [ ! -f "$data" ]; then
    "$PROGRAMS/data" build --out "$data" >"$OUT/data.log" || { echo "ablation: the data set could not be made, see $OUT/data.log" >&2; exit 1; }
fi

# train_and_evaluate VARIANT SEED: leaves the report in $OUT/VARIANT-SEED.json
train_and_evaluate() {
    run=$OUT/$1-$2
    mkdir -p "$run" || return 1
    if [ -f "$run/state.safetensors" ]; then
        "$PROGRAMS/train" --resume "$run/state.safetensors" --out "$run" --log "$run/log.jsonl" --threads "$THREADS" >>"$run/train.txt" 2>&1 || return
    else
        # shellcheck disable=SC2046 -- options are words
        "$PROGRAMS/train" --preset "$PRESET" --data "$data" --steps "$STEPS" --seed "$2" $(options "$1") --out "$run" \
            --log "$run/log.jsonl" --threads "$THREADS" >"$run/train.txt" 2>&1 || return
    fi
    "$PROGRAMS/eval" --ckpt "$run/best.safetensors" --data "$data" --seed "$2" --threads "$THREADS" --json "$run.json" >"$run/eval.txt" 2>&1
}

total=0 number=0 failed=0
for variant in $VARIANTS; do for seed in $SEEDS; do total=$((total + 1)); done; done
for seed in $SEEDS; do
    for variant in $VARIANTS; do
        number=$((number + 1))
        name="$variant, seed $seed"
        if [ -f "$OUT/$variant-$seed.json" ]; then
            echo "[$number/$total] $name: done before"
            continue
        fi
        begin=$(date +%s)
        echo "[$number/$total] $name: training"
        train_and_evaluate "$variant" "$seed"
        code=$?
        if [ "$code" -eq 130 ]; then
            echo "ablation: stopped; start it again to go on" >&2
            exit 130
        elif [ "$code" -ne 0 ]; then
            failed=$((failed + 1))
            echo "[$number/$total] $name: FAILED: $(tail -q -n 1 "$OUT/$variant-$seed/"*.txt | tail -n 1)"
        else
            echo "[$number/$total] $name: $(($(date +%s) - begin)) s"
        fi
    done
done

set --
for variant in $VARIANTS; do
    files=
    for seed in $SEEDS; do files=$files,$OUT/$variant-$seed.json; done
    set -- "$@" "$variant=${files#,}"
done
echo
echo "Test rows of $data; $settings; seeds $SEEDS; the checkpoint with the best dev accuracy of each run."
echo "alpha MAE, Pearson and sides are against the oracle of the variant itself (relation where none says otherwise)."
echo
[ "${MARKDOWN:-0}" = 1 ] && set -- --markdown "$@"
"$PROGRAMS/compare" "$@" || exit 1
[ "$failed" -eq 0 ] || { echo "ablation: $failed of $total runs failed" >&2; exit 1; }
