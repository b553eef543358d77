# SPDX-License-Identifier: Apache-2.0
"""Workers train a small transformer alone and meet every 20 steps: python -m psd.launch --workers 4 diloco.py [MEETINGS]

The text is Python's own help. With 4 workers the last one ends itself after its second meeting, as if it was killed; the others go on."""

import os
import pydoc_data.topics
import sys

import torch
from torch.nn.functional import cross_entropy

import psd
import psd.torch

LENGTH, WIDTH = 32, 32
text = torch.tensor([min(ord(c), 127) for topic in sorted(pydoc_data.topics.topics.values()) for c in topic])
torch.set_num_threads(1)


class Transformer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = torch.nn.Embedding(128, WIDTH)
        self.places = torch.nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.out = torch.nn.Linear(WIDTH, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
        return self.out(self.layer(self.letters(x) + self.places, src_mask=mask, is_causal=True))


model = Transformer()
with psd.Session(ready_timeout=120) as s:
    inner = torch.optim.AdamW(model.parameters(), 3e-3)
    diloco = psd.torch.DiLoCo(model, inner, s, every=20)
    random = torch.Generator().manual_seed(s.task_index)
    meetings = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    while diloco.meetings < meetings:
        starts = torch.randint(len(text) - LENGTH - 1, (16, 1), generator=random)
        rows = text[starts + torch.arange(LENGTH + 1)]
        diloco.zero_grad()
        loss = cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        before = diloco.meetings
        diloco.step()
        if diloco.meetings > before and s.task_index == 0:
            print(f"meeting {diloco.meetings}: loss {loss:.3f}, {diloco.bytes_per_step:.0f} bytes per step", flush=True)
        if diloco.meetings == 2 and s.task_index == 3:
            os._exit(0)  # no goodbye: the ps tasks learn of it when its lease ends
