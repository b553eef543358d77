# SPDX-License-Identifier: Apache-2.0
# make install, make uninstall, make stage.

SHARE := $(PREFIX)/share
COMPLETIONS := $(filter-out $(if $(MICROHTTPD_LIBS),,%/psd-exporter),$(wildcard scripts/completions/*))
# units beside psd@.service
UNITS := $(if $(MICROHTTPD_LIBS),psd-exporter.service)
ZSH_MADE := $(PROGRAMS:$(B)/bin/%=$(B)/completions/_%)
FISH_MADE := $(PROGRAMS:$(B)/bin/%=$(B)/completions/%.fish)
INSTALL_MADE := $(MAN_MADE) $(ZSH_MADE) $(FISH_MADE) $(B)/psd.conf
man_dir = man$(subst .,,$(suffix $1))
PC_SED = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@LIBS_PRIVATE@|$(LIBS_PRIVATE) -pthread|g'
# uninstall does not look for libmicrohttpd
OF_EXPORTER = $(PREFIX)/bin/psd-exporter $(PREFIX)/lib/systemd/system/psd-exporter.service \
	$(addprefix $(SHARE)/,man/man8/psd-exporter.8 bash-completion/completions/psd-exporter zsh/site-functions/_psd-exporter \
	fish/vendor_completions.d/psd-exporter.fish)
INSTALLED = $(addprefix $(PREFIX)/bin/,$(notdir $(PROGRAMS))) $(addprefix $(PREFIX)/include/psd/,$(notdir $(PUBLIC_H))) \
	$(addprefix $(LIBDIR)/,libpsd.a libpsd.so libpsd.so.$(SOVERSION) libpsworker.a libpsworker.so libpsworker.so.$(SOVERSION) \
	pkgconfig/psd.pc pkgconfig/psworker.pc) \
	$(addprefix $(PLUGINDIR)/,libpsworker_cpu.so libpsworker_cuda.so) \
	$(addprefix $(SHARE)/psd/,$(shell find data -type f)) $(SHARE)/doc/psd/LICENSE $(SHARE)/doc/psd/README.md $(SHARE)/doc/psd/CHANGELOG.md \
	$(addprefix $(SHARE)/doc/psd/,$(notdir $(wildcard docs/*.md))) \
	$(foreach m,$(MAN),$(SHARE)/man/$(call man_dir,$m)/$(notdir $m)) \
	$(addprefix $(SHARE)/doc/psd/examples/,$(notdir $(EXAMPLE_C))) \
	$(addprefix $(SHARE)/bash-completion/completions/,$(notdir $(COMPLETIONS))) \
	$(addprefix $(SHARE)/zsh/site-functions/,$(notdir $(ZSH_MADE))) \
	$(addprefix $(SHARE)/fish/vendor_completions.d/,$(notdir $(FISH_MADE))) \
	$(PREFIX)/lib/systemd/system/psd@.service $(PREFIX)/lib/sysusers.d/psd.conf $(PREFIX)/lib/tmpfiles.d/psd.conf \
	$(OF_EXPORTER)
INTO = $(DESTDIR)
define install_files
	@install -d $(addprefix $(INTO),$(PREFIX)/bin $(PREFIX)/include/psd $(LIBDIR)/pkgconfig $(PLUGINDIR) $(SHARE)/psd/data $(SHARE)/doc/psd/examples \
		$(addprefix $(SHARE)/man/,man1 man5 man8) $(SHARE)/bash-completion/completions $(SYSCONFDIR)/psd \
		$(addprefix $(SHARE)/,zsh/site-functions fish/vendor_completions.d) \
		$(addprefix $(PREFIX)/lib/,systemd/system sysusers.d tmpfiles.d))
	@install -m 755 $(PROGRAMS) $(INTO)$(PREFIX)/bin/
	@install -m 644 $(PUBLIC_H) $(INTO)$(PREFIX)/include/psd/
	@install -m 644 $(LIBPSD_A) $(LIBPSW_A) $(INTO)$(LIBDIR)/
	@install -m 755 $(LIBPSD_SO).$(SOVERSION) $(LIBPSW_SO).$(SOVERSION) $(INTO)$(LIBDIR)/
	@install -m 755 $(PLUGIN) $(INTO)$(PLUGINDIR)/
	@ln -sfn libpsd.so.$(SOVERSION) $(INTO)$(LIBDIR)/libpsd.so
	@ln -sfn libpsworker.so.$(SOVERSION) $(INTO)$(LIBDIR)/libpsworker.so
	@for name in psd psworker; do $(PC_SED) scripts/$$name.pc.in >$(INTO)$(LIBDIR)/pkgconfig/$$name.pc; done
	@cp -R --no-preserve=ownership data/. $(INTO)$(SHARE)/psd/data/
	@install -m 644 LICENSE README.md CHANGELOG.md $(wildcard docs/*.md) $(INTO)$(SHARE)/doc/psd/
	@$(foreach m,$(MAN),install -m 644 $m $(INTO)$(SHARE)/man/$(call man_dir,$m)/;)
	@install -m 644 $(EXAMPLE_C) $(INTO)$(SHARE)/doc/psd/examples/
	@install -m 644 $(COMPLETIONS) $(INTO)$(SHARE)/bash-completion/completions/
	@install -m 644 $(ZSH_MADE) $(INTO)$(SHARE)/zsh/site-functions/
	@install -m 644 $(FISH_MADE) $(INTO)$(SHARE)/fish/vendor_completions.d/
	@for unit in psd@.service $(UNITS); do \
		$(PATHS_SED) scripts/systemd/$$unit | install -m 644 /dev/stdin $(INTO)$(PREFIX)/lib/systemd/system/$$unit; done
	@for kind in sysusers tmpfiles; do install -m 644 scripts/systemd/$$kind.conf $(INTO)$(PREFIX)/lib/$$kind.d/psd.conf; done
	@[ -e $(INTO)$(SYSCONFDIR)/psd/psd.conf ] || install -m 644 $(B)/psd.conf $(INTO)$(SYSCONFDIR)/psd/
endef
.PHONY: install uninstall stage
install: all $(INSTALL_MADE) ## PREFIX=/usr/local DESTDIR= LIBDIR=PREFIX/lib PLUGINDIR=LIBDIR SYSCONFDIR=PREFIX/etc (/etc for PREFIX=/usr)
	$(install_files)
	@echo "installed in $(DESTDIR)$(PREFIX)"
# what `make install` makes, for the test that builds outside the tree
stage: INTO := $(B)/stage
stage: all $(INSTALL_MADE)
	@rm -rf $(INTO)
	$(install_files)
# directories that uninstall leaves, also empty: the system's, those above PREFIX; below DESTDIR nothing is the system's
ABOVE = $(if $(filter-out /,$(patsubst %/,%,$(dir $1))),$(patsubst %/,%,$(dir $1)) $(call ABOVE,$(patsubst %/,%,$(dir $1))))
OF_SYSTEM = $(call ABOVE,$(PREFIX)) $(filter-out $(PREFIX),$(call ABOVE,$(SYSCONFDIR))) \
	$(if $(filter /usr /usr/local,$(PREFIX)),$(PREFIX) $(addprefix $(PREFIX)/,bin etc include lib share share/man share/doc) /etc)
SYSTEM_DIRS = ''$(if $(DESTDIR),,$(addprefix |,$(OF_SYSTEM)))
uninstall: ## remove what install put there; a psd.conf that sets something stays
	@rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@conf=$(DESTDIR)$(SYSCONFDIR)/psd/psd.conf; if [ -f "$$conf" ] && ! grep -q '^[^#]' "$$conf"; then rm "$$conf"; fi
	@printf '%s\n' $(INSTALLED) $(SYSCONFDIR)/psd/psd.conf | while read -r at; do \
		while at=$${at%/*}; [ -n "$$at" ]; do echo "$$at"; done; done | sort -ru | while read -r at; do case "$$at" in \
		$(SYSTEM_DIRS)) ;; *) [ ! -d "$(DESTDIR)$$at" ] || rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$at" ;; esac; done
