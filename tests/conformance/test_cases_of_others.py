"""Cases re-expressed from the tests of other systems; their data is no part of the project and is read in place."""

import json

from tests.conformance.cases import CaseRun, dealt_out
from tests.extra_data import require_extra_data

PLACEMENTS = [("a.example",), ("a.example", "b.example"), ("a.example", "b.example", "c.example", "d.example")]


def test_cases_of_other_systems_have_their_answers_in_every_placement():
    path = require_extra_data("golden", "conformance_cases.json")
    cases = json.loads(path.read_text())["cases"]
    assert cases
    for case in cases:
        for subnets in PLACEMENTS:
            CaseRun(case["steps"], *subnets, place=dealt_out(*subnets)).run()
