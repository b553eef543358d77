# SPDX-License-Identifier: Apache-2.0
# These programs of the simulator have their own objects of the pure cores, built with frames of two segments instead of 64, so that
# operations of three and more frames are cheap: most of what test_chief and test_identity did was to copy bytes. test_sim_full has full
# frames. Included by the Makefile; only the rooms without sockets, threads and kernels.
SIM_FRAME_BODY_MAX := 131072
SIM_SMALL := $(addprefix $(B)/tests/sim/,test_sim test_chief test_disk_beside test_identity)
SIM_SMALL_C := $(COMMON_C) $(SIMLIB_C) $(filter tests/lib/change_%,$(TESTLIB_C)) \
	$(filter-out psd/server% psd/shell/% psd/settings/% psd/daemon/%,$(PSD_C)) $(filter worker/core/%,$(WORKER_C))
sim_small_obj = $(patsubst %.c,$(B)/sim/%.o,$1)

$(B)/sim/%.o: %.c $(B)/obj/flags tests/sim/flags.mk | $(GEN_H) $(PUBLIC)
	@mkdir -p $(@D)
	$(say) "  CC    $< (small frames)"
	$(Q)$(CC) $(call flags_of,$<) -DPS_SIM_FRAME_BODY_MAX=$(SIM_FRAME_BODY_MAX) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(SIM_SMALL): $(B)/tests/sim/%: $(B)/sim/tests/sim/%.o $(call sim_small_obj,$(SIM_SMALL_C)) $(call obj,$(GEN_C)) $(B)/obj/link tests/sim/flags.mk
	$(call program,$(LIBS) $(CMOCKA_LIBS))
-include $(patsubst %.o,%.d,$(call sim_small_obj,$(SIM_SMALL_C) $(SIM_SMALL:$(B)/%=%.c)))
