# SPDX-License-Identifier: Apache-2.0
# What this machine has: scripts/deps and scripts/found run once per tree. What a change of it builds anew.

GOALS := $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out help clean deps dist deb container uninstall,$(GOALS)),)
include build/found.mk
build/found.mk: scripts/deps scripts/found
	@scripts/deps
	@mkdir -p build
	@scripts/found >$@.new && mv $@.new $@

# ISAL=no: build without it (found.mk has what there is)
ifeq ($(ISAL),no)
ISAL_LIBS :=
endif
# ZIP=no: pstrain refuses npz
ifeq ($(ZIP),no)
ZIP_LIBS :=
endif
# EXPORTER=no: psd-exporter is not built
ifeq ($(EXPORTER),no)
MICROHTTPD_LIBS :=
endif
# of the programs that read data
DATA_LIBS = $(ZLIB_LIBS) $(ZIP_LIBS)
# stamp: FILE's time is the time of the last change of TEXT
eq = $(if $(subst x$1,,x$2)$(subst x$2,,x$1),,yes)
stamp = $(if $(call eq,$(strip $(file <$1)),$(strip $2)),,$(file >$1,$(strip $2)))
ifdef UV_VERSION
CC_VERSION := $(shell $(CC) -dumpfullversion 2>/dev/null || $(CC) -dumpversion 2>/dev/null || echo missing)
CC_SHORT := $(word 1,$(subst ., ,$(CC_VERSION))).$(word 2,$(subst ., ,$(CC_VERSION)))
ifeq ($(MAKELEVEL),0)
$(info uv $(UV_VERSION)  nanopb $(NANOPB_VERSION)  cblas $(BLAS_PROVIDER)  isa-l $(if $(ISAL_LIBS),yes,no)  zip $(if $(ZIP_LIBS),yes,no)  tls $(TLS)  ipsec-mb $(IPSEC_MB)  exporter $(if $(MICROHTTPD_LIBS),yes,no: libmicrohttpd-dev is missing)  cuda $(CUDA)  $(notdir $(CC)) $(CC_SHORT))
endif
$(shell mkdir -p $(B)/obj)
$(call stamp,$(B)/obj/flags,$(CC) $(CC_VERSION) $(call flags_of,) $(MODE_TESTS) $(TEST_INC) $(MATHS))
$(call stamp,$(B)/obj/paths,$(PATHS))
$(call stamp,$(B)/obj/isal,$(ISAL_LIBS))
$(call stamp,$(B)/obj/zip,$(ZIP_LIBS))
$(call stamp,$(B)/obj/tls,$(TLS))
$(call stamp,$(B)/obj/ipsec_mb,$(IPSEC_MB))
$(call stamp,$(B)/obj/link,$(LINK) $(MODE_SO) $(LIBS) $(CMOCKA_LIBS) $(DATA_LIBS) $(BLAS_LIBS))
$(call stamp,$(B)/obj/libpsd.list,$(PSD_O) $(COMMON_O) $(NET_O))
$(call stamp,$(B)/obj/libpsworker.list,$(WORKER_O) $(COMMON_O) $(NET_O))
$(call stamp,$(B)/obj/libcommon.list,$(COMMON_O))
$(call stamp,$(B)/obj/libcli.list,$(call obj,$(CLI_C)))
$(call stamp,$(B)/obj/libtest.list,$(call obj,$(TESTLIB_C)))
$(call stamp,$(B)/obj/libsim.list,$(call obj,$(SIMLIB_C)))
$(call stamp,$(B)/obj/libpstrain.list,$(call obj,$(PSTRAIN_C)))
$(call stamp,$(B)/obj/libpsctl.list,$(call obj,$(PSCTL_C)))
$(call stamp,$(B)/obj/cpu.list,$(call obj,$(CPU_C)))
$(call stamp,$(B)/obj/cuda.list,$(call obj,$(CUDA_C)) $(CUDA_LIBS))
$(call stamp,$(B)/obj/sources.list,$(OUR_C))
endif
endif
