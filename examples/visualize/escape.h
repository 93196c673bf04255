/* Text that anybody may have written, put where it must stay text. Every function first makes it printable: bytes that are
 * no UTF-8, control characters and characters that switch the direction of writing become U+FFFD, tab and line ends a blank.
 * Right-to-left letters stay as they are. NULL is the empty text. */
#ifndef VISUALIZE_ESCAPE_H
#define VISUALIZE_ESCAPE_H

#include <stdio.h>

/* One field of a TSV file. */
void escape_tsv(FILE *file, const char *text);

/* HTML or XML, also inside a quoted attribute. */
void escape_html(FILE *file, const char *text);

/* A quoted JavaScript or JSON string, safe inside <script>. */
void escape_json(FILE *file, const char *text);

/* A gnuplot string expression in which nothing is expanded (single quotes: no backquotes, no backslashes; terminals run
 * without enhanced text). `tick`: for a tick label, in which gnuplot would still read a %-format. */
typedef enum escape_gnuplot_use { ESCAPE_STRING, ESCAPE_TICK } escape_gnuplot_use;
void escape_gnuplot(FILE *file, const char *text, escape_gnuplot_use use);

/* At most `columns` characters, the last one an ellipsis where something was cut; what the other functions do with the
 * result they would do with the text. Returns out. */
#define ESCAPE_SHORT 128 /* bytes: room for 30 characters */
const char *escape_short(const char *text, int characters, char out[ESCAPE_SHORT]);

/* Writes to a terminal, padded with blanks or cut to `columns` columns; nothing reaches the terminal that it would obey. */
void escape_terminal(FILE *file, const char *text, int columns);

#endif
