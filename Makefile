# dea.h: `make help` lists the targets. Objects go to build/; honours CC CFLAGS LDFLAGS LDLIBS PREFIX DESTDIR.

CC      ?= cc
CFLAGS  ?= -O2 -g
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

all: $(BUILD)/paris $(PROGRAMS) ## build the library object and every program

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

# ---- the main job
run: $(BUILD)/paris ## the Paris demo: fits the gate, shows alpha, alpha-hat and the photo-finish
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

$(TESTS): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libexamples.a
	$(CC) $(CFLAGS_ALL) $(LDFLAGS) $^ -lcmocka $(LIBS) -o $@

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

# ---- checking
test: $(TESTS) all ## every test; last line: N passed, N failed
	tests/run.sh $(TESTS)

clean: ## remove build/
	rm -rf $(BUILD)

.PHONY: all help run test clean
