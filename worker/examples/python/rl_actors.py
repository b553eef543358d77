# SPDX-License-Identifier: Apache-2.0
"""One learner pushes, actors pull when the version has changed: python -m psd.launch --workers 5 rl_actors.py

A bandit with 4 arms. Actors choose arms by the policy that they have, and send what they got; the learner (worker 0) improves the policy."""

import numpy as np

import psd

ARMS = np.array([0.1, 0.5, 0.2, 0.9], "f4")
with psd.Session() as s:
    policy = s.variable("policy", 4, "float32", psd.zeros(), psd.SGD(2.0), atomic=True)
    if s.is_chief:
        policy.initialize()
    s.barrier("begin", s.task_count)
    rewards = s.queue("rewards", [("int64", ()), ("float32", ())], capacity=64)
    if s.task_index == 0:
        for _ in range(60):
            arms, got = rewards.take_many(16)
            odds = np.exp(policy.read())
            odds /= odds.sum()
            gradient = np.zeros(4, "f4")
            for arm, reward in zip(arms, got):
                gradient += (odds - np.eye(4)[arm]) * (reward - got.mean()) / 16
            policy.push(gradient.astype("f4"))
        rewards.close(cancel_pending=True)
        print(f"best arm {policy.read().argmax()}")
    else:
        random, version, pulls = np.random.default_rng(s.task_index), -1, 0
        try:
            while True:
                value, now, _ = policy.read_versioned()
                if now != version:
                    odds, version, pulls = np.exp(value), now, pulls + 1
                arm = random.choice(4, p=odds / odds.sum())
                rewards.put(arm, float(random.random() < ARMS[arm]))
        except psd.Cancelled:
            print(f"{pulls} policies")
    s.barrier("end", s.task_count)
