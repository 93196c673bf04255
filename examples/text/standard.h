/* Standard input, output and error of a program. */
#ifndef TEXT_STANDARD_H
#define TEXT_STANDARD_H

/* The first thing a program does: a standard descriptor that came closed (`>&-`) is opened on /dev/null, so that no file gets its
 * number and with it what is printed. Writing there fails, as it did. */
void standard_open(void);

/* The last thing: what was printed must have arrived. Returns the exit code: `code`, or 1 instead of 0 where output was lost, which
 * standard error then says in the name of `program`. */
int standard_finish(const char *program, int code);

#endif
