# SPDX-License-Identifier: Apache-2.0
# The lint, and the texts of the tree that are made of sources.

# What the compiler is told about each source, for the lint tools and for editors.
define json_entry
{"directory": "$(CURDIR)", "file": "$1", "command": "$(CC) $(subst ",\",$(subst \,\\,$(call flags_of,$1))) -c $1"},

endef
$(B)/compile_commands.json: $(B)/obj/flags $(B)/obj/paths $(B)/obj/isal $(B)/obj/sources.list Makefile $(wildcard mk/*.mk)
	$(file >$@.new,[$(foreach s,$(OUR_C),$(call json_entry,$s)){}])
	@sed 's/^{}]$$/]/; s/^ *{/{/' $@.new | sed -z 's/,\n*\]/\n]/' >$@ && rm $@.new

.PHONY: lint
lint: all $(OPS_RUN) $(B)/compile_commands.json ## layers, circles, fields, symbols, headers, format, clang-tidy, cppcheck, shellcheck, style, words
	@scripts/lint/run $(B)
.PHONY: format
format: ## clang-format all C sources in place
	@clang-format -i $$(find common proto psd worker tests -name '*.[ch]' ! -name bare.c -o -name '*.cu')

# ---- made from --help and --print_config --------------------------------------------------------------------------------
MAN_IN := $(filter-out $(if $(MICROHTTPD_LIBS),,%/psd-exporter.8.in),$(wildcard docs/man/*.in))
MAN_MADE := $(MAN_IN:docs/man/%.in=$(B)/man/%)
MAN := $(MAN_MADE) $(wildcard docs/man/*.[158])
PATHS_SED = sed -e 's|@BINDIR@|$(PREFIX)/bin|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' -e 's|@VERSION@|$(VERSION)|g'
# psd.conf.5 has the settings of psd, as psd.8
$(B)/man/%: docs/man/%.in scripts/options $(PROGRAMS) FORCE
	@mkdir -p $(@D)
	@$(B)/bin/$(firstword $(subst ., ,$*)) --help | scripts/options man $< | $(PATHS_SED) >$@.new && mv $@.new $@
$(B)/completions/_%: $(B)/bin/% scripts/options
	@mkdir -p $(@D)
	@env -u TF_CONFIG $< --help | scripts/options zsh $* >$@.new && mv $@.new $@
$(B)/completions/%.fish: $(B)/bin/% scripts/options
	@mkdir -p $(@D)
	@env -u TF_CONFIG $< --help | scripts/options fish $* >$@.new && mv $@.new $@
$(B)/psd.conf: $(B)/bin/psd
	@env -u TF_CONFIG $< --print_config >$@.new && mv $@.new $@
.PHONY: FORCE docs-settings docs-protocol docs-operations docs-durability generated
FORCE:
docs-settings: $(B)/bin/psd ##- write the table of settings into docs/OPERATIONS.md
	@$< --help | scripts/options table docs/OPERATIONS.md >$(B)/OPERATIONS.md.new && cp $(B)/OPERATIONS.md.new docs/OPERATIONS.md

docs-protocol: ##- write the tables of docs/PROTOCOL.md and docs/SECURITY.md, from the sources
	@scripts/protocol write

docs-operations: $(OPS_RUN) ##- write the table of operations into docs/TF_MAP.md
	@scripts/operations write $(OPS_RUN)

docs-durability: ##- write the tables of the state file into docs/DURABILITY.md, from its rows
	@scripts/state write

generated: docs-settings docs-protocol docs-operations docs-durability $(B)/bin/psctl ## write all that the tree has and that is made of sources: tables of docs, a completion, the ABI
	@$(B)/bin/psctl completion bash >$(B)/psctl.bash.new && cp $(B)/psctl.bash.new scripts/completions/psctl.bash
	@scripts/abi write
	@scripts/python_docs write
