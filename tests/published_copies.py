"""Copies of what others publish: files of generated arrays, a table of them, and a server that may fail."""

import csv
import hashlib
import io
import pickle
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch

from calibkit.__main__ import main
from calibkit._files import read_npz
from calibkit.data import published
from calibkit.logits import ARRAYS

RNG = np.random.default_rng(0)


def some_logits():
    z = [RNG.normal(size=(n, 3)).astype(np.float32) for n in (5, 8)]
    y = [RNG.integers(0, 3, len(rows)) for rows in z]
    return dict(zip(ARRAYS, (z[0], y[0], z[1], y[1]), strict=True))


def npy(array):
    np.save(stream := io.BytesIO(), array)
    return stream.getvalue()


def saved(content):
    torch.save(content, stream := io.BytesIO())
    return stream.getvalue()


def halves(arrays, of=np.asarray):
    return [tuple(of(arrays[f"{split}_{what}"]) for what in ("logits", "labels")) for split in ("val", "test")]


LOGITS = {name: some_logits() for name in ("npy", "p", "pt")}
STATE = {
    "conv1.weight": torch.randn(2, 3, generator=torch.Generator().manual_seed(0)),
    "bn1.running_mean": torch.tensor([0.1, 0.2]),
    "bn1.num_batches_tracked": torch.tensor(7),
}
FILES = {
    **{("logits/npy", name): (f"{name}.npy", npy(array)) for name, array in LOGITS["npy"].items()},
    ("logits/p", "val test"): ("probs.p", pickle.dumps([(z, y[:, None]) for z, y in halves(LOGITS["p"])], 3)),
    ("logits/pt", "val"): ("val.pt", saved(halves(LOGITS["pt"], torch.from_numpy)[0])),
    ("logits/pt", "test"): ("test.pt", saved(list(halves(LOGITS["pt"], torch.from_numpy)[1]))),
    ("weights/pth", "state"): ("resnet.pth", saved(STATE)),
}
TARGETS = ["logits/npy", "logits/p", "logits/pt", "weights/pth"]


class Server(ThreadingHTTPServer):
    """Serves the files of a dict, and keeps what it was asked for."""

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.asked, self.cut, self.chunked = files, [], set(), set()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802
        name = self.path.rpartition("/")[2]
        self.server.asked.append(name)
        content = self.server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        if name in self.server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%b" % (len(content), content[: len(content) // 2]))
            return
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if name in self.server.cut else content)

    def log_message(self, *_):
        pass


def tabulate(address, files=FILES):
    with open(published.TABLE, "w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["target", "part", "url", "bytes", "digest", "licence", "skipped"])
        for (target, part), (name, content) in files.items():
            digest, size = f"sha256:{hashlib.sha256(content).hexdigest()}", len(content)
            if name.endswith(".pth"):  # only that of git is known, as of a file that nobody fetched yet
                digest, size = f"git:{hashlib.sha1(b'blob %d' % size + bytes(1) + content).hexdigest()}", ""
            rows.writerow([target, part, address + name, size, digest, "MIT", ""])
        rows.writerow(["logits/all", "", "https://example.org", "", "", "CC-BY", "one large file"])


def run(capsys, *words):
    """The exit status, the state of each target, and what was said of failures."""
    status = main(["data", "prepare", "published", *map(str, words)])
    said = capsys.readouterr()
    return status, dict(line.split(maxsplit=1) for line in said.out.splitlines()), said.err


def same(path, arrays):
    found = read_npz(path)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
