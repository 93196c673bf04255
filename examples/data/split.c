#include "data/split.h"

#include <string.h>

#include "data/rng.h"

static const char *const names[DATA_SPLITS] = {"train", "dev", "test"};

/* Picked so that the small group spaces (120 pairs of containers, a few hundred kinship patterns) are cut near to their
 * shares and dev and test of kinship ask for many relations. */
#define SALT UINT64_C(3)

const char *data_split_name(int split) {
    return split >= 0 && split < DATA_SPLITS ? names[split] : NULL;
}

int data_split_by_name(const char *name) {
    for (int i = 0; i < DATA_SPLITS; i++)
        if (!strcmp(name, names[i])) return i;
    return -1;
}

int data_split_of(const char *source, const char *group) {
    uint64_t h = hash_string(hash_string(SALT, source), group);
    uint32_t twelfth = (uint32_t)(((h >> 32) * 12) >> 32);
    /* kinship has few patterns and draws its rows from them with replacement: more of them are held out */
    uint32_t train = strcmp(source, "kinship") ? 10 : 8, dev = (12 - train) / 2;
    return twelfth < train ? DATA_TRAIN : twelfth < train + dev ? DATA_DEV : DATA_TEST;
}
