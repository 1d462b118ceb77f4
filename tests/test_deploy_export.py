"""A calibrated network leaves Python: torch.export, torch.compile and ONNX give what it gives, at any batch size."""

import os

import numpy as np
import pytest
import torch
from deployed import NET, Z, close, fitted
from refusals import refused
from torch import nn

from calibkit.calibrators import CALIBRATORS
from calibkit.deploy import CalibratedModel, searchsorted

needs_exporter = pytest.mark.skipif(torch.__version__ < (2, 5), reason="torch 2.4 writes no exported program as ONNX")


@pytest.mark.slow
@pytest.mark.parametrize("name", CALIBRATORS)
def test_export_takes_any_batch_size(name):
    calibrator, want = fitted(name)
    model = CalibratedModel(NET, calibrator)
    batch = torch.export.Dim("batch")
    for strict in (False, True):
        program = torch.export.export(model, (Z[:4],), dynamic_shapes=(({0: batch},),), strict=strict)
        assert set(program.state_dict) == set(model.state_dict())
        for n in (2, 600):
            close(program.module()(Z[:n]), want[:n])


@pytest.mark.slow
@pytest.mark.parametrize("name", CALIBRATORS)
def test_compile_without_a_break(name):
    calibrator, want = fitted(name)
    torch._dynamo.reset()
    compiled = torch.compile(CalibratedModel(NET, calibrator), backend="aot_eager", fullgraph=True)
    for n in (3, 600):
        close(compiled(Z[:n]), want[:n])


@pytest.mark.slow
@needs_exporter
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a temporary folder of torch 2.5
@pytest.mark.parametrize("name", [n for n in CALIBRATORS if n not in ("identity", "ms_odir", "matrix_scaling")])
def test_onnx_takes_any_batch_size(name, tmp_path):
    if name == "vector_scaling" and (2, 6) <= torch.__version__ < (2, 7):
        pytest.skip("the exporter of torch 2.6 has no broadcast addcmul")
    runtime = pytest.importorskip("onnxruntime")
    calibrator, want = fitted(name)
    model = CalibratedModel(NET, calibrator)
    path = model.save_onnx(tmp_path / "new" / "model.onnx", Z[:1])
    assert os.listdir(path.parent) == ["model.onnx"]
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for n in (1, 3, 600):
        probs = session.run(["probs"], {"input_0": Z[:n].numpy()})[0]
        assert probs.dtype == np.float32
        close(torch.from_numpy(probs), want[:n])


@pytest.mark.slow
@needs_exporter
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", [name for name, kind in CALIBRATORS.items() if kind.keeps_predictions])
def test_onnx_keeps_each_prediction(name, tmp_path):
    """Ties that a factor next to 1 breaks, which the exporter's optimiser takes for 1."""
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    z = np.round(2 * rng.normal(size=(2400, 3)), 1)
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(1)
    z[-100:, :] = [1e-8, 0.0, 2e-8]
    model = CalibratedModel(nn.Identity(), CALIBRATORS[name]().fit(z[:400], y[:400]))
    rows = z[400:].astype(np.float32)
    session = runtime.InferenceSession(model.save_onnx(tmp_path / "model.onnx", torch.from_numpy(rows[:4])))
    assert (session.run(None, {"input_0": rows})[0].argmax(1) == rows.argmax(1)).all()


class Sum(nn.Module):
    """Two inputs and an option."""

    def forward(self, x, y, *, scale=1.0):
        return scale * (x + y)


@pytest.mark.slow
@needs_exporter
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_several_inputs_and_options_go_to_the_network(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    calibrator, want = fitted("temperature_scaling")
    model, half = CalibratedModel(Sum().eval(), calibrator), Z / 2
    close(model(half, half), want)
    close(model(half / 2, y=half / 2, scale=2.0), want)
    path = model.save_onnx(tmp_path / "model.onnx", half[:3], half[:3])
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    close(torch.from_numpy(session.run(None, {"input_0": half.numpy(), "input_1": half.numpy()})[0]), want)


@needs_exporter
def test_onnx_refusals_leave_no_file(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    model = CalibratedModel(NET, fitted("identity")[0])
    for inputs in ((), (Z.numpy(),), (Z[:0],)):
        refused("`inputs` to be tensors, batch first, but got", model.save_onnx, tmp_path / "model.onnx", *inputs)
    monkeypatch.setattr("calibkit.deploy.LARGEST_ONNX", 10)
    with pytest.raises(ValueError, match="Expected `model` to be of fewer than 10 bytes, as one ONNX file is, but got"):
        model.save_onnx(tmp_path / "model.onnx", Z)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("m", [1, 7, 8])
def test_searchsorted_is_that_of_torch(m):
    rng = np.random.default_rng(m)
    nodes = torch.from_numpy(np.sort(rng.integers(0, 6, (3, m)).astype(float), 1))
    x = torch.from_numpy(rng.integers(-1, 8, (3, 40)) / 1.0)
    for options in ({}, {"right": True}, {"side": "right"}, {"out_int32": True}):
        for row in (nodes, nodes[0]):
            torch.testing.assert_close(searchsorted(row, x, **options), torch.searchsorted(row, x, **options))
    order = torch.from_numpy(rng.permuted(np.tile(np.arange(m), (3, 1)), axis=1))
    shuffled = torch.empty_like(nodes).scatter_(1, order, nodes)
    assert torch.equal(searchsorted(shuffled, x, sorter=order), torch.searchsorted(nodes, x))
