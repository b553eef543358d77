# SPDX-License-Identifier: Apache-2.0
# Objects, libraries, programs.

ifeq ($(V),1)
say := @:
Q :=
else
say := @echo
Q := @
endif

.PHONY: all
all: $(LIBPSD_A) $(LIBPSD_SO) $(LIBPSW_A) $(LIBPSW_SO) $(PLUGIN) $(PROGRAMS) $(EXAMPLES) ## libraries, programs, examples (default)

.PHONY: proto
proto: $(GEN_C) $(WORKER_GEN_C) ##- generate the C code of the .proto files

define generate
	@mkdir -p $(B)/gen
	$(say) "  GEN   $<"
	$(Q)$(NANOPB_GENERATOR) --error-on-unmatched -q -I $(<D) -D $(B)/gen $<
	@if grep -n pb_callback_t $(B)/gen/$*.pb.h; then echo "$<: a field has no bound in $(<:.proto=.options)" >&2; exit 1; fi
endef
$(B)/gen/%.pb.c $(B)/gen/%.pb.h &: proto/%.proto proto/%.options
	$(generate)
$(B)/gen/%.pb.c $(B)/gen/%.pb.h &: worker/hooks/%.proto worker/hooks/%.options
	$(generate)

define public_rule
$(B)/include/$(notdir $1): $1
	@mkdir -p $$(@D) && ln -sfn ../../../$1 $$@
endef
$(foreach h,$(PUBLIC_H),$(eval $(call public_rule,$h)))

define compile
	@mkdir -p $(@D)
	$(say) "  CC    $<"
	$(Q)$(CC) $(call flags_of,$1) -MD -MP -MF $(@:.o=.d) -c -o $@ $<
endef
$(B)/obj/gen/%.o: $(B)/gen/%.c $(B)/obj/flags | $(GEN_H)
	$(call compile,gen/$*.c)
$(B)/obj/common/crc32c.o: $(B)/obj/isal
$(B)/obj/common/net/tls/cipher_ipsec.o: $(B)/obj/ipsec_mb
$(B)/obj/worker/pstrain/data/archive.o: $(B)/obj/zip
$(call obj,$(wildcard tests/unit/net/*.c) worker/psctl/pki.c tests/bench/tls_bare.c): $(B)/obj/tls
$(B)/obj/common/net/tls/%.o: common/net/tls/%.c $(B)/obj/flags $(B)/obj/tls | $(GEN_H) $(PUBLIC)
	$(call compile,$<)
$(B)/obj/worker/nn/kernels/%.o: worker/nn/kernels/%.c $(B)/obj/flags $(B)/obj/paths | $(GEN_H) $(PUBLIC)
	$(call compile,$<)
$(B)/obj/worker/pstrain/%.o: worker/pstrain/%.c $(B)/obj/flags $(B)/obj/paths | $(GEN_H) $(PUBLIC)
	$(call compile,$<)
$(B)/obj/%.o: %.c $(B)/obj/flags | $(GEN_H) $(PUBLIC)
	$(call compile,$<)

define archive
	@mkdir -p $(@D)
	$(say) "  AR    $@"
	$(Q)rm -f $@.new && ar rcs $@.new $(filter %.o,$^) && mv $@.new $@
endef
$(B)/lib/libpsd.a: $(PSD_O) $(COMMON_O) $(NET_O) $(B)/obj/libpsd.list
	$(archive)
$(B)/lib/libpsworker.a: $(WORKER_O) $(COMMON_O) $(NET_O) $(B)/obj/libpsworker.list
	$(archive)
$(B)/obj/libcommon.a: $(COMMON_O) $(B)/obj/libcommon.list
	$(archive)
$(B)/obj/libcli.a: $(call obj,$(CLI_C)) $(B)/obj/libcli.list
	$(archive)
$(B)/obj/libtest.a: $(call obj,$(TESTLIB_C)) $(B)/obj/libtest.list
	$(archive)
$(B)/obj/libsim.a: $(call obj,$(SIMLIB_C)) $(B)/obj/libsim.list
	$(archive)
$(B)/obj/libpstrain.a: $(PSTRAIN_PARTS_O) $(B)/obj/libpstrain.list
	$(archive)
$(B)/obj/libpsctl.a: $(PSCTL_PARTS_O) $(B)/obj/libpsctl.list
	$(archive)

# $(call shared,MAP): lib/libX.so.N with its soname, and the libX.so that -lX finds
define shared
	@mkdir -p $(@D)
	$(say) "  LD    $@"
	$(Q)$(LINK) -shared $(MODE_SO) -Wl,-soname,$(notdir $@).$(SOVERSION) -Wl,--version-script,$1 -Wl,--exclude-libs,ALL \
		-o $@.$(SOVERSION) $(filter %.o,$^) $(LIBS)
	@ln -sfn $(notdir $@).$(SOVERSION) $@ && touch -h $@
endef
$(B)/lib/libpsd.so: $(PSD_O) $(COMMON_O) $(NET_O) psd/libpsd.map $(B)/obj/libpsd.list $(B)/obj/link
	$(call shared,psd/libpsd.map)
$(B)/lib/libpsworker.so: $(WORKER_O) $(COMMON_O) $(NET_O) worker/libpsworker.map $(B)/obj/libpsworker.list $(B)/obj/link
	$(call shared,worker/libpsworker.map)
define plugin
	@mkdir -p $(@D)
	$(say) "  LD    $@ (cblas $(BLAS_PROVIDER))"
	$(Q)$(LINK) -shared $(MODE_SO) -Wl,-soname,$(notdir $@) -Wl,--exclude-libs,ALL -o $@ $(filter %.o,$^) $(COMMON_A) \
		-Wl,--as-needed $(BLAS_LIBS) -lm
endef
$(B)/lib/libpsworker_cpu.so: $(call obj,$(CPU_C)) $(COMMON_A) $(B)/obj/cpu.list $(B)/obj/link
	$(plugin)
# the fake device of the tests computes by the CPU's operations
$(FAKE_PLUGIN): $(call obj,$(FAKE_C) $(filter-out %/table.c,$(CPU_C)) worker/nn/kernels/ops.c) $(COMMON_A) $(B)/obj/cpu.list $(B)/obj/link
	$(plugin)

# $(call program,LIBRARIES)
define program
	@mkdir -p $(@D)
	$(say) "  LD    $@"
	$(Q)$(LINK) -pie -o $@ $(filter %.o,$^) $1
endef
grouped = -Wl,--start-group $1 -Wl,--end-group $(LIBS)
# relocations in their short form: 50 KiB less that each start reads
$(B)/bin/psd: $(call obj,$(PSD_MAIN)) $(LIBPSD_A) $(B)/obj/link
	$(call program,$(LIBPSD_A) -Wl$(,)-z$(,)pack-relative-relocs $(LIBS))
$(B)/bin/psctl: $(call obj,$(PSCTL_C)) $(CLI_A) $(LIBPSW_A) $(B)/obj/link $(B)/obj/libpsctl.list
	$(call program,$(CLI_A) $(LIBPSW_A) $(LIBS))
$(B)/obj/worker/exporter/page.o: worker/exporter/page.html
$(B)/bin/psd-exporter: $(call obj,$(EXPORTER_C)) $(B)/obj/libpsctl.a $(CLI_A) $(LIBPSW_A) $(B)/obj/link
	$(call program,$(B)/obj/libpsctl.a $(CLI_A) $(LIBPSW_A) $(LIBS) $(MICROHTTPD_LIBS))
# both libraries hold the same objects of common/; the linker takes each from the first that has it
$(B)/bin/pstrain: $(call obj,$(PSTRAIN_C)) $(CLI_A) $(LIBPSW_A) $(LIBPSD_A) $(B)/obj/link $(B)/obj/libpstrain.list
	$(call program,$(CLI_A) $(LIBPSW_A) $(LIBPSD_A) $(LIBS) $(DATA_LIBS))
$(EXAMPLES): $(B)/examples/%: $(B)/obj/worker/examples/%.o $(LIBPSW_A) $(LIBPSD_A) $(B)/obj/link
	$(call program,$(LIBPSW_A) $(LIBPSD_A) $(LIBS) $(ZLIB_LIBS))
