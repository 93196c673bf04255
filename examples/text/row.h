/* One premise/hypothesis pair of the relational data set: the record that generators make, files hold and the
 * tokenizer reads. Strings are NUL-terminated valid UTF-8 without tab or newline; a field a source does not have is "".
 */
#ifndef TEXT_ROW_H
#define TEXT_ROW_H

typedef struct row {
    const char *split;  /* "train", "dev", "test" */
    const char *source; /* "babi16", "babi17", "babi18", "kinship", "isa", "partof", "capital", "wordpairs", ... */
    const char
        *relation; /* what is asked about: "HasColor", "Position", "Size", "Kin", "IsA", "PartOf", "CapitalOf", ... */
    int label;     /* 1: the premise (or plain knowledge) makes the hypothesis true; 0: it does not */
    const char *kind;  /* "true", "hard" (one word or the direction is wrong), "easy" (another topic) */
    int steps;         /* facts that must be combined; 0 for knowledge */
    const char *group; /* what the row asks about: the key of the split */
    const char *premise;
    const char *hypothesis;
} row;

#endif
