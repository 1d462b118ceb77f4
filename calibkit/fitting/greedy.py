r"""Greedy coordinate search of class temperatures for the lowest ECE, without a softmax over all classes per candidate.

Let s_k = z_k / T_k. With class i free, a sample needs three numbers: the largest s of the other classes, m, its class
a, and R = sum over the others of exp(s_k - m) >= 1. For a candidate t and u = z_i / t the top confidence is

.. math:: \frac{1}{1 + R e^{m - u}} \text{ (class } i \text{ wins, } u > m), \qquad
          \frac{1}{R + e^{u - m}} \text{ (class } a \text{ stays)}

so a candidate costs O(N), not O(N K). What makes it fast beyond that:

- Whether class i wins is monotone in t, so a binary search gives the accuracy of all candidates. Those that lose
  accuracy are gone before an exponential is taken.
- ECE is a sum over bins of |sum of (confidence - correct)|. Where class i cannot win, the confidence is monotone in t;
  a sample whose confidences at both ends of a range of candidates share a bin ("still") needs no binning in between,
  and the still samples are summed with the bin of each fixed. Few samples are left to bin singly.
- After a step only the samples with class i among their two largest, before or after, are computed afresh.
- With few samples the time goes into calls, not numbers: every candidate of every sample is then taken singly.

Everything is float64, and comparisons of s are made on the same quotients as a plain implementation would make them.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._progress import show
from calibkit.objectives.ece import bin_gaps

Constraint = bool | Literal["running"]  # on the accuracy, see ``greedy_search``
TIE = 1e-12  # ECEs nearer than this are equal: rounding is some 1e-15
COLUMNS = 16  # classes whose logits are read together: a cache line of float32
ELEMENTS = 1 << 16  # candidates times samples at a time: what stays in the cache of a CPU
FEW = 1 << 15  # candidates times samples below which each is binned: calls cost more than numbers
RANGE = 2.5  # ratio of the hottest to the coldest temperature of a range of candidates


def greedy_search(
    logits: Tensor, labels: Tensor, start: float, grid: Tensor, n_bins: int, max_sweeps: int, constraint: Constraint
) -> tuple[Tensor, list[tuple[int, int, float, float]]]:
    """Temperatures (K,) and the history ``(sweep, class, temperature, ece)`` of all accepted steps, the start first.

    Classes are visited in label order; each takes the grid value of lowest ECE among those whose accuracy is not below
    the present one. A tie keeps the present value, then takes the smallest. The search ends when every other class was
    visited since the last step, or after ``max_sweeps``. All classes begin at ``start``, a value of the rising float64
    ``grid`` (G,).

    ``constraint`` says whether a step must not lower the accuracy on these samples. With "running" neither may any
    candidate on the way: a scan of the rising grid takes each that lowers the ECE and keeps the accuracy of the last
    one taken, and ends where it took the last.
    """
    n_classes = logits.shape[1]
    search = _Search(logits, labels, start, n_bins)
    current = [int((grid == start).nonzero()[0, 0])] * n_classes
    history = [(0, -1, start, search.ece())]
    unchanged = 0
    for sweep in range(1, max_sweeps + 1):
        search.scan()
        for i in range(n_classes):
            show(f"sweep {sweep} of at most {max_sweeps}, class {i:,}, ECE {100 * history[-1][3]:.4f}%")
            search.free(i)
            right = search.accuracy(grid) if constraint else torch.zeros_like(grid)
            candidates = (right >= right[current[i]]).nonzero()[:, 0]
            unchanged += 1
            if len(candidates) > 1:
                ece = search.candidate_eces(grid[candidates])
                present = int((candidates == current[i]).nonzero()[0, 0])
                chosen = _scan(ece, right[candidates], present) if constraint == "running" else _lowest(ece, present)
                if chosen != present:
                    current[i], unchanged = int(candidates[chosen]), 1
                    search.set(grid[current[i]])
                    history.append((sweep, i, float(grid[current[i]]), float(ece[chosen])))
            if unchanged == n_classes:
                return search.temperatures, history
    return search.temperatures, history


def _lowest(ece: Tensor, present: int) -> int:
    """Which of the candidates has the lowest ECE: of a tie the present one, else the first."""
    tied = ece <= ece.min() + TIE
    return present if tied[present] else int(tied.nonzero()[0, 0])


def _scan(ece: Tensor, right: Tensor, present: int) -> int:
    """Which candidate is taken last, where each must lower the ECE and keep the accuracy of the one taken before."""
    errors, counts, taken = ece.tolist(), right.tolist(), present
    for candidate, (error, count) in enumerate(zip(errors, counts, strict=True)):
        if error < errors[taken] - TIE and count >= counts[taken]:
            taken = candidate
    return taken


class _Search:
    """Samples under the present temperatures (K,), with one class free at a time.

    Of each sample: ``top``, ``top_class`` and ``hit``, the largest s, its class, and 1.0 where that is the label;
    ``second`` and ``second_class``, the largest s but for that class, and its class; ``total``, the sum of exp(s -
    top).
    """

    def __init__(self, logits: Tensor, labels: Tensor, start: float, n_bins: int) -> None:
        n, n_classes = logits.shape
        self.logits, self.labels, self.n_bins = logits, labels, n_bins
        self.temperatures = torch.full((n_classes,), start, dtype=torch.float64, device=logits.device)
        self.top, self.second, self.total, self.hit = torch.empty(4, n, dtype=torch.float64, device=logits.device)
        self.top_class, self.second_class = torch.empty(2, n, dtype=torch.int64, device=logits.device)
        self.elements = ELEMENTS if logits.device.type == "cpu" else 32 * ELEMENTS
        self.scan()

    def scan(self, index: Tensor | None = None) -> None:
        """Compute the state of all samples, or of those of ``index``, from their logits."""
        for rows in row_blocks(self.logits, n_rows=None if index is None else len(index)):
            rows = rows if index is None else index[rows]
            s = self.logits[rows] / self.temperatures  # float64, a new tensor
            top, top_class = s.max(1, keepdim=True)
            self.top[rows], self.top_class[rows] = top[:, 0], top_class[:, 0]
            self.hit[rows] = (top_class[:, 0] == self.labels[rows]).double()
            self.total[rows] = (s - top).exp_().sum(1)
            self.second[rows], self.second_class[rows] = s.scatter_(1, top_class, -torch.inf).max(1)

    def ece(self) -> float:
        """ECE under the present temperatures."""
        return float(bin_gaps(self.total.reciprocal()[None], self.hit, self.n_bins).abs().sum()) / len(self.labels)

    def free(self, i: int) -> None:
        """Take class i out: the largest s of the others (``rival``), its class and hit, the sum of them (``rest``)."""
        if i % COLUMNS == 0:
            self.columns = self.logits[:, i : i + COLUMNS].double().T.contiguous()
        self.i, self.z = i, self.columns[i % COLUMNS]
        self.rest = self.total - (self.z / self.temperatures[i]).sub_(self.top).exp_()
        self.rival, self.rival_class, self.rival_hit = self.top.clone(), self.top_class.clone(), self.hit.clone()
        leads = (self.top_class == i).nonzero()[:, 0]
        self.rival[leads], self.rival_class[leads] = self.second[leads], self.second_class[leads]
        self.rival_hit[leads] = (self.second_class[leads] == self.labels[leads]).double()
        for part in row_blocks(self.logits, n_rows=len(leads)):  # there the difference would cancel
            rows = leads[part]
            e = (self.logits[rows] / self.temperatures).sub_(self.rival[rows, None]).exp_()
            e[:, i] = 0.0
            self.rest[rows] = e.sum(1)

    def accuracy(self, grid: Tensor) -> Tensor:
        """(G,) correct samples under each temperature of ``grid``, less a constant; of many by a binary search."""
        n_grid = len(grid)
        if n_grid * len(self.z) <= FEW:
            change = (self.labels == self.i).double() - self.rival_hit
            return _wins(self.z / grid[:, None], self.rival, self.i < self.rival_class).double() @ change
        rows = (torch.maximum(self.z / grid[0], self.z / grid[-1]) >= self.rival).nonzero()[:, 0]
        z, rival, first = self.z[rows], self.rival[rows], self.i < self.rival_class[rows]
        change = (self.labels[rows] == self.i).double() - self.rival_hit[rows]
        hot = z < 0
        low, high = torch.zeros_like(rows), torch.full_like(rows, n_grid)
        for _ in range(n_grid.bit_length()):
            middle = (low + high) >> 1
            u = z / grid[torch.where(hot, n_grid - 1 - middle, middle).clamp_(0, n_grid - 1)]
            wins = _wins(u, rival, first) & (middle < high)
            low, high = torch.where(wins, middle + 1, low), torch.where(wins, high, middle)
        won = torch.zeros(2, n_grid + 1, dtype=torch.float64, device=grid.device)
        won.view(-1).scatter_add_(0, low + hot * (n_grid + 1), change)
        cold_won, hot_won = won.flip(1).cumsum(1).flip(1)[:, 1:]  # the sums over parts longer than g
        return cold_won + hot_won.flip(0)

    def candidate_eces(self, candidates: Tensor) -> Tensor:
        """(C,) ECE with class i at each of the rising ``candidates``, a range of them at a time."""
        if len(candidates) * len(self.z) <= FEW:
            return self._singly(candidates, slice(None)).abs_().sum(1) / len(self.labels)
        gaps = torch.zeros(len(candidates), self.n_bins, dtype=torch.float64, device=candidates.device)
        temperatures, start = candidates.tolist(), 0
        while start < len(candidates):
            stop = start + sum(t <= RANGE * temperatures[start] for t in temperatures[start:])
            self._add_gaps(candidates[start:stop], gaps[start:stop])
            start = stop
        return gaps.abs().sum(1) / len(self.labels)

    def _add_gaps(self, candidates: Tensor, gaps: Tensor) -> None:
        """Add to (C, n_bins) the sums of confidence less correctness, for candidates of a like temperature."""
        ends = self.z / candidates[0], self.z / candidates[-1]
        margin = torch.maximum(*ends).sub_(self.rival)
        lowest = margin.exp().add_(self.rest).reciprocal_().mul_(self.n_bins)
        highest = torch.minimum(*ends).sub_(self.rival).exp_().add_(self.rest).reciprocal_().mul_(self.n_bins)
        # Bins of both ends, widened by more than rounding: samples at an edge are binned singly.
        bins = lowest.sub_(1e-9).ceil_()
        moves = (bins != highest.add_(1e-9).ceil_().clamp_(max=self.n_bins)) | (margin >= 0)
        moves = moves.nonzero()[:, 0]

        bins = bins.sub_(1).clamp_(min=0).long()
        hits = self.rival_hit.index_fill(0, moves, 0.0)
        gaps -= torch.zeros_like(gaps[0]).scatter_add_(0, bins, hits)
        rests = self.rest.index_fill(0, moves, torch.inf)  # no confidence, so no part in the sums
        n, size = len(candidates), max(1, self.elements // len(candidates))
        buffer = self.z.new_empty(n * size)
        for z, rival, rest, index in zip(*(v.split(size) for v in (self.z, self.rival, rests, bins)), strict=True):
            confidence = buffer[: n * len(z)].view(n, -1)
            torch.mul(z, candidates.reciprocal()[:, None], out=confidence).sub_(rival).exp_().add_(rest).reciprocal_()
            gaps.scatter_add_(1, index.expand(n, -1), confidence)
        for part in moves.split(size):
            gaps += self._singly(candidates, part)

    def _singly(self, candidates: Tensor, rows: Tensor | slice) -> Tensor:
        """(C, n_bins) sums of confidence less correctness over ``rows``, each sample binned under each candidate."""
        u, rival, rest = self.z[rows] / candidates[:, None], self.rival[rows], self.rest[rows]
        wins = _wins(u, rival, self.i < self.rival_class[rows])
        e = (u - rival).abs_().neg_().exp_()
        confidence = torch.where(wins, 1.0 + rest * e, rest + e).reciprocal_()
        hit = torch.where(wins, (self.labels[rows] == self.i).double(), self.rival_hit[rows])
        return bin_gaps(confidence, hit, self.n_bins)

    def set(self, t: Tensor | float) -> None:
        """Give class i the temperature t (a tensor, so that a GPU divides by it) and bring the samples up to date."""
        old, new = self.z / self.temperatures[self.i], self.z / t
        stale = (self.top_class == self.i) | (self.second_class == self.i) | (new >= self.top)
        self.total += (new - self.top).exp_() - (old - self.top).exp_()
        rises = _wins(new, self.second, self.i < self.second_class)
        self.second = torch.where(rises, new, self.second)
        self.second_class = self.second_class.masked_fill(rises, self.i)
        self.temperatures[self.i] = t
        self.scan(stale.nonzero()[:, 0])


def _wins(u: Tensor, rival: Tensor, first: Tensor) -> Tensor:
    """Whether u beats the rival; where they are equal, whether it is of the lower class."""
    return (u > rival) | ((u == rival) & first)
