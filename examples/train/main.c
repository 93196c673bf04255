/* build/train: trains a DEA encoder on premise/hypothesis rows and keeps it. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/model.h"
#include "data/oracle.h"
#include "text/file_use.h"
#include "text/plain.h"
#include "text/row_copy.h"
#include "text/safe_file.h"
#include "text/standard.h"
#include "train/hardware.h"
#include "train/lock.h"
#include "train/report.h"
#include "train/settings.h"
#include "train/state.h"
#include "train/trainer.h"

enum { DONE = 0, FAILED = 1, USAGE = 2, INTERRUPTED = 130 };

static const char help[] =
    "usage: train [OPTIONS]\n"
    "\n"
    "Trains an encoder with dual-expert attention in every layer and writes, into the folder --out,\n"
    "  best.safetensors (highest dev accuracy), last.safetensors, state.safetensors (for --resume).\n"
    "\n"
    "  what to train on (without any: fresh stories of the preset's sources)\n"
    "    -d, --data FILE        rows: TSV from build/data, bAbI, CLUTRR CSV, or label<tab>premise<tab>hypothesis\n"
    "        --sources LIST     name[@stage][:weight[:mark[:after]]],...  babi16, babi17, babi18, kinship are drawn\n"
    "                           fresh, in stages. stage: the first, or stored: its rows of --data, not fresh ones;\n"
    "                           mark: the train accuracy that ends a stage, 0.9/0.8: of each, the last one also for\n"
    "                           those that follow; after: the source that must be done before this one takes part\n"
    "        --stored           take every source from --data as stored, no fresh stories\n"
    "        --mlm FILE         masked language model on a text file, a paragraph a line, or on the glosses of\n"
    "                           WordNet's data.noun; alone: nothing else is trained\n"
    "  how\n"
    "    -p, --preset NAME      quick, small or paper (default small)\n"
    "        --steps N, --seed N\n"
    "        --temperature T    off: the paper's form; a number: one learnt temperature a head that starts there\n"
    "        --alpha X          the mix of every cell is X in [0, 0.95], no gate; 0: similarity alone\n"
    "        --no-gate-loss     labels do not train the gate\n"
    "        --gamma N          labels are mixed into the scores, less and less over N steps; 0: not at all\n"
    "        --oracle NAME      relation, token, truth, wordpairs, none, or a cache file of alphas\n"
    "        --set NAME=VALUE   any other value of the configuration screen; may be given again and again\n"
    "  where from and to\n"
    "    -o, --out DIR          (default run; with --resume the folder its file is in)\n"
    "        --init FILE        start from the weights and the vocabulary of a checkpoint\n"
    "        --resume FILE      go on with a run from its state.safetensors; of the training only --steps may be "
    "changed;\n"
    "                           --data and --mlm say where the same files are now, --log must be given again\n"
    "        --log FILE         every figure, as JSON lines\n"
    "    -t, --threads N        (default: the CPUs, at most 4); the result is the same for any number\n"
    "    -h, --help   -V, --version\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (Ctrl-C; the state is saved).\n";

typedef struct options {
    const char *preset, *data, *mlm, *sources, *out, *init, *resume, *log, *oracle;
    const char *set[64]; /* NAME=VALUE, also those of options that have a name of their own */
    int sets, stored, threads, no_gate_loss;
    const char *alpha;
    char resumed_folder[4096];
    int changes; /* an option that a resumed run cannot take was given */
    const char *change;
} options;

/* ---- options */

static int usage(const char *format, const char *what) {
    fprintf(stderr, "train: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "; see train --help\n");
    return USAGE;
}

static int fail(const text_error *error) {
    fprintf(stderr, "train: %s\n", error->message);
    return FAILED;
}

enum {
    SOURCES = 256,
    STORED,
    MLM,
    STEPS,
    SEED,
    TEMPERATURE,
    ALPHA,
    NO_GATE_LOSS,
    GAMMA,
    ORACLE,
    SET,
    INIT,
    RESUME,
    LOG
};

static const struct option long_options[] = {{"data", required_argument, NULL, 'd'},
                                             {"sources", required_argument, NULL, SOURCES},
                                             {"stored", no_argument, NULL, STORED},
                                             {"mlm", required_argument, NULL, MLM},
                                             {"preset", required_argument, NULL, 'p'},
                                             {"steps", required_argument, NULL, STEPS},
                                             {"seed", required_argument, NULL, SEED},
                                             {"temperature", required_argument, NULL, TEMPERATURE},
                                             {"alpha", required_argument, NULL, ALPHA},
                                             {"no-gate-loss", no_argument, NULL, NO_GATE_LOSS},
                                             {"gamma", required_argument, NULL, GAMMA},
                                             {"oracle", required_argument, NULL, ORACLE},
                                             {"set", required_argument, NULL, SET},
                                             {"out", required_argument, NULL, 'o'},
                                             {"init", required_argument, NULL, INIT},
                                             {"resume", required_argument, NULL, RESUME},
                                             {"log", required_argument, NULL, LOG},
                                             {"threads", required_argument, NULL, 't'},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, 'V'},
                                             {NULL, 0, NULL, 0}};

static char assignments[64][160];

/* Keeps "name=value" for settings_set. */
static int assign(options *o, const char *name, const char *value) {
    const size_t room = sizeof o->set / sizeof *o->set;
    if (o->sets == (int)room) return usage("more than 64 values are set; the last is '%s'", name);
    char *place = assignments[o->sets];
    const int length = snprintf(place, sizeof assignments[0], "%s%s%s", name, *name ? "=" : "", value);
    if (length < 0 || (size_t)length >= sizeof assignments[0]) return usage("'%s' is too long", value);
    if (!strchr(place, '=')) return usage("--set wants NAME=VALUE, not '%s'", value);
    o->set[o->sets++] = place;
    return DONE;
}

static int parse_threads(options *o, const char *value) {
    char *end;
    const long count = strtol(value, &end, 10);
    if (*end || end == value || count < 1 || count > 64) return usage("--threads is '%s'; it must be in 1..64", value);
    o->threads = (int)count;
    return DONE;
}

/* DONE to go on, USAGE, or -1 where help or version was asked for. */
static int parse_option(options *o, int key, const char *value) {
    static const char free_to_change[] = {'o', 't', 'h', 'V'};
    if (!memchr(free_to_change, key, sizeof free_to_change) && key != STEPS && key != RESUME && key != LOG &&
        key != 'd' && key != MLM) {
        o->changes++;
        for (const struct option *l = long_options; l->name; l++)
            if (l->val == key) o->change = l->name;
    }
    switch (key) {
    case 'd':
        o->data = value;
        break;
    case 'p':
        o->preset = value;
        break;
    case 'o':
        o->out = value;
        break;
    case 't':
        return parse_threads(o, value);
    case SOURCES:
        o->sources = value;
        break;
    case STORED:
        o->stored = 1;
        break;
    case MLM:
        o->mlm = value;
        break;
    case STEPS:
        return assign(o, "steps", value);
    case SEED:
        return assign(o, "seed", value);
    case TEMPERATURE:
        if (!strcmp(value, "off")) return assign(o, "temperature-on", "0");
        return assign(o, "temperature-on", "1") ? USAGE : assign(o, "temperature", value);
    case ALPHA:
        o->alpha = value;
        break;
    case NO_GATE_LOSS:
        o->no_gate_loss = 1;
        break;
    case GAMMA:
        return assign(o, "gamma-steps", value);
    case ORACLE:
        o->oracle = value;
        break;
    case SET:
        return assign(o, "", value);
    case INIT:
        o->init = value;
        break;
    case RESUME:
        o->resume = value;
        break;
    case LOG:
        o->log = value;
        break;
    case 'h':
        fputs(help, stdout);
        return -1;
    case 'V':
        puts("train " DEA_VERSION);
        return -1;
    default:
        return USAGE;
    }
    return DONE;
}

/* The folder a file is in; a run goes on where its state is. */
static const char *folder_of(const char *path, char *folder, size_t size) {
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    snprintf(folder, size, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    return folder;
}

static int parse(options *o, int argc, char **argv) {
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    *o = (options){.preset = "small", .threads = cpus < 1 ? 1 : cpus > TRAINER_LANES ? TRAINER_LANES : (int)cpus};
    opterr = 0;
    for (int key; (key = getopt_long(argc, argv, ":d:p:o:t:hV", long_options, NULL)) != -1;) {
        if (key == ':') return usage("%s needs a value", argv[optind - 1]);
        if (key == '?') return usage("unknown option %s", argv[optind - 1]);
        const int result = parse_option(o, key, optarg);
        if (result != DONE) return result;
    }
    if (optind < argc) return usage("%s is no option", argv[optind]);
    if (o->resume && o->changes)
        return usage("--%s cannot be changed when a run is resumed; use --init to start a new one", o->change);
    if (o->stored && !o->data) return usage("--stored needs %s", "--data FILE");
    if (o->out && !*o->out) return usage("--out needs %s", "the name of a folder");
    if (o->log && !*o->log) return usage("--log needs %s", "the name of a file");
    if (o->oracle && !oracle_is_there(o->oracle)) return usage(ORACLE_WANTED, o->oracle);
    if (!o->out) o->out = o->resume ? folder_of(o->resume, o->resumed_folder, sizeof o->resumed_folder) : "run";
    return DONE;
}

/* ---- what to train on */

typedef struct material {
    rows stored, text;
    int has_stored, has_text;
} material;

static void material_free(material *m) {
    rows_free(&m->stored);
    rows_free(&m->text);
}

static int load_text(rows *text, const char *path, text_error *error) {
    plain p;
    const char *paragraph;
    size_t length;
    int more;
    if (plain_open(&p, path, error)) return -1;
    while ((more = plain_next(&p, &paragraph, &length, error)) > 0) {
        row r = {"train", "text", "", -1, "", 0, "", paragraph, ""};
        if (row_copy(&text->strings, &r, &r, error) || rows_add(text, &r, error)) {
            more = -1;
            break;
        }
    }
    plain_close(&p);
    return more < 0 ? -1 : 0;
}

static int load_material(material *m, const char *data, const char *mlm, text_error *error) {
    const char *warning = "";
    *m = (material){.has_stored = data && *data, .has_text = mlm && *mlm};
    if (m->has_stored && rows_load(&m->stored, data, ROWS_AUTO, &warning, error)) return -1;
    if (m->has_stored && *warning) fprintf(stderr, "train: %s: %s\n", data, warning);
    return m->has_text ? load_text(&m->text, mlm, error) : 0;
}

static int find_plan(const trainer_config *c, const char *name) {
    for (int i = 0; i < c->plans; i++)
        if (!strcmp(c->plan[i].name, name)) return i;
    return -1;
}

static int add_plan(trainer_config *c, const char *name, feed_kind kind, double weight, text_error *error) {
    if (c->plans == FEED_SOURCES)
        return text_fail(error, "the data has more than %d sources; choose some by --sources", FEED_SOURCES);
    if (strlen(name) >= FEED_NAME) return text_fail(error, "the name of source '%.40s...' is too long", name);
    feed_plan *plan = &c->plan[c->plans++];
    *plan = settings_plan();
    plan->kind = kind;
    plan->weight = weight;
    memcpy(plan->name, name, strlen(name) + 1);
    return 0;
}

static double rows_of(const rows *stored, const char *name) {
    double count = 0;
    for (size_t i = 0; i < stored->count; i++) count += !strcmp(stored->row[i].source, name);
    return count;
}

/* The preset's sources that the data has, and the data's others. keep_fresh 0: all are taken as stored, by their number of rows. */
static int plan_from_data(trainer_config *c, const rows *stored, int keep_fresh, text_error *error) {
    int kept = 0;
    for (int i = 0; i < c->plans; i++)
        if (keep_fresh && rows_of(stored, c->plan[i].name) > 0) c->plan[kept++] = c->plan[i];
    c->plans = kept;
    for (size_t i = 0; i < stored->count; i++) {
        const char *name = stored->row[i].source;
        if (find_plan(c, name) >= 0) continue;
        if (add_plan(c, name, FEED_STORED, keep_fresh ? c->stored_weight : rows_of(stored, name), error)) return -1;
    }
    for (int i = 0; i < c->plans; i++) /* what waits for a source that is not there need not wait */
        if (c->plan[i].after[0] && find_plan(c, c->plan[i].after) < 0) c->plan[i].after[0] = 0;
    return 0;
}

static void drop_stored(trainer_config *c) {
    int kept = 0;
    for (int i = 0; i < c->plans; i++)
        if (c->plan[i].kind == FEED_FRESH) c->plan[kept++] = c->plan[i];
    c->plans = kept;
}

/* A source of stored rows needs some to train on. */
static int check_stored(const trainer_config *c, const options *o, const rows *stored, text_error *error) {
    for (int i = 0; i < c->plans; i++) {
        const char *name = c->plan[i].name;
        size_t count = 0;
        if (c->plan[i].kind != FEED_STORED) continue;
        for (size_t k = 0; k < stored->count && !count; k++)
            count += feed_is_train(&stored->row[k]) && !strcmp(stored->row[k].source, name);
        if (count) continue;
        if (!o->data)
            return text_fail(
                error,
                "'%s' is no source of fresh stories (they are babi16, babi17, babi18, babi18b and kinship); give "
                "--data FILE with rows of it",
                name);
        return text_fail(error,
                         "%s: has no row of split train and source '%s'; give other data, or --sources that it has",
                         o->data, name);
    }
    return 0;
}

static int choose_sources(trainer_config *c, const options *o, const material *m, text_error *error) {
    if (o->sources) {
        if (settings_sources(c, o->sources, error)) return -1;
        for (int i = 0; o->stored && i < c->plans; i++)
            if (c->plan[i].kind == FEED_FRESH) c->plan[i].kind = FEED_STORED;
    } else if (m->has_stored) {
        if (plan_from_data(c, &m->stored, !o->stored && strcmp(o->preset, "paper"), error)) return -1;
    } else {
        drop_stored(c);
        if (m->has_text) c->plans = 0;
    }
    if (m->has_text && find_plan(c, "text") < 0 && add_plan(c, "text", FEED_TEXT, 1, error)) return -1;
    c->model.language_model = find_plan(c, "text") >= 0;
    return check_stored(c, o, &m->stored, error);
}

/* ---- configuration */

/* NaN where the text is no number. */
static double number(const char *text) {
    char *end;
    const double value = strtod(text, &end);
    return end == text || *end ? NAN : value;
}

static const char *set_name(const options *o, int i, char name[160]) {
    snprintf(name, 160, "%.*s", (int)strcspn(o->set[i], "="), o->set[i]);
    return name;
}

/* Sizes that make no model are told before any file is read; the vocabulary is still to come. */
static int check_model(const trainer_config *c, text_error *error) {
    char message[160];
    encoder_config config = c->model;
    config.vocab = config.max_length = 1;
    encoder *e = encoder_new(&config, message);
    if (!e) return text_fail(error, "%s", message);
    encoder_free(e);
    return 0;
}

static int apply_settings(trainer_config *c, const options *o, text_error *error) {
    char name[160];
    for (int i = 0; i < o->sets; i++)
        if (settings_set(c, set_name(o, i, name), strchr(o->set[i], '=') + 1, error)) return -1;
    if (o->alpha && !(number(o->alpha) >= 0 && number(o->alpha) <= DEA_ALPHA_MAX))
        return text_fail(error, "--alpha is '%s'; it must be in [0, %g]", o->alpha, DEA_ALPHA_MAX);
    if (o->alpha && settings_set(c, "fixed-alpha", o->alpha, error)) return -1;
    if (o->no_gate_loss) c->gate_loss = 0;
    if (o->oracle && strlen(o->oracle) >= TRAINER_ORACLE)
        return text_fail(error, "--oracle is longer than %d bytes", TRAINER_ORACLE - 1);
    if (o->oracle) snprintf(c->oracle, sizeof c->oracle, "%s", strcmp(o->oracle, "none") ? o->oracle : "");
    if (c->model.fixed_alpha >= 0) c->oracle[0] = 0;
    if (c->batch_rows == 0 && c->batch_tokens == 0)
        return text_fail(error, "batch-rows and batch-tokens are both 0; set one");
    return check_model(c, error);
}

/* Labels that tell the answer must not be mixed into the scores, unless the user insists. */
static void guard_gamma(trainer_config *c, const options *o) {
    labeller labels;
    text_error ignored;
    if (!c->oracle[0] || c->gamma_steps == 0 || labeller_open(&labels, c->oracle, c->seed, &ignored)) return;
    const int tells = labeller_tells_answer(&labels);
    labeller_close(&labels);
    if (!tells) return;
    for (int i = 0; i < o->sets; i++)
        if (!strncmp(o->set[i], "gamma-steps=", 12)) {
            printf("note: the oracle %s tells the answer, and gamma mixes it into the scores: train accuracy will mean "
                   "little\n",
                   c->oracle);
            return;
        }
    printf("note: the oracle %s tells the answer, so gamma is 0: labels train the gate and nothing else\n", c->oracle);
    c->gamma_steps = 0;
}

/* ---- the folder */

static int make_folder(const char *path, text_error *error) {
    char probe[4096];
    if (mkdir(path, 0777) && errno != EEXIST)
        return text_fail(error, "%s: %s; give --out a folder that can be made", path, strerror(errno));
    if (snprintf(probe, sizeof probe - 64, "%s/.train-probe", path) >= (int)sizeof probe - 64)
        return text_fail(error, "--out is too long");
    FILE *file = fopen(probe, "w");
    if (!file) return text_fail(error, "%s: %s; give --out a folder that can be written", path, strerror(errno));
    fclose(file);
    remove(probe);
    return 0;
}

static const char *in_folder(char out[4200], const char *folder, const char *name) {
    snprintf(out, 4200, "%s/%s", folder, name);
    return out;
}

/* A folder that holds a run is not written over by another one. */
static int check_folder(const options *o, text_error *error) {
    char path[4200];
    if (o->resume) return 0;
    if (access(in_folder(path, o->out, "state.safetensors"), F_OK) == 0)
        return text_fail(error, "%s holds a run already; give another --out, or go on with it by --resume %s", o->out,
                         path);
    if (access(in_folder(path, o->out, "best.safetensors"), F_OK) &&
        access(in_folder(path, o->out, "last.safetensors"), F_OK))
        return 0;
    return text_fail(error,
                     "%s holds the weights of a run already; give another --out, or start from them by --init %s",
                     o->out, path);
}

/* Makes the folder and keeps other runs out of it, from before its state is read. */
static int claim_folder(const options *o, text_error *error) {
    if (make_folder(o->out, error)) return -1;
    const int locked = lock_folder(o->out, error);
    if (locked > 0) fprintf(stderr, "train: note: %s\n", error->message);
    return locked < 0 ? -1 : check_folder(o, error);
}

/* A resumed run replaces the state it comes from; any other output must be a file of its own. */
static int check_files(const options *o, const char *oracle, const char *data, const char *mlm, text_error *error) {
    char best[4200], last[4200], state[4200];
    oracle_kind kind;
    in_folder(state, o->out, "state.safetensors");
    const file_use uses[] = {{"--log", o->log, 1},
                             {"--out", in_folder(best, o->out, "best.safetensors"), 1},
                             {"--out", in_folder(last, o->out, "last.safetensors"), 1},
                             {"--out", state, 1},
                             {"--data", data, 0},
                             {"--mlm", mlm, 0},
                             {"--init", o->init, 0},
                             {"--resume", o->resume && file_same(o->resume, state) ? NULL : o->resume, 0},
                             {"--oracle", oracle_by_name(oracle, &kind) ? oracle : NULL, 0}};
    return file_use_check(uses, sizeof uses / sizeof *uses, error);
}

/* ---- a run */

static volatile sig_atomic_t stop_signal;

static void on_signal(int number) {
    stop_signal = number;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

typedef struct run {
    options o;
    trainer t;
    report r;
    char preset[32];
    const char *data, *mlm;
} run;

static int save(const run *x, int best, text_error *error) {
    char path[4200];
    if (best && state_save_weights(&x->t, in_folder(path, x->o.out, "best.safetensors"), x->preset, error)) return -1;
    if (state_save_weights(&x->t, in_folder(path, x->o.out, "last.safetensors"), x->preset, error)) return -1;
    return state_save(&x->t, in_folder(path, x->o.out, "state.safetensors"), x->preset, x->data, x->mlm, error);
}

static int evaluate_and_save(run *x, trainer_eval_report *eval, text_error *error) {
    if (trainer_evaluate(&x->t, eval, error)) return -1;
    report_eval(&x->r, eval);
    return save(x, eval->better || eval->sources == 0, error);
}

/* Exit code. */
static int train(run *x, text_error *error) {
    trainer *t = &x->t;
    const trainer_config *c = &t->config;
    while (t->step < c->steps && !stop_signal) {
        trainer_step_report step;
        trainer_eval_report eval;
        if (trainer_step(t, &step, error)) return FAILED;
        report_step(&x->r, &step);
        if (t->step % c->eval_every != 0 && t->step != c->steps) continue;
        if (evaluate_and_save(x, &eval, error)) return FAILED;
        if (eval.exhausted) {
            report_end(&x->r, "stopped early: dev accuracy has not risen for a while,");
            return DONE;
        }
    }
    if (t->step < c->steps) {
        if (save(x, 0, error)) return FAILED;
        report_end(&x->r, "interrupted, state saved");
        return INTERRUPTED;
    }
    report_end(&x->r, "done");
    return DONE;
}

/* The weights of another run, over a fresh start: what both have by name and shape. */
static int load_weights(trainer *t, const char *path, text_error *error) {
    const checkpoint_part weights = {"", &t->e->table, t->params};
    checkpoint *c = checkpoint_open(path, NULL, error);
    if (!c) return -1;
    const int read = checkpoint_read(c, &weights, 1, CHECKPOINT_EXTRA_OK | CHECKPOINT_MISSING_OK, error);
    checkpoint_close(c);
    if (read == 0) return text_fail(error, "%s: none of its tensors has a place in this model", path);
    return read < 0 ? -1 : 0;
}

/* The layers' sizes and the vocabulary come from the checkpoint, the heads and dropout from this run. */
static tokenizer *take_model(trainer_config *c, const char *path, text_error *error) {
    model m;
    if (model_load(&m, path, error)) return NULL;
    const encoder_config own = c->model;
    c->model = m.encoder->config;
    c->model.classes = own.classes;
    c->model.language_model = own.language_model;
    c->model.dropout = own.dropout;
    c->model.fixed_alpha = own.fixed_alpha;
    tokenizer *vocabulary = m.vocabulary;
    m.vocabulary = NULL;
    model_free(&m);
    return vocabulary;
}

static void get_setting(const trainer_config *c, const char *wanted, char value[64]) {
    const char *name;
    for (int i = 0; settings_get(c, i, &name, value); i++)
        if (!strcmp(name, wanted)) return;
}

/* What was set must not be lost to the checkpoint's own value. */
static int check_taken(const trainer_config *asked, const trainer_config *taken, const options *o, text_error *error) {
    char name[160], wanted[64], has[64];
    for (int i = 0; i < o->sets; i++) {
        get_setting(asked, set_name(o, i, name), wanted);
        get_setting(taken, name, has);
        if (strcmp(wanted, has))
            return text_fail(
                error, "%s cannot be %s: the shape of the model comes from --init %s, where it is %s; leave one out",
                name, wanted, o->init, has);
    }
    return 0;
}

static int open_new(run *x, material *m, text_error *error) {
    trainer_config c;
    const options *o = &x->o;
    if (settings_preset(o->preset, &c))
        return usage("there is no preset '%s'; there are quick, small and paper", o->preset);
    snprintf(x->preset, sizeof x->preset, "%s", o->preset);
    x->data = o->data ? o->data : "";
    x->mlm = o->mlm ? o->mlm : "";
    if (apply_settings(&c, o, error) || check_files(o, c.oracle, x->data, x->mlm, error))
        return usage("%s", error->message);
    if (load_material(m, o->data, o->mlm, error)) return FAILED;
    if (choose_sources(&c, o, m, error)) {
        return o->sources ? usage("%s", error->message) : FAILED;
    }
    guard_gamma(&c, o);
    const trainer_config asked = c;
    tokenizer *vocabulary =
        o->init ? take_model(&c, o->init, error) : trainer_vocabulary(&c, &m->stored, &m->text, error);
    if (vocabulary && o->init && check_taken(&asked, &c, o, error)) {
        tokenizer_free(vocabulary);
        return usage("%s", error->message);
    }
    if (!vocabulary || trainer_open(&x->t, &c, vocabulary, &m->stored, &m->text, o->threads, error)) return FAILED;
    if (o->init && load_weights(&x->t, o->init, error)) return FAILED;
    return claim_folder(o, error) ? FAILED : DONE;
}

/* A state records paths as they were given, so that a relative one may not be found from another folder. */
static int find_recorded(const char *option, const char *given, const char *recorded, const char *state,
                         text_error *error) {
    if (given || !*recorded || access(recorded, F_OK) == 0) return 0;
    return text_fail(error, "%s: %s, which the run of %s reads; say by %s FILE where it is now", recorded,
                     strerror(errno), state, option);
}

static int open_resumed(run *x, state_run *saved, material *m, text_error *error) {
    const options *o = &x->o;
    if (claim_folder(o, error) || state_read_run(saved, o->resume, error)) return FAILED;
    memcpy(x->preset, saved->preset, sizeof x->preset);
    x->data = o->data ? o->data : saved->data;
    x->mlm = o->mlm ? o->mlm : saved->text;
    if (apply_settings(&saved->config, o, error) || check_files(o, saved->config.oracle, x->data, x->mlm, error))
        return usage("%s", error->message);
    if (find_recorded("--data", o->data, saved->data, o->resume, error) ||
        find_recorded("--mlm", o->mlm, saved->text, o->resume, error) || load_material(m, x->data, x->mlm, error))
        return FAILED;
    tokenizer *vocabulary = saved->vocabulary;
    saved->vocabulary = NULL;
    if (trainer_open(&x->t, &saved->config, vocabulary, &m->stored, &m->text, o->threads, error)) return FAILED;
    return state_restore(&x->t, o->resume, error) ? FAILED : DONE;
}

/* A resumed run in a folder of its own keeps the best weights so far beside its last ones. */
static int take_best(const options *o, text_error *error) {
    char folder[4096], from[4200], to[4200], bytes[65536];
    if (!o->resume) return 0;
    in_folder(from, folder_of(o->resume, folder, sizeof folder), "best.safetensors");
    in_folder(to, o->out, "best.safetensors");
    FILE *best = access(to, F_OK) ? fopen(from, "rb") : NULL;
    if (!best) return 0;
    safe_file copy;
    if (safe_file_open(&copy, to, error)) {
        fclose(best);
        return -1;
    }
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, best)) > 0;) fwrite(bytes, 1, n, copy.file);
    const int unread = ferror(best);
    fclose(best);
    if (!unread) return safe_file_commit(&copy, error);
    safe_file_abandon(&copy);
    return text_fail(error, "%s: cannot be read", from);
}

int main(int argc, char **argv) {
    static run x; /* large */
    text_error error = {""};
    material m = {0};
    state_run saved = {0};
    standard_open();
    int code = parse(&x.o, argc, argv);
    if (code != DONE) return code < 0 ? standard_finish("train", DONE) : code;
    signal(SIGPIPE, SIG_IGN); /* `train | head`: goes on, saves, and reports the lost output at the end */
    hardware_one_blas_thread();
    if (check_folder(&x.o, &error)) return fail(&error);
    code = x.o.resume ? open_resumed(&x, &saved, &m, &error) : open_new(&x, &m, &error);
    if (code == DONE && take_best(&x.o, &error)) code = FAILED;
    if (code == DONE && x.t.step >= x.t.config.steps)
        printf("note: step %lld of %lld is done, so nothing is left to do; give more --steps to go on\n",
               (long long)x.t.step, (long long)x.t.config.steps);
    if (code == DONE && report_open(&x.r, &x.t, x.o.log, x.o.resume != NULL, &error)) code = FAILED;
    if (code == DONE) {
        catch_signals();
        report_start(&x.r, x.preset, x.data, x.mlm, x.o.out);
        code = train(&x, &error);
        if (code == FAILED && x.r.bar_shown) puts("");
        text_error log_error;
        if (report_close(&x.r, &log_error) && code != FAILED) {
            error = log_error;
            code = FAILED;
        }
    }
    if (code == FAILED) fail(&error);
    trainer_close(&x.t);
    state_run_free(&saved);
    material_free(&m);
    return standard_finish("train", code);
}
