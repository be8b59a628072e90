"""The names that `import shadowtree` provides, and the modules that it does not load."""

import dataclasses
import pickle
import subprocess
import sys

import pytest

import shadowtree
from shadowtree import errors, messages, results

HEAVY = ("grpc", "google", "rich", "click", "namegraph", "asyncio")


def modules_after(statement):
    program = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in found.stdout.split()}


def test_importing_the_package_loads_nothing_heavy():
    assert not modules_after("import shadowtree") & set(HEAVY)


def test_importing_the_errors_and_results_loads_nothing_heavy():
    assert not modules_after(
        "import shadowtree.errors, shadowtree.messages, shadowtree.results, shadowtree.updates"
    ) & set(HEAVY)


def test_the_client_loads_neither_the_console_nor_what_reads_files():
    assert not modules_after("import shadowtree.client.synchronous.client") & {
        "rich",
        "click",
        "namegraph",
        "yaml",
        "gzip",
    }


def test_the_help_loads_neither_grpc_nor_rich():
    loaded = modules_after("from shadowtree.cli.main import status_of\nstatus_of(['--help'])")
    assert not loaded & {"grpc", "google", "rich", "namegraph", "yaml", "nameserver"}


@pytest.mark.parametrize("name", [name for name in dir(shadowtree) if name[0].isupper()])
def test_every_public_name_is_there(name):
    if name != "TYPE_CHECKING":
        assert getattr(shadowtree, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError):
        shadowtree.nothing  # noqa: B018


def test_both_clients_have_the_same_verbs_with_the_same_parameters():
    import inspect

    verbs = [name for name in dir(shadowtree.Client) if not name.startswith("_")]
    assert verbs == [name for name in dir(shadowtree.aio.Client) if not name.startswith("_")]
    for verb in ["__init__", *verbs]:
        if isinstance(getattr(shadowtree.Client, verb), property):
            continue
        if verb == "check_many":
            # The pairs may be awaited in one of them.
            continue
        sync, asynchronous = (getattr(client, verb) for client in (shadowtree.Client, shadowtree.aio.Client))
        assert str(inspect.signature(sync).parameters) == str(inspect.signature(asynchronous).parameters), verb


@pytest.mark.parametrize(
    "result",
    [value for module in (results, messages) for value in vars(module).values() if dataclasses.is_dataclass(value)],
)
def test_results_are_frozen_and_have_no_room_for_more(result):
    assert result.__dataclass_params__.frozen
    assert "__slots__" in vars(result)


@pytest.mark.parametrize("error", [*errors.ERROR_OF_REASON.values(), errors.BadFile, errors.ServerFault])
def test_errors_travel_between_processes_with_their_facts(error):
    copy = pickle.loads(pickle.dumps(error("message", {"group": "a@x"})))
    assert (type(copy), copy.message, copy.facts, str(copy)) == (error, "message", {"group": "a@x"}, "message")
