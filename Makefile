# The commands of ida-train. `make help` lists them. The CUDA backend is built where there is a GPU, or with CUDA=1.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BUILD := build
JOBS ?= $(shell tools/build_jobs.sh)
QUICK_MUTANTS ?= 3
PYTHON := python3

# Compile commands that do not name the checkout: a second tree (tools/mutate) then finds its objects in ccache.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CUDA

.PHONY: help deps configure build test checks quickstart mutate format format-check clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

deps:
	@tools/install_deps.sh

configure: deps
	@option=$$(tools/cuda_option.sh); \
	  cmake -S . -B $(BUILD) -G Ninja $$option >$(BUILD)-configure.log 2>&1 || { cat $(BUILD)-configure.log >&2; exit 1; }

build: configure  ## install what is missing and build the program at build/ida-train (CUDA=1: with CUDA, CUDA=0: without)
	@cmake --build $(BUILD) --target ida-train --parallel $(JOBS)

quickstart: build  ## train, evaluate and sample a small model on this repository's own text
	@tools/quickstart.sh

test: deps  ## install, check the sources, build everything, run every test and a few mutants
	@BUILD=$(BUILD) JOBS=$(JOBS) QUICK_MUTANTS=$(QUICK_MUTANTS) tools/run_tests.sh

checks: deps format-check  ## the source checks alone: include rules, lengths, documents, format, mutants still apply
	@$(PYTHON) tools/check_includes.py
	@$(PYTHON) tools/check_lengths.py
	@$(PYTHON) tools/check_docs.py
	@$(PYTHON) tools/mutate --check

mutate: deps  ## break the sources on purpose, every mutant; each must turn a test red
	@$(PYTHON) tools/mutate --jobs $(JOBS)

format:  ## format the sources in place (clang-format 14)
	@tools/format.sh --write

format-check:
	@tools/format.sh --check

clean:  ## remove the build folders (runs/ stays)
	@rm -rf $(BUILD) build-mutate $(BUILD)-configure.log
