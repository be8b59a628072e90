"""A finding carries no command that changes what is right."""

import pytest

from spark_graph_jobs.finding import READ_COMMANDS, Finding, Severity


def test_something_worth_knowing_has_no_fix():
    with pytest.raises(AssertionError, match="what is right needs no"):
        Finding("levels", Severity.INFO, "a@x", "m", fix="shadowtree peers")


@pytest.mark.parametrize("command", ["leave a@x b@x", "group delete a@x", "describer a@x", "resolve"])
def test_only_a_command_that_is_known_to_read_may_be_seen(command):
    with pytest.raises(AssertionError, match="not known to change nothing"):
        Finding("levels", Severity.INFO, "a@x", "m", see=f"shadowtree {command}")


@pytest.mark.parametrize("command", READ_COMMANDS)
def test_commands_that_read_may_be_seen(command):
    assert Finding("levels", Severity.INFO, "a@x", "m", see=f"shadowtree {command} a@x").see
