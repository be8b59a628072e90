"""The page of examples for the Python client does what it says."""

import ast
import re
from pathlib import Path

import pytest

from tests.integration.nameserver.server_process import ServerProcess

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
EXPECTED = re.compile(r"# -> (.+)$")


@pytest.fixture
def address(tmp_path):
    server = ServerProcess(tmp_path / "names.db", subnets=("ubc.example", "sfu.example"))
    yield server.address
    server.close()


def run_block(block, namespace):
    """Run the statements of a block; the value of a line that says `# -> text` must show as that text."""
    lines = block.splitlines()
    checked = 0
    for statement in ast.parse(block).body:
        said = EXPECTED.search(lines[statement.end_lineno - 1])
        source = ast.get_source_segment(block, statement)
        if said is None:
            exec(source, namespace)
            continue
        assert repr(eval(source, namespace)) == said[1], source
        checked += 1
    return checked


def test_every_block_of_the_page_does_what_it_says(address):
    namespace = {"address": address}
    checked = sum(run_block(block, namespace) for block in BLOCKS)
    said = sum(bool(EXPECTED.search(line)) for block in BLOCKS for line in block.splitlines())
    assert checked == said > 10
