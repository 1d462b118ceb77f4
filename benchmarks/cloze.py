"""Which of four words was left out? Answers of a small language model, as lm-evaluation-harness would log them.

The model is textgenrnn 2.0.0 of Max Woolf (MIT): two LSTMs of 128 units and attention over the last 40 characters,
460,000 weights, trained on submissions to Reddit and shipped in its package; here it runs in torch. The questions are
sentences of the Python 3.11 documentation, as ``pydoc_data`` has them. A word of each is left out; three words that are
frequent in them are the other options. An option's log-likelihood is that of its letters and the space after it, given
what stands before; what stands after is not used. Writes ``book/results/samples_cloze.jsonl``, of each prompt its end,
once, in ``doc``. A minute on one core; h5py reads the weights.

    pip download --no-deps textgenrnn==2.0.0 && tar xf textgenrnn-2.0.0.tar.gz
    python benchmarks/cloze.py textgenrnn-2.0.0/textgenrnn
"""

import json
import random
import re
import sys
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import h5py
import numpy as np
import torch
from torch import Tensor, nn

from calibkit import _folders
from calibkit._files import write_text

WINDOW, UNITS, OPTIONS, FREQUENT = 40, 128, 4, 8


class LanguageModel:
    """The log-probability of the next character, from the last 40."""

    def __init__(self, folder: Path) -> None:
        self.ids = json.loads((folder / "textgenrnn_vocab.json").read_text())
        with h5py.File(folder / "textgenrnn_weights.hdf5") as file:

            def read(layer: str, name: str) -> np.ndarray:
                return file[f"{layer}/{layer}/{name}:0"][:]

            self.embeddings, self.attention, kernel, bias = (
                torch.from_numpy(read(*of.split()))
                for of in ("embedding embeddings", "attention attention_W", "output kernel", "output bias")
            )
            self.layers = [
                lstm(*(read(name, of) for of in ("kernel", "recurrent_kernel", "bias"))) for name in ("rnn_1", "rnn_2")
            ]
        self.output = nn.Linear(*kernel.shape)
        self.output.weight.data, self.output.bias.data = kernel.T, bias

    @torch.no_grad()
    def __call__(self, windows: Tensor) -> Tensor:
        """(N, 465) of (N, 40) ids."""
        found = [self.embeddings[windows]]
        for layer in self.layers:
            found.append(layer(found[-1])[0])
        states = torch.cat(found, 2)
        return self.output((states * (states @ self.attention).softmax(1)).sum(1)).log_softmax(1)

    def answers(self, pairs: list[tuple[str, str]]) -> list[tuple[float, bool]]:
        """Of each text, given the one before it: the sum over its characters, and whether each is the likeliest."""
        rows = []
        for before, text in pairs:
            ids = [0] * WINDOW + [self.ids["<s>"], *(self.ids.get(c, 0) for c in before + text)]
            rows += [ids[end - WINDOW : end + 1] for end in range(len(ids) - len(text), len(ids))]
        each = []
        for some in torch.tensor(rows).split(1024):
            says, true = self(some[:, :-1]), some[:, -1:]
            each.append(torch.cat([says.gather(1, true).double(), says.argmax(1, keepdim=True) == true], 1))
        of_texts = torch.cat(each).split([len(text) for _, text in pairs])
        return [(round(x[:, 0].sum().item(), 3), bool(x[:, 1].all())) for x in of_texts]


def lstm(kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> nn.LSTM:
    """A layer from weights in the order of CuDNN, with its two biases."""
    layer = nn.LSTM(len(kernel), UNITS, batch_first=True)
    gates = [gate.T.reshape(gate.shape, order="F") for gate in np.split(kernel, 4, axis=1)]
    layer.weight_ih_l0.data = torch.from_numpy(np.hstack(gates).T.copy())
    layer.weight_hh_l0.data = torch.from_numpy(np.vstack(np.split(recurrent, 4, axis=1)))
    layer.bias_ih_l0.data, layer.bias_hh_l0.data = torch.from_numpy(bias).split(4 * UNITS)
    return layer


def questions() -> list[tuple[str, list[str], int]]:
    """What stands before the gap, the options, and which is right; one of a sentence."""
    paragraphs = (" ".join(p.split()) for topic in topics.values() for p in re.split(r"\n\s*\n", topic))
    found = (s for p in paragraphs for s in re.split(r"(?<=[.:;]) ", re.sub(r'[*"]', "", p)))
    sentences = [s for s in dict.fromkeys(found) if re.fullmatch(r"[A-Za-z][A-Za-z ,;()'.\-]{50,300}[.]", s)]
    counts = Counter(word for s in sentences for word in re.findall(r"[a-z]{2,}", s))
    words = [word for word, count in counts.most_common() if count >= FREQUENT]
    draw, asked = random.Random(0), []
    for sentence in sentences:
        gaps = [gap for gap in re.finditer(r"(?<= )[a-z]+(?= )", sentence) if gap.start() >= 20 and gap[0] in words]
        if gaps:
            gap = draw.choice(gaps)
            options = [gap[0], *draw.sample([word for word in words if word != gap[0]], OPTIONS - 1)]
            draw.shuffle(options)
            asked.append((sentence[: gap.start()], options, options.index(gap[0])))
    return asked


def main(folder: Path) -> None:
    """Ask, and write the answers."""
    asked = questions()
    pairs = [(before, f"{option} ") for before, options, _ in asked for option in options]
    found = iter(LanguageModel(folder).answers(pairs))
    lines = []
    for i, (before, options, right) in enumerate(asked):
        answers = [next(found) for _ in options]
        line = {
            "doc_id": i,
            "doc": {"query": before.strip()[-WINDOW:]},
            "target": right,
            "arguments": [["", option] for option in options],
            "filtered_resps": answers,
            "acc": float(np.argmax([answer for answer, _ in answers]) == right),
        }
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    path = _folders.stored() / "samples_cloze.jsonl"
    write_text(path, "".join(lines))
    print(f"{path}: {len(lines)} questions")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
