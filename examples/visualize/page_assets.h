/* The page's style sheet and script, as lines. The script reads the JSON in the element "data" and draws what the pickers
 * ask for; it loads nothing and puts text into the page as text only. */
#ifndef VISUALIZE_PAGE_ASSETS_H
#define VISUALIZE_PAGE_ASSETS_H

#include <stdio.h>

void page_style(FILE *page);
void page_script(FILE *page);

#endif
