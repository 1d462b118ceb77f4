"""Nothing rests on the order of the samples: no chapter, tool, page or module takes the first or the last n of them.

A sorted data set gives some classes that way. ``calibkit.data.subset`` and ``halves`` draw instead.

It is looked for in the syntax: a slice with one end, ``[:n]`` or ``[n:]``, along the first axis of what is named as
samples are, and numpy's and pandas' own ways to take a head or to cut. What was permuted is named for its order and not
for what it orders: ``labels[order[:n]]`` passes. So do one sample or none, of which only the shape is of use.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = re.compile(r"(^|_)(images|labels|logits|inputs|probs|samples|confidence)$|^(val|test|train|z|y|x)_\w+$")
CUTS = ("head", "tail", "array_split", "hsplit", "vsplit", "chunk", "narrow", "take")


def named(node: ast.expr) -> str:
    """What is sliced: ``data.test_logits`` and ``data["test_logits"]`` are test_logits, ``x.test[0]`` is test."""
    if isinstance(node, ast.Subscript):
        text = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        return node.slice.value if text else named(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return named(node.func.value)  # test_labels.astype(int)
    return {ast.Name: lambda: node.id, ast.Attribute: lambda: node.attr}.get(type(node), str)()


def few(end: ast.expr | None) -> bool:
    return isinstance(end, ast.Constant) and end.value in (0, 1)


def cuts(source: str) -> list[str]:
    """Heads, tails and halves of samples in Python code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript):
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            one_end = isinstance(first, ast.Slice) and (first.lower is None) != (first.upper is None)
            if one_end and not few(first.upper) and SAMPLES.search(named(node.value)):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_library = named(node.func.value) in ("np", "torch")
            of = node.args[0] if of_library and node.args else node.func.value
            split = of_library and node.func.attr == "split"  # tensor.split() makes batches
            if (split or node.func.attr in CUTS) and SAMPLES.search(named(of)):
                found.append(ast.unparse(node))
    return found


def test_a_head_is_seen():
    for source in [
        "images[:half], labels[half:]",
        "test_z[:2000]",
        "watched.test_logits[:n].double()",
        "data['val_labels'][: len(data) // 2]",
        "probs[:n, 0]",
        "labels.astype(int)[:500]",
        "np.split(test_labels, 2)",
        "np.array_split(images, 2)[0]",
        "val_logits.chunk(2)",
        "pd.Series(y).to_frame().z_val.head(100)",
    ]:
        assert cuts(source)


def test_what_is_none_passes():
    for source in [
        "labels[order[:n]]",
        "test_x[shown : shown + 1]",
        "images.split(batch_size)",
        "model(images[:1])",
        "logits[:, :10]",
        "test_labels[data.subset(test_labels, 500)]",
        "np.split(order, [-n])",
    ]:
        assert not cuts(source)


def test_no_module_takes_a_head():
    for folder in ["calibkit", "notebooks", "tools"]:
        found = {path.name: cuts(path.read_text()) for path in sorted((ROOT / folder).rglob("*.py"))}
        assert found and not {name: of for name, of in found.items() if of}


def test_no_page_takes_a_head():
    pages = [*ROOT.glob("*.md"), *(ROOT / "book").rglob("*.md")]
    blocks = {path: re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S) for path in pages}
    found = {path.name: [cut for block in of for cut in cuts(block)] for path, of in blocks.items() if of}
    assert found and not {name: of for name, of in found.items() if of}
