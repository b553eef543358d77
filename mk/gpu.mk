# SPDX-License-Identifier: Apache-2.0
# The CUDA plugin, and its sources over a CUDA that the tests emulate.

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
