# SPDX-License-Identifier: Apache-2.0
# Benchmarks.

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
bench-goals: ##- the goals' table of the last make bench; fails where a must does not hold
	@$(BENCH_PY) --goals
bench-docs: ##- write the tables of the last make bench into docs/BENCHMARKS.md and README.md
	@$(BENCH_PY) --docs
bench-plot: ##- figures of the last make bench: docs/bench-*.svg
	@python=build/bench/venv/bin/python; [ -x $$python ] || python=python3; $$python -B tests/bench/plot.py

.PHONY: bench-train
bench-train: bench-programs ##- a step of training: without and through ps tasks, its matrix products, each kernel, PyTorch (ONLY= ROUNDS=)
	@$(BENCH_PY) --train $(if $(ONLY),--only '$(ONLY)') $(if $(ROUNDS),--rounds $(ROUNDS)) --out build/bench/train$(if $(ONLY),-only)

# the result file is docs/results/gpu-CARD.json; without a card they say so, with a status of their own
.PHONY: check-gpu bench-gpu
check-gpu: all $(KERNELS) ##- the kernel tests on the GPU (DEVICE=gpu:0)
	@PSD_BUILD=$(B) python3 -B tests/bench/gpu.py check $(if $(DEVICE),--device $(DEVICE))
bench-gpu: all $(KERNELS) $(GPU_BENCH) ##- check-gpu, then kernels, a layer and a step through 4 ps on the GPU (DEVICE=gpu:0)
	@PSD_BUILD=$(B) python3 -B tests/bench/gpu.py bench $(if $(DEVICE),--device $(DEVICE))

.PHONY: bench-cost
# the difference of two runs: what comes before the pushes cancels out
bench-cost: $(B)/tests/bench/cost $(B)/tests/bench/cost_client ##- instructions per push of 4 KiB, counted by valgrind
	@tests/bench/cost.sh $(B)/tests/bench/cost task psd_task_bytes
	@RIGHTS=1 tests/bench/cost.sh $(B)/tests/bench/cost 'task with a table of rights' psd_task_bytes
	@tests/bench/cost.sh $(B)/tests/bench/cost_client client psi_client_start psi_client_bytes psi_client_next_dirty \
		psi_client_next_effect psi_client_next_done

.PHONY: bench-waits
bench-waits: $(B)/tests/bench/waits ##- 10,000 waiting requests: what a push pays for them
	@$<

.PHONY: bench-duplex
bench-duplex: bench-programs ##- steps over a link of RATE each way (2gbit), in network namespaces, as root: how much of both ways they use
	@PSD_BUILD=$(B) tests/bench/duplex.sh $(RATE)

.PHONY: bench-names
bench-names: bench-programs ##- 1,000 variables created, initialised, reset: seconds, and the pause that others see
	@PSD_BUILD=$(B) $(B)/tests/bench/names

.PHONY: bench-turns
bench-turns: $(B)/tests/bench/turns ##- 500,000 names, 65,536 containers, 4,096 sessions, 1,024 resets: the longest turn of each operation
	@$(B)/tests/bench/turns

.PHONY: bench-sparse
bench-sparse: bench-programs ##- steps of a linear model of 4 M features, 40 an example: rows of a batch beside whole weights
	@PSD_BUILD=$(B) $(B)/tests/bench/sparse

.PHONY: bench-scaling
bench-scaling: bench-programs ##- CPU time by workers and ps tasks, up to 10,000 and 1,000: the tables of docs/SCALING.md (OPTIONS=--write)
	@PSD_BUILD=$(B) python3 -B tests/bench/scaling.py $(OPTIONS)

.PHONY: bench-embedding
bench-embedding: bench-programs ##- 4,096 rows of 1 M, gathered and trained with Adagrad, beside the same loops in the process
	@PSD_BUILD=$(B) $(B)/tests/bench/embedding

.PHONY: bench-zipf
bench-zipf: bench-programs ##- pushes of rows by Zipf's law to an embedding of 1 GiB, beside a checkpoint and without
	@PSD_BUILD=$(B) $(B)/tests/bench/zipf

.PHONY: bench-memory
bench-memory: bench-programs ##- 500,000 small variables, 10,000 emptied containers: resident memory beside what psctl status counts
	@PSD_BUILD=$(B) $(B)/tests/bench/memory

.PHONY: bench-export
bench-export: all ##- psctl export of 1 GiB against dd to the same place (DIR=...)
	@PSD_BUILD=$(B) python3 tests/bench/export.py $(if $(DIR),--dir $(DIR))

.PHONY: bench-checkpoint
bench-checkpoint: bench-programs ##- a checkpoint of 1 GiB and its slots on /dev/shm against dd; what pushes pay beside it (MIB= ROUNDS=)
	@PSD_BUILD=$(B) $(B)/tests/bench/checkpoints $(or $(MIB),1024) $(or $(ROUNDS),3)
