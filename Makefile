# SPDX-License-Identifier: Apache-2.0
# psd: build, test, lint, install. `make help` lists the goals. Make does not recurse; everything lands under build/$(VARIANT)/.
# Sources are found by directory: a new file needs no line. The rules are in mk/, a file for each subject, read in this order.

VERSION := $(shell sed -n 's/^\#define PS_VERSION "\(.*\)"$$/\1/p' common/ps_types.h)
# rises when the signature or the meaning of a public function changes; CHANGELOG.md lists what changed
SOVERSION := 1
VARIANT ?= release
B := build/$(VARIANT)
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
PLUGINDIR ?= $(LIBDIR)
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
DESTDIR ?=
JOBS ?= 2
SHELL := /bin/bash
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
.DEFAULT_GOAL := all

# all cores unless -j is given; several goals on one line run one after the other
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS))$(word 2,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

include mk/variants.mk # how each variant compiles and links
include mk/sources.mk  # the sources, and the products that they make
include mk/machine.mk  # what this machine has
include mk/build.mk    # objects, libraries, programs
include mk/gpu.mk      # the CUDA plugin
include mk/tests.mk    # test programs; check, sim, soak, fuzz, mutants
include mk/bench.mk
include mk/lint.mk     # lint, format, generated texts
include mk/python.mk  # the Python package
include mk/install.mk

.PHONY: examples
examples: all ## run the programs of worker/examples against servers of their own, print a table
	@PSD_BUILD=$(B) scripts/examples
.PHONY: demo
demo: all ## train digits on 2 ps and 3 workers, show the cluster, check the numbers
	@PSD_BUILD=$(B) scripts/demo
MAKEFILES_READ := Makefile $(wildcard mk/*.mk)
.PHONY: dist deb container clean deps help help-all
dist: ## build/psd-VERSION.tar.gz of the committed tree
	@scripts/dist
deb: ## Debian packages of the committed tree, in build/deb
	@scripts/deb
container: deb ## image psd of these packages, by buildah
	@buildah build -t psd -f scripts/container/Containerfile .
clean: ## remove build/
	@rm -rf build
deps: ## install missing Debian packages, or print the command
	@scripts/deps && rm -f build/found.mk
# a goal with "## text" is in both lists, one with "##- text" in the long list
help: ## this list
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILES_READ) | sort | expand -t 13
	@echo
	@echo '  make help-all lists further goals: parts of check, parts of bench, soak, docs'
	@echo '  VARIANT=release|debug|asan|tsan   output in build/VARIANT (release when not given)'
	@echo '  CC=clang  WERROR=1  V=1  JOBS=2   compiler, warnings are errors, show commands, test programs at a time'
help-all:
	@sed -n 's/^\([a-z][a-z-]*\):.*##-* \(.*\)/  \1\t\2/p' $(MAKEFILES_READ) | sort | expand -t 19

-include $(patsubst %.o,%.d,$(call obj,$(OUR_C) $(GEN_C) $(WORKER_GEN_C)) $(EMULATED_O) $(B)/obj/emulated/gpu.o) build/cuda/kernels.d
