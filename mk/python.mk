# SPDX-License-Identifier: Apache-2.0
# The Python package.

.PHONY: check-python
check-python: all ## the Python package in a fresh virtual environment (PYTHON=interpreter: in that one; TORCH=1: with PyTorch; T=word)
	@T='$(T)' tests/python/run $(B)
