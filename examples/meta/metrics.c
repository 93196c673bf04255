#include "meta/metrics.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* The longest candidate that `text` starts with as a whole word, or -1. One that ends in a mark, like "A)", is whole by
 * itself. */
static int starts_with_candidate(const char *text, const char *const *candidates, int count) {
    int best = -1;
    size_t longest = 0;
    for (int i = 0; i < count; i++) {
        const size_t n = strlen(candidates[i]);
        if (n <= longest || strncmp(text, candidates[i], n) != 0) continue;
        if (isalnum((unsigned char)candidates[i][n - 1]) && isalnum((unsigned char)text[n])) continue;
        best = i;
        longest = n;
    }
    return best;
}

dea_meta_action meta_classify(const meta_wording *wording, const char *text, const char *const *candidates, int count,
                              int *named) {
    int found = -1;
    dea_meta_action action = DEA_META_OTHER;
    while (*text == ' ') text++;
    const size_t n = strlen(wording->correct);
    if (strncmp(text, wording->refuse, strlen(wording->refuse)) == 0) {
        action = DEA_META_REFUSE;
    } else if (strncmp(text, wording->correct, n) == 0) {
        found = starts_with_candidate(text + n, candidates, count);
        if (found >= 0) action = DEA_META_CORRECT;
    } else {
        found = starts_with_candidate(text, candidates, count);
        if (found >= 0) action = DEA_META_CONFIRM;
    }
    if (named) *named = found;
    return action;
}

void meta_tally_add(meta_tally *t, dea_meta_action action, int named, int truth, int base_right) {
    const int right = named >= 0 && named == truth;
    t->table[action][base_right != 0]++;
    t->items++;
    t->right += right;
    t->fixed += !base_right && right;
    t->broken += base_right && named >= 0 && !right;
}

int meta_tally_refused(const meta_tally *t, int base_right) {
    return t->table[DEA_META_REFUSE][base_right != 0];
}

int meta_tally_total(const meta_tally *t, int base_right) {
    int total = 0;
    for (int a = 0; a < 4; a++) total += t->table[a][base_right != 0];
    return total;
}

void meta_ratio(char *text, size_t size, int part, int of) {
    if (of)
        snprintf(text, size, "%.1f%% (%d/%d)", 100.0 * part / of, part, of);
    else
        snprintf(text, size, "-");
}

static void print_ratio(FILE *out, const char *name, int part, int of) {
    char text[64];
    meta_ratio(text, sizeof text, part, of);
    fprintf(out, "  %-28s %s\n", name, text);
}

void meta_tally_print(const meta_tally *t, FILE *out) {
    static const char *const names[4] = {"confirm", "correct", "refuse", "other"};
    const int wrong = meta_tally_total(t, 0), right = meta_tally_total(t, 1);
    const int refused = meta_tally_refused(t, 0) + meta_tally_refused(t, 1);
    print_ratio(out, "accuracy of the base", right, t->items);
    print_ratio(out, "accuracy after", t->right, t->items);
    print_ratio(out, "answered accuracy", t->right, t->items - refused);
    print_ratio(out, "refusals", refused, t->items);
    print_ratio(out, "refusals on wrong items", meta_tally_refused(t, 0), wrong);
    print_ratio(out, "refusals on right items", meta_tally_refused(t, 1), right);
    fprintf(out, "  fixed %d, broken %d\n  %-12s base right  base wrong\n", t->fixed, t->broken, "action");
    for (int a = 0; a < 4; a++) fprintf(out, "  %-12s %10d  %10d\n", names[a], t->table[a][1], t->table[a][0]);
}

double meta_auroc(const double *score, const int *label, int count) {
    double won = 0, pairs = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; label[i] && j < count; j++) {
            if (label[j]) continue;
            pairs++;
            won += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
        }
    return pairs > 0 ? won / pairs : NAN;
}

double meta_ece(const double *probability, const int *label, int count, int bins) {
    double error = 0;
    for (int k = 0; k < bins; k++) {
        double sum = 0, right = 0;
        for (int i = 0; i < count; i++) {
            int bin = (int)(probability[i] * bins);
            if (bin >= bins) bin = bins - 1;
            if (bin != k) continue;
            sum += probability[i];
            right += label[i];
        }
        error += fabs(right - sum) / count;
    }
    return error;
}
