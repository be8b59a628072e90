"""Cases re-expressed from the tests of other systems; their data is no part of the project and is read in place."""

import json

from tests.conformance.cases import CaseRun, names_of
from tests.cores import CoreUnderTest
from tests.extra_data import require_extra_data
from tests.placements import PLACEMENTS, WITH_NATIVE_PROCESSES
from tests.universe import Universe


def test_cases_of_other_systems_have_their_answers_on_one_server_and_in_every_placement():
    path = require_extra_data("golden", "conformance_cases.json")
    cases = json.loads(path.read_text())["cases"]
    assert cases
    for case in cases:
        groups, others = names_of(case["steps"])
        for placement in [*PLACEMENTS, *WITH_NATIVE_PROCESSES]:
            subnets, ids = placement.subnets(groups), placement.place(groups, others)
            for system in (CoreUnderTest(*subnets), Universe(*subnets)):
                CaseRun(case["steps"], system, ids=ids).run()
