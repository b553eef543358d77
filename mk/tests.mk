# SPDX-License-Identifier: Apache-2.0
# Test programs, and the goals that run them.

UNIT_COMMON := $(filter $(B)/tests/unit/common/test_% $(B)/tests/unit/common/resolve/test_%,$(UNIT))
$(UNIT_COMMON): $(B)/tests/%: $(B)/obj/tests/%.o $(TESTLIB_A) $(COMMON_A) $(B)/obj/link
	$(call program,$(call grouped,$(TESTLIB_A) $(COMMON_A)) $(CMOCKA_LIBS))
WHOLE_A := $(TESTLIB_A) $(PARTS_A) $(CLI_A) $(LIBPSD_A) $(LIBPSW_A) $(if $(LIBPSD_A)$(LIBPSW_A),,$(COMMON_A))
# test_sim brings objects of its own
-include tests/sim/flags.mk
$(filter-out $(SIM_SMALL),$(SIM)): $(B)/tests/%: $(B)/obj/tests/%.o $(SIMLIB_A) $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(SIMLIB_A) $(WHOLE_A)) $(CMOCKA_LIBS) $(DATA_LIBS))
$(filter-out $(UNIT_COMMON),$(UNIT)) $(KERNELS) $(PARITY) $(GOLDEN) $(SYSTEM): $(B)/tests/%: $(B)/obj/tests/%.o $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(WHOLE_A)) $(CMOCKA_LIBS) $(DATA_LIBS))
# keys and certificates are made here, never kept
TEST_CERTIFICATES := $(B)/tests/unit/net/tls/authority.pem
$(TEST_CERTIFICATES): tests/unit/net/tls/make.sh
	@$< $(@D)
$(filter $(B)/tests/unit/net/test_tls_%,$(UNIT)): | $(TEST_CERTIFICATES)
$(BENCH) $(OPS_RUN): $(B)/tests/%: $(B)/obj/tests/%.o $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(WHOLE_A)) $(DATA_LIBS) $(BENCH_LIBS))
$(B)/tests/bench/cost_client: BENCH_LIBS = $(CMOCKA_LIBS)
# the rules of optimizers once more, as plain loops
BARE_O := $(patsubst psd/optim/%.c,$(B)/obj/bare/%.o,$(shell grep -l '^PSD_RULE' $(wildcard psd/optim/*.c)))
$(B)/obj/bare/%.o: psd/optim/%.c tests/bench/bare_rules.h $(B)/obj/flags | $(GEN_H) $(PUBLIC)
	@mkdir -p $(@D)
	$(say) "  CC    $< (bare)"
	$(Q)$(CC) $(call flags_of,$<) -DBENCH_BARE_RULE -include tests/bench/bare_rules.h -MD -MP -MF $(@:.o=.d) -c -o $@ $<
$(B)/tests/bench/optim: $(BARE_O)
$(B)/tests/bench/gpu/gpu: $(call obj,$(GPU_BENCH_C)) $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(WHOLE_A)) $(DATA_LIBS) $(LINK_CUDA))
# to show that the program works, where there is no GPU
$(B)/tests/bench/gpu/gpu_emulated: $(B)/obj/emulated/gpu.o $(call obj,$(EMULATED_C)) $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(WHOLE_A)) $(DATA_LIBS))
ifeq ($(VARIANT),fuzz)
$(FUZZ): $(B)/tests/%: $(B)/obj/tests/%.o $(SIMLIB_A) $(WHOLE_A) $(B)/obj/link
	$(call program,-fsanitize=fuzzer $(call grouped,$(SIMLIB_A) $(WHOLE_A)) $(DATA_LIBS))
else
$(FUZZ): $(B)/tests/%: $(B)/obj/tests/%.o $(B)/obj/tests/fuzz/replay_main.o $(SIMLIB_A) $(WHOLE_A) $(B)/obj/link
	$(call program,$(call grouped,$(SIMLIB_A) $(WHOLE_A)) $(DATA_LIBS))
endif

ifeq ($(VARIANT),tsan)
$(PROGRAMS) $(EXAMPLES) $(UNIT) $(KERNELS) $(PARITY) $(GOLDEN) $(SIM) $(SYSTEM) $(BENCH) $(OPS_RUN): $(call obj,$(TSAN_C))
endif

# what system tests have in processes that they start (LD_PRELOAD)
$(SHIMS): $(B)/%.so: $(B)/obj/%.o $(B)/obj/link
	@mkdir -p $(@D)
	$(say) "  LD    $@"
	$(Q)$(LINK) -shared -o $@ $(filter %.o,$^) -ldl

$(KERNELS): | $(PLUGIN) $(TEST_PLUGINS)

# what tests/system/test_bench.py, which sanitizers leave out, and test_cuda_plugin.py run
BENCH_LOADS := $(if $(filter asan tsan,$(VARIANT)),,$(B)/tests/bench/embedding $(B)/tests/bench/load $(B)/tests/bench/optim $(B)/tests/bench/queues $(B)/tests/bench/rounds $(B)/tests/bench/runs $(B)/tests/bench/scaling $(B)/tests/bench/steps $(B)/tests/bench/tls $(B)/tests/bench/tls_bare $(B)/tests/bench/train $(B)/tests/bench/bare) $(B)/tests/bench/gpu/gpu_emulated $(PLUGIN)
WHEEL := $(if $(filter release,$(VARIANT)),wheel-files)
TRANSPORT ?= plain
RUN_TESTS = @scripts/test-runner --build $(B) --jobs $(JOBS) $(if $(T),--only '$(T)',$(LEFT_OUT)) --transport $(TRANSPORT)
.PHONY: check programs check-unit check-models check-kernels check-parity check-golden check-sim check-system check-fuzz
# replays of corpora have one thread: nothing for the thread sanitizer to see; models are Python: nothing for any sanitizer
REPLAYS := $(if $(filter tsan,$(VARIANT)),,$(FUZZ))
MODELS := $(if $(filter asan tsan,$(VARIANT)),,$(MODEL_SCRIPTS))
check: programs ## all tests (T=word: only programs with that word in their name; TRANSPORT=tls: system tests with keys)
	$(RUN_TESTS) $(UNIT) $(KERNELS) $(PARITY) $(GOLDEN) $(SIM) $(REPLAYS) $(SYSTEM) $(MODELS) $(SYSTEM_SCRIPTS)
programs: all stage $(WHEEL) $(BENCH_LOADS) $(OPS_RUN) $(UNIT) $(KERNELS) $(TEST_PLUGINS) $(SHIMS) $(PARITY) $(GOLDEN) $(SIM) $(REPLAYS) $(SYSTEM) ##- all that check runs, built
check-unit: $(UNIT) ##- tests of single files
	$(RUN_TESTS) $(UNIT)
check-kernels: $(PLUGIN) $(TEST_PLUGINS) $(KERNELS) ##- kernels against finite differences, on the CPU, a fake device and an emulated GPU
	$(RUN_TESTS) $(KERNELS)
check-parity: $(PARITY) ##- optimizers and placement against TensorFlow's values
	$(RUN_TESTS) $(PARITY)
check-golden: $(GOLDEN) ##- wire bytes
	$(RUN_TESTS) $(GOLDEN)
check-sim: $(SIM) ##- simulated clusters with faults
	$(RUN_TESTS) $(SIM)
check-models: ##- models of the protocol, explored within bounds
	$(RUN_TESTS) $(MODEL_SCRIPTS)
check-system: all stage $(WHEEL) $(BENCH_LOADS) $(OPS_RUN) $(TEST_PLUGINS) $(SHIMS) $(SYSTEM) ##- real processes
	$(RUN_TESTS) $(SYSTEM) $(SYSTEM_SCRIPTS)
check-fuzz: $(FUZZ) ##- replay of the fuzz corpora
	$(RUN_TESTS) $(FUZZ)

.PHONY: soak soak-short
SOAK = cd tests/system && PSD_BUILD=$(abspath $(B)) python3 -B -m unittest test_restore_training
soak-short: all ##- kill -9 of all of pstrain --local, 30 times: each start goes on from the newest checkpoint that was reported
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
.PHONY: mutate
mutate: all ## N=20 random mutants of SEED in store, rpc, directory, core, api, common; prints those that no test notices
	@test -n '$(SEED)' || { echo 'usage: make mutate SEED=NUMBER [N=20] [T=word of a path]' >&2; exit 2; }
	@tests/mutants/draw $(SEED) -n $(or $(N),20) $(T)

.PHONY: exercises
exercises: all ## apply each patch of tests/exercises to a scratch copy, build, run its tests, count its hunks
	@tests/exercises/run --variant $(VARIANT)

.PHONY: fuzz fuzz-programs
SECONDS ?= 60
fuzz-programs: $(FUZZ)
fuzz: ## libFuzzer (clang): make fuzz T=frame SECONDS=60; without T all targets
	@$(MAKE) --no-print-directory VARIANT=fuzz fuzz-programs
	@scripts/fuzz '$(SECONDS)' $(if $(T),'$(T)')
