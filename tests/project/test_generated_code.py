"""Generated code is current: `shadowtree/v1` by `make proto`, and the synchronous client by `make client`."""

from pathlib import Path

import grpc_tools
import pytest
from grpc_tools import protoc

from tests.project import synchronous_client

ROOT = Path(__file__).parents[2]
PROTOS = sorted((ROOT / "proto/shadowtree/v1").glob("*.proto"))


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    out = tmp_path_factory.mktemp("generated")
    status = protoc.main(
        [
            "protoc",
            f"-I{ROOT / 'proto'}",
            f"-I{Path(grpc_tools.__file__).parent / '_proto'}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            *map(str, PROTOS),
        ]
    )
    assert status == 0
    return out / "shadowtree/v1"


def test_generated_code_is_current(generated):
    fresh = {path.name: path.read_text() for path in generated.iterdir()}
    committed = {path.name: path.read_text() for path in (ROOT / "shadowtree/v1").glob("*_pb2*.py*")}
    assert sorted(committed) == sorted(fresh), "run `make proto`"
    stale = [name for name, text in fresh.items() if committed[name] != text]
    assert not stale, f"run `make proto`: {stale}"


def test_the_synchronous_client_is_current():
    folder = ROOT / "shadowtree/client/synchronous"
    stale = [name for name, text in synchronous_client.generated().items() if (folder / name).read_text() != text]
    assert not stale, f"run `make client`: {stale}"
