# SPDX-License-Identifier: Apache-2.0
# The Python package.

.PHONY: check-python
check-python: all wheel ## the Python package in a fresh virtual environment (PYTHON=interpreter: in that one; TORCH=1: with PyTorch; T=word)
	@T='$(T)' tests/python/run $(B) dist/psd-$(VERSION)-py3-none-manylinux_2_34_x86_64.whl

# ---- the wheel: the objects of this build, linked again with $ORIGIN as the place of libraries. libuv and OpenBLAS become a part of them;
# scripts/wheel puts other shared libraries beside them that are not part of glibc, and checks what the wheel's name promises.
W := $(B)/wheel
, := ,
UV_A := $(shell $(CC) -print-file-name=libuv_a.a)
$(W)/libuv.a: $(UV_A)
	@mkdir -p $(@D)
	$(say) "  OBJCOPY  $@"
	$(Q)objcopy $(foreach n,environ stderr in6addr_any,--redefine-sym $n=psw_$n) $< $@
$(W)/uv_names.o: worker/python/uv_names.c $(B)/obj/flags
	$(call compile,$<)
WHEEL_UV := $(W)/libuv.a $(W)/uv_names.o
WHEEL_LIBS = $(filter-out -luv,$(LIBS))
# $(call wheel_link,FLAGS,LIBRARIES)
define wheel_link
	@mkdir -p $(@D)
	$(say) "  LD    $@"
	$(Q)$(LINK) $1 -Wl,-rpath,'$$ORIGIN/../_lib' -o $@ -Wl,--start-group $(filter %.o %.a,$^) -Wl,--end-group $2 && strip --strip-unneeded $@
endef
wheel_so = -shared $(MODE_SO) -Wl,-soname,$(notdir $@) -Wl,--exclude-libs,ALL
$(W)/_lib/libpsd.so.$(SOVERSION): $(PSD_O) $(COMMON_O) $(NET_O) psd/libpsd.map $(B)/obj/libpsd.list $(WHEEL_UV) $(B)/obj/link
	$(call wheel_link,$(wheel_so) -Wl$(,)--version-script$(,)psd/libpsd.map,$(WHEEL_LIBS))
$(W)/_lib/libpsworker.so.$(SOVERSION): $(WORKER_O) $(COMMON_O) $(NET_O) worker/libpsworker.map $(B)/obj/libpsworker.list $(WHEEL_UV) $(B)/obj/link
	$(call wheel_link,$(wheel_so) -Wl$(,)--version-script$(,)worker/libpsworker.map,$(WHEEL_LIBS))
$(W)/_lib/libpsworker_cpu.so: $(call obj,$(CPU_C)) $(COMMON_A) $(B)/obj/cpu.list $(B)/obj/link
	$(call wheel_link,$(wheel_so),-Wl$(,)--as-needed $(subst -lblas,-l:libopenblas.a,$(BLAS_LIBS)) -lm)
$(W)/_bin/psd: $(call obj,$(PSD_MAIN)) $(LIBPSD_A) $(WHEEL_UV) $(B)/obj/link
	$(call wheel_link,-pie,$(WHEEL_LIBS))
$(W)/_bin/psctl: $(call obj,$(PSCTL_C)) $(CLI_A) $(LIBPSW_A) $(WHEEL_UV) $(B)/obj/link
	$(call wheel_link,-pie,$(WHEEL_LIBS))
# without npz: libzip would bring OpenSSL's libcrypto into the wheel, and NumPy reads npz
$(W)/archive.o: worker/pstrain/data/archive.c $(B)/obj/flags | $(GEN_H) $(PUBLIC)
	$(call compile,$<) -UPSI_ZIP
$(W)/_bin/pstrain: $(filter-out %/data/archive.o,$(call obj,$(PSTRAIN_C))) $(W)/archive.o $(CLI_A) $(LIBPSW_A) $(LIBPSD_A) $(WHEEL_UV) $(B)/obj/link
	$(call wheel_link,-pie,$(WHEEL_LIBS) $(ZLIB_LIBS))
WHEEL_FILES := $(addprefix $(W)/_lib/,libpsd.so.$(SOVERSION) libpsworker.so.$(SOVERSION) libpsworker_cpu.so) $(addprefix $(W)/_bin/,psd psctl pstrain)
.PHONY: wheel wheel-files
wheel-files: $(WHEEL_FILES) ##- what tests/system/test_wheel.py looks at
wheel: $(WHEEL_FILES) ## dist/psd-VERSION-py3-none-manylinux_2_34_x86_64.whl: the Python package with libraries and programs
	@scripts/wheel $(W) dist
.PHONY: bench-python bench-loss
bench-loss: all ##- docs/python-loss.svg (PYTHON=interpreter with PyTorch and matplotlib)
	@PYTHONPATH=worker/python PSD_LIBRARY_DIR=$(abspath $(B))/lib $(or $(PYTHON),python3) -B tests/bench/loss.py
bench-python: all ##- what Python costs over C (PYTHON=interpreter with NumPy)
	@PYTHONPATH=worker/python PSD_LIBRARY_DIR=$(abspath $(B))/lib $(or $(PYTHON),python3) tests/python/bench.py
