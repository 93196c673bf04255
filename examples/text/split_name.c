#include "text/split_name.h"

#include <string.h>

const char *split_of_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strstr(name, "test")) return "test";
    return strstr(name, "valid") || strstr(name, "dev") ? "dev" : "train";
}
