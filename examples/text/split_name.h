/* Which split a published file is, from its name. */
#ifndef TEXT_SPLIT_NAME_H
#define TEXT_SPLIT_NAME_H

/* "test" or "dev" where the last component of `path` holds test, or valid or dev; else "train". A constant string. */
const char *split_of_name(const char *path);

#endif
