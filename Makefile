# dea.h: `make help` lists the targets. Objects go to build/; honours CC CFLAGS LDFLAGS LDLIBS PREFIX DESTDIR.

CC      ?= cc
CFLAGS  ?= -O2 -g -fno-var-tracking
PREFIX  ?= /usr/local
GOLDEN  ?= tests/golden
PYTHON  ?= python3
BUILD   := build

WARN    := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes
STD     := -std=c11 -D_POSIX_C_SOURCE=200809L
CPPFLAGS_ALL = -I. -Iexamples $(CPPFLAGS)
CFLAGS_ALL   = $(STD) $(WARN) $(CFLAGS) -pthread
BLAS    ?= -lopenblas
LDLIBS  ?=
LIBS     = -Wl,--as-needed $(BLAS) -lexpat -lz -lutf8proc -lcjson -lm $(LDLIBS)

VERSION := $(shell sed -n 's/^\#define DEA_VERSION "\(.*\)"/\1/p' dea.h 2>/dev/null)

# examples/NAME/main.c is the program build/NAME; every other file of examples/NAME/ is library code.
MAINS    := $(wildcard examples/*/main.c)
PROGRAMS := $(patsubst examples/%/main.c,$(BUILD)/%,$(MAINS))
LIBSRC   := $(filter-out $(MAINS),$(wildcard examples/*/*.c))
LIBOBJ   := $(patsubst %.c,$(BUILD)/%.o,$(LIBSRC)) $(BUILD)/dea.o
TESTS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))

# Use every core unless told otherwise.
ifeq ($(findstring -j,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

all: $(BUILD)/paris $(PROGRAMS) $(BUILD)/meta-tiny ## build the library object and every program

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

# ---- the main job
# Debian 12's OpenBLAS takes newer CPUs for old ones and runs its slowest kernel; this names a fitting one.
CORETYPE := $(shell if grep -qs avx512vl /proc/cpuinfo; then echo SKYLAKEX; elif grep -qs avx2 /proc/cpuinfo; then echo HASWELL; fi)
FAST      = $(if $(CORETYPE),OPENBLAS_CORETYPE=$${OPENBLAS_CORETYPE:-$(CORETYPE)})
RUN      := $(BUILD)/run

run: $(BUILD)/data $(BUILD)/train $(BUILD)/eval ## data, training of `small`, evaluation: a page of results within five minutes
	rm -rf $(RUN) && mkdir -p $(RUN)
	$(BUILD)/data build --more --out $(RUN)/data.tsv
	$(FAST) $(BUILD)/train --preset small --data $(RUN)/data.tsv --out $(RUN) --log $(RUN)/log.jsonl
	$(FAST) $(BUILD)/eval --ckpt $(RUN)/best.safetensors --data $(RUN)/data.tsv --json $(RUN)/results.json

paris: $(BUILD)/paris ## the Paris demo: fits the gate, shows alpha, alpha-hat and the photo-finish
	$(BUILD)/paris

# ---- building
$(BUILD)/dea.o: dea.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -DDEA_IMPLEMENTATION -x c -c dea.h -o $@

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

$(BUILD)/libexamples.a: $(LIBOBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/paris: $(BUILD)/examples/paris.o
	$(CC) $(CFLAGS_ALL) $(LDFLAGS) $^ -lm -o $@

$(PROGRAMS): $(BUILD)/%: $(BUILD)/examples/%/main.o $(BUILD)/libexamples.a
	$(CC) $(CFLAGS_ALL) $(LDFLAGS) $^ $(LIBS) -o $@

$(BUILD)/meta-tiny: $(BUILD)/examples/meta/tiny/main.o $(BUILD)/libexamples.a
	$(CC) $(CFLAGS_ALL) $(LDFLAGS) $^ $(LIBS) -o $@

$(TESTS): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libexamples.a
	$(CC) $(CFLAGS_ALL) $(LDFLAGS) $^ -lcmocka $(LIBS) -o $@

# `make deps run` and `make deps test` install first, also with -j.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
$(LIBOBJ) $(BUILD)/examples/paris.o $(BUILD)/examples/meta/tiny/main.o $(MAINS:%.c=$(BUILD)/%.o) $(TESTS:%=%.o): | deps
endif

# These suites look at mathematics, not at kernels: without the vector code they compile in a third of the time.
SCALAR   := attention checks encoder errors gate layer meta optimiser parts
$(SCALAR:%=$(BUILD)/tests/test_%.o): CPPFLAGS_ALL += -DDEA_NO_SIMD

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

# ---- what it needs
# gcc and libc headers; OpenBLAS for dea.h; the rest for examples, tests and pictures.
PACKAGES := gcc libc6-dev libopenblas-dev libcmocka-dev libexpat1-dev libutf8proc-dev libcjson-dev zlib1g-dev gnuplot-nox \
            wordnet-base scowl miscfiles kgeography-data
HEADERS  := cblas.h stdarg.h stddef.h setjmp.h stdint.h cmocka.h expat.h utf8proc.h cjson/cJSON.h zlib.h
HAVE_ALL  = printf '\#include <%s>\n' $(HEADERS) | $(CC) -x c -E - >/dev/null 2>&1 && command -v gnuplot >/dev/null && \
            ls /usr/share/wordnet/data.noun /usr/share/dict/scowl /usr/share/misc/countries.gz /usr/share/kgeography >/dev/null 2>&1

deps: ## install what is missing (apt-get; sudo where not root)
	@if $(HAVE_ALL); then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
	    echo "make deps: no apt-get here; please install, under your system's names: $(PACKAGES)" >&2; exit 1; fi; \
	if [ "$$(id -u)" = 0 ]; then sudo=; elif command -v sudo >/dev/null; then sudo=sudo; else \
	    echo "make deps: run as root, or install sudo, to install: $(PACKAGES)" >&2; exit 1; fi; \
	$$sudo apt-get update -q && \
	DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -q -y --no-install-recommends $(PACKAGES)

install: ## dea.h and dea.pc under PREFIX (default /usr/local)
	install -d "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(PREFIX)/lib/pkgconfig"
	install -m 644 dea.h "$(DESTDIR)$(PREFIX)/include/dea.h"
	printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' 'Name: dea' \
	    'Description: Dual-Expert Attention in one C header' 'Version: $(VERSION)' \
	    'Cflags: -I$${includedir}' 'Libs: -lopenblas -lm' \
	    > "$(DESTDIR)$(PREFIX)/lib/pkgconfig/dea.pc"
	chmod 644 "$(DESTDIR)$(PREFIX)/lib/pkgconfig/dea.pc"

uninstall: ## remove what install put there
	rm -f "$(DESTDIR)$(PREFIX)/include/dea.h" "$(DESTDIR)$(PREFIX)/lib/pkgconfig/dea.pc"

# ---- checking
# A bench that was built before is tested too, and must not be an old one.
test: $(TESTS) all $(wildcard $(BUILD)/bench) ## every test; last line: N passed, N failed
	tests/run.sh $(TESTS)

# ---- checking dea.h itself: golden values, mutants, sanitizers, warnings
GOLDEN_FLAGS = $(CPPFLAGS_ALL) $(CFLAGS_ALL) -DDEA_REAL=$* -DGOLDEN_CHECK=golden_check_$*

golden: $(BUILD)/golden ## compare with the golden values of GOLDEN=DIR (tests/golden)
	$(BUILD)/golden "$(GOLDEN)"
	if [ -d "$(GOLDEN)/meta" ]; then $(BUILD)/golden "$(GOLDEN)/meta"; fi

$(BUILD)/golden_%.o: tests/golden_cases.c tests/golden.h tests/golden_meta.h $(wildcard examples/meta/*.[ch]) dea.h
	@mkdir -p $(@D)
	$(CC) $(GOLDEN_FLAGS) -c $< -o $@

$(BUILD)/golden: tests/golden.c $(BUILD)/golden_double.o $(BUILD)/golden_float.o
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(LDFLAGS) $^ $(LIBS) -o $@

bench: $(BUILD)/bench ## build/bench: speed and memory beside the FMA peak; see build/bench --help

BENCH_OBJ := $(patsubst %,$(BUILD)/examples/%.o,text/error text/safe_file text/standard text/utf8 visualize/gnuplot)

$(BUILD)/bench: bench/bench.c $(BENCH_OBJ) dea.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $< $(BENCH_OBJ) $(LDFLAGS) $(LIBS) -o $@

bench-meta: $(BUILD)/meta_bench ## a meta-attention block against the FMA peak of one core
	$(BUILD)/meta_bench

$(BUILD)/meta_bench: bench/meta_bench.c dea.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -DDEA_NO_BLAS $(LDFLAGS) $< -lm -o $@

# The fast path's mutants need optimised builds and take as long as all the others, so they have a target of their own.
MUTANTS ?= $(filter-out $(wildcard tests/mutants/fast*.txt),$(wildcard tests/mutants/*.txt))

mutate: ## wrong edits to dea.h, one at a time, must fail the tests; last line: N mutants, N survived
	CC="$(CC)" tests/mutate.sh $(MUTANTS)

mutate-fast: ## the same for the fast path
	CC="$(CC)" tests/mutate.sh $(wildcard tests/mutants/fast*.txt)

check-sanitizers: ## the suites of dea.h under address, undefined and thread sanitizers and valgrind
	CC="$(CC)" tests/sanitizers.sh

check-warnings: ## dea.h with gcc and clang, as C and C++, with and without every macro: no warning, no global, no exit
	tests/warnings.sh

.PHONY: bench golden bench-meta mutate mutate-fast check-sanitizers check-warnings

# ---- fuzzing: one libFuzzer target a file, with AddressSanitizer and UBSan; what fails goes to tests/fuzz/corpus/NAME/
FUZZ_CC      ?= clang
FUZZ_SECONDS ?= 60
FUZZ_FLAGS    = $(STD) -g -O1 -pthread -MMD -MP -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZERS      := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/*.c))
FUZZ_LIBOBJ  := $(patsubst %.c,$(BUILD)/fuzz/%.o,$(LIBSRC)) $(BUILD)/dea.o

$(BUILD)/fuzz/examples/%.o: examples/%.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(CPPFLAGS_ALL) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -c $< -o $@

$(BUILD)/fuzz/libexamples.a: $(FUZZ_LIBOBJ)
	@rm -f $@
	ar rcs $@ $^

$(FUZZERS): $(BUILD)/fuzz/%: tests/fuzz/%.c $(BUILD)/fuzz/libexamples.a
	$(FUZZ_CC) $(CPPFLAGS_ALL) $(FUZZ_FLAGS) -DFUZZING -fsanitize=fuzzer $< $(BUILD)/fuzz/libexamples.a $(LIBS) -o $@

fuzz: $(FUZZERS) ## every fuzz target for FUZZ_SECONDS (60) each; needs clang
	@for fuzzer in $(FUZZERS); do name=$$(basename $$fuzzer); mkdir -p $(BUILD)/fuzz/found/$$name tests/fuzz/corpus/$$name; \
	    echo "fuzz $$name, $(FUZZ_SECONDS) s"; \
	    $$fuzzer -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_funcs=0 -print_final_stats=1 \
	        -artifact_prefix=tests/fuzz/corpus/$$name/ $(BUILD)/fuzz/found/$$name tests/fuzz/corpus/$$name || exit 1; done

.PHONY: fuzz

# ---- ablation: variants of one model, three seeds each, one table; see bench/ablation.sh for what can be set
ablation: $(PROGRAMS) ## what each part is worth: variants, three seeds each, one table (hours; goes on where it stopped)
	$(FAST) PROGRAMS=$(BUILD) OUT=$${OUT:-$(BUILD)/ablation} bench/ablation.sh

.PHONY: ablation

# ---- pictures
# Of the checkpoint CKPT=FILE; without, of the preset quick, trained for it.
pictures: $(BUILD)/visualize $(BUILD)/train ## PNG, SVG, TSV and a page of what every head does, in build/attention_analysis
	$(BUILD)/visualize $(if $(CKPT),--ckpt "$(CKPT)") --out $(BUILD)/attention_analysis

.PHONY: pictures

clean: ## remove build/
	rm -rf $(BUILD)

.PHONY: all help run paris deps install uninstall test clean
