#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of rounds within bounds that take a minute of CPU, in two processes; test-timeout: 900.

Every state of these scenarios is looked at; then each weaker rule and each plain mistake must be seen where it shows first. The
larger scenarios (_2), by hand: tests/models/rounds_model.py.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import explore  # noqa: E402
import rounds_model as model  # noqa: E402

if __name__ == "__main__":
    jobs = [(s, ()) for s in model.SCENARIOS if not s.endswith("_2")]
    jobs += [(s, (rule,)) for rule, (s, _) in model.MUTANTS.items()]
    sys.exit(explore.run(model.Model, jobs))
