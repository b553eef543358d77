# SPDX-License-Identifier: Apache-2.0
# How each variant compiles and links, and the flags of each source.

ifneq ($(words $(VARIANT)),1)
$(error VARIANT must be one of release debug asan tsan fuzz)
endif
ifeq ($(VARIANT),release)
MODE := -O2 -g -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
MODE_TESTS := -O0 -U_FORTIFY_SOURCE
MODE_LD := -Wl,-z,relro,-z,now
MODE_SO := -Wl,-z,defs
else ifeq ($(VARIANT),debug)
MODE := -Og -g3 -DPSI_DEBUG=1
MODE_SO := -Wl,-z,defs
else ifeq ($(VARIANT),asan)
MODE := -O1 -g1 -fno-omit-frame-pointer -DPSI_DEBUG=1 -fsanitize=address,undefined -fno-sanitize-recover=all
MODE_TESTS := -O0
MODE_LD := -fsanitize=address,undefined
else ifeq ($(VARIANT),tsan)
MODE := -O1 -g1 -fno-omit-frame-pointer -DPSI_DEBUG=1 -fsanitize=thread
MODE_TESTS := -O0
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
PATHS := -DPSI_PLUGINDIR='"$(PLUGINDIR)"' -DPSI_DATADIR='"$(PREFIX)/share/psd/data"'
# What tests do between two calls of the product takes no time, and the sanitizers see as much of it without optimization, which
# takes three fifths of the time to compile tests. The simulator's oracles and the kernels' loops take time: they are optimized.
TESTS_QUICK := tests/unit/% tests/system/% tests/golden/% tests/parity/%
# $(call flags_of,SOURCE)
flags_of = $(BASE) $(if $(filter $(TESTS_QUICK),$1),$(MODE_TESTS)) \
	$(if $(filter psd/optim/% worker/nn/kernels/cpu/% worker/ops/% worker/api/gradient.c common/half.c common/squares.c tests/bench/embedding.c,$1),$(MATHS)) \
	$(if $(filter common/rng.c,$1),-ffp-contract=off -fno-math-errno) \
	$(if $(filter common/crc32c.c,$1),$(if $(ISAL_LIBS),-DPSI_ISAL)) \
	$(if $(filter common/net/tls/cipher_ipsec.c,$1),$(if $(filter yes,$(IPSEC_MB)),-DPSI_IPSEC_MB)) \
	$(if $(filter worker/pstrain/data/archive.c,$1),$(if $(ZIP_LIBS),-DPSI_ZIP)) \
	$(if $(filter tests/unit/net/%,$1),-DTEST_CERTIFICATES='"$(B)/tests/unit/net/tls/"') \
	$(if $(filter common/net/tls/% worker/psctl/pki.c tests/unit/net/% tests/bench/tls_bare.c,$1),$(if $(filter no,$(TLS)),-DPSI_WITHOUT_TLS)) \
	$(if $(filter worker/nn/kernels/cpu/%,$1),$(BLAS_CFLAGS)) \
	$(if $(filter worker/nn/kernels/cuda/% tests/bench/gpu/%,$1),$(CUDA_CFLAGS)) $(if $(filter tests/kernels/emulated/%,$1),$(EMULATED_CFLAGS)) \
	$(if $(filter worker/nn/kernels/%.c worker/pstrain/%,$1),$(PATHS)) \
	$(if $(filter worker/psctl/% worker/exporter/% worker/pstrain/% worker/examples/%,$1),$(PUBLIC_INC) $(if $(filter worker/examples/%,$1),,-iquote .) $(if $(filter worker/exporter/%,$1),-iquote worker), \
	$(if $(filter tests/%,$1),$(TEST_INC), \
	$(LIB_INC) $(if $(filter psd/%,$1),-iquote psd,$(if $(filter worker/%,$1),-iquote worker)))) \
	$(UV_CFLAGS) $(CPPFLAGS) $(CFLAGS)
LINK = $(CC) -pthread $(MODE_LD) $(LDFLAGS)
