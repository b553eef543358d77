# SPDX-License-Identifier: Apache-2.0
"""Word vectors by skip-gram with negative samples; only the rows of a batch travel: python -m psd.launch --ps 2 --workers 3 embedding.py

The text is made: each sentence draws its words from one of 10 topics. Words of one topic get vectors that lie beside each other."""

import sys

import numpy as np

import psd

WORDS, TOPICS, WIDTH, BATCH, NEGATIVES = 2000, 10, 16, 512, 5
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
topic = np.arange(WORDS) % TOPICS
with psd.Session(seed=1) as s:
    words = s.variable("words", (WORDS, WIDTH), init=psd.uniform(-0.1, 0.1), optimizer=psd.Adagrad(0.3))
    contexts = s.variable("contexts", (WORDS, WIDTH), init=psd.uniform(-0.1, 0.1), optimizer=psd.Adagrad(0.3))
    if s.is_chief:
        words.initialize()
        contexts.initialize()
    s.barrier("begin", s.task_count)
    random = np.random.default_rng(s.task_index)
    for step in range(steps):
        word = random.integers(WORDS, size=BATCH)
        beside = random.integers(WORDS // TOPICS, size=BATCH) * TOPICS + topic[word]  # of the same sentence
        context = np.column_stack([beside, random.integers(WORDS, size=(BATCH, NEGATIVES))])
        w, c = words.gather(word), contexts.gather(context)  # (BATCH, WIDTH), (BATCH, 1 + NEGATIVES, WIDTH)
        odds = 1 / (1 + np.exp(-np.einsum("bd,bnd->bn", w, c)))
        if step % 100 == 0:
            print(f"step {step}: loss {-np.mean(np.log(odds[:, 0]) + np.log(1 - odds[:, 1:]).sum(1)):.3f}")
        error = odds.astype("f4")
        error[:, 0] -= 1
        words.push_rows(word, np.einsum("bn,bnd->bd", error, c))  # rows that are named twice are added
        contexts.push_rows(context, np.einsum("bn,bd->bnd", error, w))
    s.barrier("end", s.task_count)
    if s.is_chief:
        vectors = words.read()
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        near = vectors @ vectors.T - 2 * np.eye(WORDS)
        print(f"nearest word of the same topic: {np.mean(topic[near.argmax(1)] == topic):.3f}")
