"""A Lightning trainer of one epoch on a CPU that writes and shows nothing."""

import pytest

#: A mark, for what Lightning warns of by itself: its own use of torch, and a machine with Slurm that it does not use.
no_warnings = pytest.mark.filterwarnings(
    "ignore:`isinstance.treespec, LeafSpec.`:FutureWarning",
    "ignore:The `srun` command is available on your system",
)


def trainer():
    from pytorch_lightning import Trainer

    return Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
