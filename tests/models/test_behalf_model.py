#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of what a task does for a client: every state, then each weaker rule."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import behalf_model as model  # noqa: E402
import explore  # noqa: E402

if __name__ == "__main__":
    sys.exit(explore.main(model.Model, model.SCENARIOS, model.MUTANTS))
