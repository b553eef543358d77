# SPDX-License-Identifier: Apache-2.0
# psd: build, test, lint, install. One Makefile, no recursion into directories; everything lands under build/$(VARIANT)/.
# Sources are found by directory: a new file needs no line here. `make help` lists what there is.

VERSION := $(shell sed -n 's/^\#define PS_VERSION "\(.*\)"$$/\1/p' common/ps_types.h)
# rises when the signature or the meaning of a public function changes; README.md, "Changelog", lists what changed
SOVERSION := 1
VARIANT ?= release
B := build/$(VARIANT)
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
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

# ---- variants ----------------------------------------------------------------------------------------------------------
ifneq ($(words $(VARIANT)),1)
$(error VARIANT must be one of release debug asan tsan fuzz)
endif
ifeq ($(VARIANT),release)
MODE := -O2 -g -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
MODE_LD := -Wl,-z,relro,-z,now
MODE_SO := -Wl,-z,defs
else ifeq ($(VARIANT),debug)
MODE := -Og -g3 -DPSI_DEBUG=1
MODE_SO := -Wl,-z,defs
else ifeq ($(VARIANT),asan)
MODE := -O1 -g -fno-omit-frame-pointer -DPSI_DEBUG=1 -fsanitize=address,undefined -fno-sanitize-recover=all
MODE_LD := -fsanitize=address,undefined
else ifeq ($(VARIANT),tsan)
MODE := -O1 -g -fno-omit-frame-pointer -DPSI_DEBUG=1 -fsanitize=thread
MODE_LD := -fsanitize=thread
else ifeq ($(VARIANT),fuzz)
CC := clang
MODE := -O1 -g -fno-omit-frame-pointer -DPSI_DEBUG=1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
MODE_LD := -fsanitize=address,undefined
else
$(error VARIANT=$(VARIANT) is unknown: it must be one of release debug asan tsan fuzz)
endif
ifeq ($(origin CC),default)
CC := gcc
endif

# ---- flags -------------------------------------------------------------------------------------------------------------
WARN := -Wall -Wextra -Wshadow -Wconversion -Wcast-qual -Wformat=2 -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wundef \
	-Werror=unused-result -Werror=implicit-function-declaration
ifeq ($(findstring clang,$(CC)),)
WARN += -Wno-format-truncation
endif
ifneq ($(filter 1 true,$(WERROR) $(CI)),)
WARN += -Werror
endif
BASE := -std=gnu2x -D_GNU_SOURCE $(MODE) $(WARN) -fPIC -fvisibility=hidden -pthread
# common/limits.h and common/link.h must not stand in for the system's: common/ is looked at last
LIB_INC := -iquote . -iquote proto -idirafter common -I $(B)/gen
PUBLIC_INC := -I $(B)/include
TEST_INC := $(LIB_INC) -iquote psd -iquote worker -iquote tests -iquote tests/lib -iquote tests/sim -iquote tests/sim/lib $(PUBLIC_INC)
# reductions and optimizers give the same bits in every clone (no contraction); gcc 12 vectorises these loops at -O3 only
MATHS := -O3 -fno-math-errno -ffp-contract=off
PATHS := -DPSI_LIBDIR='"$(LIBDIR)"' -DPSI_DATADIR='"$(PREFIX)/share/psd/data"'
# $(call flags_of,SOURCE)
flags_of = $(BASE) \
	$(if $(filter psd/optim/% worker/nn/kernels/cpu/% common/half.c,$1),$(MATHS)) \
	$(if $(filter common/rng.c,$1),-ffp-contract=off) \
	$(if $(filter common/crc32c.c,$1),$(if $(ISAL_LIBS),-DPSI_ISAL)) \
	$(if $(filter worker/nn/kernels/cpu/%,$1),$(BLAS_CFLAGS)) \
	$(if $(filter worker/nn/kernels/cuda/% tests/bench/gpu/%,$1),$(CUDA_CFLAGS)) $(if $(filter tests/kernels/emulated/%,$1),$(EMULATED_CFLAGS)) \
	$(if $(filter worker/nn/kernels/%.c worker/pstrain/%,$1),$(PATHS)) \
	$(if $(filter worker/psctl/% worker/pstrain/% worker/examples/%,$1),$(PUBLIC_INC) $(if $(filter worker/examples/%,$1),,-iquote .), \
	$(if $(filter tests/%,$1),$(TEST_INC), \
	$(LIB_INC) $(if $(filter psd/%,$1),-iquote psd,$(if $(filter worker/%,$1),-iquote worker)))) \
	$(UV_CFLAGS) $(CPPFLAGS) $(CFLAGS)
LINK = $(CC) -pthread $(MODE_LD) $(LDFLAGS)

# ---- sources -----------------------------------------------------------------------------------------------------------
PROTO := $(wildcard proto/*.proto)
GEN_C := $(PROTO:proto/%.proto=$(B)/gen/%.pb.c)
WORKER_PROTO := $(wildcard worker/*/*.proto)
WORKER_GEN_C := $(patsubst %.proto,$(B)/gen/%.pb.c,$(notdir $(WORKER_PROTO)))
GEN_H := $(GEN_C:.c=.h) $(WORKER_GEN_C:.c=.h)
COMMON_C := $(wildcard common/*.c)
NET_C := $(wildcard common/net/*.c)
CLI_C := $(wildcard common/cli/*.c)
PSD_MAIN := $(wildcard psd/main.c)
PSD_C := $(filter-out psd/main.c,$(wildcard psd/*.c psd/*/*.c))
WORKER_C := $(wildcard worker/*.c $(foreach d,api core files hooks nn nn/kernels,worker/$d/*.c))
CPU_C := $(wildcard worker/nn/kernels/cpu/*.c)
FAKE_C := $(wildcard tests/kernels/fake/*.c)
CUDA_C := $(wildcard worker/nn/kernels/cuda/*.c)
EMULATED_C := $(wildcard tests/kernels/emulated/*.c)
PSCTL_C := $(wildcard worker/psctl/*.c)
PSTRAIN_C := $(wildcard worker/pstrain/*.c worker/pstrain/data/*.c)
EXAMPLE_C := $(wildcard worker/examples/*.c)
PUBLIC_H := $(wildcard common/ps_types.h worker/ps_cluster.h worker/ps.h worker/ps_hooks.h worker/ps_queue.h worker/ps_monitored.h worker/ps_nn.h psd/psd.h)
deep = $(wildcard tests/$1/test_*.c tests/$1/*/test_*.c tests/$1/*/*/test_*.c tests/$1/*/*/*/test_*.c)
UNIT_C := $(call deep,unit)
KERNELS_C := $(call deep,kernels)
PARITY_C := $(call deep,parity)
GOLDEN_C := $(call deep,golden)
SIM_C := $(call deep,sim)
SYSTEM_C := $(call deep,system)
ifeq ($(VARIANT),tsan)
ONE_THREAD := $(filter-out $(patsubst %,tests/%.c,$(shell sed '/^\#/d' tests/threads)),$(UNIT_C) $(KERNELS_C) $(PARITY_C) $(GOLDEN_C) $(SIM_C))
$(foreach l,UNIT_C KERNELS_C PARITY_C GOLDEN_C SIM_C,$(eval $l := $(filter-out $(ONE_THREAD),$($l))))
LEFT_OUT := --left-out 'no thread is started: $(patsubst tests/%.c,%,$(ONE_THREAD))'
endif
REGRESS_C := $(wildcard tests/regress/*.c)
MODEL_SCRIPTS := $(sort $(wildcard tests/models/test_*.py))
SYSTEM_SCRIPTS := $(sort $(wildcard tests/system/test_*.sh tests/system/test_*.py))
TESTLIB_C := $(wildcard tests/lib/*.c)
SHIM_C := $(wildcard tests/lib/shim/*.c)
TSAN_C := $(wildcard tests/lib/tsan/*.c)
SIMLIB_C := $(wildcard tests/sim/lib/*.c)
FUZZ_C := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_C := $(filter-out tests/bench/bare.c,$(wildcard tests/bench/*.c))
TEST_C := $(UNIT_C) $(KERNELS_C) $(PARITY_C) $(GOLDEN_C) $(SIM_C) $(SYSTEM_C) $(REGRESS_C)
OUR_C := $(COMMON_C) $(NET_C) $(CLI_C) $(PSD_MAIN) $(PSD_C) $(WORKER_C) $(CPU_C) $(CUDA_C) $(PSCTL_C) $(PSTRAIN_C) $(EXAMPLE_C) $(TEST_C) \
	$(FAKE_C) $(EMULATED_C) $(TESTLIB_C) $(SHIM_C) $(TSAN_C) $(SIMLIB_C) $(FUZZ_C) $(BENCH_C) $(GPU_BENCH_C) $(if $(FUZZ_C),tests/fuzz/replay_main.c)

obj = $(patsubst %.c,$(B)/obj/%.o,$(patsubst $(B)/%,%,$1))
COMMON_O := $(call obj,$(COMMON_C) $(GEN_C))
NET_O := $(call obj,$(NET_C))
PSD_O := $(call obj,$(PSD_C))
WORKER_O := $(call obj,$(WORKER_C) $(WORKER_GEN_C))
PSTRAIN_PARTS_O := $(call obj,$(filter-out %/main.c,$(PSTRAIN_C)))
PSCTL_PARTS_O := $(call obj,$(filter-out %/main.c,$(PSCTL_C)))

# ---- products (each only when its sources exist) -------------------------------------------------------------------------
LIBPSD_A := $(if $(PSD_O),$(B)/lib/libpsd.a)
LIBPSW_A := $(if $(WORKER_O),$(B)/lib/libpsworker.a)
LIBPSD_SO := $(if $(PSD_O),$(B)/lib/libpsd.so)
LIBPSW_SO := $(if $(WORKER_O),$(B)/lib/libpsworker.so)
PLUGIN = $(if $(CPU_C),$(B)/lib/libpsworker_cpu.so) $(if $(filter yes,$(CUDA)),$(B)/lib/libpsworker_cuda.so)
FAKE_PLUGIN := $(if $(FAKE_C),$(B)/tests/kernels/libpsworker_fake.so)
EMULATED_PLUGIN := $(if $(EMULATED_C),$(B)/tests/kernels/libpsworker_emulated.so)
TEST_PLUGINS := $(FAKE_PLUGIN) $(EMULATED_PLUGIN)
SHIMS := $(patsubst %.c,$(B)/%.so,$(SHIM_C))
COMMON_A := $(if $(COMMON_O),$(B)/obj/libcommon.a)
CLI_A := $(if $(CLI_C),$(B)/obj/libcli.a)
PARTS_A := $(if $(PSTRAIN_PARTS_O),$(B)/obj/libpstrain.a) $(if $(PSCTL_PARTS_O),$(B)/obj/libpsctl.a)
TESTLIB_A := $(if $(TESTLIB_C),$(B)/obj/libtest.a)
SIMLIB_A := $(if $(SIMLIB_C),$(B)/obj/libsim.a)
PROGRAMS := $(if $(PSD_MAIN),$(B)/bin/psd) $(if $(wildcard worker/psctl/main.c),$(B)/bin/psctl) $(if $(wildcard worker/pstrain/main.c),$(B)/bin/pstrain)
EXAMPLES := $(EXAMPLE_C:worker/examples/%.c=$(B)/examples/%)
PUBLIC := $(addprefix $(B)/include/,$(notdir $(PUBLIC_H)))
test_bin = $(patsubst tests/%.c,$(B)/tests/%,$1)
UNIT := $(call test_bin,$(UNIT_C) $(REGRESS_C))
KERNELS := $(call test_bin,$(KERNELS_C))
PARITY := $(call test_bin,$(PARITY_C))
GOLDEN := $(call test_bin,$(GOLDEN_C))
SIM := $(call test_bin,$(SIM_C))
SYSTEM := $(call test_bin,$(SYSTEM_C))
FUZZ := $(call test_bin,$(FUZZ_C))
BENCH := $(call test_bin,$(BENCH_C))
GPU_BENCH_C := $(wildcard tests/bench/gpu/*.c)
GPU_BENCH = $(if $(filter yes,$(CUDA)),$(call test_bin,$(GPU_BENCH_C)))
LIBS_PRIVATE = $(strip $(UV_LIBS) -lprotobuf-nanopb $(JANSSON_LIBS) $(INIH_LIBS) $(ISAL_LIBS) -lm)
LIBS = -Wl,--as-needed $(LIBS_PRIVATE) -ldl

# ---- what this machine has: scripts/deps and scripts/found run once per tree ------------------------------------------------
GOALS := $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out help clean deps dist uninstall,$(GOALS)),)
include build/found.mk
build/found.mk: scripts/deps scripts/found
	@scripts/deps
	@mkdir -p build
	@scripts/found >$@.new && mv $@.new $@

# ISAL=no: build without it (found.mk has what there is)
ifeq ($(ISAL),no)
ISAL_LIBS :=
endif
# stamp: FILE's time is the time of the last change of TEXT
eq = $(if $(subst x$1,,x$2)$(subst x$2,,x$1),,yes)
stamp = $(if $(call eq,$(strip $(file <$1)),$(strip $2)),,$(file >$1,$(strip $2)))
ifdef UV_VERSION
CC_VERSION := $(shell $(CC) -dumpfullversion 2>/dev/null || $(CC) -dumpversion 2>/dev/null || echo missing)
CC_SHORT := $(word 1,$(subst ., ,$(CC_VERSION))).$(word 2,$(subst ., ,$(CC_VERSION)))
ifeq ($(MAKELEVEL),0)
$(info uv $(UV_VERSION)  nanopb $(NANOPB_VERSION)  cblas $(BLAS_PROVIDER)  isa-l $(if $(ISAL_LIBS),yes,no)  cuda $(CUDA)  $(notdir $(CC)) $(CC_SHORT))
endif
$(shell mkdir -p $(B)/obj)
$(call stamp,$(B)/obj/flags,$(CC) $(CC_VERSION) $(call flags_of,) $(TEST_INC) $(MATHS))
$(call stamp,$(B)/obj/paths,$(PATHS))
$(call stamp,$(B)/obj/isal,$(ISAL_LIBS))
$(call stamp,$(B)/obj/link,$(LINK) $(MODE_SO) $(LIBS) $(CMOCKA_LIBS) $(ZLIB_LIBS) $(BLAS_LIBS))
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

ifeq ($(V),1)
say := @:
Q :=
else
say := @echo
Q := @
endif

# ---- build -------------------------------------------------------------------------------------------------------------
.PHONY: all
all: $(LIBPSD_A) $(LIBPSD_SO) $(LIBPSW_A) $(LIBPSW_SO) $(PLUGIN) $(PROGRAMS) $(EXAMPLES) ## libraries, programs, examples (default)

.PHONY: proto
proto: $(GEN_C) $(WORKER_GEN_C) ## generate the C code of the .proto files

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

# for GPUs: code for those of 2018 to 2024, and what a driver compiles for later ones; the same object for all variants
CUDA_ARCHS := 75 80 86 89 90
CUDA_NEWEST := $(lastword $(CUDA_ARCHS))
NVCC_FLAGS := -std=c++17 -O3 -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -I . -I common \
	$(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$a,code=sm_$a) -gencode arch=compute_$(CUDA_NEWEST),code=compute_$(CUDA_NEWEST)
LINK_CUDA = -Wl,--as-needed $(CUDA_LIBS) -lcublas -Wl,-Bstatic -lcudart_static -Wl,-Bdynamic -lstdc++ -ldl -lrt -lm
build/cuda/kernels.o: worker/nn/kernels/cuda/kernels.cu
	@mkdir -p $(@D)
	$(say) "  NVCC  $<"
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(B)/lib/libpsworker_cuda.so: $(call obj,$(CUDA_C) worker/nn/kernels/ops.c) build/cuda/kernels.o $(COMMON_A) $(B)/obj/cuda.list $(B)/obj/link
	@mkdir -p $(@D)
	$(say) "  LD    $@"
	$(Q)$(LINK) -shared $(MODE_SO) -Wl,-soname,$(notdir $@) -Wl,--exclude-libs,ALL -o $@ $(filter %.o,$^) $(COMMON_A) \
		$(LINK_CUDA)

# the same sources over a CUDA that the tests emulate on the host
EMULATED_CFLAGS := -isystem tests/kernels/emulated/include
EMULATED_O := $(call obj,$(EMULATED_C)) $(patsubst %,$(B)/obj/emulated/%.o,$(notdir $(basename $(CUDA_C))) kernels)
EMULATED_COMPILE = $(CC) $(call flags_of,tests/kernels/emulated/) -DPSK_CUDA_NAME='"emulated"' -MMD -MP -MF $(@:.o=.d) -c -o $@
$(B)/obj/emulated/%.o: worker/nn/kernels/cuda/%.c $(B)/obj/flags | $(GEN_H) $(PUBLIC)
	@mkdir -p $(@D)
	$(say) "  CC    $< (emulated)"
	$(Q)$(EMULATED_COMPILE) $<
$(B)/obj/emulated/kernels.o: worker/nn/kernels/cuda/kernels.cu $(B)/obj/flags | $(GEN_H) $(PUBLIC)
	@mkdir -p $(@D)
	$(say) "  CC    $< (emulated)"
	$(Q)$(EMULATED_COMPILE) -include tests/kernels/emulated/device.h -x c $<
$(B)/obj/emulated/gpu.o: $(GPU_BENCH_C) $(B)/obj/flags | $(GEN_H) $(PUBLIC)
	@mkdir -p $(@D)
	$(say) "  CC    $< (emulated)"
	$(Q)$(EMULATED_COMPILE) $<
$(EMULATED_PLUGIN): $(EMULATED_O) $(call obj,worker/nn/kernels/ops.c) $(COMMON_A) $(B)/obj/cuda.list $(B)/obj/link
	@mkdir -p $(@D)
	$(say) "  LD    $@"
	$(Q)$(LINK) -shared $(MODE_SO) -Wl,-soname,$(notdir $@) -Wl,--exclude-libs,ALL -o $@ $(filter %.o,$^) $(COMMON_A) -lm

# $(call program,LIBRARIES)
define program
	@mkdir -p $(@D)
	$(say) "  LD    $@"
	$(Q)$(LINK) -pie -o $@ $(filter %.o,$^) $1
endef
grouped = -Wl,--start-group $1 -Wl,--end-group $(LIBS)
$(B)/bin/psd: $(call obj,$(PSD_MAIN)) $(LIBPSD_A) $(B)/obj/link
	$(call program,$(LIBPSD_A) $(LIBS))
$(B)/bin/psctl: $(call obj,$(PSCTL_C)) $(CLI_A) $(LIBPSW_A) $(B)/obj/link $(B)/obj/libpsctl.list
	$(call program,$(CLI_A) $(LIBPSW_A) $(LIBS))
# both libraries hold the same objects of common/; the linker takes each from the first that has it
$(B)/bin/pstrain: $(call obj,$(PSTRAIN_C)) $(CLI_A) $(LIBPSW_A) $(LIBPSD_A) $(B)/obj/link $(B)/obj/libpstrain.list
	$(call program,$(CLI_A) $(LIBPSW_A) $(LIBPSD_A) $(LIBS) $(ZLIB_LIBS))
$(EXAMPLES): $(B)/examples/%: $(B)/obj/worker/examples/%.o $(LIBPSW_A) $(LIBPSD_A) $(B)/obj/link
	$(call program,$(LIBPSW_A) $(LIBPSD_A) $(LIBS) $(ZLIB_LIBS))

# ---- tests -------------------------------------------------------------------------------------------------------------
UNIT_COMMON := $(filter $(B)/tests/unit/common/test_%,$(UNIT))
$(UNIT_COMMON): $(B)/tests/%: $(B)/obj/tests/%.o $(TESTLIB_A) $(COMMON_A) $(B)/obj/link
	$(call program,$(call grouped,$(TESTLIB_A) $(COMMON_A)) $(CMOCKA_LIBS))
WHOLE_A := $(TESTLIB_A) $(PARTS_A) $(CLI_A) $(LIBPSD_A) $(LIBPSW_A) $(if $(LIBPSD_A)$(LIBPSW_A),,$(COMMON_A))
# test_sim brings objects of its own
-include tests/sim/flags.mk
$(filter-out $(SIM_SMALL),$(SIM)): $(B)/tests/%: $(B)/obj/tests/%.o $(SIMLIB_A) $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(SIMLIB_A) $(WHOLE_A)) $(CMOCKA_LIBS) $(ZLIB_LIBS))
$(filter-out $(UNIT_COMMON),$(UNIT)) $(KERNELS) $(PARITY) $(GOLDEN) $(SYSTEM): $(B)/tests/%: $(B)/obj/tests/%.o $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(WHOLE_A)) $(CMOCKA_LIBS) $(ZLIB_LIBS))
$(BENCH): $(B)/tests/%: $(B)/obj/tests/%.o $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(WHOLE_A)) $(ZLIB_LIBS))
$(B)/tests/bench/gpu/gpu: $(call obj,$(GPU_BENCH_C)) $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(WHOLE_A)) $(ZLIB_LIBS) $(LINK_CUDA))
# to show that the program works, where there is no GPU
$(B)/tests/bench/gpu/gpu_emulated: $(B)/obj/emulated/gpu.o $(call obj,$(EMULATED_C)) $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(WHOLE_A)) $(ZLIB_LIBS))
ifeq ($(VARIANT),fuzz)
$(FUZZ): $(B)/tests/%: $(B)/obj/tests/%.o $(SIMLIB_A) $(WHOLE_A) $(B)/obj/link
	$(call program,-fsanitize=fuzzer $(call grouped,$(SIMLIB_A) $(WHOLE_A)) $(ZLIB_LIBS))
else
$(FUZZ): $(B)/tests/%: $(B)/obj/tests/%.o $(B)/obj/tests/fuzz/replay_main.o $(SIMLIB_A) $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(SIMLIB_A) $(WHOLE_A)) $(ZLIB_LIBS))
endif

ifeq ($(VARIANT),tsan)
$(PROGRAMS) $(EXAMPLES) $(UNIT) $(KERNELS) $(PARITY) $(GOLDEN) $(SIM) $(SYSTEM) $(BENCH): $(call obj,$(TSAN_C))
endif

# what system tests have in processes that they start (LD_PRELOAD)
$(SHIMS): $(B)/%.so: $(B)/obj/%.o $(B)/obj/link
	@mkdir -p $(@D)
	$(say) "  LD    $@"
	$(Q)$(LINK) -shared -o $@ $(filter %.o,$^) -ldl

$(KERNELS): | $(PLUGIN) $(TEST_PLUGINS)

# what tests/system/test_bench.py and test_cuda_plugin.py run
BENCH_LOADS := $(B)/tests/bench/load $(B)/tests/bench/queues $(B)/tests/bench/rounds $(B)/tests/bench/train $(B)/tests/bench/bare $(B)/tests/bench/gpu/gpu_emulated $(PLUGIN)
RUN_TESTS = @scripts/test-runner --build $(B) --jobs $(JOBS) $(if $(T),--only '$(T)',$(LEFT_OUT))
.PHONY: check check-unit check-models check-kernels check-parity check-golden check-sim check-system check-fuzz
# replays of corpora have one thread: nothing for the thread sanitizer to see; models are Python: nothing for any sanitizer
REPLAYS := $(if $(filter tsan,$(VARIANT)),,$(FUZZ))
MODELS := $(if $(filter asan tsan,$(VARIANT)),,$(MODEL_SCRIPTS))
check: all stage $(BENCH_LOADS) $(UNIT) $(KERNELS) $(TEST_PLUGINS) $(SHIMS) $(PARITY) $(GOLDEN) $(SIM) $(REPLAYS) $(SYSTEM) ## all tests (T=word: only programs with that word in their name)
	$(RUN_TESTS) $(UNIT) $(KERNELS) $(PARITY) $(GOLDEN) $(SIM) $(REPLAYS) $(SYSTEM) $(MODELS) $(SYSTEM_SCRIPTS)
check-unit: $(UNIT) ## tests of single files
	$(RUN_TESTS) $(UNIT)
check-kernels: $(PLUGIN) $(TEST_PLUGINS) $(KERNELS) ## kernels against finite differences, on the CPU, a fake device and an emulated GPU
	$(RUN_TESTS) $(KERNELS)
check-parity: $(PARITY) ## optimizers and placement against TensorFlow's values
	$(RUN_TESTS) $(PARITY)
check-golden: $(GOLDEN) ## wire bytes
	$(RUN_TESTS) $(GOLDEN)
check-sim: $(SIM) ## simulated clusters with faults
	$(RUN_TESTS) $(SIM)
check-models: ## models of the protocol, explored within bounds
	$(RUN_TESTS) $(MODEL_SCRIPTS)
check-system: all stage $(BENCH_LOADS) $(TEST_PLUGINS) $(SHIMS) $(SYSTEM) ## real processes
	$(RUN_TESTS) $(SYSTEM) $(SYSTEM_SCRIPTS)
check-fuzz: $(FUZZ) ## replay of the fuzz corpora
	$(RUN_TESTS) $(FUZZ)

.PHONY: soak soak-short
SOAK = cd tests/system && PSD_BUILD=$(abspath $(B)) python3 -B -m unittest test_restore_training
soak-short: all ## kill -9 of all of pstrain --local, 30 times: each start goes on from the newest checkpoint that was reported
	@export PS_TEST_RUNS=15; $(SOAK).Restored.test_all_are_killed
MINUTES ?= 60
soak: all ## training under kill -9 of all tasks, of one, of the directory, again and again: MINUTES=60
	@export PS_TEST_RUNS=10; end=$$(($$(date +%s) + 60 * $(MINUTES))); \
	while [ "$$(date +%s)" -lt "$$end" ]; do ($(SOAK)) || exit 1; done

.PHONY: sim
sim: $(SIM) ## one simulator seed: make sim SEED=7 (T=word: only programs with that word)
	@test -n '$(SEED)' || { echo 'usage: make sim SEED=NUMBER' >&2; exit 2; }
	@SEED='$(SEED)' scripts/test-runner --build $(B) --jobs $(JOBS) --show-output $(if $(T),--only '$(T)') $(SIM)

.PHONY: mutants
mutants: ## make each change of tests/mutants in a scratch copy; the tests must catch it
	@tests/mutants/run

.PHONY: exercises
exercises: all ## apply each patch of tests/exercises to a scratch copy, build, run its tests, count its hunks
	@tests/exercises/run --variant $(VARIANT)

# the bare loop is not ours to change: built as its README says
$(B)/tests/bench/bare: tests/bench/bare.c
	@mkdir -p $(@D)
	$(say) "  CC    $<"
	$(Q)$(CC) -O3 -fno-math-errno -ffp-contract=off -o $@ $< -lm -lpthread
BENCH_PY := PSD_BUILD=$(B) python3 -B tests/bench/bench.py
.PHONY: bench-programs bench bench-quick bench-goals bench-docs bench-plot
bench-programs: all $(BENCH) $(B)/tests/bench/bare
bench: bench-programs ## all rows against the bare loop, redis and TensorFlow, ten minutes (ONLY=PATTERN ROUNDS=5)
	@scripts/deps --bench || true
	@$(BENCH_PY) $(if $(ONLY),--only '$(ONLY)' --out build/bench/only) $(if $(ROUNDS),--rounds $(ROUNDS))
bench-quick: bench-programs ## what the goals are about, without TensorFlow, a minute or two; fails where a must does not hold
	@$(BENCH_PY) --quick --strict --out build/bench/quick
bench-goals: ## the goals' table of the last make bench; fails where a must does not hold
	@$(BENCH_PY) --goals
bench-docs: ## write the tables of the last make bench into docs/BENCHMARKS.md and README.md
	@$(BENCH_PY) --docs
bench-plot: ## figures of the last make bench: docs/bench-*.svg
	@python=build/bench/venv/bin/python; [ -x $$python ] || python=python3; $$python -B tests/bench/plot.py

.PHONY: bench-train
bench-train: bench-programs ## a step of training: without and through ps tasks, its matrix products, each kernel, PyTorch (ONLY= ROUNDS=)
	@$(BENCH_PY) --train $(if $(ONLY),--only '$(ONLY)') $(if $(ROUNDS),--rounds $(ROUNDS)) --out build/bench/train$(if $(ONLY),-only)

# the result file is docs/results/gpu-CARD.json; without a card they say so, with a status of their own
.PHONY: check-gpu bench-gpu
check-gpu: all $(KERNELS) ## the kernel tests on the GPU (DEVICE=gpu:0)
	@PSD_BUILD=$(B) python3 -B tests/bench/gpu.py check $(if $(DEVICE),--device $(DEVICE))
bench-gpu: all $(KERNELS) $(GPU_BENCH) ## check-gpu, then kernels, a layer and a step through 4 ps on the GPU (DEVICE=gpu:0)
	@PSD_BUILD=$(B) python3 -B tests/bench/gpu.py bench $(if $(DEVICE),--device $(DEVICE))

.PHONY: bench-cost
# the difference of two runs: what comes before the pushes cancels out
bench-cost: $(B)/tests/bench/cost ## instructions per push of 4 KiB, counted by valgrind
	@tests/bench/cost.sh $<

.PHONY: bench-waits
bench-waits: $(B)/tests/bench/waits ## 10,000 waiting requests: what a push pays for them
	@$<

.PHONY: bench-duplex
bench-duplex: bench-programs ## steps over a link of RATE each way (2gbit), in network namespaces, as root: how much of both ways they use
	@PSD_BUILD=$(B) tests/bench/duplex.sh $(RATE)

.PHONY: bench-names
bench-names: bench-programs ## 1,000 variables created, initialised, reset: seconds, and the pause that others see
	@PSD_BUILD=$(B) $(B)/tests/bench/names

.PHONY: bench-turns
bench-turns: $(B)/tests/bench/turns ## 500,000 names, 65,536 containers, 4,096 sessions, 1,024 resets: the longest turn of each operation
	@$(B)/tests/bench/turns

.PHONY: bench-memory
bench-memory: bench-programs ## 500,000 small variables, 10,000 emptied containers: resident memory beside what psctl status counts
	@PSD_BUILD=$(B) $(B)/tests/bench/memory

.PHONY: bench-export
bench-export: all ## psctl export of 1 GiB against dd to the same place (DIR=...)
	@PSD_BUILD=$(B) python3 tests/bench/export.py $(if $(DIR),--dir $(DIR))

.PHONY: bench-checkpoint
bench-checkpoint: bench-programs ## a checkpoint of 1 GiB and its slots on /dev/shm against dd; what pushes pay beside it (MIB= ROUNDS=)
	@PSD_BUILD=$(B) $(B)/tests/bench/checkpoints $(or $(MIB),1024) $(or $(ROUNDS),3)

.PHONY: fuzz fuzz-programs
SECONDS ?= 60
fuzz-programs: $(FUZZ)
fuzz: ## libFuzzer (clang): make fuzz T=frame SECONDS=60; without T all targets
	@$(MAKE) --no-print-directory VARIANT=fuzz fuzz-programs
	@scripts/fuzz '$(SECONDS)' $(if $(T),'$(T)')

.PHONY: examples
examples: all ## run the programs of worker/examples against servers of their own, print a table
	@PSD_BUILD=$(B) scripts/examples
.PHONY: demo
demo: all ## train digits on 2 ps and 3 workers, show the cluster, check the numbers
	@PSD_BUILD=$(B) scripts/demo

# ---- lint --------------------------------------------------------------------------------------------------------------
# What the compiler is told about each source, for the lint tools and for editors.
define json_entry
{"directory": "$(CURDIR)", "file": "$1", "command": "$(CC) $(subst ",\",$(subst \,\\,$(call flags_of,$1))) -c $1"},

endef
$(B)/compile_commands.json: $(B)/obj/flags $(B)/obj/paths $(B)/obj/isal $(B)/obj/sources.list Makefile
	$(file >$@.new,[$(foreach s,$(OUR_C),$(call json_entry,$s)){}])
	@sed 's/^{}]$$/]/; s/^ *{/{/' $@.new | sed -z 's/,\n*\]/\n]/' >$@ && rm $@.new

.PHONY: lint
lint: all $(B)/compile_commands.json ## layers, circles, fields, symbols, headers, format, clang-tidy, cppcheck, shellcheck, style
	@scripts/lint/run $(B)
.PHONY: format
format: ## clang-format all C sources in place
	@clang-format -i $$(find common proto psd worker tests -name '*.[ch]' ! -name bare.c -o -name '*.cu')

# ---- made from --help and --print_config --------------------------------------------------------------------------------
MAN_IN := $(wildcard docs/man/*.in)
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
.PHONY: FORCE docs-settings docs-protocol generated
FORCE:
docs-settings: $(B)/bin/psd ## write the table of settings into docs/OPERATIONS.md
	@$< --help | scripts/options table docs/OPERATIONS.md >$(B)/OPERATIONS.md.new && cp $(B)/OPERATIONS.md.new docs/OPERATIONS.md

docs-protocol: ## write the tables of docs/PROTOCOL.md, from the sources
	@scripts/protocol write

generated: docs-settings docs-protocol $(B)/bin/psctl ## write all that the tree has and that is made of sources: tables of docs, a completion, the ABI
	@$(B)/bin/psctl completion bash >$(B)/psctl.bash.new && cp $(B)/psctl.bash.new scripts/completions/psctl.bash
	@scripts/abi write

# ---- install -----------------------------------------------------------------------------------------------------------
SHARE := $(PREFIX)/share
COMPLETIONS := $(wildcard scripts/completions/*)
ZSH_MADE := $(PROGRAMS:$(B)/bin/%=$(B)/completions/_%)
FISH_MADE := $(PROGRAMS:$(B)/bin/%=$(B)/completions/%.fish)
INSTALL_MADE := $(MAN_MADE) $(ZSH_MADE) $(FISH_MADE) $(B)/psd.conf
man_dir = man$(subst .,,$(suffix $1))
PC_SED = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@LIBS_PRIVATE@|$(LIBS_PRIVATE) -pthread|g'
INSTALLED = $(addprefix $(PREFIX)/bin/,$(notdir $(PROGRAMS))) $(addprefix $(PREFIX)/include/psd/,$(notdir $(PUBLIC_H))) \
	$(addprefix $(LIBDIR)/,libpsd.a libpsd.so libpsd.so.$(SOVERSION) libpsworker.a libpsworker.so libpsworker.so.$(SOVERSION) \
	libpsworker_cpu.so libpsworker_cuda.so pkgconfig/psd.pc pkgconfig/psworker.pc) \
	$(addprefix $(SHARE)/psd/,$(shell find data -type f)) $(SHARE)/doc/psd/LICENSE $(SHARE)/doc/psd/README.md \
	$(addprefix $(SHARE)/doc/psd/,$(notdir $(wildcard docs/*.md))) \
	$(foreach m,$(MAN),$(SHARE)/man/$(call man_dir,$m)/$(notdir $m)) \
	$(addprefix $(SHARE)/doc/psd/examples/,$(notdir $(EXAMPLE_C))) \
	$(addprefix $(SHARE)/bash-completion/completions/,$(notdir $(COMPLETIONS))) \
	$(addprefix $(SHARE)/zsh/site-functions/,$(notdir $(ZSH_MADE))) \
	$(addprefix $(SHARE)/fish/vendor_completions.d/,$(notdir $(FISH_MADE))) \
	$(PREFIX)/lib/systemd/system/psd@.service $(PREFIX)/lib/sysusers.d/psd.conf $(PREFIX)/lib/tmpfiles.d/psd.conf
INTO = $(DESTDIR)
define install_files
	@install -d $(addprefix $(INTO),$(PREFIX)/bin $(PREFIX)/include/psd $(LIBDIR)/pkgconfig $(SHARE)/psd/data $(SHARE)/doc/psd/examples \
		$(addprefix $(SHARE)/man/,man1 man5 man8) $(SHARE)/bash-completion/completions $(SYSCONFDIR)/psd \
		$(addprefix $(SHARE)/,zsh/site-functions fish/vendor_completions.d) \
		$(addprefix $(PREFIX)/lib/,systemd/system sysusers.d tmpfiles.d))
	@install -m 755 $(PROGRAMS) $(INTO)$(PREFIX)/bin/
	@install -m 644 $(PUBLIC_H) $(INTO)$(PREFIX)/include/psd/
	@install -m 644 $(LIBPSD_A) $(LIBPSW_A) $(INTO)$(LIBDIR)/
	@install -m 755 $(LIBPSD_SO).$(SOVERSION) $(LIBPSW_SO).$(SOVERSION) $(PLUGIN) $(INTO)$(LIBDIR)/
	@ln -sfn libpsd.so.$(SOVERSION) $(INTO)$(LIBDIR)/libpsd.so
	@ln -sfn libpsworker.so.$(SOVERSION) $(INTO)$(LIBDIR)/libpsworker.so
	@for name in psd psworker; do $(PC_SED) scripts/$$name.pc.in >$(INTO)$(LIBDIR)/pkgconfig/$$name.pc; done
	@cp -R --no-preserve=ownership data/. $(INTO)$(SHARE)/psd/data/
	@install -m 644 LICENSE $(wildcard README.md docs/*.md) $(INTO)$(SHARE)/doc/psd/
	@$(foreach m,$(MAN),install -m 644 $m $(INTO)$(SHARE)/man/$(call man_dir,$m)/;)
	@install -m 644 $(EXAMPLE_C) $(INTO)$(SHARE)/doc/psd/examples/
	@install -m 644 $(COMPLETIONS) $(INTO)$(SHARE)/bash-completion/completions/
	@install -m 644 $(ZSH_MADE) $(INTO)$(SHARE)/zsh/site-functions/
	@install -m 644 $(FISH_MADE) $(INTO)$(SHARE)/fish/vendor_completions.d/
	@$(PATHS_SED) scripts/systemd/psd@.service | install -m 644 /dev/stdin $(INTO)$(PREFIX)/lib/systemd/system/psd@.service
	@for kind in sysusers tmpfiles; do install -m 644 scripts/systemd/$$kind.conf $(INTO)$(PREFIX)/lib/$$kind.d/psd.conf; done
	@[ -e $(INTO)$(SYSCONFDIR)/psd/psd.conf ] || install -m 644 $(B)/psd.conf $(INTO)$(SYSCONFDIR)/psd/
endef
.PHONY: install uninstall stage
install: all $(INSTALL_MADE) ## PREFIX=/usr/local DESTDIR= LIBDIR=PREFIX/lib SYSCONFDIR=PREFIX/etc (/etc for PREFIX=/usr)
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

.PHONY: dist clean deps help
dist: ## build/psd-VERSION.tar.gz of the committed tree
	@mkdir -p build && git archive --prefix=psd-$(VERSION)/ -o build/psd-$(VERSION).tar.gz HEAD && echo build/psd-$(VERSION).tar.gz
clean: ## remove build/
	@rm -rf build
deps: ## install missing Debian packages, or print the command
	@scripts/deps && rm -f build/found.mk
help: ## this list
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | sort | expand -t 18
	@echo
	@echo '  VARIANT=release|debug|asan|tsan   output in build/VARIANT (release when not given)'
	@echo '  CC=clang  WERROR=1  V=1  JOBS=2   compiler, warnings are errors, show commands, test programs at a time'

-include $(patsubst %.o,%.d,$(call obj,$(OUR_C) $(GEN_C) $(WORKER_GEN_C)) $(EMULATED_O) $(B)/obj/emulated/gpu.o) build/cuda/kernels.d
