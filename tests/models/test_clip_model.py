#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of a limit on the norm of a whole average: every state, then each weaker rule."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import explore  # noqa: E402
import clip_model as model  # noqa: E402

if __name__ == "__main__":
    sys.exit(explore.main(model.Model, model.SCENARIOS, model.MUTANTS))
