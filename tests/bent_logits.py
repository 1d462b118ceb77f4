"""3,000 samples of four classes with logits bent by an increasing function, whose inverse calibrates them."""

import numpy as np

RNG = np.random.default_rng(0)
TRUE = 2 * RNG.normal(size=(3000, 4))
PROBS = np.exp(TRUE) / np.exp(TRUE).sum(1, keepdims=True)
LABELS = np.array([RNG.choice(4, p=p) for p in PROBS])
BENT = np.sign(TRUE) * np.abs(TRUE) ** 1.5
