r"""CaPE-bin: in some epochs the confidence is trained towards the accuracy of its bin, in place of the labels.

.. math:: \mathcal L = -\frac{1}{N} \sum_i a_i \log \kappa_i + (1 - a_i) \log (1 - \kappa_i)

with :math:`\kappa_i` the top probability of sample i, and :math:`a_i` the share of right predictions in its bin. Before
such an epoch the network predicts the training set as it is stored, in evaluation mode. The bins are of equally many
samples, by confidence. All other epochs train with the loss and the labels.

The gradient in the logits is :math:`\kappa - a` at the predicted class, and :math:`-(\kappa - a)\, p_j / (1 - \kappa)`
at each other class j.

Paper: Liu et al. 2022, "Deep Probability Estimation", Sec. 5, for two classes. Source: ``calibration_tools/cape.py`` of
https://github.com/jackzhu727/deep-probability-estimation: ten bins, and one epoch in six.
Differs from the paper: it has two classes, and bins the probability of the second. For more ACLS compares with it and
only says that the accuracies of the bins are the targets, so the event here is that the prediction is right. The paper
starts from a network that was stopped early, and its rate falls where the validation loss does not. Here every sixth
epoch of a recipe is such an epoch, from the sixth on.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit.fitting.network import frozen
from calibkit.training.batches import Feed


@torch.no_grad()
def bin_targets(model: nn.Module, feed: Feed, labels: Tensor, n_bins: int) -> Tensor:
    """Of each training sample the accuracy of its bin, by what ``model`` predicts now: (N,)."""
    with frozen(model):
        predicted = [model(feed(rows)).softmax(1).max(1) for rows in feed.batches()]
    confidence, classes = (torch.cat(parts) for parts in zip(*predicted, strict=True))
    return accuracy_of_bins(confidence, classes == labels, n_bins)


def accuracy_of_bins(confidence: Tensor, right: Tensor, n_bins: int) -> Tensor:
    """Share of ``right`` (N,) in the bin of each sample, by ``confidence`` (N,): floating as that is.

    Example:
        >>> accuracy_of_bins(torch.tensor([0.9, 0.5, 0.8, 0.4]), torch.tensor([True, True, False, False]), 2)
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    n, share = len(confidence), torch.empty_like(confidence)
    for rows in confidence.argsort(stable=True).tensor_split([i * n // n_bins for i in range(1, n_bins)]):
        share[rows] = right[rows].to(share.dtype).mean()
    return share


def confidence_loss(logits: Tensor, accuracy: Tensor) -> Tensor:
    """The loss above: (N, K) logits, (N,) targets -> scalar; finite for any finite logits.

    Example:
        >>> confidence_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([0.7]))
        tensor(0.6931)
    """
    top, predicted = logits.max(1, keepdim=True)
    others = logits.scatter(1, predicted, -torch.inf).logsumexp(1)
    return F.binary_cross_entropy_with_logits(top[:, 0] - others, accuracy)
