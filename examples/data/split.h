/* The split of a row is a stable hash of what it asks about (its group), never of the row: 10/12 train, 1/12 dev, 1/12
 * test (kinship: 8, 2, 2), the same for every seed, so that fresh stories of any seed stay clear of any stored test set. */
#ifndef DATA_SPLIT_H
#define DATA_SPLIT_H

enum { DATA_TRAIN, DATA_DEV, DATA_TEST, DATA_SPLITS };

/* "train", "dev" or "test"; NULL for any other number. */
const char *data_split_name(int split);

/* DATA_TRAIN, DATA_DEV or DATA_TEST; -1 for any other name. */
int data_split_by_name(const char *name);

/* The split that `group` of `source` belongs to. */
int data_split_of(const char *source, const char *group);

#endif
