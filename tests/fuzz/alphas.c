#include "fuzz.h"

#include "text/alpha_cache.h"

FUZZ(alphas)(const uint8_t *data, size_t size) {
    text_error error = {""};
    alpha_cache *cache = alpha_cache_parse("fuzz", data, size, &error);
    HOLDS(cache ? alpha_cache_size(cache) > 0 : strncmp(error.message, "fuzz:", 5) == 0);
    if (cache) {
        float alpha = alpha_cache_find(cache, "a", "b");
        HOLDS(!(alpha < 0 || alpha > (float)ALPHA_MAX));
    }
    alpha_cache_free(cache);
    return 0;
}
